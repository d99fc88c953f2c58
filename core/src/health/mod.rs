//! How well keys and providers serve, as this node alone has measured it.
//!
//! ```text
//!   launched, first output, ended ──> Book ── every 5 s: recompute ──> ModelHealth in the view
//!                                      ^                                       │
//!                              holds ──┘                       key and provider choice read it
//! ```
//! A [`Book`] hears of every attempt and forgets with time. [`Book::recompute`] turns what it knows into
//! states and weights; nothing is computed while a request waits. `window` keeps what is remembered,
//! `state` has the four states, `score` makes weights, `tuning` has every number.
//!
//! Nothing in here can be serialized: health never leaves its node.

mod book;
mod route;
mod score;
mod state;
pub mod tuning;
mod window;

pub use book::{Attempted, Book, Change, Measured, Recomputed};
pub use route::{Ended, Reach, Ticket, Took};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::time::Mono;

/// The state of a key for a model, or of a provider for a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Serves: full share.
    #[default]
    Healthy,
    /// Some requests fail, it is much slower than usual, or some keys of the provider are out.
    Degraded,
    /// Was failed, and earns its share back.
    Recovering,
    /// Gets no requests.
    Failed,
}

impl State {
    /// As the API and the trail name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Recovering => "recovering",
            Self::Failed => "failed",
        }
    }
}

/// One key for one model, as of the last recompute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteHealth {
    /// Without regard to holds: a held route waits as Recovering.
    pub state: State,
    /// Share of traffic relative to the provider's other keys, from [`tuning::LEAST_WEIGHT`] to
    /// [`tuning::FULL_WEIGHT`]; 0 only while Failed. Configured weights are not in it.
    pub weight: f64,
    /// A request was sent to it since it was configured.
    pub tried: bool,
    /// When the state began.
    pub since: Mono,
}

impl RouteHealth {
    /// Of a route that nothing is known of: new ones compete for a full share.
    pub const UNMEASURED: Self = Self {
        state: State::Healthy,
        weight: tuning::FULL_WEIGHT,
        tried: false,
        since: Mono(0),
    };
}

impl Default for RouteHealth {
    fn default() -> Self {
        Self::UNMEASURED
    }
}

/// One provider for one model, as of the last recompute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelHealth {
    /// Of each key of the provider, in the order of the view's keys; one of a provider without keys.
    pub routes: Vec<RouteHealth>,
    /// Of each route, as `routes`: alive, not as of the last recompute.
    pub in_flight: Vec<InFlight>,
    /// From 0 to 1; the better provider has the higher one. While the provider is Recovering it grows
    /// with what was earned back: this part of its even share of requests without a provider starts there.
    pub score: f64,
    /// Made anew with each recompute: while the provider is Recovering, the first request without a
    /// provider after it starts there, whatever the share.
    pub turn: Turn,
}

/// What one route has to do: requests in flight, and those that failed since the last recompute. Counted
/// as they come and go.
#[derive(Clone, Debug, Default)]
pub struct InFlight(Arc<AtomicU32>);

impl InFlight {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, count: u32) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// What is in flight is no part of what was measured.
impl PartialEq for InFlight {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What one request of this node does between two recomputes.
#[derive(Clone, Debug, Default)]
pub struct Turn(Arc<AtomicBool>);

impl Turn {
    /// True for the first that asks.
    #[must_use]
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }

    /// Whether nobody took it, without taking it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Turns are no part of what was measured.
impl PartialEq for Turn {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
