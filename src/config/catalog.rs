//! Providers and keys as they are in force: file and saved edits merged, references resolved.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdline_core::ids::ProviderId;
use holdline_core::routing::{KeySpec, RetryPolicy};

/// Text that must never be shown. Debug and Display print a mark instead.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The text itself: for the wire to the provider, sealed RPC and the encrypted store only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<secret>")
    }
}

/// Everything the data path needs that routing does not.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// By name.
    pub providers: BTreeMap<ProviderId, Arc<Provider>>,
    /// What callers may do.
    pub client: ClientRules,
}

/// `client`: what the gateway lets its callers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRules {
    /// `max_request_body_size_mb`, in bytes.
    pub max_body_bytes: usize,
    /// `allow_direct_keys`: callers may bring their own key with `x-bf-direct-key`.
    pub allow_direct_keys: bool,
    /// `direct_key_scope: "named_provider"`: such a key is used only at a provider that the request named.
    pub direct_keys_need_named_provider: bool,
    /// `moderation_403_holds`: a moderation or guardrail 403 holds the key like another credential refusal.
    pub moderation_403_holds: bool,
}

impl Default for ClientRules {
    fn default() -> Self {
        Self {
            max_body_bytes: 100 << 20,
            allow_direct_keys: false,
            direct_keys_need_named_provider: false,
            moderation_403_holds: false,
        }
    }
}

/// One provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name.
    pub id: ProviderId,
    /// What it speaks.
    pub dialect: Dialect,
    /// `scheme://host[:port][/path]`, without a trailing slash.
    pub base_url: http::Uri,
    /// Its keys, in the order of the configuration.
    pub keys: Vec<Arc<Key>>,
    /// Called without credentials.
    pub keyless: bool,
    /// Timeouts, connections, extra headers.
    pub network: Network,
    /// How failed attempts are retried.
    pub retry: RetryPolicy,
}

/// One key with its secret.
#[derive(Clone, Debug)]
pub struct Key {
    /// What routing sees.
    pub spec: Arc<KeySpec>,
    /// What the provider sees.
    pub value: Secret,
    /// Where this key's calls go, if not to the provider's base URL (`vllm_key_config.url` …).
    pub base_url: Option<http::Uri>,
}

/// What a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions, as most speak it.
    OpenAi,
    /// Known by name, but its own protocol is not spoken yet: requests to it get a clear 501.
    Other,
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
    /// `allow_private_network`.
    pub allow_private_network: bool,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            first_token_timeout: None,
            stream_idle_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(30),
            max_connections: 5_000,
            extra_headers: Vec::new(),
            allow_private_network: false,
        }
    }
}
