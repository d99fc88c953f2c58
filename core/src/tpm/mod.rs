//! Token limits (tokens per minute): which routes of which keys have run dry, and until when.
//!
//! A dry route is no refused one: it keeps a small part of its weight instead of being held. Providers
//! tell in headers ([`Limits`]) or with a rate limit that speaks of tokens; what is learnt is a
//! [`Backoff`], which is told to the nodes of the same region and to no other, since they share the
//! limit's traffic. [`Table`] is one node's copy. Nothing of it is stored: it runs out by itself.

mod limits;
mod table;

use serde::{Deserialize, Serialize};

pub use limits::{Level, Limits};
pub use table::{MAX_BACKOFFS, Table, is_new_end};

use crate::holds::{RouteKey, Selector};
use crate::time::{Hlc, Mono};

/// The shortest backoff, in milliseconds: by the time that others hear of a shorter one it is over.
pub const SHORTEST_MS: u64 = 1_000;

/// The longest backoff, in milliseconds: also of a limit by day. The next answer renews it where it is
/// still true, and what a provider states wrongly is soon forgotten.
pub const LONGEST_MS: u64 = 300_000;

/// The backoff where no reset is stated, in milliseconds: the window that these limits are named for.
pub const UNSTATED_MS: u64 = 60_000;

/// What a dry route's weight is multiplied with. Above zero, so that the route goes on being measured and
/// is seen to be refilled; small, because most of what is sent there is refused.
pub const DRY_WEIGHT: f64 = 0.1;

/// What a provider's score is multiplied with while every key of it is dry, and in proportion while
/// some are. Little: to be refused for a minute is better than what scores are made for.
pub const DRY_SCORE: f64 = 0.9;

/// A route's token limit has run dry, or is refilled: the newest of a route counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Whose limit.
    pub route: RouteKey,
    /// When the provider said it.
    pub stamp: Hlc,
    /// How long from then, in unscaled milliseconds. 0: refilled.
    pub wait_ms: u64,
}

/// What nodes tell one another of token limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// For the nodes of the same region.
    Backoff(Backoff),
    /// An operator's release: for every node, because it may be asked of any.
    Clear {
        /// What it names.
        what: Selector,
        /// Ends every backoff that is older.
        stamp: Hlc,
    },
}

/// A signal, with what its carrier knows of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingSignal {
    /// The signal.
    pub signal: Signal,
    /// How long ago it was made, in unscaled milliseconds.
    pub age_ms: u64,
}

/// What a weight is multiplied with while its route is dry until then.
#[must_use]
pub fn weight_factor(dry_until: Option<Mono>, now: Mono) -> f64 {
    if dry_until.is_some_and(|until| until > now) {
        DRY_WEIGHT
    } else {
        1.0
    }
}
