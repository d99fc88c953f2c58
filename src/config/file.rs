//! config.json, in Bifrost's shape: read, checked, with every mistake named by its JSON path.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use holdline_core::failure::Classifier;
use holdline_core::ids::ProviderId;
use serde_json::Value;

use super::adaptive::SettingsPatch;
use super::failure_rules;
use super::governance::{self, VirtualKeys};
use super::key::EmptyList;
use super::provider::{self, ProviderConfig};
use super::reader::{Finding, Object, Reader};
use super::secret::Secret;
use super::sections::{self, AdminAuth, ClientConfig, ClusterConfig, ServerTls};

/// What the file says, with defaults filled in and references resolved.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `cluster_config`.
    pub cluster: ClusterConfig,
    /// `client`.
    pub client: ClientConfig,
    /// What providers' errors mean: `failure_rules`, and the switches of `client`.
    pub classifier: Arc<Classifier>,
    /// `load_balancer_config.enabled`: without it nothing is held and weights are static.
    pub adaptive: Adaptive,
    /// `server.tls`; none where clients speak plain HTTP.
    pub server_tls: Option<ServerTls>,
    /// `governance.virtual_keys`: the credentials of callers.
    pub virtual_keys: VirtualKeys,
    /// `auth_config`; none where the admin API has no login.
    pub admin: Option<AdminAuth>,
    /// Encrypts documents at rest; else a key file in the data folder does.
    pub encryption_key: Option<Secret>,
    /// `source_of_truth: "config.json"`: sections of the file win over saved edits.
    pub file_wins: bool,
    pub(crate) providers: BTreeMap<ProviderId, ProviderConfig>,
    pub(crate) names_providers: bool,
}

/// `load_balancer_config`, also called `adaptive_routing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// Off: nothing is held, weights are static, nothing is remembered between requests.
    pub enabled: bool,
    /// The settings the file names; none where it has no such block.
    pub settings: Option<SettingsPatch>,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            enabled: true,
            settings: None,
        }
    }
}

/// A config that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// It.
    pub config: Config,
    /// What is ignored, or probably not meant.
    pub warnings: Vec<Finding>,
}

/// A config that cannot be used: every mistake, one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// At least one.
    pub errors: Vec<Finding>,
    /// What else was found.
    pub warnings: Vec<Finding>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.errors.iter().map(ToString::to_string).collect();
        out.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

impl Config {
    /// Reads a file; without one, the built-in defaults: no providers, admin API open to loopback.
    ///
    /// # Errors
    /// When the file cannot be read, is no JSON, or says something that cannot be.
    pub fn load(path: Option<&Path>) -> Result<Loaded, ConfigErrors> {
        let Some(path) = path else {
            return Ok(Loaded {
                config: Self::builtin_defaults(),
                warnings: Vec::new(),
            });
        };
        let text = fs::read_to_string(path)
            .map_err(|error| one(format!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text, &|name| std::env::var(name).ok())
    }

    /// A node without a config file.
    #[must_use]
    pub fn builtin_defaults() -> Self {
        Self::default()
    }

    /// Reads config.json's text. `env` looks up variables.
    ///
    /// # Errors
    /// When the text is no JSON, or says something that cannot be.
    pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, ConfigErrors> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| one(format!("is not JSON: {error}")))?;
        let reader = Reader::new(env);
        let config = reader.object("", &value).map(|root| read(&root, &reader));
        let (errors, warnings) = reader.finish();
        match config {
            Some(config) if errors.is_empty() => Ok(Loaded { config, warnings }),
            Some(_) | None => Err(ConfigErrors { errors, warnings }),
        }
    }
}

fn one(message: String) -> ConfigErrors {
    ConfigErrors {
        errors: vec![Finding {
            path: String::new(),
            message,
        }],
        warnings: Vec::new(),
    }
}

fn read(root: &Object<'_, '_>, reader: &Reader<'_>) -> Config {
    let empty = match root.integer("version", 1..=2) {
        Some(1) => EmptyList::AllowsAll,
        Some(_) | None => EmptyList::DeniesAll,
    };
    let mut providers = BTreeMap::new();
    let section = root.object("providers");
    let names_providers = section.is_some();
    for (name, path, value) in section.iter().flat_map(Object::entries) {
        if let Some(provider) = provider::read(reader, &path, name, value, empty) {
            warn_of_no_keys(reader, &path, &provider);
            providers.insert(provider.id.clone(), provider);
        }
    }
    let file_wins = match root.text("source_of_truth") {
        None | Some("split") => false,
        Some("config.json") => true,
        Some(_) => {
            root.error("source_of_truth", "must be \"split\" or \"config.json\"");
            false
        }
    };
    let client = root
        .object("client")
        .map_or_else(ClientConfig::default, sections::client);
    let classifier = Classifier {
        own: failure_rules::read(root, |name| providers.contains_key(name)),
        extended_signals: client.rules.extended_failure_signals,
        moderation_holds: client.rules.moderation_403_holds,
    };
    let cluster = root
        .object("cluster_config")
        .map_or_else(ClusterConfig::default, sections::cluster);
    let adaptive = adaptive(root);
    let (admin, virtual_keys) = of_governance(root);
    let config = Config {
        cluster,
        client,
        classifier: Arc::new(classifier),
        adaptive,
        server_tls: root.object("server").and_then(|s| sections::server(&s)),
        virtual_keys,
        admin,
        encryption_key: root.secret("encryption_key"),
        file_wins,
        providers,
        names_providers,
    };
    root.accept(&["$schema", "env_label", "setup_token"]);
    root.without_effect(NOT_ACTED_ON);
    root.warn_unknown();
    config
}

/// Blocks of Bifrost's that this version loads and ignores.
const NOT_ACTED_ON: &[&str] = &[
    "framework",
    "alerting",
    "webhooks",
    "mcp",
    "vector_store",
    "config_store",
    "logs_store",
    "skills_registry",
    "plugins",
    "websocket",
    "guardrails_config",
    "audit_logs",
    "large_payload_optimization",
    "scim_config",
    "access_profiles",
    "feature_flags",
    "circuit_breaker_config",
];

fn warn_of_no_keys(reader: &Reader<'_>, path: &str, provider: &ProviderConfig) {
    if provider.keys.is_empty() && !provider.keyless {
        reader.warn(
            format!("{path}.keys"),
            "is empty, so the provider serves nothing until a key is added through the API",
        );
    }
}

fn adaptive(root: &Object<'_, '_>) -> Adaptive {
    let old = root.object("load_balancer_config");
    let new = root.object("adaptive_routing");
    if old.is_some() && new.is_some() {
        root.error(
            "adaptive_routing",
            "is the same block as load_balancer_config: keep one of them",
        );
    }
    let Some(block) = new.or(old) else {
        return Adaptive::default();
    };
    let adaptive = Adaptive {
        enabled: block.bool("enabled").unwrap_or(true),
        settings: Some(SettingsPatch::read(&block)),
    };
    block.without_effect(&["tracker_config", "bootstrap"]);
    block.finish();
    adaptive
}

/// The login may stand inside `governance` or beside it.
fn of_governance(root: &Object<'_, '_>) -> (Option<AdminAuth>, VirtualKeys) {
    let governance = root.object("governance");
    let inner = governance.as_ref().and_then(|g| g.object("auth_config"));
    let mut keys = VirtualKeys::default();
    if let Some(governance) = governance {
        keys = governance::virtual_keys(&governance);
        governance.without_effect(&[
            "budgets",
            "rate_limits",
            "customers",
            "teams",
            "routing_rules",
            "model_configs",
            "providers",
            "business_units",
            "roles",
            "pricing_overrides",
            "complexity_analyzer_config",
        ]);
        governance.finish();
    }
    let outer = root.object("auth_config");
    if inner.is_some() && outer.is_some() {
        root.error("auth_config", "stands in governance too: keep one of them");
    }
    (inner.or(outer).and_then(sections::auth), keys)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
