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
