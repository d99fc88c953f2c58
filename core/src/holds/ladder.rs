//! How long a hold lasts: the ladder, its caps, stated waits and each node's own jitter.

use sha2::{Digest, Sha256};

use super::record::{Body, Register, Subject, Wait};
use crate::failure::Reason;

/// How long a flapping key's rung is remembered after it served.
pub const MEMORY_MS: u64 = 600_000;

/// The wait of rung 0.
const FIRST_MS: u64 = 30_000;
/// Shorter stated waits are lengthened to this.
const STATED_MIN_MS: u64 = 10_000;
/// Longer stated waits are cut to this.
const STATED_MAX_MS: u64 = 300_000;

/// The longest ladder wait of a reason.
#[must_use]
pub const fn cap_ms(reason: Reason) -> u64 {
    match reason {
        Reason::Credential | Reason::RegionBlocked => 900_000,
        Reason::Quota | Reason::ModelAccess => 300_000,
        Reason::ModelGone => 1_800_000,
        Reason::RateLimit => 120_000,
    }
}

/// The un-jittered ladder wait: min(cap, 30 s x 2^rung).
#[must_use]
pub fn ladder_ms(reason: Reason, rung: u8) -> u64 {
    // Every cap is reached long before rung 10.
    (FIRST_MS << rung.min(10)).min(cap_ms(reason))
}

/// The wait of a refusal: the stated one (clamped to 1 s..5 min, then at least 10 s) or the ladder's.
#[must_use]
pub fn wait(reason: Reason, rung: u8, stated_ms: Option<u64>) -> Wait {
    match stated_ms {
        Some(ms) => Wait {
            ms: ms.clamp(STATED_MIN_MS, STATED_MAX_MS),
            stated: true,
        },
        None => Wait {
            ms: ladder_ms(reason, rung),
            stated: false,
        },
    }
}

/// The shared wait of a register, 0 for a free one. A record from elsewhere cannot state more than
/// the rules allow.
#[must_use]
pub fn shared_wait_ms(register: &Register) -> u64 {
    match register.body {
        Body::Free { .. } => 0,
        Body::Held { wait, .. } if wait.stated => wait.ms.min(STATED_MAX_MS),
        Body::Held { reason, wait, .. } => wait.ms.min(cap_ms(reason)),
    }
}

/// This node's own wait: jittered by a hash of (node, subject, release, seq) unless it was stated.
///
/// The factor is uniform in [0.9, min(1.1, cap / wait)]: the nodes of a cluster are not due in the same
/// instant, and the cap stays a promise.
#[must_use]
pub fn own_wait_ms(node: u64, subject: &Subject, register: &Register) -> u64 {
    let shared = shared_wait_ms(register);
    let Body::Held { reason, wait, .. } = register.body else {
        return 0;
    };
    if wait.stated {
        return shared;
    }
    let shortest = shared - shared / 10;
    let longest = (shared + shared / 10).min(cap_ms(reason));
    shortest + draw(node, subject, register) % (longest - shortest + 1)
}

fn draw(node: u64, subject: &Subject, register: &Register) -> u64 {
    let mut hash = Sha256::new();
    hash.update(b"holdline jitter v1");
    hash.update(node.to_be_bytes());
    subject.feed(&mut hash);
    register.release.feed(&mut hash);
    hash.update(register.seq.to_be_bytes());
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_doubles_up_to_the_cap_of_its_reason() {
        let seconds = |reason, rungs: u8| -> Vec<u64> {
            (0..rungs)
                .map(|rung| ladder_ms(reason, rung) / 1_000)
                .collect()
        };
        assert_eq!(
            seconds(Reason::Credential, 7),
            [30, 60, 120, 240, 480, 900, 900]
        );
        assert_eq!(seconds(Reason::Quota, 5), [30, 60, 120, 240, 300]);
        assert_eq!(seconds(Reason::ModelAccess, 5), [30, 60, 120, 240, 300]);
        assert_eq!(
            seconds(Reason::ModelGone, 8),
            [30, 60, 120, 240, 480, 960, 1800, 1800]
        );
        assert_eq!(seconds(Reason::RateLimit, 4), [30, 60, 120, 120]);
        assert_eq!(ladder_ms(Reason::ModelGone, u8::MAX), 1_800_000);
    }

    #[test]
    fn a_stated_wait_is_at_least_ten_seconds_and_at_most_five_minutes() {
        for (stated, used) in [
            (0, 10_000),
            (1_000, 10_000),
            (45_500, 45_500),
            (3_600_000, 300_000),
        ] {
            let expected = Wait {
                ms: used,
                stated: true,
            };
            assert_eq!(wait(Reason::RateLimit, 3, Some(stated)), expected);
        }
    }
}
