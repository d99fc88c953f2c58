//! A node's clocks: monotonic time that `--time-scale` speeds up, and the wall's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdline_core::time::{Mono, WallMs};

/// Reads both clocks. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock {
    started: Instant,
    started_wall: WallMs,
    scale: f64,
    skipped_ms: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that starts now and lives `scale` times faster than the wall.
    #[must_use]
    pub fn start(scale: f64) -> Self {
        // The wall first: what is shown is then never later than it will be.
        let started_wall = wall_now();
        Self {
            started: Instant::now(),
            started_wall,
            scale,
            skipped_ms: Arc::default(),
        }
    }

    /// The node's own time.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "elapsed time is positive, and 2^53 ms are 285,000 years"
    )]
    pub fn now(&self) -> Mono {
        let lived = Mono((self.started.elapsed().as_secs_f64() * 1_000.0 * self.scale) as u64);
        lived.plus_ms(self.skipped_ms.load(Ordering::Relaxed))
    }

    /// From now on the node's own time is so many milliseconds later, as if they had passed: for tests
    /// of what is due in minutes. Who sleeps already is not woken.
    pub fn skip(&self, ms: u64) {
        self.skipped_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// The wall clock.
    #[must_use]
    pub fn wall(&self) -> WallMs {
        wall_now()
    }

    /// How many times faster than the wall.
    #[must_use]
    pub const fn scale(&self) -> f64 {
        self.scale
    }

    /// The real time that this many of the node's milliseconds take.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "waits are far below 2^53 ms")]
    pub fn real(&self, ms: u64) -> Duration {
        Duration::from_secs_f64(ms as f64 / 1_000.0 / self.scale)
    }

    /// How long to sleep until then.
    #[must_use]
    pub fn until(&self, then: Mono) -> Duration {
        self.real(then.since_ms(self.now()))
    }

    /// The wall time at which the node's own clock will show `then` (or showed it).
    ///
    /// Counted from the start, so that one instant is one text however often it is shown; from the wall
    /// clock as it is where that has moved since.
    #[must_use]
    pub fn wall_at(&self, then: Mono) -> WallMs {
        let since_start = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let expected = self
            .started_wall
            .0
            .saturating_add(since_start(self.uptime()));
        let moved_ms = self.wall().0.abs_diff(expected);
        let start = if moved_ms < TOLERATED_MS {
            self.started_wall.0
        } else if self.wall().0 > expected {
            self.started_wall.0.saturating_add(moved_ms)
        } else {
            self.started_wall.0.saturating_sub(moved_ms)
        };
        let lived = then
            .0
            .saturating_sub(self.skipped_ms.load(Ordering::Relaxed));
        WallMs(start.saturating_add(since_start(self.real(lived))))
    }

    /// Since the node started, in real time.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

/// How far the wall clock may be from where it is expected before it counts as moved.
const TOLERATED_MS: u64 = 1_000;

fn wall_now() -> WallMs {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    WallMs(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_is_always_shown_as_the_same() {
        let before = wall_now();
        let clock = Clock::start(20.0);
        let then = clock.now().plus_ms(30_000);
        let shown = clock.wall_at(then);
        let real = before.0 + 1_500..=wall_now().0 + 1_500;
        assert!(real.contains(&shown.0), "{shown:?} is not in {real:?}");
        let first = clock.now();
        while clock.now() == first {
            std::hint::spin_loop();
        }
        assert_eq!(clock.wall_at(then), shown);
    }

    #[test]
    fn what_is_skipped_has_passed_for_the_node_alone() {
        let clock = Clock::start(1.0);
        let before = clock.now();
        clock.clone().skip(60_000);
        let now = clock.now();
        assert!(now.since_ms(before) >= 60_000);
        assert!(clock.wall_at(now) <= clock.wall());
    }
}
