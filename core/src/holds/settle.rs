//! What an answer does to the registers that cover its route: pure, judged against the token.

use super::check::CHECK_LIMIT_MS;
use super::ladder;
use super::record::{Body, Register};
use crate::failure::{Reason, Scope};
use crate::time::{Hlc, Mono};

/// The registers that cover a route, as they were when the request was sent.
///
/// The answer is judged against this; the current state may only suppress a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The whole key's register.
    pub key: Launched,
    /// The model's register.
    pub model: Launched,
    /// When the request was sent.
    pub sent: Mono,
}

impl Token {
    /// Whether an answer to a request that was sent with this changes nothing, whatever was heard since. Most
    /// requests touch no hold: they cost no look-up.
    #[must_use]
    pub fn is_unmoved_by(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Cancelled => true,
            Answer::Served | Answer::CallerFault | Answer::Inconclusive => {
                !self.key.register.is_held() && !self.model.register.is_held()
            }
            Answer::Refused(_) => false,
        }
    }
}

/// One register at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Launched {
    /// Its state.
    pub register: Register,
    /// Held, and its wait had run out.
    pub due: bool,
}

/// What a provider (or the lack of one) said, as far as holds care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It served: for a stream, the first real output.
    Served,
    /// One of the six refusals.
    Refused(Refusal),
    /// The request was at fault: the provider had let the key through.
    CallerFault,
    /// Transient, timeout, unknown, or a refusal that must not hold.
    Inconclusive,
    /// The caller left. Says nothing.
    Cancelled,
}

/// A refusal with what the provider said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The wait it stated, unclamped, in milliseconds.
    pub stated_ms: Option<u64>,
    /// Its words, scrubbed and cut by the caller.
    pub words: String,
    /// Its HTTP status.
    pub status: u16,
}

/// One of the two registers that cover a route, with everything a decision about it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    /// At launch: what the answer is judged against.
    pub launched: Launched,
    /// In the table: may only suppress what the answer would change.
    pub current: Register,
    /// The rung that this subject had for a reason when it last served, while that is remembered.
    pub remembered: Option<(Reason, u8)>,
    /// Until the present hold is due on this node.
    pub remaining_ms: u64,
}

/// What an answer makes of one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose register.
    pub scope: Scope,
    /// Its next state.
    pub register: Register,
    /// In words.
    pub turn: Turn,
}

/// How a hold goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A hold begins, for a first reason or for another one.
    Begins,
    /// Refused again.
    Refused,
    /// A check said nothing.
    Unsettled,
    /// The hold is over.
    Ends,
}

/// A stated wait lengthens a hold that is not due only if it ends so much later: providers state whole
/// seconds, and pinned requests to one that states the same wait each time must not make a record each.
const LONGER_BY_MS: u64 = 1_000;

/// What the answer to a request that was sent `age_ms` ago changes. `stamp` is above everything seen.
#[must_use]
pub fn settle(key: &Cover, model: &Cover, answer: &Answer, age_ms: u64, stamp: Hlc) -> Vec<Change> {
    [(Scope::Key, key), (Scope::Model, model)]
        .into_iter()
        .filter_map(|(scope, cover)| {
            let (register, turn) = judge(scope, cover, answer, stamp)?;
            let change = Change {
                scope,
                register,
                turn,
            };
            (!is_outdated(cover, &change, age_ms)).then_some(change)
        })
        .collect()
}

/// Judged against the launch alone.
fn judge(scope: Scope, cover: &Cover, answer: &Answer, stamp: Hlc) -> Option<(Register, Turn)> {
    match answer {
        Answer::Served => release(cover, stamp),
        Answer::Refused(refusal) if refusal.reason.scope() == scope => {
            refuse(cover, refusal, stamp)
        }
        Answer::Refused(refusal) => {
            release_if(cover, stamp, |held| disproves(refusal.reason, held))
        }
        Answer::CallerFault => release_if(cover, stamp, caller_fault_disproves),
        Answer::Inconclusive => keep(cover, stamp),
        Answer::Cancelled => None,
    }
}

fn release(cover: &Cover, stamp: Hlc) -> Option<(Register, Turn)> {
    release_if(cover, stamp, |_| true)
}

/// Ends the hold if the answer disproves its reason; else the answer says nothing about it.
fn release_if(
    cover: &Cover,
    stamp: Hlc,
    disproved: impl Fn(Reason) -> bool,
) -> Option<(Register, Turn)> {
    let Body::Held { rung, reason, .. } = cover.launched.register.body else {
        return None;
    };
    if !disproved(reason) {
        return keep(cover, stamp);
    }
    let register = Register {
        release: stamp,
        seq: 0,
        body: Body::Free {
            memory: Some((reason, rung)),
        },
        stamp,
    };
    Some((register, Turn::Ends))
}

/// A check that said nothing: the same rung again, for the ladder's wait even if the last was stated.
fn keep(cover: &Cover, stamp: Hlc) -> Option<(Register, Turn)> {
    let Body::Held { rung, reason, .. } = cover.launched.register.body else {
        return None;
    };
    let body = Body::Held {
        refused: false,
        rung,
        reason,
        wait: ladder::wait(reason, rung, None),
    };
    let next = next(&cover.launched.register, body, stamp);
    cover.launched.due.then_some((next, Turn::Unsettled))
}

/// A refusal that concerns this very register.
fn refuse(cover: &Cover, refusal: &Refusal, stamp: Hlc) -> Option<(Register, Turn)> {
    let at_launch = &cover.launched.register;
    let held = |rung| Body::Held {
        refused: true,
        rung,
        reason: refusal.reason,
        wait: ladder::wait(refusal.reason, rung, refusal.stated_ms),
    };
    match at_launch.body {
        Body::Free { memory } => {
            let memory = cover.remembered.filter(|_| cover.remembered == memory);
            let first = held(rung_in(memory, refusal.reason));
            Some((next(at_launch, first, stamp), Turn::Begins))
        }
        Body::Held { reason, .. } if reason != refusal.reason => {
            let register = Register {
                release: stamp,
                seq: 1,
                body: held(rung_in(cover.remembered, refusal.reason)),
                stamp,
            };
            Some((register, Turn::Begins))
        }
        Body::Held { rung, .. } if cover.launched.due => {
            let register = next(at_launch, held(rung.saturating_add(1)), stamp);
            Some((register, Turn::Refused))
        }
        Body::Held { rung, reason, .. } => {
            let stated = refusal.stated_ms?;
            let ends_later = ladder::wait(reason, rung, Some(stated)).ms
                >= cover.remaining_ms.saturating_add(LONGER_BY_MS);
            ends_later.then(|| (next(at_launch, held(rung), stamp), Turn::Refused))
        }
    }
}

fn next(at_launch: &Register, body: Body, stamp: Hlc) -> Register {
    Register {
        release: at_launch.release,
        seq: at_launch.seq.saturating_add(1),
        body,
        stamp,
    }
}

fn rung_in(memory: Option<(Reason, u8)>, reason: Reason) -> u8 {
    memory
        .filter(|(remembered, _)| *remembered == reason)
        .map_or(0, |(_, rung)| rung)
}

/// Whether the table has moved on in a way that makes the change stale.
fn is_outdated(cover: &Cover, change: &Change, age_ms: u64) -> bool {
    let (launched, current) = (&cover.launched.register, &cover.current);
    if current.release != launched.release {
        return true;
    }
    match change.turn {
        Turn::Ends => age_ms > CHECK_LIMIT_MS && current.seq != launched.seq,
        Turn::Begins | Turn::Refused => {
            let settled = current.seq > launched.seq && was_refused(current);
            settled || is_below(change, current)
        }
        Turn::Unsettled => current != launched,
    }
}

const fn was_refused(register: &Register) -> bool {
    matches!(register.body, Body::Held { refused: true, .. })
}

/// A change within a release never falls behind what the table knows: neither its order nor its rung.
fn is_below(change: &Change, current: &Register) -> bool {
    change.register <= *current
        || (change.register.release == current.release && change.register.rung() < current.rung())
}

/// Providers settle their questions in this order; the request itself and success come last. An answer
/// to a later question disproves an earlier reason.
const fn question(reason: Reason) -> u8 {
    match reason {
        Reason::RegionBlocked => 0,
        Reason::Credential => 1,
        Reason::Quota => 2,
        Reason::ModelAccess => 3,
        Reason::ModelGone => 4,
        Reason::RateLimit => 5,
    }
}

/// Whether a refusal shows that a held reason no longer applies.
#[must_use]
pub const fn disproves(refusal: Reason, held: Reason) -> bool {
    question(refusal) > question(held)
}

/// A request that was looked at got past the location and the key, and says no more than that.
const fn caller_fault_disproves(held: Reason) -> bool {
    matches!(held, Reason::RegionBlocked | Reason::Credential)
}

#[cfg(test)]
mod tests;
