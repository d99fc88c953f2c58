//! Several legs: order, budgets, what moves on, which error is told, and the lines that tell it.

use super::*;
use FailureClass::{
    CallerFault, Cancelled, Credential, ModelAccess, ModelGone, Quota, RateLimit, RegionBlocked,
    Timeout, Transient, Unknown,
};

/// `one`, `two` and `three`, each with one key and these retries.
fn chain(retries: [u32; 3]) -> Play {
    let providers = [
        ("one", retries[0]),
        ("two", retries[1]),
        ("three", retries[2]),
    ]
    .map(|(id, retries)| provider(id, [key(&format!("k-{id}"))]).retries(retries));
    Play::new(plain(providers), &["one", "two", "three"])
}

fn visited(play: &Play) -> Vec<&str> {
    play.calls
        .iter()
        .map(|call| call.split(' ').next().unwrap())
        .collect()
}

/// RF-001, RF-087.
#[test]
fn fallbacks_are_tried_in_order_until_one_serves() {
    let mut play = chain([1, 0, 0]);
    let down = Some(Transient);
    assert_eq!(play.run(&[down, down, down, None]), Ending::Served);
    assert_eq!(visited(&play), ["one", "one", "two", "three"]);
    assert_eq!((play.walk.retries(), play.walk.retries_of_leg()), (1, 0));
    let mut play = chain([1, 2, 0]);
    assert_eq!(play.run(&[down, down, down, down, None]), Ending::Served);
    assert_eq!((play.walk.retries(), play.walk.retries_of_leg()), (3, 2));
}

/// RF-006, RF-093, RF-094.
#[test]
fn every_leg_has_its_own_budget() {
    let mut play = chain([3, 3, 3]);
    assert_eq!(play.run(&[Some(Transient)]), Ending::Failed { attempt: 3 });
    assert_eq!(play.calls.len(), 12);
    let mut play = chain([0, 2, 1]);
    play.run(&[Some(Transient)]);
    assert_eq!(
        visited(&play),
        ["one", "two", "two", "two", "three", "three"]
    );
}

/// RF-088, CF-008.
#[test]
fn when_all_fail_the_primarys_error_is_told() {
    let mut play = chain([0, 0, 0]);
    let answers = [Some(Transient), Some(Unknown), Some(RateLimit)];
    assert_eq!(play.run(&answers), Ending::Failed { attempt: 0 });
}

#[test]
fn exhausted_credentials_of_the_primary_are_its_error() {
    let mut play = chain([1, 0, 0]);
    assert_eq!(
        play.run(&[Some(Credential), Some(Transient)]),
        Ending::CredentialsExhausted { attempt: 0 }
    );
    let lines = play.lines();
    assert!(
        lines.contains("returning primary error (upstream_credentials_exhausted HTTP 502)"),
        "{lines}"
    );
}

/// What a provider said once it would say again; with other keys it may not.
#[test]
fn a_repeated_fallback_is_skipped() {
    let providers = ["one", "two"].map(|id| provider(id, [key(&format!("k-{id}"))]));
    let played = |legs: &[&str]| {
        let mut play = Play::new(plain(providers.clone()), legs);
        assert_eq!(play.run(&[Some(Transient)]), Ending::Failed { attempt: 0 });
        play
    };
    let mut play = played(&["one", "two", "two", "one"]);
    assert_eq!(visited(&play), ["one", "two"]);
    let lines = play.lines();
    let line = "Fallback two/gpt-4o skipped: the request was there already";
    assert!(lines.contains(line), "{lines}");
    let other_keys = played(&["one@k-one", "one"]);
    assert_eq!(visited(&other_keys), ["one", "one"]);
    let own_key = played(&["one+own", "one", "one"]);
    assert_eq!(visited(&own_key), ["one", "one"]);
}

/// RF-116, CF-019.
#[test]
fn what_another_provider_could_serve_moves_on() {
    let classes = [
        Credential,
        Quota,
        ModelAccess,
        ModelGone,
        RegionBlocked,
        RateLimit,
        Transient,
        Unknown,
        Timeout,
    ];
    for class in classes {
        let mut play = chain([0, 0, 0]);
        assert_eq!(play.run(&[Some(class), None]), Ending::Served, "{class:?}");
        assert_eq!(visited(&play), ["one", "two"]);
    }
}

/// RF-050, RF-116.
#[test]
fn a_fault_of_the_caller_and_a_caller_who_left_end_the_chain() {
    for class in [CallerFault, Cancelled] {
        let mut play = chain([0, 0, 0]);
        assert_eq!(play.run(&[Some(class)]), Ending::Failed { attempt: 0 });
        assert_eq!(visited(&play), ["one"]);
    }
    let mut later = chain([0, 0, 0]);
    assert_eq!(
        later.run(&[Some(Transient), Some(Cancelled)]),
        Ending::Failed { attempt: 1 }
    );
    assert!(later.lines().contains("halting further fallbacks"));
}

#[test]
fn a_callers_fault_of_a_fallback_moves_on() {
    let mut play = chain([0, 0, 0]);
    let answers = [Some(Transient), Some(CallerFault), None];
    assert_eq!(play.run(&answers), Ending::Served);
    let mut play = chain([0, 0, 0]);
    let answers = [Some(Transient), Some(CallerFault)];
    assert_eq!(play.run(&answers), Ending::Failed { attempt: 0 });
    assert_eq!(visited(&play), ["one", "two", "three"]);
}

/// RF-049.
#[test]
fn the_callers_own_deadline_ends_the_chain_at_once() {
    for class in [Timeout, Transient, RateLimit] {
        for before in [vec![], vec![Some(Transient)]] {
            let mut play = chain([0, 0, 3]);
            for answer in &before {
                let attempt = play.call().unwrap();
                play.answer(&attempt, *answer);
            }
            play.call().unwrap();
            let late = Failure {
                callers_deadline: true,
                ..failure(class)
            };
            play.walk.observe(Outcome::failed(late), play.now);
            let attempt = count(before.len());
            assert_eq!(play.call().unwrap_err(), Ending::Failed { attempt });
        }
    }
}

/// RF-099.
#[test]
fn legs_that_cannot_be_called_are_skipped_and_told() {
    let other = provider("other", [key("x").with(|spec| spec.enabled = false)]);
    let view = plain([
        provider("one", [key("k-one")]),
        other,
        provider("two", [key("k-two")]),
    ]);
    let mut play = Play::new(view, &["one", "nobody", "other", "two"]);
    assert_eq!(play.run(&[Some(Transient), None]), Ending::Served);
    assert_eq!(visited(&play), ["one", "two"]);
    let lines = play.lines();
    assert!(
        lines.contains("Fallback nobody/gpt-4o skipped: missing provider config"),
        "{lines}"
    );
    assert!(
        lines.contains("Fallback other/gpt-4o skipped: no key"),
        "{lines}"
    );
}

#[test]
fn a_primary_that_went_away_makes_room_for_the_fallbacks() {
    let view = plain([provider("two", [key("k-two")])]);
    let mut play = Play::new(view, &["one", "two", "two"]);
    assert_eq!(
        play.run(&[Some(Transient), Some(Quota)]),
        Ending::Failed { attempt: 0 }
    );
    let mut nothing = Play::new(plain([]), &["one", "two"]);
    assert_eq!(nothing.run(&[None]), Ending::NothingToCall);
}

#[test]
fn attempts_are_numbered_over_the_whole_request() {
    let mut play = chain([0, 1, 0]);
    let mut seen = vec![];
    while let Ok(attempt) = play.call() {
        seen.push((attempt.number, attempt.fallback_index));
        play.answer(&attempt, Some(Transient));
    }
    assert_eq!(seen, [(0, 0), (1, 1), (2, 1), (3, 2)]);
}

#[test]
fn charged_attempts_are_limited_over_all_legs_and_granted_ones_are_not() {
    let mut play = chain([5, 5, 5]).limit(8);
    assert_eq!(play.run(&[Some(Transient)]), Ending::Failed { attempt: 5 });
    assert_eq!(play.calls.len(), 8);
    let mut alone = Play::new(plain([pool(1, 5)]), &["p"]).limit(2);
    assert_eq!(alone.run(&[Some(Transient)]), Ending::Failed { attempt: 1 });
    let mut granted = Play::new(plain([pool(5, 0)]), &["p"]).limit(1);
    let dead = Some(Credential);
    assert_eq!(granted.run(&[dead, dead, dead, dead, None]), Ending::Served);
}

/// The walk begins with the check that planning took.
#[test]
fn a_planned_check_is_carried_out_first() {
    let keys = [key("a").held(0), key("b").held(0)];
    let view = view([provider("one", keys), provider("two", [key("c")])]);
    let due = view.provider(&"one".into()).unwrap();
    let (id, guard) = due.try_check(&MODEL.into(), Mono(1_000)).unwrap();
    let plan = Plan {
        legs: [leg("one"), leg("two")].into_iter().collect(),
        check: Some(PlannedCheck { key: id, guard }),
        ..Plan::default()
    };
    let mut play = Play::new(view, &[]).holding();
    play.walk = Walk::new(plan, Limits { max_attempts: 200 });
    let check = play.call().unwrap();
    assert_eq!(check.key.as_ref().unwrap().id.as_str(), "a");
    assert!(check.check.is_some());
    play.answer(&check, None);
    assert_eq!(play.call().unwrap_err(), Ending::Served);
}

/// A refused check goes on within its provider only as far as free or due keys reach.
#[test]
fn a_refused_check_of_a_provider_costs_one_attempt() {
    let view = view([
        provider("one", [key("a").held(0)]),
        provider("two", [key("c")]),
    ]);
    let mut play = Play::new(view, &["one", "two"]).holding();
    assert_eq!(play.run(&[Some(Credential), None]), Ending::Served);
    assert_eq!(play.calls, ["one a", "two c"]);
}

/// RF-017, RF-062, RF-067.
#[test]
fn every_attempt_is_on_the_trail() {
    let last = key("b").with(|spec| spec.weight = 0.0);
    let mut play = Play::new(plain([provider("p", [key("a"), last]).retries(2)]), &["p"]);
    play.call().unwrap();
    let limited = Failure {
        retry_after_ms: Some(20_000),
        ..failure(RateLimit)
    };
    play.walk.observe(Outcome::failed(limited), play.now);
    play.run(&[Some(Transient), None]);
    insta::assert_json_snapshot!(play.walk.attempts());
}

/// RF-050.
#[test]
fn a_cancelled_attempt_has_no_reason() {
    let mut play = chain([0, 0, 0]);
    play.run(&[Some(Cancelled)]);
    let entry = &play.walk.attempts()[0];
    assert_eq!((entry.status_code, &entry.fail_reason), (Some(499), &None));
}

/// RF-095 to RF-105.
#[test]
fn a_request_tells_of_its_whole_way() {
    let mut play = chain([1, 0, 2]);
    let answers = [
        Some(RateLimit),
        Some(Transient),
        Some(Credential),
        Some(Transient),
        None,
    ];
    play.run(&answers);
    let served = play.lines();
    let mut lost = chain([0, 0, 1]);
    lost.run(&[Some(ModelAccess), Some(Credential), Some(Transient)]);
    insta::assert_snapshot!(format!("{served}\n--\n{}", lost.lines()));
}

/// RF-103: on a rotation the line names the key that comes next.
#[test]
fn a_rotation_tells_the_next_key_by_name() {
    for (class, of) in [(Credential, 3), (RateLimit, 2)] {
        let mut play = Play::new(plain([pool(2, 2)]), &["p"]);
        play.run(&[Some(class), None]);
        let name = play.walk.attempts()[1].key_name.clone().unwrap();
        let lines = play.lines();
        assert!(
            lines.contains(&format!("Retry 1/{of} for p/gpt-4o")),
            "{lines}"
        );
        assert!(lines.contains(&format!("rotated key={name})")), "{lines}");
    }
}

#[test]
fn a_quiet_request_tells_nothing() {
    let mut play = chain([1, 1, 1]);
    assert_eq!(play.run(&[None]), Ending::Served);
    assert_eq!(play.lines(), "");
}

#[test]
fn lines_of_the_caller_stand_where_they_were_added() {
    let mut play = Play::new(plain([pool(2, 0)]), &["p"]);
    let attempt = play.call().unwrap();
    play.answer(&attempt, Some(Credential));
    let held = trail::refused(
        &attempt.provider,
        &attempt.key.as_ref().unwrap().id,
        None,
        crate::failure::Reason::Credential,
        30_000,
        None,
    );
    play.walk.note(held);
    play.run(&[None]);
    let lines = play.lines();
    assert!(
        lines.find("refused key").unwrap() < lines.find("Retry 1/1").unwrap(),
        "{lines}"
    );
    assert_eq!(play.lines(), "", "taken lines are not told twice");
}
