//! What a request tells of itself: one entry per attempt, one line per decision.
//!
//! Every wording is here. Never a provider's words, never a secret: names, ids, classes, numbers.

use serde::Serialize;

use crate::failure::FailureClass;
use crate::ids::KeyId;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Retries and fallbacks.
    Core,
    /// Holds, keys and providers.
    Loadbalancing,
}

/// How loud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A decision.
    Info,
    /// Worth a look.
    Warn,
    /// The request failed for it.
    Error,
}

/// One line of `routing_engine_logs`. The caller adds the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// Who.
    pub engine: Engine,
    /// How loud.
    pub level: Level,
    /// What.
    pub message: String,
}

/// One entry of `attempt_trail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptEntry {
    /// From 0, over the whole request.
    pub attempt: u32,
    /// The key, empty where there is none.
    pub key_id: Option<KeyId>,
    /// Its name.
    pub key_name: Option<String>,
    /// A category, never the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_reason: Option<String>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<FailureClass>,
    /// The status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Whether the next attempt used another key because of it.
    pub triggered_rotation: bool,
    /// What the provider asked for, clamped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}
