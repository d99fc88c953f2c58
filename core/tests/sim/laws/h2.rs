//! H2: no released hold comes back: not after restarts, not by stale snapshots, not from zombies.

use super::{Verdict, law};
use crate::world::World;

/// A hold that is shown was asked for after the last release that the node knows of.
pub(super) fn no_released_hold_comes_back(world: &World<'_>, node: usize) -> Verdict {
    let here = &world.nodes[node];
    for (subject, known) in &here.known {
        let Some(record) = here.ledger.record(subject) else {
            continue;
        };
        let Some(shown) = world.chronicle.id(record) else {
            continue;
        };
        let release = world.chronicle.last_release(known);
        let is_alive = !record.register.is_held() || world.chronicle.is_after(shown, release);
        law("H2", is_alive, || {
            format!(
                "n{node} shows hold r{shown}, released by r{}",
                release.unwrap_or(0)
            )
        })?;
    }
    Ok(())
}
