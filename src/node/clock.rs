//! A node's clocks: monotonic time that `--time-scale` speeds up, and the wall's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdline_core::time::{Mono, WallMs};

/// Reads both clocks. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    scale: f64,
}

impl Clock {
    /// A clock that starts now and lives `scale` times faster than the wall.
    #[must_use]
    pub fn start(scale: f64) -> Self {
        Self {
            started: Instant::now(),
            scale,
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
        Mono((self.started.elapsed().as_secs_f64() * 1_000.0 * self.scale) as u64)
    }

    /// The wall clock.
    #[must_use]
    pub fn wall(&self) -> WallMs {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        WallMs(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
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
    #[must_use]
    pub fn wall_at(&self, then: Mono) -> WallMs {
        let (now, wall) = (self.now(), self.wall());
        let real = |ms| u64::try_from(self.real(ms).as_millis()).unwrap_or(u64::MAX);
        WallMs(if then >= now {
            wall.0.saturating_add(real(then.since_ms(now)))
        } else {
            wall.0.saturating_sub(real(now.since_ms(then)))
        })
    }

    /// Since the node started, in real time.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}
