//! H3: after healing and quiet, all tables are equal, and so are their digests.

use super::{Verdict, law};
use crate::world::World;

pub(super) fn all_tables_are_equal(world: &World<'_>) -> Verdict {
    let first = &world.nodes[0];
    let (table, digest) = (first.records(world.time), first.ledger.digest());
    for node in &world.nodes[1..] {
        let is_equal = node.records(world.time) == table && node.ledger.digest() == digest;
        law("H3", is_equal, || format!("n0 and n{} differ", node.number))?;
    }
    let held = table.iter().filter(|record| record.register.is_held());
    let held = held.count();
    law("H3", first.ledger.held_count() == held, || {
        format!("{held} are held, counted as {}", first.ledger.held_count())
    })
}
