//! Every default of the configuration, once. docs/configuration.md lists them.

use std::time::Duration;

use holdline_core::routing::BudgetRule;

use super::catalog::Network;

/// TCP port of inference, admin API and dashboard.
pub const PORT: u16 = 8_080;
/// UDP port of gossip.
pub const GOSSIP_PORT: u16 = 10_101;
/// TCP port of the node-to-node RPC.
pub const RPC_PORT: u16 = 10_102;
/// The region of a node that is told none.
pub const REGION: &str = "unknown";
/// Associated data of every seal.
pub const CLUSTER_ID: &str = "holdline";
/// How long request logs are kept.
pub const LOG_RETENTION_DAYS: u32 = 365;
/// The largest request body.
pub const MAX_REQUEST_BODY_MB: usize = 100;
/// Charged attempts of one request over all its legs.
pub const MAX_ATTEMPTS_PER_REQUEST: u32 = 200;
/// Share of traffic of a key that states none.
pub const WEIGHT: f64 = 1.0;
/// Longest provider name, in bytes: records that name it must fit a datagram.
pub const MAX_PROVIDER_NAME: usize = 64;
/// Longest key id or name, in bytes.
pub const MAX_KEY_NAME: usize = 128;

/// `retry_budget` where the block leaves a field out.
pub const RETRY_BUDGET: BudgetRule = BudgetRule {
    ratio_permille: 200,
    min_per_second: 10,
};

/// `network_config` of a provider that states none.
#[must_use]
pub const fn network() -> Network {
    Network {
        connect_timeout: Duration::from_secs(10),
        request_timeout: Duration::from_secs(30),
        first_token_timeout: None,
        stream_idle_timeout: Duration::from_secs(60),
        keep_alive: Duration::from_secs(30),
        max_connections: 5_000,
        extra_headers: Vec::new(),
        header_secrets: Vec::new(),
        allow_private_network: false,
        http2: false,
        skip_verify: false,
        ca_pem: None,
        proxy: None,
    }
}
