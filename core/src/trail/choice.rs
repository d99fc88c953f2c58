//! What is told of choices: of providers, of fallbacks, of a session's place.

use std::fmt;

use super::{Level, LogLine, Route};
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::routing::provider::Direction;

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
