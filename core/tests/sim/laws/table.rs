//! The tables of the design, row by row: what an answer makes of each register that covers its route,
//! what it must not do to one that has moved on, and what it must do to one that has not.

use holdline_core::failure::Reason;
use holdline_core::holds::{Answer, Body, Record, Wait};

use super::h6::ladder_ms;
use super::{Before, Verdict, law};
use crate::chronicle::Id;
use crate::provider::QUESTIONS;
use crate::world::{Call, SCOPES, World};

/// What the launch and the answer ask for.
#[derive(Debug, PartialEq, Eq)]
enum Want {
    Nothing,
    Freed(Reason, u8),
    /// A hold on one of these rungs.
    Held {
        refused: bool,
        reason: Reason,
        rungs: Vec<u8>,
        stated_ms: Option<u64>,
        is_new_release: bool,
    },
}

pub(super) fn the_answer_does_what_the_table_says(
    world: &mut World<'_>,
    call: &Call,
    answer: &Answer,
    before: &Before,
    made: &[Record],
) -> Verdict {
    for (at, scope) in SCOPES.into_iter().enumerate() {
        let subject = call.subject(scope);
        let record = made.iter().find(|record| record.subject == subject);
        let want = want(world, call, at, answer, before);
        let has_moved = call.launch[at] != before.shown[at];
        let is_stale = is_stale(world, call, at, &want, before);
        let is_right = match (&want, record) {
            (Want::Nothing, None) => true,
            (Want::Nothing, Some(_)) => false,
            (_, None) => has_moved,
            (want, Some(record)) => !is_stale && fits(want, record, call, world, at),
        };
        law("table", is_right, || {
            format!("{answer:?} wants {want:?} (stale: {is_stale}), made {record:?}")
        })?;
        if record.is_some() {
            world.count(name(&want, world_memory(world, call, at)));
        } else if want != Want::Nothing {
            world.count("suppressed");
        }
    }
    Ok(())
}

fn want(world: &World<'_>, call: &Call, at: usize, answer: &Answer, before: &Before) -> Want {
    let launch = call.launch[at].map(|id| world.chronicle.made(id).record.register.body);
    let held = match launch {
        Some(Body::Held { reason, rung, .. }) => Some((reason, rung)),
        Some(Body::Free { .. }) | None => None,
    };
    match (answer, held) {
        (Answer::Cancelled, _) => Want::Nothing,
        (Answer::Refused(refusal), _) if refusal.reason.scope() == SCOPES[at] => {
            let stated_ms = refusal.stated_ms;
            want_refused(world, call, at, refusal.reason, stated_ms, before)
        }
        (_, None) => Want::Nothing,
        (Answer::Served, Some((reason, rung))) => Want::Freed(reason, rung),
        (Answer::Refused(refusal), Some((reason, rung)))
            if question(refusal.reason) > question(reason) =>
        {
            Want::Freed(reason, rung)
        }
        (Answer::CallerFault, Some((reason, rung)))
            if matches!(reason, Reason::Credential | Reason::RegionBlocked) =>
        {
            Want::Freed(reason, rung)
        }
        (Answer::CallerFault | Answer::Inconclusive | Answer::Refused(_), Some((reason, rung))) => {
            if call.due[at] {
                Want::Held {
                    refused: false,
                    reason,
                    rungs: vec![rung],
                    stated_ms: None,
                    is_new_release: false,
                }
            } else {
                Want::Nothing
            }
        }
    }
}

fn want_refused(
    world: &World<'_>,
    call: &Call,
    at: usize,
    reason: Reason,
    stated_ms: Option<u64>,
    before: &Before,
) -> Want {
    let hold = |rungs, is_new_release| Want::Held {
        refused: true,
        reason,
        rungs,
        stated_ms,
        is_new_release,
    };
    let launch = call.launch[at].map(|id| world.chronicle.made(id).record.register.body);
    let is_by_hand = call.launch[at].is_some_and(|id| world.acknowledged.contains(&id));
    match launch {
        Some(Body::Free { .. }) if is_by_hand => hold(vec![0], false),
        None | Some(Body::Free { memory: None }) => hold(vec![0], false),
        Some(Body::Free {
            memory: Some((of, rung)),
        }) => {
            let is_young = before.age_ms[at] < 600_000;
            let has_moved = call.launch[at] != before.shown[at];
            hold(
                vec![if of == reason && (is_young || has_moved) {
                    rung
                } else {
                    0
                }],
                false,
            )
        }
        Some(Body::Held { reason: of, .. }) if of != reason => {
            let mut rungs: Vec<u8> = world.nodes[call.node]
                .knows(&call.subject(SCOPES[at]))
                .iter()
                .filter_map(|id| remembered(world, id, reason))
                .collect();
            rungs.push(0);
            hold(rungs, true)
        }
        Some(Body::Held { rung, .. }) if call.due[at] => hold(vec![rung + 1], false),
        Some(Body::Held { rung, .. }) => match stated_ms {
            Some(ms) if ms.clamp(10_000, 300_000) >= before.remaining_ms[at] + 1_000 => {
                hold(vec![rung], false)
            }
            Some(_) | None => Want::Nothing,
        },
    }
}

fn remembered(world: &World<'_>, id: Id, reason: Reason) -> Option<u8> {
    match world.chronicle.made(id).record.register.body {
        Body::Held {
            reason: of, rung, ..
        } => (of == reason).then_some(rung),
        Body::Free { memory } => memory.filter(|(of, _)| *of == reason).map(|(_, rung)| rung),
    }
}

/// Whether what the node shows has moved on in a way that silences the answer.
fn is_stale(world: &World<'_>, call: &Call, at: usize, want: &Want, before: &Before) -> bool {
    if before.last_release[at] != world.chronicle.last_release(&call.known[at]) {
        return true;
    }
    let register = |id: Option<Id>| id.map(|id| world.chronicle.made(id).record.register);
    let seq = |id: Option<Id>| register(id).map_or(0, |register| register.seq);
    let (launch, shown) = (call.launch[at], before.shown[at]);
    match want {
        Want::Nothing => false,
        Want::Freed(..) => world.time - call.sent > 300_000 && seq(launch) != seq(shown),
        Want::Held { refused: false, .. } => launch != shown,
        Want::Held { refused: true, .. } => {
            let was_refused = register(shown)
                .is_some_and(|register| matches!(register.body, Body::Held { refused: true, .. }));
            was_refused && seq(shown) > seq(launch)
        }
    }
}

fn fits(want: &Want, record: &Record, call: &Call, world: &World<'_>, at: usize) -> bool {
    let (register, launch) = (
        record.register,
        call.launch[at].map(|id| world.chronicle.made(id).record.register),
    );
    let is_new = register.release == register.stamp;
    let follows = register.release == launch.map(|launch| launch.release).unwrap_or_default()
        && register.seq == launch.map_or(0, |launch| launch.seq) + 1;
    match (want, register.body) {
        (Want::Freed(reason, rung), Body::Free { memory }) => {
            memory == Some((*reason, *rung)) && is_new && register.seq == 0
        }
        (
            Want::Held {
                refused,
                reason,
                rungs,
                stated_ms,
                is_new_release,
            },
            Body::Held { .. },
        ) => {
            let is_body = rungs.iter().any(|rung| {
                let wait = Wait {
                    ms: stated_ms.map_or(ladder_ms(*reason, *rung), |ms| ms.clamp(10_000, 300_000)),
                    stated: stated_ms.is_some(),
                };
                let body = Body::Held {
                    refused: *refused,
                    rung: *rung,
                    reason: *reason,
                    wait,
                };
                register.body == body
            });
            is_body
                && if *is_new_release {
                    is_new && register.seq == 1
                } else {
                    follows
                }
        }
        (Want::Nothing, _)
        | (Want::Freed(..), Body::Held { .. })
        | (Want::Held { .. }, Body::Free { .. }) => false,
    }
}

fn world_memory(world: &World<'_>, call: &Call, at: usize) -> bool {
    call.launch[at].is_none_or(|id| !world.chronicle.made(id).is_hold())
}

/// For counting what the seeds have seen.
fn name(want: &Want, was_free: bool) -> &'static str {
    match want {
        Want::Nothing => "nothing",
        Want::Freed(..) => "released by an answer",
        Want::Held { refused: false, .. } => "check said nothing",
        Want::Held {
            is_new_release: true,
            ..
        } => "another reason",
        Want::Held { rungs, .. } if was_free && rungs[0] > 0 => "rung resumed",
        Want::Held { .. } if was_free => "held",
        Want::Held {
            stated_ms: Some(_), ..
        } => "refused again, wait stated",
        Want::Held { .. } => "refused again",
    }
}

fn question(reason: Reason) -> Option<usize> {
    QUESTIONS.iter().position(|question| *question == reason)
}
