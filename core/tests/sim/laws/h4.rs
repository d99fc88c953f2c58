//! H4: at most one check per node and due period; and a slot that is taken has a check.

use std::collections::BTreeMap;

use holdline_core::holds::{Register, Subject};

use super::{Verdict, law};
use crate::chronicle::Id;
use crate::world::{Call, SCOPES, Why, World};

/// After so long without a report another request may check.
const LIMIT_MS: u64 = 300_000;

/// The checks that were sent, as the provider's side counts them.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    sent: Vec<Check>,
    /// By number of the call.
    of_call: BTreeMap<usize, Vec<usize>>,
}

#[derive(Debug)]
struct Check {
    node: usize,
    life: u64,
    subject: Subject,
    register: Register,
    id: Id,
    /// Until then nobody else may check; none once it was answered.
    until: Option<u64>,
}

impl Checks {
    /// The call was answered, or its caller left.
    pub(crate) fn end(&mut self, call: usize, abandoned_until: Option<u64>) {
        for at in self.of_call.remove(&call).unwrap_or_default() {
            self.sent[at].until = abandoned_until;
        }
    }
}

pub(super) fn one_check_per_period(world: &mut World<'_>, number: usize, call: &Call) -> Verdict {
    if call.why != Why::Check {
        return Ok(());
    }
    for (at, scope) in SCOPES.into_iter().enumerate() {
        let held = call.launch[at].filter(|id| world.chronicle.made(*id).is_hold());
        let Some(id) = held else { continue };
        let subject = call.subject(scope);
        let earlier = world
            .checks
            .sent
            .iter()
            .rev()
            .find(|check| (check.node, check.life, check.id) == (call.node, call.life, id));
        if let Some(earlier) = earlier {
            let is_over = earlier.until.is_some_and(|until| until <= world.time);
            law("H4", is_over, || {
                format!("n{} checks r{id} twice", call.node)
            })?;
            world.count("checked again after silence");
        }
        let check = Check {
            node: call.node,
            life: call.life,
            register: world.chronicle.made(id).record.register,
            subject,
            id,
            until: Some(world.time + LIMIT_MS),
        };
        let of_call = world.checks.of_call.entry(number).or_default();
        of_call.push(world.checks.sent.len());
        world.checks.sent.push(check);
    }
    Ok(())
}

pub(super) fn a_taken_slot_has_a_check(world: &World<'_>, node: usize) -> Verdict {
    let here = &world.nodes[node];
    let now = here.clocks(world.time).now;
    for number in 0..crate::world::KEYS {
        let holds = here.holds(world.rules, number);
        for hold in holds.key.iter().chain(holds.models.values()) {
            if !hold.register.is_held() || !hold.slot.is_taken(now) {
                continue;
            }
            let generation = |register: &Register| (register.release, register.seq);
            let is_checked = world.checks.sent.iter().rev().any(|check| {
                (check.node, check.life) == (node, here.life)
                    && generation(&check.register) == generation(&hold.register)
                    && check.subject.key == crate::world::key(number)
                    && check.until.is_some_and(|until| until > world.time)
            });
            law("H4", is_checked, || {
                format!(
                    "n{node}: the slot of {:?} is taken and nobody checks",
                    hold.register
                )
            })?;
        }
    }
    Ok(())
}
