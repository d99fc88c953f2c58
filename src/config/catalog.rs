//! Providers and keys as they are in force: file and saved edits merged, references resolved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdline_core::holds::KeyHolds;
use holdline_core::ids::{Fingerprint, KeyId, ProviderId};
use holdline_core::replica::{Document, Documents};
use holdline_core::routing::{KeySpec, KeyView, ProviderView, RetryPolicy, Settings, View};
use serde_json::Value;

use super::builtin::Builtin;
use super::custom::CustomRules;
use super::defaults;
use super::file::Config;
use super::key::{self, EmptyList, KeyConfig, Written};
use super::provider::{self, ProviderConfig};
use super::proxy::Proxy;
use super::reader::{Env, Finding, Reader};
use super::secret::Secret;
use super::sections::ClientRules;
use super::vendor::{Alias, Vendor};
use crate::protocols::{Operation, Protocol};
use crate::providers::Kind;

/// The document that keeps the adaptive settings.
pub const SETTINGS_DOCUMENT: &str = "settings";

/// The document that keeps a provider.
#[must_use]
pub fn provider_document(provider: &ProviderId) -> String {
    format!("provider/{provider}")
}

/// The document that keeps a key.
#[must_use]
pub fn key_document(provider: &ProviderId, key: &KeyId) -> String {
    format!("key/{provider}/{key}")
}

/// Everything the data path needs that routing does not.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// By name.
    pub providers: BTreeMap<ProviderId, Arc<Provider>>,
    /// What callers may do.
    pub client: ClientRules,
    /// Saved edits that cannot be used on this node, each by its document. They are left out.
    pub problems: Vec<Finding>,
}

/// One provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name.
    pub id: ProviderId,
    /// How it is called.
    pub kind: Kind,
    /// What it speaks: what is asked in another protocol is converted to the first.
    pub speaks: &'static [Protocol],
    /// `scheme://host[:port][/path]`, without a trailing slash.
    pub base_url: http::Uri,
    /// Chat completions behind the base URL, with its leading slash: `/v1/chat/completions`.
    pub chat_path: String,
    /// Its keys, in the order of the configuration.
    pub keys: Vec<Arc<Key>>,
    /// Called without credentials.
    pub keyless: bool,
    /// Which requests it takes, where, and how its streams end.
    pub custom: CustomRules,
    /// Timeouts, connections, extra headers.
    pub network: Network,
    /// How failed attempts are retried.
    pub retry: RetryPolicy,
    /// The built-in provider that it is, or whose protocol it speaks.
    pub(crate) base: Option<&'static Builtin>,
    pub(crate) written: Written,
}

/// One key with its secret.
#[derive(Clone, Debug)]
pub struct Key {
    /// What routing sees.
    pub spec: Arc<KeySpec>,
    /// What the provider sees.
    pub value: Secret,
    /// Where this key's calls go, if not to the provider's base URL (`azure_key_config.endpoint` …).
    pub base_url: Option<http::Uri>,
    /// `use_for_batch_api`: files and batches are asked for with such keys, where there are some.
    pub for_batches: bool,
    /// What only its provider's keys have.
    pub vendor: Vendor,
    /// What aliases say besides the provider's name for a model, by alias.
    pub alias_details: BTreeMap<String, Alias>,
    pub(crate) written: Written,
}

impl Provider {
    /// What this provider is spoken to in when a client asks a model in `protocol`; none where that cannot
    /// be converted to anything it speaks.
    #[must_use]
    pub fn protocol_for(
        &self,
        protocol: Protocol,
        operation: Operation,
        model: &str,
        alias: Option<&Alias>,
    ) -> Option<Protocol> {
        let speaks = self.kind.speaks(self.speaks, model, alias);
        let passes = matches!(protocol, Protocol::Passing(_)) && self.kind.passes();
        if passes || speaks.contains(&protocol) {
            return Some(protocol);
        }
        let mut speaks = speaks.iter().copied();
        speaks.find(|spoken| operation == Operation::Answer && protocol.converts_to(*spoken))
    }

    /// The built-in provider that it is, or is like; its own name where there is none.
    #[must_use]
    pub fn like(&self) -> &str {
        self.base.map_or(self.id.as_str(), |base| base.name)
    }
}

impl Key {
    /// Every secret of it that a provider could repeat in its words.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.value).chain(self.vendor.secrets())
    }
}

/// `network_config`. Real times, never scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// `connect_timeout_in_seconds`.
    pub connect_timeout: Duration,
    /// `default_request_timeout_in_seconds`: to the whole answer, or to a stream's headers.
    pub request_timeout: Duration,
    /// `ttft_timeout_in_seconds`: to a stream's first real output.
    pub first_token_timeout: Option<Duration>,
    /// `stream_idle_timeout_in_seconds`: between chunks.
    pub stream_idle_timeout: Duration,
    /// `keep_alive_timeout_in_seconds`: how long an idle connection is kept.
    pub keep_alive: Duration,
    /// `max_conns_per_host`.
    pub max_connections: usize,
    /// `extra_headers`.
    pub extra_headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// The credentials among them, without their scheme, such as `Bearer`: no provider's words may show them.
    pub header_secrets: Vec<Secret>,
    /// `allow_private_network`.
    pub allow_private_network: bool,
    /// `enforce_http2`: nothing else is spoken, without TLS neither.
    pub http2: bool,
    /// `insecure_skip_verify`: every certificate is believed.
    pub skip_verify: bool,
    /// `ca_cert_pem`: certificates that are believed beside the public ones.
    pub ca_pem: Option<Arc<str>>,
    /// `proxy_config` of the provider.
    pub proxy: Option<Arc<Proxy>>,
}

impl Default for Network {
    fn default() -> Self {
        defaults::network()
    }
}

impl Catalog {
    /// Merges the file with the saved edits: an edit wins over the file, a tombstone deletes, and with
    /// `source_of_truth: "config.json"` a file that names providers wins over all edits of providers.
    #[must_use]
    pub fn build(config: &Config, documents: &Documents) -> Self {
        Self::build_with(config, documents, &|name| std::env::var(name).ok())
    }

    /// [`Catalog::build`] with another lookup of environment variables.
    #[must_use]
    pub fn build_with(config: &Config, documents: &Documents, env: Env<'_>) -> Self {
        let mut catalog = Self {
            client: config.client.rules.clone(),
            ..Self::default()
        };
        if config.file_wins && config.names_providers {
            for provider in config.providers.values() {
                let keys = &provider.keys;
                let keys = keys
                    .iter()
                    .map(|key| finished(key, &provider.id, documents));
                catalog.insert(provider, keys.collect());
            }
            return catalog;
        }
        let mut names: Vec<ProviderId> = config.providers.keys().cloned().collect();
        for document in documents.starting_with("provider/") {
            let name = ProviderId::from(document.name["provider/".len()..].to_owned());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            catalog.add(&name, config.providers.get(&name), documents, env);
        }
        catalog
    }

    fn add(
        &mut self,
        name: &ProviderId,
        in_file: Option<&ProviderConfig>,
        documents: &Documents,
        env: Env<'_>,
    ) {
        let document = documents.get(&provider_document(name));
        if document.is_some_and(|document| document.body.is_none()) {
            return;
        }
        let saved = document.and_then(|document| {
            self.read(document, env, |reader, value| {
                provider::read(reader, "", name.as_str(), value, EmptyList::DeniesAll)
            })
        });
        let Some(provider) = saved.as_ref().or(in_file) else {
            return;
        };
        let mut keys: Vec<KeyConfig> = in_file.map(|p| p.keys.clone()).unwrap_or_default();
        let prefix = format!("key/{name}/");
        for document in documents.starting_with(&prefix) {
            let id = &document.name[prefix.len()..];
            let place = keys.iter().position(|key| key.id.as_str() == id);
            let key = self.read(document, env, |reader, value| {
                let (name, base) = (name.as_str(), provider.base);
                key::read(reader, "", value, name, base, EmptyList::DeniesAll)
            });
            match (key, place) {
                (Some(key), Some(place)) => keys[place] = key,
                (Some(key), None) => keys.push(key),
                (None, Some(place)) => drop(keys.remove(place)),
                (None, None) => {}
            }
        }
        let keys = keys.iter().map(|key| finished(key, name, documents));
        self.insert(provider, keys.collect());
    }

    /// Reads a saved edit; one that this node cannot use (a variable is missing here) is a problem.
    fn read<T>(
        &mut self,
        document: &Document,
        env: Env<'_>,
        read: impl Fn(&Reader<'_>, &Value) -> Option<T>,
    ) -> Option<T> {
        let body = document.body.as_ref()?;
        let reader = Reader::new(env);
        let found = match serde_json::from_str(body) {
            Ok(value) => read(&reader, &value),
            Err(error) => {
                reader.error("", format!("is not JSON: {error}"));
                None
            }
        };
        let errors = reader.finish().0;
        let usable = errors.is_empty();
        self.problems.extend(errors.into_iter().map(|error| {
            Finding {
                path: format!("{} {}", document.name, error.path)
                    .trim_end()
                    .to_owned(),
                message: error.message,
            }
        }));
        found.filter(|_| usable)
    }

    fn insert(&mut self, provider: &ProviderConfig, keys: Vec<Arc<Key>>) {
        let provider = Provider {
            id: provider.id.clone(),
            kind: provider.kind,
            speaks: provider.speaks,
            base_url: provider.base_url.clone(),
            chat_path: provider.chat_path.clone(),
            keys,
            keyless: provider.keyless,
            custom: provider.custom.clone(),
            network: provider.network.network.clone(),
            retry: provider.network.retry,
            base: provider.base,
            written: provider.written.clone(),
        };
        self.providers
            .insert(provider.id.clone(), Arc::new(provider));
    }

    /// The view that requests read, without retry budgets and token limits: those outlive catalogs.
    pub fn view(
        &self,
        settings: Arc<Settings>,
        adaptive: bool,
        key_holds: impl Fn(&ProviderId, &KeyId, Fingerprint) -> KeyHolds,
    ) -> View {
        let provider_view = |provider: &Provider| ProviderView {
            id: provider.id.clone(),
            keys: provider
                .keys
                .iter()
                .map(|key| {
                    let spec = Arc::clone(&key.spec);
                    let holds = key_holds(&provider.id, &spec.id, spec.fingerprint);
                    let holds = Arc::new(holds);
                    let dry = Arc::default();
                    Arc::new(KeyView { spec, holds, dry })
                })
                .collect(),
            keyless: provider.keyless,
            retry: provider.retry,
            retry_budget: None,
            health: Arc::default(),
            names: Arc::default(),
        };
        View {
            providers: self
                .providers
                .iter()
                .map(|(id, provider)| (id.clone(), Arc::new(provider_view(provider))))
                .collect(),
            settings,
            adaptive,
        }
    }
}

/// The adaptive settings in force: defaults, the file's block, the saved document; the file last where
/// it is the source of truth.
#[must_use]
pub fn settings(config: &Config, documents: &Documents) -> Settings {
    let patch = config.adaptive.settings.clone().unwrap_or_default();
    let file_wins = config.file_wins && config.adaptive.settings.is_some();
    documents
        .get(SETTINGS_DOCUMENT)
        .filter(|_| !file_wins)
        .and_then(|document| serde_json::from_str(document.body.as_ref()?).ok())
        .unwrap_or_else(|| patch.over(&Settings::default()))
}

/// The key as routing and the data path use it.
///
/// The stamp of the key's document is its revision: any edit through the API makes another key of it,
/// and a key deleted and added again is not what it was before.
fn finished(key: &KeyConfig, provider: &ProviderId, documents: &Documents) -> Arc<Key> {
    let stamp = documents
        .get(&key_document(provider, &key.id))
        .map(|document| document.stamp)
        .unwrap_or_default();
    let fingerprint = Fingerprint::of(&[
        provider.as_str().as_bytes(),
        key.value.expose().as_bytes(),
        key.identity.expose().as_bytes(),
        &stamp.ms.to_be_bytes(),
        &stamp.counter.to_be_bytes(),
        &stamp.node.to_be_bytes(),
    ]);
    Arc::new(Key {
        spec: Arc::new(KeySpec {
            id: key.id.clone(),
            name: key.name.clone(),
            fingerprint,
            weight: key.weight,
            enabled: key.enabled,
            models: key.models.clone(),
            blocked: key.blocked.clone(),
            aliases: key.aliases.clone(),
        }),
        value: key.value.clone(),
        base_url: key.base_url.clone(),
        for_batches: key.for_batches,
        vendor: key.vendor.clone(),
        alias_details: key.alias_details.clone(),
        written: key.written.clone(),
    })
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
