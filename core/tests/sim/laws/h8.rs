//! H8: after a hand-over, joiner and giver hold the same table.

use super::{Verdict, law};
use crate::world::World;

pub(super) fn both_hold_the_same_table(world: &World<'_>, giver: usize, joiner: usize) -> Verdict {
    let tables = [giver, joiner].map(|node| world.nodes[node].records(world.time));
    law("H8", tables[0] == tables[1], || {
        format!("n{giver} and n{joiner} differ")
    })
}
