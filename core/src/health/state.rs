//! The four states of a route, and what leads from one to the next.
//!
//! ```text
//!            errors, slow            keeps failing
//!   Healthy ------------> Degraded ----------------> Failed
//!      ^ \ <------------/  settles                   ^  | ^
//!      |  `--- a burst of errors --------------------'  | | fails again
//!      |                                          rest, | |
//!      `--- earns its share back --- Recovering <-------' |
//!                                        `----------------'
//! ```
//! A hold is not in here: whoever reads a state reads the holds too. A held route waits at the start of
//! its recovery.

use super::State;
use super::tuning::{
    BURST_IN_A_ROW, BURST_RATE, BURST_REQUESTS, DEGRADED_FAILURES, DEGRADED_LEAST_MS,
    DEGRADED_RATE, DEGRADED_SLOWNESS, FAILED_RATE, RAMP_IDLE_MOST, RAMP_IDLE_STEP, RAMP_STEP,
    RELAPSE_RATE, REST_MS, SETTLED_FAILURES, SETTLED_RATE, SETTLED_SLOWNESS,
};
use super::window::{Errors, Tally};

/// A state, with what it needs to know of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Phase {
    #[default]
    Healthy,
    Degraded,
    Failed,
    Recovering {
        /// From 0 to 1.
        progress: f64,
    },
}

/// What a recompute sees of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    pub(super) errors: Errors,
    /// Since the last recompute.
    pub(super) period: Tally,
    /// The greater of its ratios to peers and to what is usual.
    pub(super) slowness: f64,
    /// How long the phase has lasted.
    pub(super) lasted_ms: u64,
}

impl Phase {
    pub(super) const RECOVERING: Self = Self::Recovering { progress: 0.0 };

    pub(super) const fn state(self) -> State {
        match self {
            Self::Healthy => State::Healthy,
            Self::Degraded => State::Degraded,
            Self::Failed => State::Failed,
            Self::Recovering { .. } => State::Recovering,
        }
    }

    /// The phase after a recompute.
    pub(super) fn next(self, signs: &Signs) -> Self {
        match self {
            Self::Healthy | Self::Degraded if fails(signs) => Self::Failed,
            Self::Healthy if is_troubled(signs) => Self::Degraded,
            Self::Degraded if signs.lasted_ms >= DEGRADED_LEAST_MS && is_settled(signs) => {
                Self::Healthy
            }
            Self::Failed if signs.lasted_ms >= REST_MS => Self::RECOVERING,
            Self::Recovering { progress } => recovered(progress, signs.period),
            Self::Healthy | Self::Degraded | Self::Failed => self,
        }
    }
}

fn fails(signs: &Signs) -> bool {
    let burst = signs.period.total() >= BURST_REQUESTS && signs.period.rate() >= BURST_RATE;
    burst || signs.errors.in_a_row >= BURST_IN_A_ROW || signs.errors.rate() >= FAILED_RATE
}

fn is_troubled(signs: &Signs) -> bool {
    let errors = &signs.errors;
    let errs = errors.rate() >= DEGRADED_RATE && errors.failures() >= DEGRADED_FAILURES;
    errs || signs.slowness >= DEGRADED_SLOWNESS
}

fn is_settled(signs: &Signs) -> bool {
    let errors = &signs.errors;
    let is_clean = errors.rate() < SETTLED_RATE || errors.failures() < SETTLED_FAILURES;
    is_clean && signs.slowness < SETTLED_SLOWNESS
}

fn recovered(progress: f64, period: Tally) -> Phase {
    let progress = match period {
        Tally { failed: 1.., .. } if period.rate() >= RELAPSE_RATE => return Phase::Failed,
        Tally { served: 0, .. } => progress.max((progress + RAMP_IDLE_STEP).min(RAMP_IDLE_MOST)),
        _ if period.rate() < DEGRADED_RATE => progress + RAMP_STEP,
        _ => progress,
    };
    if progress >= 1.0 {
        Phase::Healthy
    } else {
        Phase::Recovering { progress }
    }
}

#[cfg(test)]
mod tests;
