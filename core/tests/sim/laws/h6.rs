//! H6: the ladder: its bounds and caps, exact stated waits, and this node's own deadlines.

use holdline_core::failure::Reason;
use holdline_core::holds::Body;

use super::{Verdict, law};
use crate::chronicle::Id;
use crate::world::{KEYS, World};

/// Longest wait in seconds, written down a second time.
pub(super) const fn cap_s(reason: Reason) -> u64 {
    match reason {
        Reason::Credential => 15 * 60,
        Reason::Quota => 5 * 60,
        Reason::ModelAccess => 5 * 60,
        Reason::ModelGone => 30 * 60,
        Reason::RegionBlocked => 15 * 60,
        Reason::RateLimit => 2 * 60,
    }
}

pub(super) fn ladder_ms(reason: Reason, rung: u8) -> u64 {
    let doubled = (0..rung).fold(30, |wait: u64, _| wait.saturating_mul(2));
    doubled.min(cap_s(reason)) * 1_000
}

/// What is shared is the wait without jitter: the ladder's, or one that was stated.
pub(super) fn waits_are_those_of_the_ladder(world: &World<'_>, id: Id) -> Verdict {
    let Body::Held {
        rung, reason, wait, ..
    } = world.chronicle.made(id).record.register.body
    else {
        return Ok(());
    };
    let is_right = if wait.stated {
        (10_000..=300_000).contains(&wait.ms)
    } else {
        wait.ms == ladder_ms(reason, rung)
    };
    law("H6", is_right, || {
        format!("r{id} waits {wait:?} on rung {rung}")
    })
}

/// A node is due within a tenth of the shared wait, never past the cap, never before a stated time.
pub(super) fn deadlines_keep_their_bounds(world: &World<'_>, node: usize) -> Verdict {
    let here = &world.nodes[node];
    for number in 0..KEYS {
        let holds = here.holds(world.rules, number);
        for hold in holds.key.iter().chain(holds.models.values()) {
            let Body::Held { reason, wait, .. } = hold.register.body else {
                continue;
            };
            let shown = here
                .shown
                .values()
                .find(|shown| world.chronicle.made(shown.id).record.register == hold.register);
            let Some(shown) = shown else { continue };
            let (shortest, longest) = if wait.stated {
                (wait.ms, wait.ms)
            } else {
                let cap_ms = cap_s(reason) * 1_000;
                (wait.ms * 9 / 10, (wait.ms * 11 / 10).min(cap_ms))
            };
            let at = |wait_ms: u64| shown.at + wait_ms.saturating_sub(shown.age_ms);
            let due = here.true_time(hold.due);
            // Once due, it does not matter since when.
            let latest = at(longest).max(world.time);
            law("H6", (at(shortest)..=latest).contains(&due), || {
                let from = at(shortest);
                format!(
                    "n{node} is due with r{} at {due}, not {from}..={latest}",
                    shown.id
                )
            })?;
        }
    }
    Ok(())
}
