//! Provider keys: read with their secrets masked, created, replaced, deleted.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use holdline_core::ids::{KeyId, ProviderId};
use serde_json::{Value, json};

use super::edits::{self, shown_key};
use super::providers::found;
use super::refusal::Refusal;
use super::{Admin, Answer, body};
use crate::config::catalog::key_document;
use crate::config::{Key, Provider};

/// `GET /api/providers/{provider}/keys`.
pub(super) async fn list(State(admin): State<Admin>, Path(provider): Path<String>) -> Answer {
    let provider = found(&admin, &provider)?;
    let keys: Vec<Value> = provider
        .keys
        .iter()
        .map(|key| shown_key(&provider, key))
        .collect();
    Ok(Json(json!({"total": keys.len(), "keys": keys})).into_response())
}

/// `GET /api/keys`.
pub(super) async fn list_all(State(admin): State<Admin>) -> Answer {
    let live = admin.node.live();
    let providers = live.catalog.providers.values();
    let keys: Vec<Value> = providers
        .flat_map(|provider| provider.keys.iter().map(|key| shown_key(provider, key)))
        .collect();
    Ok(Json(keys).into_response())
}

/// `GET /api/providers/{provider}/keys/{key_id}`.
pub(super) async fn show(State(admin): State<Admin>, Path(path): Path<(String, String)>) -> Answer {
    let (provider, key) = found_key(&admin, &path)?;
    Ok(Json(shown_key(&provider, &key)).into_response())
}

/// `POST /api/providers/{provider}/keys`.
pub(super) async fn create(
    State(admin): State<Admin>,
    Path(provider): Path<String>,
    bytes: Bytes,
) -> Answer {
    edits::allowed(&admin.node.config)?;
    let provider = found(&admin, &provider)?;
    let body = body::object(&bytes)?;
    if provider.keyless {
        return Err(Refusal::bad(format!(
            "{} is called without keys (is_key_less)",
            provider.id
        )));
    }
    let id = body::text(&body, "id")?.map_or_else(edits::new_id, str::to_owned);
    let id = KeyId::from(id);
    if provider.keys.iter().any(|key| key.spec.id == id) {
        return Err(Refusal::conflict(format!(
            "{} has a key {id} already",
            provider.id
        )));
    }
    let edit = edits::key(&provider, &id, &body, None)?;
    admin.save(vec![edit]).await?;
    answer(&admin, &provider.id, &id)
}

/// `PUT /api/providers/{provider}/keys/{key_id}`. The edited key is another key: its holds are gone.
pub(super) async fn replace(
    State(admin): State<Admin>,
    Path(path): Path<(String, String)>,
    bytes: Bytes,
) -> Answer {
    edits::allowed(&admin.node.config)?;
    let (provider, key) = found_key(&admin, &path)?;
    let body = body::object(&bytes)?;
    let id = key.spec.id.clone();
    let edit = edits::key(&provider, &id, &body, Some(&key))?;
    admin.save(vec![edit]).await?;
    answer(&admin, &provider.id, &id)
}

/// `DELETE /api/providers/{provider}/keys/{key_id}`.
pub(super) async fn delete(
    State(admin): State<Admin>,
    Path(path): Path<(String, String)>,
) -> Answer {
    edits::allowed(&admin.node.config)?;
    let (provider, key) = found_key(&admin, &path)?;
    admin
        .save(vec![(key_document(&provider.id, &key.spec.id), None)])
        .await?;
    Ok(Json(shown_key(&provider, &key)).into_response())
}

fn found_key(
    admin: &Admin,
    (provider, key): &(String, String),
) -> Result<(Arc<Provider>, Arc<Key>), Refusal> {
    let provider = found(admin, provider)?;
    let key = provider
        .keys
        .iter()
        .find(|found| found.spec.id.as_str() == key)
        .cloned()
        .ok_or_else(|| Refusal::not_found(format!("{} has no key {key:?}", provider.id)))?;
    Ok((provider, key))
}

/// The key as it is in force.
fn answer(admin: &Admin, provider: &ProviderId, id: &KeyId) -> Answer {
    let path = (provider.to_string(), id.to_string());
    let (provider, key) = found_key(admin, &path)?;
    Ok(Json(shown_key(&provider, &key)).into_response())
}
