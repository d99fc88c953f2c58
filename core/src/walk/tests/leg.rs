//! One provider: retries, rotation, budgets, and which error is left in the end.

use super::*;
use FailureClass::{
    CallerFault, Cancelled, Credential, ModelAccess, ModelGone, Quota, RateLimit, RegionBlocked,
    Timeout, Transient, Unknown,
};

const PERMANENT: [FailureClass; 5] = [Credential, Quota, ModelAccess, ModelGone, RegionBlocked];

fn one(pool: ProviderView) -> Play {
    Play::new(plain([pool]), &["p"])
}

/// RF-003, RF-012: the same key, after growing waits.
#[test]
fn a_transient_failure_stays_with_its_key() {
    for seed in 0..20 {
        let mut play = one(pool(3, 3)).seed(seed);
        assert_eq!(play.run(&[Some(Transient)]), Ending::Failed { attempt: 3 });
        assert_eq!(play.counts().len(), 1);
        assert_eq!(play.calls.len(), 4);
        for (wait, base) in play.waits.iter().zip([500, 1_000, 2_000]) {
            assert!(
                (base * 8 / 10..=base * 12 / 10).contains(wait),
                "{:?}",
                play.waits
            );
        }
    }
}

/// RF-010, RF-013: dead keys cost no budget and no waiting.
#[test]
fn the_pool_is_walked_past_dead_keys_without_any_budget() {
    for class in PERMANENT {
        let mut play = one(pool(5, 0));
        let dead = Some(class);
        assert_eq!(play.run(&[dead, dead, dead, dead, None]), Ending::Served);
        assert_eq!(play.counts().len(), 5);
        assert!(play.waits.is_empty());
    }
}

/// RF-011, RF-005: another key, after the backoff.
#[test]
fn a_rate_limit_rotates_after_the_backoff() {
    for seed in 0..20 {
        let mut play = one(pool(2, 1)).seed(seed);
        assert_eq!(play.run(&[Some(RateLimit), None]), Ending::Served);
        assert_eq!(play.counts().len(), 2);
        assert!((400..=600).contains(&play.waits[0]));
        assert!(play.walk.attempts()[0].triggered_rotation);
    }
}

/// RF-083.
#[test]
fn a_rate_limit_does_not_rotate_without_retries() {
    let mut play = one(pool(3, 0));
    assert_eq!(play.run(&[Some(RateLimit)]), Ending::Failed { attempt: 0 });
    assert_eq!(play.calls.len(), 1);
}

/// RF-080, RF-044.
#[test]
fn rate_limited_keys_come_round_again() {
    for seed in 0..20 {
        for holding in [false, true] {
            let mut play = Play::new(view([pool(3, 5)]), &["p"]).seed(seed);
            play.holding = holding;
            assert_eq!(play.run(&[Some(RateLimit)]), Ending::Failed { attempt: 5 });
            for round in play.calls.chunks(3) {
                let mut keys = round.to_vec();
                keys.sort();
                assert_eq!(keys, ["p a", "p b", "p c"]);
            }
        }
    }
}

/// RF-009, RF-081.
#[test]
fn a_dead_key_stays_dead_when_the_round_starts_again() {
    for seed in 0..20 {
        let mut play = one(pool(3, 4)).seed(seed);
        let ending = play.run_by(|attempt, _| {
            let is_a = attempt.key.as_ref().unwrap().id.as_str() == "a";
            Some(if is_a { Credential } else { RateLimit })
        });
        assert!(matches!(ending, Ending::Failed { .. }));
        let counts = play.counts();
        assert_eq!(counts["p a"], 1);
        assert_eq!(play.calls.len(), 6);
    }
}

/// RF-074: granted attempts are not charged.
#[test]
fn only_failures_that_may_pass_are_charged() {
    let mut play = one(pool(4, 1));
    let answers = [Some(Credential), Some(RateLimit), Some(Credential), None];
    assert_eq!(play.run(&answers), Ending::Served);
    assert_eq!(play.counts().len(), 4);
}

/// RF-046, RF-047, RF-049, RF-050, RF-072.
#[test]
fn a_failure_of_the_request_is_not_retried() {
    for class in [CallerFault, Unknown, Timeout, Cancelled] {
        let mut play = one(pool(3, 3));
        assert_eq!(play.run(&[Some(class)]), Ending::Failed { attempt: 0 });
        assert_eq!(play.calls.len(), 1);
    }
}

/// RF-015, RF-016, RF-085.
#[test]
fn exhausted_credentials_need_a_budget_that_outlasts_the_pool() {
    let cases = [
        (2, 1, false),
        (2, 2, true),
        (3, 2, false),
        (3, 3, true),
        (1, 0, false),
        (1, 1, true),
    ];
    for (keys, retries, exhausted) in cases {
        for class in [Credential, Quota] {
            let mut play = one(pool(keys, retries));
            let attempt = count(keys) - 1;
            let expected = if exhausted {
                Ending::CredentialsExhausted { attempt }
            } else {
                Ending::Failed { attempt }
            };
            assert_eq!(
                play.run(&[Some(class)]),
                expected,
                "{keys} keys, {retries} retries"
            );
            assert_eq!(play.calls.len(), keys);
        }
    }
}

/// RF-014.
#[test]
fn a_refusal_of_the_model_or_the_region_is_what_the_caller_sees() {
    for retries in [0, 4] {
        for class in [ModelAccess, ModelGone, RegionBlocked] {
            let mut first = one(pool(2, retries));
            assert_eq!(
                first.run(&[Some(class), Some(Credential)]),
                Ending::Failed { attempt: 0 }
            );
            let mut second = one(pool(2, retries));
            assert_eq!(
                second.run(&[Some(Quota), Some(class)]),
                Ending::Failed { attempt: 1 }
            );
        }
    }
}

#[test]
fn the_last_error_is_told_when_the_budget_ends_before_the_pool() {
    let mut play = one(pool(3, 1));
    let answers = [Some(ModelAccess), Some(RateLimit), Some(RateLimit)];
    assert_eq!(play.run(&answers), Ending::Failed { attempt: 2 });
}

/// RF-042, RF-082, RF-086.
#[test]
fn every_key_is_asked_once_about_the_model_and_the_region() {
    for class in [ModelAccess, ModelGone, RegionBlocked] {
        let mut play = one(pool(3, 5));
        assert_eq!(play.run(&[Some(class)]), Ending::Failed { attempt: 2 });
        assert_eq!(play.counts().len(), 3);
    }
}

/// RF-085.
#[test]
fn a_single_key_is_retried_on_a_rate_limit() {
    let mut play = one(pool(1, 2));
    assert_eq!(
        play.run(&[Some(RateLimit), Some(RateLimit), None]),
        Ending::Served
    );
    assert_eq!(play.calls, ["p a"; 3]);
}

/// RF-022.
#[test]
fn a_keyless_provider_is_retried_where_a_key_would_be_rotated() {
    for class in [Credential, Quota, RateLimit, Transient] {
        let mut play = one(provider("p", []).keyless().retries(2));
        assert_eq!(play.run(&[Some(class), Some(class), None]), Ending::Served);
        assert_eq!(play.calls, ["p -"; 3]);
        assert_eq!(play.waits.len(), 2);
    }
    for class in [ModelAccess, ModelGone, RegionBlocked, CallerFault, Unknown] {
        let mut play = one(provider("p", []).keyless().retries(2));
        assert_eq!(play.run(&[Some(class)]), Ending::Failed { attempt: 0 });
    }
    let mut play = one(provider("p", []).keyless().retries(1));
    assert_eq!(play.run(&[Some(Credential)]), Ending::Failed { attempt: 1 });
}

/// RF-111, AR-057.
#[test]
fn a_pinned_request_has_no_other_key() {
    for class in PERMANENT {
        let mut play = Play::new(plain([pool(3, 3)]), &["p@b"]);
        assert_eq!(play.run(&[Some(class)]), Ending::Failed { attempt: 0 });
        assert_eq!(play.calls, ["p b"]);
    }
    for class in [RateLimit, Transient] {
        let mut play = Play::new(plain([pool(3, 2)]), &["p@b"]);
        assert_eq!(play.run(&[Some(class)]), Ending::Failed { attempt: 2 });
        assert_eq!(play.calls, ["p b"; 3]);
    }
}

/// AR-038, AR-062.
#[test]
fn a_callers_own_key_is_sent_without_token_and_check() {
    let keys = [key("a").held(0)];
    let mut play = Play::new(view([provider("p", keys).retries(1)]), &["p+own"]);
    let attempt = play.call().unwrap();
    assert!(attempt.direct_key && attempt.key.is_none());
    assert!(attempt.token.is_none() && attempt.check.is_none());
    play.answer(&attempt, Some(Credential));
    assert_eq!(play.call().unwrap_err(), Ending::Failed { attempt: 0 });
}

#[test]
fn nothing_is_settled_where_nothing_is_adaptive() {
    assert!(one(pool(1, 0)).call().unwrap().token.is_none());
    let adaptive = Play::new(view([pool(1, 0)]), &["p"]).call().unwrap();
    assert!(adaptive.token.is_some());
}

// Holds.

fn with(keys: impl IntoIterator<Item = KeyView>, retries: u32) -> Play {
    Play::new(view([provider("p", keys).retries(retries)]), &["p"])
}

#[test]
fn a_due_key_is_checked_and_its_failure_costs_nothing() {
    let mut play = with([key("a").held(0), key("b")], 0).holding();
    let check = play.call().unwrap();
    assert!(check.check.is_some() && check.token.unwrap().key.due);
    play.answer(&check, Some(Credential));
    drop(check);
    let next = play.call().unwrap();
    assert!(next.check.is_none());
    assert_eq!(play.calls, ["p a", "p b"]);
    let lines = play.lines();
    assert!(
        lines.contains("Checking whether key a can serve p/gpt-4o again"),
        "{lines}"
    );
}

/// A check that ends in an outage is not repeated on the held key: its hold goes on.
#[test]
fn a_transient_check_is_retried_on_another_key() {
    let mut play = with([key("a").held(0), key("b")], 1);
    let check = play.call().unwrap();
    play.walk.observe(outcome(Some(Transient)), play.now);
    drop(check);
    play.view.hold_key("p", &"a".into(), 90_000);
    play.call().unwrap();
    assert_eq!(play.calls, ["p a", "p b"]);
}

/// H5: keys that others hold are spared even by a request that has no free key left.
#[test]
fn a_walk_does_not_reach_for_held_keys_while_one_is_free() {
    let mut play = with([key("a").held(90_000), key("b")], 3);
    // A refusal that must not hold: the key is dead for this request and free for others.
    assert_eq!(play.run(&[Some(Credential)]), Ending::Failed { attempt: 0 });
    assert_eq!(play.calls, ["p b"]);
}

/// AR-099.
#[test]
fn where_every_key_is_held_the_one_due_soonest_is_called() {
    let mut play = with([key("a").held(90_000), key("b").held(50_000)], 0);
    assert_eq!(play.run(&[None]), Ending::Served);
    assert_eq!(play.calls, ["p b"]);
    assert!(
        play.lines()
            .contains("refused all 2 keys for p/gpt-4o; using key b")
    );
}

#[test]
fn a_pinned_key_is_used_though_held_and_checked_when_due() {
    let pinned = |due| {
        let view = view([provider("p", [key("a").held(due), key("b")])]);
        let mut play = Play::new(view, &["p@a"]);
        let attempt = play.call().unwrap();
        (attempt.check.is_some(), play.lines())
    };
    let (check, lines) = pinned(90_000);
    assert!(!check && lines.contains("pinned to key a"), "{lines}");
    let (check, lines) = pinned(0);
    assert!(check && lines.contains("Checking whether key a"), "{lines}");
}

#[test]
fn skipped_keys_are_told_once_per_leg() {
    let keys = [key("a").held(90_000), key("b"), key("c")];
    let mut play = with(keys, 0);
    assert_eq!(play.run(&[Some(Credential), None]), Ending::Served);
    let lines = play.lines();
    assert_eq!(
        lines.matches("Skipping 1 of 3 keys for p/gpt-4o").count(),
        1,
        "{lines}"
    );
}

#[test]
fn the_backoff_never_passes_its_longest() {
    let policy = RetryPolicy {
        max_retries: 9,
        backoff_initial_ms: 500,
        backoff_max_ms: 5_000,
        budget: None,
    };
    let mut rng = rng(1);
    for retry in [4, 5, 40, 63, 64, u32::MAX] {
        for _ in 0..200 {
            let wait = backoff::wait_ms(policy, retry, &mut rng);
            assert!((4_000..=5_000).contains(&wait), "{retry}: {wait}");
        }
    }
    let vast = RetryPolicy {
        backoff_initial_ms: u64::MAX,
        backoff_max_ms: u64::MAX,
        ..policy
    };
    assert!(backoff::wait_ms(vast, 3, &mut rng) > u64::MAX / 2);
    let none = RetryPolicy {
        backoff_initial_ms: 0,
        ..policy
    };
    assert_eq!(backoff::wait_ms(none, 3, &mut rng), 0);
}
