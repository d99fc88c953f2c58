//! Providers: read, created, replaced, deleted.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use holdline_core::ids::ProviderId;
use serde_json::{Value, json};

use super::edits::{self, Edit};
use super::refusal::Refusal;
use super::{Admin, Answer, body};
use crate::config::Provider;
use crate::config::catalog::{key_document, provider_document};
use crate::providers::Kind;

/// `GET /api/providers`.
pub(super) async fn list(State(admin): State<Admin>) -> Answer {
    let live = admin.node.live();
    let providers: Vec<Value> = live.catalog.providers.values().map(|p| shown(p)).collect();
    Ok(Json(json!({"total": providers.len(), "providers": providers})).into_response())
}

/// `GET /api/providers/{provider}`.
pub(super) async fn show(State(admin): State<Admin>, Path(name): Path<String>) -> Answer {
    Ok(Json(shown(&*found(&admin, &name)?)).into_response())
}

/// `POST /api/providers`, with `keys` or without.
pub(super) async fn create(State(admin): State<Admin>, bytes: Bytes) -> Answer {
    edits::allowed(&admin.node.config)?;
    let body = body::object(&bytes)?;
    let name = match body::text(&body, "provider")? {
        Some(name) => ProviderId::from(name),
        None => {
            return Err(Refusal::bad(
                "provider is missing: the name of the provider",
            ));
        }
    };
    if admin.node.live().provider(&name).is_some() {
        return Err(Refusal::conflict(format!(
            "there is a provider {name} already: use PUT"
        )));
    }
    let edits = edits::provider(&name, &body, None)?;
    admin.save(edits).await?;
    Ok(Json(shown(&*found(&admin, name.as_str())?)).into_response())
}

/// `PUT /api/providers/{provider}`: replaces everything but the keys, and those too where it has `keys`.
pub(super) async fn replace(
    State(admin): State<Admin>,
    Path(name): Path<String>,
    bytes: Bytes,
) -> Answer {
    edits::allowed(&admin.node.config)?;
    let provider = found(&admin, &name)?;
    let body = body::object(&bytes)?;
    let edits = edits::provider(&provider.id, &body, Some(&provider))?;
    admin.save(edits).await?;
    Ok(Json(shown(&*found(&admin, &name)?)).into_response())
}

/// `DELETE /api/providers/{provider}`, with all its keys.
pub(super) async fn delete(State(admin): State<Admin>, Path(name): Path<String>) -> Answer {
    edits::allowed(&admin.node.config)?;
    let provider = found(&admin, &name)?;
    let keys = provider
        .keys
        .iter()
        .map(|key| key_document(&provider.id, &key.spec.id));
    let names = std::iter::once(provider_document(&provider.id)).chain(keys);
    let edits: Vec<Edit> = names.map(|name| (name, None)).collect();
    admin.save(edits).await?;
    let mut deleted = shown(&provider);
    deleted["provider_status"] = json!("deleted");
    Ok(Json(deleted).into_response())
}

/// The provider in force under this name.
pub(super) fn found(admin: &Admin, name: &str) -> Result<Arc<Provider>, Refusal> {
    let live = admin.node.live();
    let provider = live.provider(&ProviderId::from(name)).cloned();
    provider.ok_or_else(|| Refusal::not_found(format!("there is no provider {name:?}")))
}

fn shown(provider: &Provider) -> Value {
    let mut shown = edits::shown_fields(provider);
    shown["name"] = json!(provider.id);
    shown["provider_status"] = json!("active");
    shown["keys_total"] = json!(provider.keys.len());
    if provider.kind == Kind::Unspoken {
        shown["description"] = json!("known by name; its protocol is not spoken yet");
    }
    let (network, retry) = (&provider.network, &provider.retry);
    let effective = [
        (
            "base_url",
            json!(provider.base_url.to_string().trim_end_matches('/')),
        ),
        ("max_retries", json!(retry.max_retries)),
        ("retry_backoff_initial", json!(retry.backoff_initial_ms)),
        ("retry_backoff_max", json!(retry.backoff_max_ms)),
        (
            "connect_timeout_in_seconds",
            seconds(network.connect_timeout),
        ),
        (
            "default_request_timeout_in_seconds",
            seconds(network.request_timeout),
        ),
        (
            "ttft_timeout_in_seconds",
            network.first_token_timeout.map_or(Value::Null, seconds),
        ),
        (
            "stream_idle_timeout_in_seconds",
            seconds(network.stream_idle_timeout),
        ),
        ("keep_alive_timeout_in_seconds", seconds(network.keep_alive)),
        ("max_conns_per_host", json!(network.max_connections)),
        (
            "allow_private_network",
            json!(network.allow_private_network),
        ),
    ];
    for (field, value) in effective {
        shown["network_config"][field] = value;
    }
    shown
}

/// Whole seconds, or a duration text that reads back as the same.
fn seconds(time: Duration) -> Value {
    if time.subsec_millis() == 0 {
        json!(time.as_secs())
    } else {
        json!(format!("{}ms", time.as_millis()))
    }
}
