//! What a request tells of itself: one entry per attempt, one line per decision.
//!
//! Every wording is here. Never a provider's words, never a secret: names, ids, classes, numbers.

use std::fmt;

use serde::Serialize;

use crate::failure::{FailureClass, Reason};
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::routing::provider::Direction;

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

// Providers.

/// Why a request that names no provider begins where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// Nothing does better.
    Best,
    /// So many do as well.
    Drawn(usize),
    /// It finds out whether a held key serves again.
    Check,
    /// The provider is Recovering, and proves itself.
    Proof,
    /// All are failing, and it is the least bad.
    LeastBad,
}

impl fmt::Display for Because {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => out.write_str("it does best"),
            Self::Drawn(count) => write!(out, "drawn from {count} that do equally well"),
            Self::Check => out.write_str("a key of it is due for a check"),
            Self::Proof => out.write_str("it earns its traffic back"),
            Self::LeastBad => out.write_str("every provider is failing, and it is the least bad"),
        }
    }
}

/// Why a request stays with a provider that is failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaysBecause {
    /// `reroute_failed_directions` is off.
    RedirectOff,
    /// No other provider that serves the model is better.
    NothingHealthier,
}

/// The provider of a request that named none.
#[must_use]
pub fn provider_chosen(
    route: Route<'_>,
    candidates: usize,
    because: Because,
    direction: Direction,
) -> LogLine {
    let Route { provider, model } = route;
    let Direction { state, score, .. } = direction;
    LogLine::loadbalancing(
        Level::Info,
        format!(
            "Chose provider {provider} of {candidates} for {model}: {because} ({}, score {score:.2})",
            state.name()
        ),
    )
}

/// A failing provider is not chosen for a request that names none.
#[must_use]
pub fn provider_left_out(route: Route<'_>, held: bool) -> LogLine {
    LogLine::loadbalancing(
        Level::Info,
        format!("Leaving out {route}: {}", route.failing(held)),
    )
}

/// A provider with a held key that is due gets one request, to find out.
#[must_use]
pub fn provider_checked(route: Route<'_>, held_on_every_key: bool) -> LogLine {
    let refused = if held_on_every_key {
        "it refused every key, and one"
    } else {
        "a key that it refused"
    };
    LogLine::loadbalancing(
        Level::Info,
        format!("Sending this request to {route} first: {refused} is due for a check"),
    )
}

/// A request leaves the provider it named.
#[must_use]
pub fn redirected(from: Route<'_>, to: Route<'_>, held: bool) -> LogLine {
    let why = from.failing(held);
    LogLine::loadbalancing(
        Level::Info,
        format!("Moving this request from {from} to {to}: {why}"),
    )
}

/// A request stays with the provider it named, although that is failing.
#[must_use]
pub fn kept_on_failing(route: Route<'_>, because: StaysBecause) -> LogLine {
    let why = match because {
        StaysBecause::RedirectOff => "redirecting is off",
        StaysBecause::NothingHealthier => "no other provider of the model does better",
    };
    LogLine::loadbalancing(
        Level::Info,
        format!("Keeping this request on {route}, which is failing: {why}"),
    )
}

/// A redirect leads to a provider that lacks the pinned key.
#[must_use]
pub fn pin_not_there(route: Route<'_>) -> LogLine {
    LogLine::loadbalancing(
        Level::Warn,
        format!("Skipping {route}: it does not have the key that the request is pinned to"),
    )
}

/// A redirect takes the caller's own key along.
#[must_use]
pub fn own_key_moved(route: Route<'_>) -> LogLine {
    LogLine::loadbalancing(
        Level::Warn,
        format!(
            "The caller's own key goes along to {route}, for which it may not have been issued"
        ),
    )
}

/// Providers were added behind a request's own fallbacks.
#[must_use]
pub fn fallbacks_added<'a>(
    count: usize,
    model: &ModelId,
    providers: impl Iterator<Item = &'a ProviderId>,
) -> LogLine {
    const NAMED: usize = 8;
    let mut message = format!("Added {count} fallback(s) for {model}: ");
    for (at, provider) in providers.take(NAMED).enumerate() {
        if at > 0 {
            message.push_str(", ");
        }
        message.push_str(provider.as_str());
    }
    if count > NAMED {
        message.push_str(", ...");
    }
    LogLine::loadbalancing(Level::Info, message)
}

/// One of the request's own fallbacks was dropped.
#[must_use]
pub fn fallback_pruned(route: Route<'_>, held: bool) -> LogLine {
    LogLine::loadbalancing(
        Level::Info,
        format!("Dropping fallback {route}: {}", route.failing(held)),
    )
}

/// Why a provider counts as failing: every key of it is held, or not all of them are.
#[derive(Clone, Copy, Debug)]
pub struct Failing<'a> {
    /// Which.
    pub provider: &'a ProviderId,
    /// Every key is held.
    pub held: bool,
}

impl fmt::Display for Failing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.held {
            write!(out, "{} refused every key", self.provider)
        } else {
            write!(out, "every key of {} is failing", self.provider)
        }
    }
}

impl<'a> Route<'a> {
    const fn failing(self, held: bool) -> Failing<'a> {
        Failing {
            provider: self.provider,
            held,
        }
    }
}

// Sessions.

/// The request's session keeps the provider that serves it; routing would have begun elsewhere.
#[must_use]
pub fn session_stays(on: Route<'_>, asked: &ModelId, proposed: Route<'_>) -> LogLine {
    LogLine::session(format!(
        "Session stays on {on} for {asked}; routing proposed {proposed}"
    ))
}

/// The request's session leaves its provider.
#[must_use]
pub fn session_leaves(route: Route<'_>, asked: &ModelId, held: bool) -> LogLine {
    LogLine::session(format!(
        "Session leaves {route} for {asked}: {}",
        route.failing(held)
    ))
}

/// The request's session keeps the key that serves it.
#[must_use]
pub fn session_key_stays(key: &str, route: Route<'_>) -> LogLine {
    LogLine::session(format!("Session stays on key {key} of {route}"))
}

/// The request's session leaves its key.
#[must_use]
pub fn session_key_leaves(key: &KeyId, route: Route<'_>, why: &str) -> LogLine {
    LogLine::session(format!("Session leaves key {key} of {route}: {why}"))
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
