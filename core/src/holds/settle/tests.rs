//! Tests of what each answer does to each register.

use super::*;
use crate::time::Hlc;

const RELEASE: Hlc = hlc(50);
const NOW: Hlc = hlc(100);

const fn hlc(ms: u64) -> Hlc {
    Hlc {
        ms,
        counter: 0,
        node: 1,
    }
}

fn free(memory: Option<(Reason, u8)>) -> Register {
    Register {
        release: RELEASE,
        seq: 0,
        body: Body::Free { memory },
        stamp: RELEASE,
    }
}

fn held(reason: Reason, seq: u32, rung: u8) -> Register {
    Register {
        release: RELEASE,
        seq,
        body: Body::Held {
            refused: true,
            rung,
            reason,
            wait: ladder::wait(reason, rung, None),
        },
        stamp: RELEASE,
    }
}

/// Nothing happened since launch.
fn still(register: Register, due: bool) -> Cover {
    Cover {
        launched: Launched { register, due },
        current: register,
        remembered: match register.body {
            Body::Free { memory } => memory,
            Body::Held { .. } => None,
        },
        remaining_ms: if due { 0 } else { 20_000 },
    }
}

fn never() -> Cover {
    still(Register::NEVER, false)
}

fn refused(reason: Reason, stated_ms: Option<u64>) -> Answer {
    Answer::Refused(Refusal {
        reason,
        stated_ms,
        words: String::new(),
        status: 401,
    })
}

/// What the answer makes of the subject of this reason's scope.
fn on(cover: Cover, answer: &Answer, reason: Reason) -> Option<Register> {
    let (key, model) = match reason.scope() {
        Scope::Key => (cover, never()),
        Scope::Model => (never(), cover),
    };
    let changes = settle(&key, &model, answer, 0, NOW);
    changes
        .into_iter()
        .find(|change| change.scope == reason.scope())
        .map(|change| change.register)
}

fn shape(register: Register) -> (Hlc, u32, Body) {
    (register.release, register.seq, register.body)
}

fn body(refused: bool, rung: u8, reason: Reason, stated_ms: Option<u64>) -> Body {
    Body::Held {
        refused,
        rung,
        reason,
        wait: ladder::wait(reason, rung, stated_ms),
    }
}

#[test]
fn a_first_refusal_holds_the_subject_of_its_scope_and_no_other() {
    for reason in Reason::ALL {
        let changes = settle(&never(), &never(), &refused(reason, None), 0, NOW);
        assert_eq!(changes.len(), 1);
        assert_eq!(
            (changes[0].scope, changes[0].turn),
            (reason.scope(), Turn::Begins)
        );
        let expected = (Register::NEVER.release, 1, body(true, 0, reason, None));
        assert_eq!(shape(changes[0].register), expected);
    }
}

#[test]
fn a_flapping_key_resumes_its_rung_for_the_same_reason_while_remembered() {
    let quota = Reason::Quota;
    let cover = still(free(Some((quota, 3))), false);
    let resumed = on(cover, &refused(quota, None), quota).unwrap();
    assert_eq!(shape(resumed), (RELEASE, 1, body(true, 3, quota, None)));
    let other = on(
        cover,
        &refused(Reason::Credential, None),
        Reason::Credential,
    )
    .unwrap();
    assert_eq!(other.rung(), Some(0));
    let forgotten = Cover {
        remembered: None,
        ..cover
    };
    let fresh = on(forgotten, &refused(quota, None), quota).unwrap();
    assert_eq!(fresh.rung(), Some(0));
}

#[test]
fn a_refusal_before_the_wait_is_over_changes_nothing() {
    let cover = still(held(Reason::Quota, 2, 1), false);
    assert_eq!(
        on(cover, &refused(Reason::Quota, None), Reason::Quota),
        None
    );
    let not_longer = refused(Reason::Quota, Some(20_500));
    assert_eq!(on(cover, &not_longer, Reason::Quota), None);
}

#[test]
fn a_stated_wait_that_ends_later_is_believed_on_the_same_rung() {
    let cover = still(held(Reason::Quota, 2, 1), false);
    let longer = on(cover, &refused(Reason::Quota, Some(240_000)), Reason::Quota).unwrap();
    let expected = body(true, 1, Reason::Quota, Some(240_000));
    assert_eq!(shape(longer), (RELEASE, 3, expected));
}

#[test]
fn a_failed_check_climbs_one_rung_and_uses_the_stated_wait() {
    let cover = still(held(Reason::Credential, 2, 1), true);
    let ladder = on(
        cover,
        &refused(Reason::Credential, None),
        Reason::Credential,
    )
    .unwrap();
    assert_eq!(
        shape(ladder),
        (RELEASE, 3, body(true, 2, Reason::Credential, None))
    );
    let stated = refused(Reason::Credential, Some(20_000));
    let stated = on(cover, &stated, Reason::Credential).unwrap();
    let expected = body(true, 2, Reason::Credential, Some(20_000));
    assert_eq!(shape(stated), (RELEASE, 3, expected));
}

#[test]
fn another_reason_replaces_the_hold_in_one_record() {
    for due in [false, true] {
        let cover = still(held(Reason::Credential, 4, 3), due);
        let replaced = on(cover, &refused(Reason::Quota, None), Reason::Quota).unwrap();
        assert_eq!(
            shape(replaced),
            (NOW, 1, body(true, 0, Reason::Quota, None))
        );
        let remembering = Cover {
            remembered: Some((Reason::Quota, 2)),
            ..cover
        };
        let resumed = on(remembering, &refused(Reason::Quota, None), Reason::Quota).unwrap();
        assert_eq!(resumed.rung(), Some(2));
    }
}

#[test]
fn served_releases_both_scopes_due_or_not_and_keeps_memory() {
    for due in [false, true] {
        let key = still(held(Reason::Quota, 2, 1), due);
        let model = still(held(Reason::ModelGone, 5, 4), due);
        let changes = settle(&key, &model, &Answer::Served, 0, NOW);
        let freed: Vec<_> = changes
            .iter()
            .map(|change| shape(change.register))
            .collect();
        let free = |reason, rung| {
            let memory = Some((reason, rung));
            (NOW, 0, Body::Free { memory })
        };
        assert_eq!(freed, [free(Reason::Quota, 1), free(Reason::ModelGone, 4)]);
        assert!(changes.iter().all(|change| change.turn == Turn::Ends));
    }
}

#[test]
fn served_on_a_free_register_says_nothing() {
    let remembering = still(free(Some((Reason::Quota, 2))), false);
    assert_eq!(settle(&remembering, &never(), &Answer::Served, 0, NOW), []);
}

#[test]
fn an_inconclusive_check_keeps_the_rung_and_uses_the_ladder_again() {
    let mut register = held(Reason::Credential, 2, 1);
    register.body = body(true, 1, Reason::Credential, Some(20_000));
    let kept = on(
        still(register, true),
        &Answer::Inconclusive,
        Reason::Credential,
    )
    .unwrap();
    assert_eq!(
        shape(kept),
        (RELEASE, 3, body(false, 1, Reason::Credential, None))
    );
    let not_due = still(register, false);
    assert_eq!(on(not_due, &Answer::Inconclusive, Reason::Credential), None);
}

#[test]
fn a_cancelled_request_says_nothing() {
    let due = still(held(Reason::Quota, 2, 1), true);
    assert_eq!(settle(&due, &due, &Answer::Cancelled, 0, NOW), []);
}

/// Rows: held reason; columns: answer. What becomes of the hold once it is due.
#[test]
fn what_each_refusal_proves_across_scopes() {
    use Reason::{Credential, ModelAccess, ModelGone, Quota, RateLimit, RegionBlocked};
    let order = [
        RegionBlocked,
        Credential,
        Quota,
        ModelAccess,
        ModelGone,
        RateLimit,
    ];
    for (asked, held_for) in order.into_iter().enumerate() {
        for (answered, answer) in order.into_iter().enumerate() {
            if held_for.scope() == answer.scope() {
                continue;
            }
            let cover = still(held(held_for, 2, 1), true);
            let made = on(cover, &refused(answer, None), held_for).unwrap();
            assert_eq!(
                made.is_held(),
                answered < asked,
                "{held_for:?} after {answer:?}"
            );
            assert_eq!(made.rung(), (answered < asked).then_some(1));
        }
    }
}

#[test]
fn a_caller_fault_disproves_only_region_and_credential() {
    for reason in Reason::ALL {
        let cover = still(held(reason, 2, 1), true);
        let made = on(cover, &Answer::CallerFault, reason).unwrap();
        let freed = matches!(reason, Reason::RegionBlocked | Reason::Credential);
        assert_eq!(!made.is_held(), freed, "{reason:?}");
    }
}

#[test]
fn refusals_in_flight_are_one_hold() {
    let moved_on = Cover {
        current: Register {
            seq: 1,
            ..held(Reason::Quota, 1, 0)
        },
        ..still(free(None), false)
    };
    for stated in [None, Some(290_000)] {
        assert_eq!(
            on(moved_on, &refused(Reason::Quota, stated), Reason::Quota),
            None
        );
        let other = refused(Reason::Credential, stated);
        assert_eq!(on(moved_on, &other, Reason::Credential), None);
    }
}

#[test]
fn a_concurrent_refusal_beats_an_inconclusive_check() {
    let launched = held(Reason::Quota, 2, 1);
    let said_nothing = Register {
        body: body(false, 1, Reason::Quota, None),
        ..held(Reason::Quota, 3, 1)
    };
    let cover = Cover {
        current: said_nothing,
        ..still(launched, true)
    };
    let climbed = on(cover, &refused(Reason::Quota, None), Reason::Quota).unwrap();
    assert!(climbed > said_nothing);
    assert_eq!(climbed.rung(), Some(2));
    assert_eq!(on(cover, &Answer::Inconclusive, Reason::Quota), None);
}

#[test]
fn nothing_settles_across_a_release() {
    let cover = Cover {
        current: Register {
            release: hlc(60),
            ..held(Reason::Quota, 1, 0)
        },
        ..still(held(Reason::Quota, 2, 1), true)
    };
    let answers = [
        Answer::Served,
        Answer::Inconclusive,
        Answer::CallerFault,
        refused(Reason::Quota, None),
        refused(Reason::Credential, None),
        refused(Reason::RateLimit, None),
    ];
    for answer in answers {
        assert_eq!(on(cover, &answer, Reason::Quota), None, "{answer:?}");
    }
}

#[test]
fn a_success_sent_over_five_minutes_ago_leaves_a_newer_refusal_alone() {
    let cover = Cover {
        current: held(Reason::Quota, 3, 2),
        ..still(held(Reason::Quota, 2, 1), true)
    };
    let after = |age_ms| settle(&cover, &never(), &Answer::Served, age_ms, NOW).len();
    assert_eq!((after(300_000), after(300_001)), (1, 0));
    let unmoved = still(held(Reason::Quota, 2, 1), true);
    assert_eq!(
        settle(&unmoved, &never(), &Answer::Served, 900_000, NOW).len(),
        1
    );
}

#[test]
fn a_refusal_never_lowers_a_rung_that_others_raised() {
    let cover = Cover {
        current: held(Reason::Quota, 2, 4),
        ..still(held(Reason::Quota, 2, 1), true)
    };
    assert_eq!(
        on(cover, &refused(Reason::Quota, None), Reason::Quota),
        None
    );
}
