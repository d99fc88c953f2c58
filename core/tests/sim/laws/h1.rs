//! H1: no hold is lost that a node knows, save to a release that the hold had not seen.

use super::{Verdict, law};
use crate::world::World;

/// A node shows something of every subject it was told of, and nothing older than what it was told.
pub(super) fn no_hold_is_lost(world: &World<'_>, node: usize) -> Verdict {
    let here = &world.nodes[node];
    for (subject, known) in &here.known {
        let record = here.ledger.record(subject);
        let shown = record.and_then(|record| world.chronicle.id(record));
        let Some(shown) = shown else {
            return law("H1", false, || {
                format!("n{node} shows nothing of {subject:?}")
            });
        };
        let newer = known
            .iter()
            .find(|id| world.chronicle.made(*id).past.has(shown));
        law("H1", newer.is_none(), || {
            format!("n{node} shows r{shown} and knows r{}", newer.unwrap_or(0))
        })?;
        // What is shown may only lose against another hold, or against a release.
        let is_explained = known.has(shown);
        law("H1", is_explained, || {
            format!("n{node} shows r{shown}, which nobody told it")
        })?;
        let made = world.chronicle.made(shown);
        let lost = !made.is_hold() && !made.is_release();
        law("H1", !lost, || {
            format!("n{node} is free by r{shown}, which released nothing")
        })?;
    }
    Ok(())
}
