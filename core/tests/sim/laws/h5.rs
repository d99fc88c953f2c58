//! H5: silence: a held key gets no request but checks, pins, and those sent because every key is held.

use holdline_core::holds::{Subject, SubjectScope};

use super::{Verdict, law};
use crate::world::{Call, KEYS, SCOPES, Why, World, key};

pub(super) fn silence(world: &World<'_>, call: &Call) -> Verdict {
    let node = call.node;
    match call.why {
        Why::Pinned => Ok(()),
        Why::Free => {
            let held = SCOPES.map(|scope| is_held(world, node, &call.subject(scope)));
            law("H5", held == [false; 2], || {
                format!("n{node} sends to {:?} as if free", call.route)
            })
        }
        Why::Check => {
            let not_due = (0..2).any(|at| {
                call.launch[at].is_some_and(|id| world.chronicle.made(id).is_hold())
                    && !call.due[at]
            });
            law("H5", !not_due, || {
                format!("n{node} checks {:?} too early", call.route)
            })
        }
        Why::EveryKeyHeld => {
            let all = (0..KEYS).all(|number| {
                SCOPES.into_iter().any(|scope| {
                    let subject = Subject {
                        key: key(number),
                        fingerprint: world.rules.fingerprint(world.nodes[node].config[number]),
                        ..call.subject(scope)
                    };
                    is_held(world, node, &subject)
                })
            });
            law("H5", all, || {
                format!("n{node} has a free key and uses a held one")
            })
        }
    }
}

/// By causes: it was told of a hold that was asked for after the last release it was told of.
fn is_held(world: &World<'_>, node: usize, subject: &Subject) -> bool {
    debug_assert!(matches!(
        subject.scope,
        SubjectScope::Key | SubjectScope::Model(_)
    ));
    let known = world.nodes[node].knows(subject);
    let release = world.chronicle.last_release(&known);
    known
        .iter()
        .any(|id| world.chronicle.made(id).is_hold() && world.chronicle.is_after(id, release))
}
