//! H9: a release that was acknowledged to an operator survives a crash of the whole fleet.

use super::{Verdict, law};
use crate::world::World;

pub(super) fn acknowledged_releases_survive(world: &World<'_>) -> Verdict {
    for id in &world.acknowledged {
        let record = &world.chronicle.made(*id).record;
        for node in &world.nodes {
            // A later release, even one that never heard of this, releases all the same.
            let shown = node.ledger.record(&record.subject);
            let is_kept =
                shown.is_some_and(|shown| shown.register.release >= record.register.release);
            law("H9", is_kept, || {
                format!("n{} lost release r{id}", node.number)
            })?;
        }
    }
    Ok(())
}
