//! What a request tells of itself: one entry per attempt, one line per decision.
//!
//! Every wording is here. Never a provider's words, never a secret: names, ids, classes, numbers.

mod choice;

use std::fmt;

use serde::Serialize;

use crate::failure::{FailureClass, Reason};
use crate::ids::{KeyId, ModelId, ProviderId};

pub use choice::{
    Because, Failing, StaysBecause, fallback_pruned, fallbacks_added, kept_on_failing,
    own_key_moved, pin_not_there, provider_checked, provider_chosen, provider_left_out, redirected,
    session_key_leaves, session_key_stays, session_leaves, session_stays,
};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Retries and fallbacks.
    Core,
    /// Holds, keys and providers.
    Loadbalancing,
    /// What keeps a session where it is served.
    SessionAffinity,
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

/// A model at a provider, written `provider/model`.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// Where.
    pub provider: &'a ProviderId,
    /// What.
    pub model: &'a ModelId,
}

/// What is told of a failure: its type and status, never its words.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// A bare identifier.
    pub label: &'a str,
    /// Real or synthetic.
    pub status: u16,
}

/// Which key a retry uses, by the name people gave it.
#[derive(Clone, Copy, Debug)]
pub enum RetryKey<'a> {
    /// Another than before.
    Rotated(&'a str),
    /// The one before.
    Same(&'a str),
    /// There are none.
    Keyless,
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.provider, self.model)
    }
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} HTTP {}", self.label, self.status)
    }
}

impl LogLine {
    fn core(level: Level, message: String) -> Self {
        Self {
            engine: Engine::Core,
            level,
            message,
        }
    }

    const fn session(message: String) -> Self {
        Self {
            engine: Engine::SessionAffinity,
            level: Level::Info,
            message,
        }
    }

    fn loadbalancing(level: Level, message: String) -> Self {
        Self {
            engine: Engine::Loadbalancing,
            level,
            message,
        }
    }
}

// Retries and fallbacks.

/// A fallback whose provider takes no requests of this kind is left out.
#[must_use]
pub fn kind_refused(provider: &ProviderId, kind: &str) -> LogLine {
    LogLine::core(
        Level::Info,
        format!("Fallback at {provider} left out: it takes no {kind} requests"),
    )
}

/// The primary is given up and fallbacks follow.
#[must_use]
pub fn primary_failed(primary: Route<'_>, cause: Cause<'_>, fallbacks: usize) -> LogLine {
    LogLine::core(
        Level::Info,
        format!(
            "Primary {primary} failed ({cause}); evaluating {fallbacks} configured fallback(s)"
        ),
    )
}

/// A fallback begins. `index` counts from 1; nothing failed before it where every earlier leg was skipped.
#[must_use]
pub fn trying_fallback(
    index: usize,
    fallbacks: usize,
    route: Route<'_>,
    previous: Option<Cause<'_>>,
) -> LogLine {
    let message = match previous {
        Some(cause) => format!(
            "Trying fallback {index}/{fallbacks}: {route} (previous attempt failed: {cause})"
        ),
        None => format!("Trying fallback {index}/{fallbacks}: {route}"),
    };
    LogLine::core(Level::Info, message)
}

/// A fallback names a provider that is not configured.
#[must_use]
pub fn fallback_without_provider(route: Route<'_>) -> LogLine {
    LogLine::core(
        Level::Warn,
        format!("Fallback {route} skipped: missing provider config"),
    )
}

/// A fallback's provider has no key for its model.
#[must_use]
pub fn fallback_without_key(route: Route<'_>) -> LogLine {
    LogLine::core(
        Level::Warn,
        format!("Fallback {route} skipped: no key of the provider may serve the model"),
    )
}

/// A fallback stands in the request a second time.
#[must_use]
pub fn fallback_repeated(route: Route<'_>) -> LogLine {
    LogLine::core(
        Level::Info,
        format!("Fallback {route} skipped: the request was there already"),
    )
}

/// A fallback asks for a model that no provider serves.
#[must_use]
pub fn fallback_nobody_serves(model: &ModelId) -> LogLine {
    LogLine::core(
        Level::Warn,
        format!("Fallback {model} skipped: no configured provider serves the model"),
    )
}

/// The primary's provider or key went away between planning and calling.
#[must_use]
pub fn primary_unusable(route: Route<'_>) -> LogLine {
    LogLine::core(
        Level::Warn,
        format!("Primary {route} skipped: the provider or its keys are no longer configured"),
    )
}

/// A fallback served.
#[must_use]
pub fn served_by_fallback(route: Route<'_>, index: usize, fallbacks: usize) -> LogLine {
    LogLine::core(
        Level::Info,
        format!("Request served by fallback {route} (attempt {index}/{fallbacks})"),
    )
}

/// A fallback failed in a way that ends the request.
#[must_use]
pub fn fallback_halted(route: Route<'_>, cause: Cause<'_>) -> LogLine {
    LogLine::core(
        Level::Error,
        format!("Fallback {route} failed ({cause}); halting further fallbacks"),
    )
}

/// No fallback served. `primary` is what the caller gets.
#[must_use]
pub fn fallbacks_exhausted(fallbacks: usize, primary: Cause<'_>) -> LogLine {
    LogLine::core(
        Level::Error,
        format!("All {fallbacks} fallback(s) exhausted; returning primary error ({primary})"),
    )
}

/// The next attempt at the same provider begins.
#[must_use]
pub fn retry(
    number: u32,
    of: u32,
    route: Route<'_>,
    previous: Cause<'_>,
    key: RetryKey<'_>,
) -> LogLine {
    let key = match key {
        RetryKey::Rotated(name) => format!("; rotated key={name}"),
        RetryKey::Same(name) => format!("; same key={name}"),
        RetryKey::Keyless => String::new(),
    };
    LogLine::core(
        Level::Info,
        format!("Retry {number}/{of} for {route} (previous attempt failed: {previous}{key})"),
    )
}

/// The provider's retry budget does not allow the next attempt.
#[must_use]
pub fn retry_over_budget(route: Route<'_>, previous: Cause<'_>) -> LogLine {
    LogLine::core(
        Level::Warn,
        format!(
            "No retry for {route}: the provider's retry budget is spent (previous attempt failed: {previous})"
        ),
    )
}

/// A retry served.
#[must_use]
pub fn retries_succeeded(route: Route<'_>, retries: u32) -> LogLine {
    LogLine::core(
        Level::Info,
        format!("Request to {route} succeeded after {retries} retry attempt(s)"),
    )
}

/// No retry served.
#[must_use]
pub fn retries_exhausted(route: Route<'_>, attempts: u32, last: Cause<'_>) -> LogLine {
    LogLine::core(
        Level::Error,
        format!("Retries exhausted for {route} after {attempts} attempt(s); last error: {last}"),
    )
}

/// The request used up its attempts before its legs.
#[must_use]
pub fn attempts_exhausted(max_attempts: u32) -> LogLine {
    LogLine::core(
        Level::Error,
        format!("The request made all {max_attempts} attempts it may make; giving up"),
    )
}

// Holds.

/// A refusal held a key, whole or for one model. `wait_ms` is the hold's, `stated_ms` what the
/// provider asked for, if it did.
#[must_use]
pub fn refused(
    provider: &ProviderId,
    key: &KeyId,
    model: Option<&ModelId>,
    reason: Reason,
    wait_ms: u64,
    stated_ms: Option<u64>,
) -> LogLine {
    let model = model.map_or_else(String::new, |model| format!(" for {model}"));
    let wait = Seconds(wait_ms);
    let consequence = match stated_ms {
        Some(stated_ms) if stated_ms < wait_ms => format!(
            "It asked for {}; holding that key back for {wait}, which is the shortest hold the load balancer applies",
            Seconds(stated_ms)
        ),
        Some(_) | None => {
            format!("Holding that key back for {wait}, then checking whether it can serve again")
        }
    };
    LogLine::loadbalancing(
        Level::Warn,
        format!(
            "{provider} refused key {key}{model}: {}. {consequence}",
            refusal_words(reason)
        ),
    )
}

/// Held keys were passed over: `skipped` of the `keys` that may serve the model.
#[must_use]
pub fn skipping(skipped: usize, keys: usize, route: Route<'_>) -> LogLine {
    LogLine::loadbalancing(
        Level::Info,
        format!("Skipping {skipped} of {keys} keys for {route} that the provider refused"),
    )
}

/// The attempt is the check of a held key.
#[must_use]
pub fn checking(key: &KeyId, route: Route<'_>) -> LogLine {
    LogLine::loadbalancing(
        Level::Info,
        format!("Checking whether key {key} can serve {route} again after the provider refused it"),
    )
}

/// A held key served.
#[must_use]
pub fn serving_again(key: &KeyId, route: Route<'_>) -> LogLine {
    LogLine::loadbalancing(Level::Info, format!("Key {key} is serving {route} again"))
}

/// Every key is held, so the one due soonest is used.
#[must_use]
pub fn every_key_held(keys: usize, key: &KeyId, route: Route<'_>) -> LogLine {
    LogLine::loadbalancing(
        Level::Info,
        format!(
            "The provider refused all {keys} keys for {route}; using key {key}, which is due soonest"
        ),
    )
}

/// A pinned key is held and used all the same.
#[must_use]
pub fn pinned_key_held(key: &KeyId, route: Route<'_>) -> LogLine {
    LogLine::loadbalancing(
        Level::Info,
        format!(
            "The request is pinned to key {key}, which the provider refused for {route}; using it all the same"
        ),
    )
}

const fn refusal_words(reason: Reason) -> &'static str {
    match reason {
        Reason::Credential => "the key was rejected",
        Reason::Quota => "the account is out of quota",
        Reason::ModelAccess => "the key cannot reach this model",
        Reason::ModelGone => "the model is retired",
        Reason::RegionBlocked => "the provider does not serve this location",
        Reason::RateLimit => "a rate limit was reached",
    }
}

/// Milliseconds as seconds: `30s`, `1.5s`.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000, self.0 % 1_000);
        if rest == 0 {
            return write!(out, "{whole}s");
        }
        let digits = format!("{rest:03}");
        write!(out, "{whole}.{}s", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests;
