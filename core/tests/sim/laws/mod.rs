//! The laws, one file each, judged against the chronicle after every step.

use std::fmt;

use holdline_core::holds::{Answer, Record};

use crate::chronicle::Id;
use crate::world::{Call, SCOPES, World};

mod h1;
mod h2;
mod h3;
mod h4;
mod h5;
mod h6;
mod h7;
mod h8;
mod h9;
mod table;

pub(crate) use h4::Checks;

/// A law that did not hold.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) law: &'static str,
    what: String,
}

impl Broken {
    pub(crate) const fn new(law: &'static str, what: String) -> Self {
        Self { law, what }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is broken: {}", self.law, self.what)
    }
}

type Verdict = Result<(), Broken>;

/// `Ok` where the law holds.
fn law(name: &'static str, holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(Broken::new(name, what()))
    }
}

/// What a node showed of the subjects of a call when its answer came.
#[derive(Debug)]
pub(crate) struct Before {
    shown: [Option<Id>; 2],
    /// Until the hold is due, in milliseconds.
    remaining_ms: [u64; 2],
    last_release: [Option<Id>; 2],
    /// How old the record is that the node shows.
    age_ms: [u64; 2],
}

impl Before {
    pub(crate) fn of(world: &World<'_>, call: &Call) -> Self {
        let node = &world.nodes[call.node];
        let subjects = SCOPES.map(|scope| call.subject(scope));
        let holds = node.ledger.key_holds(
            &call.route.provider,
            &call.route.key,
            call.route.fingerprint,
        );
        let now = node.clocks(world.time).now;
        let remaining = |hold: Option<&holdline_core::holds::HoldRef>| {
            hold.map_or(0, |hold| hold.due.since_ms(now))
        };
        Self {
            shown: subjects.each_ref().map(|subject| node.shown_id(subject)),
            remaining_ms: [
                remaining(holds.key.as_ref()),
                remaining(holds.models.get(&call.route.model)),
            ],
            last_release: subjects
                .each_ref()
                .map(|subject| world.chronicle.last_release(&node.knows(subject))),
            age_ms: subjects.each_ref().map(|subject| {
                node.shown
                    .get(subject)
                    .map_or(u64::MAX, |shown| shown.age_ms + world.time - shown.at)
            }),
        }
    }
}

/// What holds of a node at any time.
pub(crate) fn after_step(world: &World<'_>, node: usize) -> Verdict {
    if !world.nodes[node].is_up {
        return Ok(());
    }
    h2::no_released_hold_comes_back(world, node)?;
    h1::no_hold_is_lost(world, node)?;
    h6::deadlines_keep_their_bounds(world, node)?;
    h4::a_taken_slot_has_a_check(world, node)?;
    h7::the_new_key_starts_free(world, node)
}

/// What holds of a request when it is sent.
pub(crate) fn at_call(world: &mut World<'_>, number: usize, call: &Call) -> Verdict {
    h5::silence(world, call)?;
    h4::one_check_per_period(world, number, call)
}

/// What holds of the answer to it.
pub(crate) fn at_answer(
    world: &mut World<'_>,
    call: &Call,
    answer: &Answer,
    before: &Before,
    made: &[Record],
) -> Verdict {
    table::the_answer_does_what_the_table_says(world, call, answer, before, made)
}

/// What holds of every new record.
pub(crate) fn at_making(world: &World<'_>, _node: usize, id: Id) -> Verdict {
    h6::waits_are_those_of_the_ladder(world, id)
}

/// What holds after two nodes exchanged their tables.
pub(crate) fn at_hand_over(world: &World<'_>, giver: usize, joiner: usize) -> Verdict {
    h8::both_hold_the_same_table(world, giver, joiner)
}

/// What holds after healing and quiet.
pub(crate) fn at_the_end(world: &World<'_>) -> Verdict {
    h9::acknowledged_releases_survive(world)?;
    h3::all_tables_are_equal(world)
}
