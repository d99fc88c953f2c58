//! H7: an old key's answer never touches the new key.

use holdline_core::failure::Scope;
use holdline_core::holds::KeyHolds;

use super::{Verdict, law};
use crate::world::{KEYS, World};

/// A key is held only for what the provider said of it as it is configured now.
pub(super) fn the_new_key_starts_free(world: &World<'_>, node: usize) -> Verdict {
    let here = &world.nodes[node];
    for number in 0..KEYS {
        let holds = here.holds(world.rules, number);
        let said = world.provider.refused.get(&here.config[number]);
        for (scope, is_held) in [(Scope::Key, key(&holds)), (Scope::Model, models(&holds))] {
            let was_refused =
                said.is_some_and(|reasons| reasons.iter().any(|reason| reason.scope() == scope));
            law("H7", was_refused || !is_held, || {
                format!("n{node} holds key {number}, which was never refused")
            })?;
        }
    }
    Ok(())
}

fn key(holds: &KeyHolds) -> bool {
    holds.key.iter().any(|hold| hold.register.is_held())
}

fn models(holds: &KeyHolds) -> bool {
    holds.models.values().any(|hold| hold.register.is_held())
}
