//! The nine adaptive settings.

use serde::{Deserialize, Serialize};

/// What an operator can switch; the names are those of the API and of `load_balancer_config`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Pick the provider of a request that names none.
    pub direction_selection_enabled: bool,
    /// Pick keys by health rather than by static weight.
    pub route_selection_enabled: bool,
    /// Give requests that name a provider the other healthy ones as fallbacks.
    pub append_fallbacks_to_pinned: bool,
    /// Move requests away from a named provider that is failing.
    pub reroute_failed_directions: bool,
    /// Where to.
    pub reroute_target: RerouteTarget,
    /// Drop failing providers from a request's own fallbacks.
    pub prune_failed_fallbacks: bool,
    /// Keep incidents and score history.
    pub history_enabled: bool,
    /// For how long, in days.
    pub history_retention_days: u32,
    /// How often the regional leader saves the whole table, in seconds.
    pub snapshot_persist_interval_seconds: u64,
}

/// Where a redirected request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerouteTarget {
    /// The best healthy provider.
    Pool,
    /// The request's own first fallback that is not failing.
    #[serde(alias = "request_fallbacks")]
    Fallbacks,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            direction_selection_enabled: true,
            route_selection_enabled: true,
            append_fallbacks_to_pinned: false,
            reroute_failed_directions: false,
            reroute_target: RerouteTarget::Pool,
            prune_failed_fallbacks: false,
            history_enabled: true,
            history_retention_days: 7,
            snapshot_persist_interval_seconds: 300,
        }
    }
}
