//! How long a retry waits.

use rand_core::RngCore;

use crate::routing::RetryPolicy;

/// Jitter: this much either way.
const SPREAD: (u32, u32) = (800, 1_200);

/// The wait before the retry of this number, from 0: min(max, min(initial x 2^n, max) x U(0.8, 1.2)).
#[must_use]
pub fn wait_ms<R: RngCore>(policy: RetryPolicy, retry: u32, rng: &mut R) -> u64 {
    let factor = 1_u64.checked_shl(retry).unwrap_or(u64::MAX);
    let base = policy
        .backoff_initial_ms
        .saturating_mul(factor)
        .min(policy.backoff_max_ms);
    let (low, high) = SPREAD;
    // Whole thousandths, so that nothing is lost for large bases.
    let step = crate::routing::key::below(usize::try_from(high - low).unwrap_or(1) + 1, rng);
    let permille = u128::from(low) + step as u128;
    let jittered = u128::from(base) * permille / 1_000;
    u64::try_from(jittered)
        .unwrap_or(u64::MAX)
        .min(policy.backoff_max_ms)
}
