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
use crate::time::Hlc;

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

/// What a key's weight is multiplied with.
#[must_use]
pub const fn weight_factor(is_dry: bool) -> f64 {
    if is_dry { DRY_WEIGHT } else { 1.0 }
}

/// What the score of a provider is multiplied with, of whose keys so many are dry.
#[must_use]
pub fn score_factor(dry: u32, of: u32) -> f64 {
    if dry == 0 {
        return 1.0;
    }
    1.0 - (1.0 - DRY_SCORE) * f64::from(dry) / f64::from(of.max(dry))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::routing::fixture::{key, model, provider, view};
    use crate::time::Mono;

    /// The score of a provider of these keys, each dry or not, at an instant before and one after.
    fn scores(dry: &[bool]) -> (f64, f64) {
        let keys = ["a", "b", "c"].into_iter().zip(dry).map(|(id, dry)| {
            let mut key = key(id);
            if *dry {
                key.dry = Arc::new([(model(), Mono(10))].into());
            }
            key
        });
        let provider = provider("p", keys);
        let view = view([provider.clone()]);
        let score = |now| view.direction(&provider, &model(), now).score;
        (score(Mono(9)), score(Mono(10)))
    }

    #[test]
    fn a_provider_whose_keys_are_dry_comes_a_little_later() {
        let of_none = scores(&[false, false, false]).0;
        let (of_one, after) = scores(&[true, false, false]);
        let (of_all, _) = scores(&[true, true, true]);
        assert!(
            of_none > of_one && of_one > of_all,
            "{of_none} {of_one} {of_all}"
        );
        assert!((of_all - of_none * DRY_SCORE).abs() < 1e-9, "{of_all}");
        assert!((after - of_none).abs() < f64::EPSILON, "it ends by itself");
        assert!(of_all > 0.5, "a failing provider is worse");
    }
}
