//! How long a hold lasts: the ladder, its caps, stated waits and each node's own jitter.

use super::record::{Register, Subject, Wait};
use crate::failure::Reason;

/// How long a flapping key's rung is remembered after it served.
pub const MEMORY_MS: u64 = 600_000;

/// The un-jittered ladder wait: min(cap, 30 s x 2^rung).
#[must_use]
pub fn ladder_ms(_reason: Reason, _rung: u8) -> u64 {
    unimplemented!()
}

/// The wait of a refusal: the stated one (clamped to 1 s..5 min, then at least 10 s) or the ladder's.
#[must_use]
pub fn wait(_reason: Reason, _rung: u8, _stated_ms: Option<u64>) -> Wait {
    unimplemented!()
}

/// This node's own wait: jittered by a hash of (node, subject, release, seq) unless it was stated.
#[must_use]
pub fn own_wait_ms(_node: u64, _subject: &Subject, _register: &Register) -> u64 {
    unimplemented!()
}
