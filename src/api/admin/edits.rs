//! Edits of providers and keys: bodies checked by the rules of config.json, made into documents.

use holdline_core::ids::{KeyId, ProviderId};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::redact::{masked, restored};
use super::refusal::Refusal;
use crate::config::builtin::Builtin;
use crate::config::catalog::{key_document, provider_document};
use crate::config::key::{self, EmptyList, VENDOR_BLOCKS};
use crate::config::reader::Reader;
use crate::config::{Config, Key, Provider, provider};

/// One change of a document; `None` deletes.
pub(super) type Edit = (String, Option<String>);

/// Fields of a provider that are kept and shown.
const PROVIDER_FIELDS: &[&str] = &[
    "network_config",
    "concurrency_and_buffer_size",
    "proxy_config",
    "send_back_raw_request",
    "send_back_raw_response",
    "store_raw_request_response",
    "custom_provider_config",
    "openai_config",
    "provider_request_id",
    "description",
];

/// Fields of a key that are kept and shown, beside vendor blocks.
const KEY_FIELDS: &[&str] = &[
    "id",
    "name",
    "value",
    "models",
    "blacklisted_models",
    "weight",
    "enabled",
    "aliases",
    "description",
    "use_for_batch_api",
];

/// Refuses edits where config.json is the truth.
pub(super) fn allowed(config: &Config) -> Result<(), Refusal> {
    if config.file_wins && config.names_providers {
        return Err(Refusal::conflict(
            "providers come from config.json (source_of_truth): change them there",
        ));
    }
    Ok(())
}

/// The document of a provider, and of its keys where the body has some.
pub(super) fn provider(
    name: &ProviderId,
    body: &Map<String, Value>,
    stored: Option<&Provider>,
) -> Result<Vec<Edit>, Refusal> {
    let sent = known(body, PROVIDER_FIELDS);
    let mut whole = restored(&sent, stored.map(|stored| &stored.written.0), "")?;
    let document = (provider_document(name), Some(whole.to_string()));
    let keys = body.get("keys").filter(|keys| !keys.is_null());
    if let Some(keys) = keys {
        whole["keys"] = keys_with_ids(keys, stored)?;
    }
    check(|reader| {
        provider::read(reader, "", name.as_str(), &whole, EmptyList::DeniesAll).map(drop)
    })?;
    let mut edits = vec![document];
    if keys.is_some() {
        edits.extend(keys_replaced(name, &whole["keys"], stored));
    }
    Ok(edits)
}

/// The document of a key. `stored` is the key that is replaced.
pub(super) fn key(
    provider: &Provider,
    id: &KeyId,
    body: &Map<String, Value>,
    stored: Option<&Key>,
) -> Result<Edit, Refusal> {
    let mut sent = key_restored(&Value::Object(body.clone()), stored)?;
    if body
        .get("id")
        .and_then(Value::as_str)
        .is_some_and(|sent| sent != id.as_str())
    {
        return Err(Refusal::bad(
            "id must be that of the path: a key's id cannot be changed",
        ));
    }
    sent["id"] = Value::from(id.as_str());
    let name = read_name(provider.base, &provider.id, &sent)?;
    let taken = provider
        .keys
        .iter()
        .any(|key| key.spec.id != *id && key.spec.name == name);
    if taken {
        return Err(Refusal::conflict(format!(
            "another key of {} has the name {name:?}",
            provider.id
        )));
    }
    Ok((key_document(&provider.id, id), Some(sent.to_string())))
}

/// An id for a key that is sent without one.
pub(super) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// A key as the API shows it.
pub(super) fn shown_key(provider: &Provider, key: &Key) -> Value {
    let spec = &key.spec;
    let mut fields = key_fields(&key.written.0);
    fields["id"] = Value::from(spec.id.as_str());
    fields["name"] = Value::from(spec.name.as_str());
    fields["provider"] = Value::from(provider.id.as_str());
    fields["models"] = match &spec.models {
        holdline_core::routing::ModelRule::All => Value::from(vec!["*"]),
        holdline_core::routing::ModelRule::Only(names) => names.iter().cloned().collect(),
    };
    fields["blacklisted_models"] = spec.blocked.iter().cloned().collect();
    fields["weight"] = Value::from(spec.weight);
    fields["enabled"] = Value::from(spec.enabled);
    masked(&fields)
}

/// The fields of a provider as they were written, masked.
pub(super) fn shown_fields(provider: &Provider) -> Value {
    let written = provider.written.0.as_object();
    masked(&written.map_or_else(|| Value::Object(Map::new()), |w| known(w, PROVIDER_FIELDS)))
}

fn key_restored(sent: &Value, stored: Option<&Key>) -> Result<Value, Refusal> {
    let written = stored.map(|stored| &stored.written.0);
    let mut sent = restored(&key_fields(sent), written, "")?;
    // A replacement that names no secret keeps it, as one that sends the mask back does.
    if sent.get("value").is_none_or(Value::is_null)
        && let Some(value) = written.and_then(|written| written.get("value"))
    {
        sent["value"] = value.clone();
    }
    Ok(sent)
}

fn key_fields(body: &Value) -> Value {
    let wanted: Vec<&str> = KEY_FIELDS.iter().chain(VENDOR_BLOCKS).copied().collect();
    body.as_object()
        .map_or_else(|| body.clone(), |object| known(object, &wanted))
}

fn known(body: &Map<String, Value>, wanted: &[&str]) -> Value {
    let fields = body
        .iter()
        .filter(|(name, _)| wanted.contains(&name.as_str()));
    Value::Object(
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

/// Checks a key's body, and returns its name.
fn read_name(
    base: Option<&'static Builtin>,
    provider: &ProviderId,
    body: &Value,
) -> Result<String, Refusal> {
    check(|reader| {
        let key = key::read(
            reader,
            "",
            body,
            provider.as_str(),
            base,
            EmptyList::DeniesAll,
        );
        key.map(|key| key.name)
    })
}

/// Reads a body by the rules of config.json; every mistake is told.
fn check<T>(read: impl FnOnce(&Reader<'_>) -> Option<T>) -> Result<T, Refusal> {
    let env = |name: &str| std::env::var(name).ok();
    let reader = Reader::new(&env);
    let found = read(&reader);
    let errors = reader.finish().0;
    found
        .filter(|_| errors.is_empty())
        .ok_or_else(|| Refusal::of(&errors))
}

/// Inline keys, each with an id and its masked secret restored.
fn keys_with_ids(keys: &Value, stored: Option<&Provider>) -> Result<Value, Refusal> {
    let Some(keys) = keys.as_array() else {
        return Err(Refusal::bad("keys must be a list"));
    };
    let mut with_ids = Vec::new();
    for sent in keys {
        let id = sent.get("id").and_then(Value::as_str);
        let same = |key: &&std::sync::Arc<Key>| Some(key.spec.id.as_str()) == id;
        let before = stored.and_then(|stored| stored.keys.iter().find(same));
        let mut key = key_restored(sent, before.map(AsRef::as_ref))?;
        if key.is_object() && id.is_none_or(str::is_empty) {
            key["id"] = Value::from(new_id());
        }
        with_ids.push(key);
    }
    Ok(Value::Array(with_ids))
}

/// The documents that make these the provider's keys: an unchanged key is left alone, so that its holds
/// stay; one that is not listed is deleted.
fn keys_replaced(name: &ProviderId, keys: &Value, stored: Option<&Provider>) -> Vec<Edit> {
    let before = stored
        .map(|stored| stored.keys.as_slice())
        .unwrap_or_default();
    let keys = keys.as_array().map(Vec::as_slice).unwrap_or_default();
    let id_of = |key: &Value| KeyId::from(key["id"].as_str().unwrap_or_default());
    let mut edits = Vec::new();
    for key in keys {
        let id = id_of(key);
        let unchanged = before
            .iter()
            .any(|old| old.spec.id == id && key_fields(&old.written.0) == *key);
        if !unchanged {
            edits.push((key_document(name, &id), Some(key.to_string())));
        }
    }
    let gone = before
        .iter()
        .filter(|old| !keys.iter().any(|key| id_of(key) == old.spec.id));
    edits.extend(gone.map(|old| (key_document(name, &old.spec.id), None)));
    edits
}
