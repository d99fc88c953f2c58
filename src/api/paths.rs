//! Every path the gateway serves, once.

/// Inference, OpenAI's chat.
pub const CHAT_COMPLETIONS: &str = "/v1/chat/completions";
/// Models that keys can serve.
pub const MODELS: &str = "/v1/models";
/// One of them, by its id.
pub const MODEL: &str = "/v1/models/{model}";
/// The same, where OpenAI's clients look for it behind their prefix.
pub const OPENAI_MODELS: &str = "/openai/v1/models";
/// The same for clients whose base URL has no version.
pub const OPENAI_MODELS_BARE: &str = "/openai/models";
/// The same for Anthropic's.
pub const ANTHROPIC_MODELS: &str = "/anthropic/v1/models";
/// What Google's SDKs put before their own paths.
pub const GENAI: &str = "/genai";
/// Whether the process can serve: public.
pub const HEALTH: &str = "/health";
/// Whether it should be sent traffic: public.
pub const READY: &str = "/ready";
/// Prometheus.
pub const METRICS: &str = "/metrics";
/// Start of the admin API.
pub const ADMIN_PREFIX: &str = "/api/";
/// Login: public.
pub const SESSION_LOGIN: &str = "/api/session/login";
/// Ends a session.
pub const SESSION_LOGOUT: &str = "/api/session/logout";
/// Whether there is a login at all: public.
pub const SESSION_IS_AUTH_ENABLED: &str = "/api/session/is-auth-enabled";
/// All providers.
pub const PROVIDERS: &str = "/api/providers";
/// One provider.
pub const PROVIDER: &str = "/api/providers/{provider}";
/// The keys of a provider.
pub const PROVIDER_KEYS: &str = "/api/providers/{provider}/keys";
/// One key.
pub const PROVIDER_KEY: &str = "/api/providers/{provider}/keys/{key_id}";
/// The keys of all providers.
pub const KEYS: &str = "/api/keys";
/// The nine adaptive settings.
pub const ADAPTIVE_CONFIG: &str = "/api/adaptive-routing/config";
/// The same, under its older name.
pub const LOAD_BALANCER_CONFIG: &str = "/api/load-balancer-config";
/// How this node's providers and keys do.
pub const ADAPTIVE_STATUS: &str = "/api/adaptive-routing/status";
/// Held keys.
pub const CONDITIONS: &str = "/api/adaptive-routing/conditions";
/// Releases held keys by hand.
pub const CONDITIONS_CLEAR: &str = "/api/adaptive-routing/conditions/clear";
/// Incidents of the whole cluster.
pub const HISTORY_ISSUES: &str = "/api/adaptive-routing/history/issues";
/// Scores and weights over time.
pub const HISTORY_SCORES: &str = "/api/adaptive-routing/history/scores";
/// What a request would do now.
pub const EXPLAIN: &str = "/api/adaptive-routing/explain";
/// What a provider's answer would do.
pub const CLASSIFY: &str = "/api/classify";
/// The cluster as this node sees it.
pub const CLUSTER_STATUS: &str = "/api/cluster/status";
/// Request records.
pub const LOGS: &str = "/api/logs";
/// One request record.
pub const LOG: &str = "/api/logs/{id}";
/// What the node was told.
pub const CONFIG: &str = "/api/config";
/// Which version runs.
pub const VERSION: &str = "/api/version";
