//! One provider as config.json or the admin API states it.

use holdline_core::ids::ProviderId;
use http::Uri;
use serde_json::Value;

use super::builtin::{self, Builtin};
use super::custom::{self, CustomRules};
use super::defaults;
use super::key::{self, EmptyList, KeyConfig, Written};
use super::network::{self, NetworkConfig};
use super::proxy;
use super::reader::{Object, Reader};
use crate::protocols::Protocol;
use crate::providers::Kind;

/// A provider, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct ProviderConfig {
    pub id: ProviderId,
    /// The built-in provider that it is, or whose protocol it speaks.
    pub base: Option<&'static Builtin>,
    pub kind: Kind,
    pub speaks: &'static [Protocol],
    pub base_url: Uri,
    pub chat_path: String,
    pub keyless: bool,
    pub custom: CustomRules,
    pub network: NetworkConfig,
    pub keys: Vec<KeyConfig>,
    /// Without `keys`.
    pub written: Written,
}

/// Reads a provider. `None` after an error that leaves nothing to work with; other errors are in the reader.
pub(crate) fn read(
    reader: &Reader<'_>,
    path: &str,
    name: &str,
    value: &Value,
    empty: EmptyList,
) -> Option<ProviderConfig> {
    check_name(reader, path, name);
    let block = reader.object(path, value)?;
    let mut network = block
        .object("network_config")
        .map_or_else(NetworkConfig::default, network::read);
    network.network.proxy = block.object("proxy_config").and_then(|b| proxy::read(&b));
    let near = network.network.allow_private_network;
    let custom = block.object("custom_provider_config");
    let custom = custom.map(|block| custom::read(block, near));
    let base = match &custom {
        Some(custom) => custom.base,
        None => builtin::find(name),
    };
    if base.is_none() && custom.is_none() {
        reader.error(
            path,
            format!("{name:?} is no built-in provider: add custom_provider_config with base_provider_type"),
        );
    }
    let keys = keys(&block, name, base, empty);
    let keyless = custom.as_ref().is_some_and(|custom| custom.keyless);
    if keyless && !keys.is_empty() {
        block.error(
            "keys",
            "must be empty: custom_provider_config.is_key_less is true",
        );
    }
    let base_url = base_url(&block, base.filter(|_| custom.is_none()), &network, &keys);
    if base.is_some_and(|base| base.kind == Kind::Azure) && network.base_url.is_none() {
        need_endpoints(&block, &keys);
    }
    block.accept(&[
        "provider",
        "name",
        "status",
        "provider_status",
        "description",
        "config_hash",
    ]);
    block.without_effect(&[
        "concurrency_and_buffer_size",
        "send_back_raw_request",
        "send_back_raw_response",
        "store_raw_request_response",
        "openai_config",
        "provider_request_id",
    ]);
    block.finish();
    let (custom_path, rules) = match custom {
        Some(custom) => (custom.chat_path, custom.rules),
        None => (None, CustomRules::default()),
    };
    let default_path = base.map_or(builtin::CHAT_PATH, |base| base.chat_path);
    Some(ProviderConfig {
        id: ProviderId::from(name),
        base,
        kind: base.map_or(Kind::Unspoken, |base| base.kind),
        speaks: base.map_or(&[], |base| base.speaks),
        base_url: base_url?,
        chat_path: custom_path.unwrap_or_else(|| default_path.to_owned()),
        keyless,
        custom: rules,
        network,
        keys,
        written: Written(without_keys(value)),
    })
}

/// Where the provider is: as configured, as its first key says, or as everybody knows.
fn base_url(
    block: &Object<'_, '_>,
    known: Option<&'static Builtin>,
    network: &NetworkConfig,
    keys: &[KeyConfig],
) -> Option<Uri> {
    let url = network
        .base_url
        .clone()
        .or_else(|| keys.iter().find_map(|key| key.base_url.clone()))
        .or_else(|| known?.base_url?.parse().ok());
    if url.is_none()
        && block
            .get("network_config")
            .and_then(|n| n.get("base_url"))
            .is_none()
    {
        let path = format!("{}.base_url", block.at("network_config"));
        block
            .reader
            .error(path, "is missing: where is this provider?");
    }
    url
}

/// Each Azure key has a resource of its own where the provider names none.
fn need_endpoints(block: &Object<'_, '_>, keys: &[KeyConfig]) {
    for (n, key) in keys.iter().enumerate() {
        if key.base_url.is_none() {
            let path = format!("{}[{n}].azure_key_config.endpoint", block.at("keys"));
            let message = format!("is missing: where is the resource of {:?}?", key.name);
            block.reader.error(path, message);
        }
    }
}

fn check_name(reader: &Reader<'_>, path: &str, name: &str) {
    let fits = (1..=defaults::MAX_PROVIDER_NAME).contains(&name.len());
    let wrong = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    if !fits || name.contains(wrong) {
        reader.error(
            path,
            format!(
                "a provider's name has 1 to {} bytes, without spaces and slashes",
                defaults::MAX_PROVIDER_NAME
            ),
        );
    }
}

fn keys(
    block: &Object<'_, '_>,
    provider: &str,
    builtin: Option<&Builtin>,
    empty: EmptyList,
) -> Vec<KeyConfig> {
    let mut keys: Vec<KeyConfig> = Vec::new();
    for (path, value) in block.items("keys").unwrap_or_default() {
        let Some(key) = key::read(block.reader, &path, value, provider, builtin, empty) else {
            continue;
        };
        if keys.iter().any(|other| other.id == key.id) {
            let message = format!("another key of {provider} has the id {:?}", key.id.as_str());
            block.reader.error(format!("{path}.id"), message);
        } else if keys.iter().any(|other| other.name == key.name) {
            let message = format!("another key of {provider} has the name {:?}", key.name);
            block.reader.error(format!("{path}.name"), message);
        }
        keys.push(key);
    }
    keys
}

fn without_keys(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.shift_remove("keys");
    }
    value
}
