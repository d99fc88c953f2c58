//! Two kinds of time that must not be mixed: deadlines of this process, and instants that travel.
//!
//! Decisions are made on [`Mono`]. [`WallMs`] is shown to people and carried between nodes, and
//! orders nothing. [`Hlc`] orders releases and holds across nodes whose clocks disagree.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Milliseconds of this node's own monotonic clock, already multiplied by `--time-scale`.
///
/// Waits are added to it unscaled, so the rules read the same at every scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// The instant this many milliseconds later.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds since `earlier`, 0 if that is later.
    #[must_use]
    pub const fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds since the Unix epoch by some node's wall clock, which may be wrong.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WallMs(pub u64);

/// Hybrid logical clock stamp: wall time where it moves forward, a counter where it does not.
///
/// `node` is a hash of a node's id and generation, so two lives of a node never issue the same stamp.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Hlc {
    /// Wall milliseconds, or the highest seen.
    pub ms: u64,
    /// Counts stamps issued within one `ms`.
    pub counter: u32,
    /// Who issued it.
    pub node: u64,
}

impl Hlc {
    /// No clock gets here (the year 287,396), so ticks above a plausible stamp never overflow.
    pub const MAX_MS: u64 = 1 << 53;

    /// False for stamps that no node issues. Every node refuses them alike, so tables still converge.
    #[must_use]
    pub const fn is_plausible(self) -> bool {
        // Room above: a node at the limit goes on counting.
        self.ms <= Self::MAX_MS + (1 << 32)
    }

    /// Adds the stamp to a hash.
    pub(crate) fn feed(self, hash: &mut Sha256) {
        hash.update(self.ms.to_be_bytes());
        hash.update(self.counter.to_be_bytes());
        hash.update(self.node.to_be_bytes());
    }
}

/// Issues stamps above everything this node has issued or seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HlcClock {
    node: u64,
    last_ms: u64,
    last_counter: u32,
}

impl HlcClock {
    /// A clock for one life of a node.
    #[must_use]
    pub const fn new(node: u64) -> Self {
        Self {
            node,
            last_ms: 0,
            last_counter: 0,
        }
    }

    /// The next stamp: greater than every stamp issued or observed before, whatever `wall` says.
    pub fn tick(&mut self, wall: WallMs) -> Hlc {
        let stamp = self.peek(wall);
        self.observe(stamp);
        stamp
    }

    /// The stamp that [`HlcClock::tick`] would issue. Whoever uses it must [`HlcClock::observe`] it.
    #[must_use]
    pub fn peek(&self, wall: WallMs) -> Hlc {
        let wall_ms = wall.0.min(Hlc::MAX_MS);
        let (ms, counter) = match wall_ms.cmp(&self.last_ms) {
            Ordering::Greater => (wall_ms, 0),
            Ordering::Less | Ordering::Equal => self
                .last_counter
                .checked_add(1)
                .map_or((self.last_ms.saturating_add(1), 0), |next| {
                    (self.last_ms, next)
                }),
        };
        Hlc {
            ms,
            counter,
            node: self.node,
        }
    }

    /// Learns of a stamp issued elsewhere. Stamps from the future are accepted: dropping them would
    /// break convergence.
    pub fn observe(&mut self, seen: Hlc) {
        if (seen.ms, seen.counter) > (self.last_ms, self.last_counter) && seen.is_plausible() {
            (self.last_ms, self.last_counter) = (seen.ms, seen.counter);
        }
    }

    /// How far the clock runs ahead of `wall`, for the alarm on clocks that are wrong.
    #[must_use]
    pub const fn ahead_ms(&self, wall: WallMs) -> u64 {
        self.last_ms.saturating_sub(wall.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_when_the_wall_stands_still_or_falls_back() {
        let mut clock = HlcClock::new(1);
        let first = clock.tick(WallMs(100));
        let second = clock.tick(WallMs(100));
        let third = clock.tick(WallMs(50));
        assert!(first < second && second < third);
    }

    #[test]
    fn a_tick_dominates_what_was_observed_from_a_fast_clock() {
        let mut clock = HlcClock::new(1);
        let foreign = Hlc {
            ms: 1_000_000,
            counter: u32::MAX,
            node: u64::MAX,
        };
        clock.observe(foreign);
        assert!(clock.tick(WallMs(5)) > foreign);
    }

    #[test]
    fn a_stamp_that_no_clock_issues_cannot_exhaust_the_clock() {
        let mut clock = HlcClock::new(1);
        clock.observe(Hlc {
            ms: u64::MAX,
            counter: u32::MAX,
            node: 9,
        });
        let first = clock.tick(WallMs(u64::MAX));
        assert!(first.is_plausible());
        assert!(clock.tick(WallMs(u64::MAX)) > first);
    }

    #[test]
    fn peeking_issues_nothing() {
        let mut clock = HlcClock::new(1);
        let seen = clock.peek(WallMs(7));
        assert_eq!(seen, clock.peek(WallMs(7)));
        assert_eq!(seen, clock.tick(WallMs(7)));
        assert!(clock.peek(WallMs(7)) > seen);
    }
}
