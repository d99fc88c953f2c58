//! Every path the gateway serves, once.

/// Inference, OpenAI's chat.
pub const CHAT_COMPLETIONS: &str = "/v1/chat/completions";
/// Models that keys can serve.
pub const MODELS: &str = "/v1/models";
/// Whether the process can serve: public.
pub const HEALTH: &str = "/health";
/// Whether it should be sent traffic: public.
pub const READY: &str = "/ready";
/// Prometheus.
pub const METRICS: &str = "/metrics";
/// Start of the admin API.
pub const ADMIN_PREFIX: &str = "/api/";
/// The held-key view.
pub const CONDITIONS: &str = "/api/adaptive-routing/conditions";
/// Release by hand.
pub const CONDITIONS_CLEAR: &str = "/api/adaptive-routing/conditions/clear";
/// The cluster as a node sees it.
pub const CLUSTER_STATUS: &str = "/api/cluster/status";
