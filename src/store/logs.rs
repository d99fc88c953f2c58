//! Request log records.

use serde::Serialize;
use serde_json::Value;

use holdline_core::trail::{AttemptEntry, LogLine};

/// One request, as `GET /api/logs/{id}` answers it.
#[derive(Clone, Debug, Serialize)]
pub struct RequestLog {
    /// The request's id.
    pub id: String,
    /// RFC 3339, when it arrived.
    pub timestamp: String,
    /// `chat_completion`, `chat_completion_stream` …
    pub object: String,
    /// Which node served it.
    pub node_id: String,
    /// The provider that served or was asked last.
    pub provider: String,
    /// The model.
    pub model: String,
    /// `success` or `error`.
    pub status: &'static str,
    /// Milliseconds, whole request.
    pub latency: u64,
    /// What the client was answered.
    pub status_code: u16,
    /// Streamed.
    pub is_stream: bool,
    /// `{prompt_tokens, completion_tokens, total_tokens}` where the provider told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<Value>,
    /// The key that served; none when all attempts failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected_key_id: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected_key_name: Option<String>,
    /// Attempts after the first.
    pub number_of_retries: u32,
    /// 0 primary, 1 first fallback.
    pub fallback_index: u32,
    /// Class and status of the error that was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_details: Option<Value>,
    /// Engines that wrote to `routing_engine_logs`.
    pub routing_engines_used: Vec<String>,
    /// Decisions.
    pub routing_engine_logs: Vec<StampedLine>,
    /// Attempts.
    pub attempt_trail: Vec<AttemptEntry>,
}

/// A decision with its time.
#[derive(Clone, Debug, Serialize)]
pub struct StampedLine {
    /// Engine, level, message.
    #[serde(flatten)]
    pub line: LogLine,
    /// Milliseconds since the Unix epoch.
    pub timestamp: u64,
}
