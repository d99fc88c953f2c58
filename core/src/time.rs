//! Two kinds of time that must not be mixed: deadlines of this process, and instants that travel.
//!
//! Decisions are made on [`Mono`]. [`WallMs`] is shown to people and carried between nodes, and
//! orders nothing. [`Hlc`] orders releases and holds across nodes whose clocks disagree.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

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
        match wall.0.cmp(&self.last_ms) {
            Ordering::Greater => (self.last_ms, self.last_counter) = (wall.0, 0),
            Ordering::Less | Ordering::Equal => match self.last_counter.checked_add(1) {
                Some(next) => self.last_counter = next,
                None => (self.last_ms, self.last_counter) = (self.last_ms.saturating_add(1), 0),
            },
        }
        Hlc {
            ms: self.last_ms,
            counter: self.last_counter,
            node: self.node,
        }
    }

    /// Learns of a stamp issued elsewhere. Stamps from the future are accepted: dropping them would
    /// break convergence.
    pub fn observe(&mut self, seen: Hlc) {
        if (seen.ms, seen.counter) > (self.last_ms, self.last_counter) {
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
}
