//! One provider key as config.json or the admin API states it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use holdline_core::ids::KeyId;
use holdline_core::routing::ModelRule;
use http::Uri;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::builtin::Builtin;
use super::defaults;
use super::reader::{Object, Reader};
use super::secret::Secret;
use super::vendor::{self, Alias, Vendor};
use crate::providers::Kind;

/// JSON as it was written, secrets included: kept for the admin API, never shown as it is.
#[derive(Clone, PartialEq)]
pub(crate) struct Written(pub Value);

impl fmt::Debug for Written {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<json>")
    }
}

/// A key, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct KeyConfig {
    pub id: KeyId,
    pub name: String,
    pub value: Secret,
    pub weight: f64,
    pub enabled: bool,
    pub models: ModelRule,
    pub blocked: BTreeSet<String>,
    pub aliases: BTreeMap<String, String>,
    /// What aliases say besides the provider's name for a model.
    pub alias_details: BTreeMap<String, Alias>,
    pub vendor: Vendor,
    pub base_url: Option<Uri>,
    /// Files and batches are asked for with it, and with others only where no key has this.
    pub for_batches: bool,
    /// Aliases and vendor blocks with references resolved, in one canonical text: part of the fingerprint.
    pub identity: Secret,
    pub written: Written,
}

/// What a list means when it is empty or absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyList {
    /// `version: 2`.
    DeniesAll,
    /// `version: 1`.
    AllowsAll,
}

/// Blocks whose content can change what a provider answers.
pub(crate) const VENDOR_BLOCKS: &[&str] = &[
    "azure_key_config",
    "vertex_key_config",
    "bedrock_key_config",
    "vllm_key_config",
    "ollama_key_config",
    "sgl_key_config",
    "replicate_key_config",
];

/// Fields of vendor blocks that are secrets.
pub(crate) const VENDOR_SECRETS: &[&str] = &[
    "access_key",
    "auth_credentials",
    "client_secret",
    "external_id",
    "secret_key",
    "session_token",
];

/// Reads a key. `None` after an error that leaves nothing to work with; other errors are in the reader.
pub(crate) fn read(
    reader: &Reader<'_>,
    path: &str,
    value: &Value,
    provider: &str,
    builtin: Option<&Builtin>,
    empty: EmptyList,
) -> Option<KeyConfig> {
    let key = reader.object(path, value)?;
    let (id, name) = identity(&key, provider)?;
    let optional = builtin.is_some_and(|builtin| builtin.value_optional);
    let kind = builtin.map_or(Kind::Unspoken, |builtin| builtin.kind);
    // An empty one is as good as none where none is needed.
    let no_text = key.get("value").and_then(Value::as_str) == Some("");
    let given = (!(optional && no_text))
        .then(|| key.secret("value"))
        .flatten();
    let secret = match given {
        Some(secret) => secret,
        None if optional => Secret::from(String::new()),
        None => {
            if key.get("value").is_none() {
                key.error(
                    "value",
                    "is missing: give the key's secret, or a reference \"env.NAME\"",
                );
            }
            Secret::from(String::new())
        }
    };
    let aliases = aliases(&key);
    let blocks = vendor_blocks(&key);
    let config = KeyConfig {
        id: KeyId::from(id),
        name,
        value: secret,
        weight: weight(&key),
        enabled: key.bool("enabled").unwrap_or(true),
        models: models(&key, empty),
        blocked: key
            .texts("blacklisted_models")
            .unwrap_or_default()
            .into_iter()
            .collect(),
        base_url: vendor::key_url(&key, &blocks),
        for_batches: key.bool("use_for_batch_api").unwrap_or(false),
        vendor: vendor::read(&key, kind, &blocks),
        alias_details: alias_details(&key, &aliases),
        identity: Secret::from(canonical(&json!({"aliases": aliases, "blocks": blocks}))),
        aliases: aliases
            .into_iter()
            .map(|(name, target)| (name, model_id(&target).unwrap_or_default().to_owned()))
            .collect(),
        written: Written(value.clone()),
    };
    key.accept(&[
        "description",
        "config_hash",
        "status",
        "provider",
        "model_access",
    ]);
    key.finish();
    Some(config)
}

/// Id and name. An absent id is derived from provider and name: the same on every node, in every life.
fn identity(key: &Object<'_, '_>, provider: &str) -> Option<(String, String)> {
    let id = key.text("id").filter(|text| !text.is_empty());
    let name = key.text("name").filter(|text| !text.is_empty());
    for (field, text) in [("id", id), ("name", name)] {
        let text = text.unwrap_or_default();
        if text.len() > defaults::MAX_KEY_NAME || text.chars().any(char::is_control) {
            key.error(
                field,
                format!(
                    "must be printable and at most {} bytes",
                    defaults::MAX_KEY_NAME
                ),
            );
        }
    }
    match (id, name) {
        (Some(id), name) => Some((id.to_owned(), name.unwrap_or(id).to_owned())),
        (None, Some(name)) => Some((derived_id(provider, name), name.to_owned())),
        (None, None) => {
            key.error("name", "is missing: give every key a name");
            None
        }
    }
}

/// The id of a key that states none.
pub(crate) fn derived_id(provider: &str, name: &str) -> String {
    let space = Uuid::new_v5(&Uuid::NAMESPACE_URL, b"holdline:key");
    Uuid::new_v5(&space, format!("{provider}\n{name}").as_bytes()).to_string()
}

fn weight(key: &Object<'_, '_>) -> f64 {
    let Some(value) = key.get("weight") else {
        return defaults::WEIGHT;
    };
    match value.as_f64() {
        Some(weight) if weight.is_finite() && weight >= 0.0 => weight,
        Some(_) | None => {
            key.error("weight", "must be a number from 0");
            defaults::WEIGHT
        }
    }
}

fn models(key: &Object<'_, '_>, empty: EmptyList) -> ModelRule {
    let names = key.texts("models").unwrap_or_default();
    if names.is_empty() && empty == EmptyList::AllowsAll {
        return ModelRule::All;
    }
    if names.is_empty() {
        key.warn(
            "models",
            "is empty, so the key serves no model: write [\"*\"] for all",
        );
    }
    if names.iter().any(|name| name == "*") {
        if names.len() > 1 {
            key.error("models", "mixes \"*\" with names: keep one of them");
        }
        return ModelRule::All;
    }
    ModelRule::Only(names.into_iter().collect())
}

/// Aliases, with the older `deployments` of vendor blocks folded in.
fn aliases(key: &Object<'_, '_>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for block in ["azure_key_config", "bedrock_key_config"] {
        if let Some(deployments) = key.object(block).and_then(|b| b.object("deployments")) {
            take_aliases(&deployments, &mut found);
        }
    }
    if let Some(aliases) = key.object("aliases") {
        take_aliases(&aliases, &mut found);
    }
    found
}

fn take_aliases(aliases: &Object<'_, '_>, found: &mut BTreeMap<String, Value>) {
    for (name, _, target) in aliases.entries() {
        if name.is_empty() || model_id(target).is_none_or(str::is_empty) {
            aliases.error(
                name,
                "must be the provider's model name, or an object with `model_id`",
            );
            continue;
        }
        // An object that says no more than its text is the same alias.
        let only_id = target.as_object().is_some_and(|o| o.len() == 1);
        let same = if only_id { &target["model_id"] } else { target };
        found.insert(name.to_owned(), same.clone());
    }
}

fn model_id(target: &Value) -> Option<&str> {
    target
        .as_str()
        .or_else(|| target.get("model_id").and_then(Value::as_str))
}

/// Vendor blocks with their references resolved, without what is folded into aliases.
fn vendor_blocks(key: &Object<'_, '_>) -> Map<String, Value> {
    let mut blocks = Map::new();
    for name in VENDOR_BLOCKS {
        let Some(block) = key.object(name) else {
            continue;
        };
        let mut resolved = Map::new();
        for (field, path, value) in block.entries() {
            if let Some(inline) = vendor::inline_secret(field, value) {
                resolved.insert(field.to_owned(), Value::from(inline));
                continue;
            }
            // An empty one is as good as none: each of these can be left out.
            let secret = (VENDOR_SECRETS.contains(&field) && value != "" && !value.is_null())
                || (field != "deployments" && value.get("value").is_some())
                || value.as_str().is_some_and(|text| text.starts_with("env."));
            let resolved_secret = if secret {
                key.reader.secret(&path, value)
            } else {
                None
            };
            let value = resolved_secret.map_or_else(|| value.clone(), |s| Value::from(s.expose()));
            if field != "deployments" {
                resolved.insert(field.to_owned(), value);
            }
        }
        blocks.insert((*name).to_owned(), Value::Object(resolved));
    }
    blocks
}

/// What aliases say besides a name, where they say anything.
fn alias_details(
    key: &Object<'_, '_>,
    aliases: &BTreeMap<String, Value>,
) -> BTreeMap<String, Alias> {
    let Some(block) = key.object("aliases") else {
        return BTreeMap::new();
    };
    let objects = aliases.iter().filter(|(_, target)| target.is_object());
    objects
        .map(|(name, target)| (name.clone(), vendor::alias(&block, name, target)))
        .collect()
}

/// JSON with the keys of every object sorted, so that equal content is equal text.
pub(crate) fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        if let Some(object) = value.as_object() {
            let fields: BTreeMap<&String, Value> =
                object.iter().map(|(k, v)| (k, sorted(v))).collect();
            return json!(fields);
        }
        if let Some(items) = value.as_array() {
            return items.iter().map(sorted).collect();
        }
        value.clone()
    }
    sorted(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_the_same_in_every_life_and_differ_by_provider() {
        assert_eq!(
            derived_id("openai", "main"),
            "c99d53fc-6781-5940-a34a-7efb074d8e7f"
        );
        assert_ne!(derived_id("openai", "main"), derived_id("groq", "main"));
    }

    #[test]
    fn canonical_text_does_not_depend_on_the_order_of_fields() {
        let a = json!({"b": [{"y": 1, "x": 2}], "a": null});
        let b = json!({"a": null, "b": [{"x": 2, "y": 1}]});
        assert_eq!(canonical(&a), canonical(&b));
    }
}
