//! Deliberate mistakes, each at one seam. A mutant that no law catches is a defect of the tests.

use holdline_core::failure::Reason;
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::{
    Answer, Body, CheckGuard, Incoming, KeyHolds, Ledger, Record, Selector, Subject, Token, Wait,
};
use holdline_core::ids::{Fingerprint, ModelId, NodeId, Region};
use holdline_core::time::Mono;

use crate::rules::{Clocks, Rules};

/// One mistake, and the laws that name it.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) rules: &'static dyn Rules,
    pub(crate) caught_by: &'static [&'static str],
}

const fn mutant(
    name: &'static str,
    rules: &'static dyn Rules,
    caught_by: &'static [&'static str],
) -> Mutant {
    Mutant {
        name,
        rules,
        caught_by,
    }
}

/// All of them.
pub(crate) const MUTANTS: &[Mutant] = &[
    mutant(
        "last writer wins, by timestamp",
        &LastWriterWins,
        &["H1", "H2"],
    ),
    mutant(
        "a release deletes the row",
        &ReleaseByDeletion,
        &["H1", "H2"],
    ),
    mutant(
        "answers settle against the current state",
        &SettleAgainstCurrent,
        &["table"],
    ),
    mutant(
        "jitter is inside the shared wait",
        &JitterInSharedWait,
        &["H6", "table"],
    ),
    mutant(
        "refusals in flight raise the rung",
        &InFlightRefusalsClimb,
        &["table"],
    ),
    mutant(
        "a slow success releases a newer hold",
        &SlowSuccessReleases,
        &["table"],
    ),
    mutant(
        "the slot leaks when a request fails unsent",
        &SlotLeaks,
        &["H4"],
    ),
    mutant(
        "an operator's release keeps the memory",
        &OperatorKeepsMemory,
        &["table"],
    ),
    mutant("no cap", &NoCap, &["H6", "table"]),
    mutant(
        "a served answer keeps the hold",
        &ServedKeepsHold,
        &["table"],
    ),
    mutant("the fingerprint is ignored", &FingerprintIgnored, &["H7"]),
    mutant(
        "an inconclusive check raises the rung",
        &InconclusiveClimbs,
        &["H6", "table"],
    ),
    mutant("every due request is a check", &NoSlot, &["H4"]),
    mutant(
        "a known record moves the deadline",
        &KnownRecordMovesDeadline,
        &["H6"],
    ),
    mutant("a carried age is lost", &AgeIsLost, &["H6"]),
    mutant(
        "a release is acknowledged before it is stored",
        &ReleaseNotStored,
        &["H9"],
    ),
    mutant(
        "a caller who leaves frees the key",
        &CancelReleases,
        &["table"],
    ),
    mutant(
        "a stated wait is ignored",
        &StatedWaitIgnored,
        &["H6", "table"],
    ),
    mutant(
        "records from the future are dropped",
        &FutureIsDropped,
        &["H1", "H2", "H3", "H8"],
    ),
    mutant(
        "a merge takes only holds",
        &ReleasesDoNotTravel,
        &["H1", "H2", "H8"],
    ),
];

/// A ledger with one row replaced by force (deadlines are kept by age, check slots are not).
fn force(ledger: &mut Ledger, subject: &Subject, row: Option<Incoming>, now: Mono) {
    let (table, stamp) = (
        ledger.export(now),
        ledger.tick(holdline_core::time::WallMs(0)),
    );
    let others = table
        .into_iter()
        .filter(|known| known.record.subject != *subject);
    let mut rebuilt = Ledger::new(NodeId::from("n"), Region::from("eu"), stamp.node);
    rebuilt.observe(stamp);
    for incoming in others.chain(row) {
        rebuilt.merge(incoming, now);
    }
    *ledger = rebuilt;
}

/// What was made, altered.
fn alter(
    ledger: &mut Ledger,
    made: Vec<Record>,
    now: Mono,
    change: impl Fn(&mut Body),
) -> Vec<Record> {
    let mut altered = made;
    for record in &mut altered {
        let before = record.register.body;
        change(&mut record.register.body);
        if record.register.body != before {
            let row = Incoming {
                record: record.clone(),
                age_ms: 0,
            };
            force(ledger, &record.subject, Some(row), now);
        }
    }
    altered
}

/// A mutant of `settle` that alters what was made.
macro_rules! altering {
    ($name:ident, $answer:pat, |$body:ident| $change:expr) => {
        struct $name;

        impl Rules for $name {
            fn settle(
                &self,
                ledger: &mut Ledger,
                route: &RouteKey,
                token: &Token,
                answer: &Answer,
                clocks: Clocks,
            ) -> Vec<Record> {
                let made = ledger.settle(route, token, answer, clocks.now, clocks.wall);
                if !matches!(answer, $answer) {
                    return made;
                }
                alter(ledger, made, clocks.now, |$body: &mut Body| $change)
            }
        }
    };
}

altering!(JitterInSharedWait, Answer::Refused(_), |body| {
    if let Body::Held { wait, .. } = body {
        wait.ms -= wait.ms / 20;
    }
});
altering!(NoCap, _, |body| {
    if let Body::Held { rung, wait, .. } = body
        && !wait.stated
    {
        wait.ms = 30_000 << *rung;
    }
});
altering!(InconclusiveClimbs, Answer::Inconclusive, |body| {
    if let Body::Held { rung, .. } = body {
        *rung += 1;
    }
});
altering!(StatedWaitIgnored, Answer::Refused(_), |body| {
    if let Body::Held { wait, .. } = body {
        *wait = Wait {
            ms: 30_000,
            stated: false,
        };
    }
});

/// What a mutant of `settle` may take for true: what was launched, what was answered.
struct Heard<'a> {
    token: Token,
    answer: Answer,
    holds: KeyHolds,
    model: &'a ModelId,
    now: Mono,
}

/// A mutant of `settle` that alters what goes in.
macro_rules! believing {
    ($name:ident, |$heard:ident| $change:expr) => {
        struct $name;

        impl Rules for $name {
            fn settle(
                &self,
                ledger: &mut Ledger,
                route: &RouteKey,
                token: &Token,
                answer: &Answer,
                clocks: Clocks,
            ) -> Vec<Record> {
                let mut $heard = Heard {
                    token: *token,
                    answer: answer.clone(),
                    holds: ledger.key_holds(&route.provider, &route.key, route.fingerprint),
                    model: &route.model,
                    now: clocks.now,
                };
                $change;
                let Heard { token, answer, .. } = $heard;
                ledger.settle(route, &token, &answer, clocks.now, clocks.wall)
            }
        }
    };
}

believing!(SettleAgainstCurrent, |heard| {
    heard.token = heard.holds.token(heard.model, heard.now);
});
believing!(InFlightRefusalsClimb, |heard| {
    if matches!(heard.answer, Answer::Refused(_)) {
        heard.token.key.due = heard.token.key.register.is_held();
        heard.token.model.due = heard.token.model.register.is_held();
    }
});
believing!(SlowSuccessReleases, |heard| {
    if heard.answer == Answer::Served {
        heard.token = heard.holds.token(heard.model, heard.now);
    }
});
believing!(ServedKeepsHold, |heard| {
    if heard.answer == Answer::Served {
        heard.answer = Answer::Inconclusive;
    }
});
believing!(CancelReleases, |heard| {
    if heard.answer == Answer::Cancelled {
        heard.answer = Answer::Served;
    }
});

/// A mutant of `merge`.
macro_rules! merging {
    ($name:ident, |$ledger:ident, $incoming:ident, $now:ident| $merge:expr) => {
        struct $name;

        impl Rules for $name {
            fn merge(&self, $ledger: &mut Ledger, $incoming: Incoming, $now: Mono) -> bool {
                $merge
            }
        }
    };
}

merging!(LastWriterWins, |ledger, incoming, now| {
    let subject = incoming.record.subject.clone();
    let here = ledger.record(&subject).map(|record| record.register.stamp);
    let is_newer = here.is_none_or(|stamp| incoming.record.register.stamp > stamp);
    if is_newer {
        force(ledger, &subject, Some(incoming), now);
    }
    is_newer
});
merging!(KnownRecordMovesDeadline, |ledger, incoming, now| {
    let subject = incoming.record.subject.clone();
    let here = ledger.record(&subject).map(|record| record.register);
    if here == Some(incoming.record.register) {
        force(ledger, &subject, Some(incoming), now);
        return false;
    }
    ledger.merge(incoming, now)
});
merging!(AgeIsLost, |ledger, incoming, now| {
    ledger.merge(
        Incoming {
            age_ms: 0,
            ..incoming
        },
        now,
    )
});
merging!(FutureIsDropped, |ledger, incoming, now| {
    // As if every clock were right and every record took no time.
    let ahead = incoming.record.register.stamp.ms > 1_800_000_000_000 + 600_000;
    !ahead && ledger.merge(incoming, now)
});
merging!(ReleasesDoNotTravel, |ledger, incoming, now| {
    incoming.record.register.is_held() && ledger.merge(incoming, now)
});

struct ReleaseByDeletion;

impl Rules for ReleaseByDeletion {
    fn release(&self, ledger: &mut Ledger, what: &Selector, clocks: Clocks) -> Vec<Record> {
        let made = ledger.release(what, clocks.wall, clocks.now);
        for record in &made {
            force(ledger, &record.subject, None, clocks.now);
        }
        made
    }
}

struct OperatorKeepsMemory;

impl Rules for OperatorKeepsMemory {
    fn release(&self, ledger: &mut Ledger, what: &Selector, clocks: Clocks) -> Vec<Record> {
        let made = ledger.release(what, clocks.wall, clocks.now);
        alter(ledger, made, clocks.now, |body| {
            *body = Body::Free {
                memory: Some((Reason::Quota, 3)),
            };
        })
    }
}

struct SlotLeaks;

impl Rules for SlotLeaks {
    fn fail_unsent(&self, check: CheckGuard) {
        std::mem::forget(check);
    }
}

struct NoSlot;

impl Rules for NoSlot {
    fn try_check(&self, holds: &KeyHolds, model: &ModelId, now: Mono) -> Option<CheckGuard> {
        let mut own = holds.clone();
        for hold in own.key.iter_mut().chain(own.models.values_mut()) {
            hold.slot = std::sync::Arc::default();
        }
        own.try_check(model, now)
    }
}

struct FingerprintIgnored;

impl Rules for FingerprintIgnored {
    fn fingerprint(&self, _configured: Fingerprint) -> Fingerprint {
        Fingerprint(0)
    }
}

struct ReleaseNotStored;

impl Rules for ReleaseNotStored {
    fn stores_releases_first(&self) -> bool {
        false
    }
}
