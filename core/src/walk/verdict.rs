//! What a failure means for its leg.

use super::Ending;
use super::Failure;
use super::rotation::Call;
use crate::failure::class::Retry;
use crate::failure::{FailureClass, Reason};

/// Whose keys a leg may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    /// The provider's.
    Keys,
    /// The one that the caller pinned, or brought along: there is no other to go to.
    OneKey,
    /// None are needed: statuses that speak of a key are retried like an outage.
    Keyless,
}

/// What follows a failure within its leg.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next attempt, without waiting.
    AtOnce {
        /// The failed attempt is not charged.
        granted: bool,
        /// With which key.
        call: Call,
    },
    /// The next attempt, after the backoff of the retry of this number, from 0.
    Backoff {
        /// Its number.
        retry: u32,
        /// With which key.
        call: Call,
    },
    /// No further attempt of this leg.
    LegOver,
}

/// How a leg that made an attempt failed.
#[derive(Debug)]
pub(super) struct LegEnd {
    /// What the caller gets, if it was the primary.
    pub(super) ending: Ending,
    /// The last failure.
    pub(super) last: Failure,
    /// How many attempts were made, where retrying came to its end.
    pub(super) retried: Option<u32>,
}

/// What a class means for a pool.
pub(super) fn retry(class: FailureClass, pool: Pool) -> Retry {
    match (class.retry(), pool) {
        (Retry::NextKeyGranted, Pool::Keys) => Retry::NextKeyGranted,
        (Retry::NextKeyGranted, Pool::Keyless) if is_account(class) => Retry::SameKey,
        (Retry::NextKeyGranted, Pool::OneKey | Pool::Keyless) => Retry::None,
        (Retry::NextKeyCharged, Pool::Keys) => Retry::NextKeyCharged,
        (Retry::NextKeyCharged, Pool::OneKey | Pool::Keyless) => Retry::SameKey,
        (Retry::SameKey, Pool::Keys | Pool::OneKey | Pool::Keyless) => Retry::SameKey,
        (Retry::None, Pool::Keys | Pool::OneKey | Pool::Keyless) => Retry::None,
    }
}

/// A refusal of the account behind the key: no model and no location is at fault.
pub(super) fn is_account(class: FailureClass) -> bool {
    matches!(class.reason(), Some(Reason::Credential | Reason::Quota))
}

/// A refusal of the model or the location: the caller should see it whichever key died last.
pub(super) fn is_model_or_region(class: FailureClass) -> bool {
    matches!(
        class.reason(),
        Some(Reason::ModelAccess | Reason::ModelGone | Reason::RegionBlocked)
    )
}
