//! Where requests go by health: the best first, Degraded and Recovering ones, failing ones.

use super::*;
use crate::health::State::{self, Degraded, Failed, Healthy, Recovering};
use crate::routing::ProviderView;

/// One provider with one key that is in this state.
fn one(id: &str, state: State, score: f64) -> ProviderView {
    provider(id, [key(&format!("k-{id}"))]).does(state, score)
}

fn first(view: &View, facts: &RequestFacts, seed: u64) -> String {
    planned(view, facts, seed).legs[0].provider.to_string()
}

/// The providers in order, which must be the same whatever chance says.
fn order(view: &View) -> Vec<String> {
    always(view, &request(MODEL, &[]))
}

/// AR-002, AR-003.
#[test]
fn the_healthiest_provider_begins_and_the_others_follow_best_first() {
    let view = view([
        one("alpha", Healthy, 0.4),
        one("beta", Healthy, 0.9),
        one("gamma", Healthy, 0.7),
    ]);
    assert_eq!(order(&view), ["beta", "gamma", "alpha"]);
    let told = lines(&planned(&view, &request(MODEL, &[]), 1));
    insta::assert_snapshot!(told);
}

#[test]
fn providers_that_do_equally_well_share_the_requests() {
    let view = view([
        one("alpha", Healthy, 0.9),
        one("beta", Healthy, 0.87),
        one("gamma", Healthy, 0.8),
    ]);
    let counts = starts(&view, &request(MODEL, &[]));
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["alpha", "beta"]);
    assert!(counts.values().all(|count| *count > 100), "{counts:?}");
    let told = lines(&planned(&view, &request(MODEL, &[]), 1));
    assert!(told.contains("drawn from 2 that do equally well"), "{told}");
}

/// AR-030.
#[test]
fn a_degraded_provider_stands_behind_clean_ones_whatever_its_score() {
    let view = view([
        one("alpha", Degraded, 0.99),
        one("beta", Healthy, 0.3),
        one("gamma", Degraded, 0.5),
    ]);
    assert_eq!(order(&view), ["beta", "alpha", "gamma"]);
}

/// AR-031.
#[test]
fn a_failing_provider_is_left_out() {
    let view = view([one("alpha", Failed, 0.9), one("beta", Degraded, 0.1)]);
    assert_eq!(order(&view), ["beta"]);
    let told = lines(&planned(&view, &request(MODEL, &[]), 1));
    assert!(
        told.contains("Leaving out alpha/gpt-4o: every key of alpha is failing"),
        "{told}"
    );
}

/// Of failing ones, one that only errs may serve all the same.
#[test]
fn where_every_provider_is_failing_the_least_bad_is_asked() {
    let mut view = view([
        one("alpha", Healthy, 1.0),
        one("beta", Failed, 0.1),
        one("gamma", Failed, 0.3),
    ]);
    view.hold_key("alpha", &KeyId::from("k-alpha"), LATER);
    assert_eq!(order(&view), ["gamma"]);
    let told = lines(&planned(&view, &request(MODEL, &[]), 1));
    assert!(told.contains("every provider is failing"), "{told}");
}

/// AR-019, contract: one request per recompute at least, with healthy ones behind.
#[test]
fn a_recovering_provider_gets_one_request_per_recompute() {
    let view = view([one("alpha", Recovering, 0.0), one("beta", Healthy, 0.9)]);
    let asked = request(MODEL, &[]);
    let dry = dry_run(&view, &asked, &mut rng(1), NOW).unwrap();
    assert_eq!(legs(&dry), ["alpha", "beta"]);
    let proof = planned(&view, &asked, 1);
    assert_eq!(legs(&proof), ["alpha", "beta"]);
    assert!(lines(&proof).contains("it earns its traffic back"));
    for seed in 0..50 {
        assert_eq!(legs(&planned(&view, &asked, seed)), ["beta", "alpha"]);
    }
    let recomputed = View {
        providers: super::view([one("alpha", Recovering, 0.0), one("beta", Healthy, 0.9)])
            .providers,
        ..view
    };
    assert_eq!(first(&recomputed, &asked, 1), "alpha");
}

/// Of requests that plan at the same time, one takes the turn.
#[test]
fn a_turn_is_taken_once_however_many_plan() {
    let view = view([one("alpha", Recovering, 0.0), one("beta", Healthy, 0.9)]);
    let asked = request(MODEL, &[]);
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                scope.spawn({
                    let (view, asked) = (&view, &asked);
                    move || usize::from(first(view, asked, seed) == "alpha")
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(taken, 1);
}

#[test]
fn the_share_of_a_recovering_provider_grows_with_what_it_earned_back() {
    let asked = request(MODEL, &[]);
    let share = |score| {
        let view = view([
            one("alpha", Recovering, score),
            one("beta", Healthy, 0.9),
            one("gamma", Healthy, 0.9),
        ]);
        let _turn = planned(&view, &asked, 0);
        let counts = starts(&view, &asked);
        counts.get("alpha").copied().unwrap_or_default()
    };
    let shares = [0.0, 0.3, 0.9].map(share);
    assert_eq!(shares[0], 0);
    assert!(
        (15..50).contains(&shares[1]),
        "{shares:?} of 300, 30 expected"
    );
    assert!(
        (65..115).contains(&shares[2]),
        "{shares:?} of 300, 90 expected"
    );
}

#[test]
fn where_only_recovering_providers_are_left_the_better_begins() {
    let view = view([one("alpha", Recovering, 0.2), one("beta", Recovering, 0.6)]);
    assert_eq!(order(&view), ["beta", "alpha"]);
}

/// A key that is due would wait for ever while clean providers take every request.
#[test]
fn a_due_key_of_a_provider_that_serves_is_checked_too() {
    let view = view([
        provider("alpha", [key("k-1").held(1_000), key("k-2")]),
        one("beta", Healthy, 0.9),
    ]);
    let asked = request(MODEL, &[]);
    let check = planned(&view, &asked, 1);
    assert_eq!(legs(&check), ["alpha", "beta"]);
    assert_eq!(check.check.as_ref().unwrap().key.as_str(), "k-1");
    insta::assert_snapshot!(lines(&check), @r"
    Sending this request to alpha/gpt-4o first: a key that it refused is due for a check
    Added 1 fallback(s) for gpt-4o: beta
    ");
    for seed in 0..20 {
        assert_eq!(legs(&planned(&view, &asked, seed)), ["beta", "alpha"]);
    }
}

#[test]
fn pins_and_own_keys_prove_nothing() {
    let view = view([one("alpha", Recovering, 0.0), one("beta", Healthy, 0.9)]);
    let own = RequestFacts {
        direct_key: true,
        ..request(MODEL, &[])
    };
    assert_eq!(always(&view, &own), ["beta+own", "alpha"]);
    assert_eq!(
        always(&view, &pinned(MODEL, "k-beta")),
        ["beta@k-beta", "alpha"]
    );
    assert_eq!(
        first(&view, &request(MODEL, &[]), 1),
        "alpha",
        "the turn is left"
    );
}

// Named.

/// AR-045, AR-052: failing by health is failing.
#[test]
fn redirect_and_append_go_by_health() {
    let view = view([
        one("alpha", Failed, 0.1),
        one("beta", Degraded, 0.5),
        one("gamma", Healthy, 0.4),
    ]);
    let asked = request("alpha/gpt-4o", &[]);
    let stays = planned(&view, &asked, 1);
    assert_eq!(legs(&stays), ["alpha"]);
    assert!(stays.kept_on_failing);
    assert_eq!(
        lines(&stays),
        "Keeping this request on alpha/gpt-4o, which is failing: redirecting is off"
    );
    let view = redirect(view);
    let moved = planned(&view, &asked, 1);
    assert_eq!(always(&view, &asked), ["gamma", "beta", "alpha"]);
    assert!(!moved.kept_on_failing);
    assert!(lines(&moved).contains(
        "Moving this request from alpha/gpt-4o to gamma/gpt-4o: every key of alpha is failing"
    ));
    let view = view.set(|s| {
        s.reroute_failed_directions = false;
        s.append_fallbacks_to_pinned = true;
    });
    assert_eq!(
        always(&view, &request("beta/gpt-4o", &[])),
        ["beta", "gamma"],
        "the failing one is not added"
    );
}

/// AR-051, AR-054.
#[test]
fn a_recovering_provider_keeps_the_requests_that_name_it() {
    let view = redirect(view([
        one("alpha", Recovering, 0.1),
        one("beta", Healthy, 0.9),
    ]));
    let asked = request("alpha/gpt-4o", &[]);
    assert_eq!(always(&view, &asked), ["alpha"]);
    assert!(!planned(&view, &asked, 1).kept_on_failing);
    let view = view.set(|s| s.append_fallbacks_to_pinned = true);
    assert_eq!(always(&view, &asked), ["alpha", "beta"]);
}

/// AR-049, LB-087: it stays, and its own fallbacks are managed all the same.
#[test]
fn with_nothing_healthier_own_fallbacks_are_pruned_and_it_counts() {
    let view = redirect(view([one("alpha", Failed, 0.1), one("beta", Failed, 0.1)]));
    let asked = request("alpha/gpt-4o", &["beta/gpt-4o", "nobody/x"]);
    assert_eq!(always(&view, &asked), ["alpha", "beta", "nobody/x"]);
    let plan = planned(&view, &asked, 1);
    assert!(plan.kept_on_failing);
    assert!(lines(&plan).contains("no other provider of the model does better"));
    let view = view.set(|s| s.prune_failed_fallbacks = true);
    assert_eq!(always(&view, &asked), ["alpha", "nobody/x"]);
}

/// AR-046: "whatever its provider or model" includes the named provider and fallbacks without one.
#[test]
fn own_fallbacks_of_any_kind_take_a_redirected_request() {
    let both = |id: &str| {
        key(id).with(|spec| spec.models = ModelRule::Only([MODEL.into(), "mini".into()].into()))
    };
    let view = redirect(view([
        provider("alpha", [both("k-alpha")]).does(Failed, 0.1),
        one("beta", Healthy, 0.9),
    ]))
    .set(|s| s.reroute_target = RerouteTarget::Fallbacks);
    assert_eq!(
        always(
            &view,
            &request("alpha/gpt-4o", &["alpha/gpt-4o", "alpha/mini"])
        ),
        ["alpha/mini", "beta", "alpha"],
        "the failing one is tried once, last"
    );
    assert_eq!(
        always(&view, &request("alpha/gpt-4o", &["mini", "beta/gpt-4o"])),
        ["alpha/mini", "beta", "alpha"]
    );
}

/// AR-050 with a pin: the pinned key, due, is checked where it is.
#[test]
fn a_request_pinned_to_a_due_key_is_its_check() {
    let due = redirect(held(three(), &["alpha"], 1_000));
    for seed in 0..10 {
        let plan = planned(&due, &pinned("alpha/gpt-4o", "k-alpha"), seed);
        assert_eq!(legs(&plan)[0], "alpha@k-alpha");
        assert_eq!(plan.legs.len(), 3);
        assert!(plan.check.is_none(), "the walk takes it when it sends");
    }
}

// Keys that a rule pinned.

fn ruled(asked: &str, rule: &str, caller: Option<&str>) -> RequestFacts {
    RequestFacts {
        rule_pin: Some(Pin::Name(rule.to_uppercase())),
        pin: caller.map(|id| Pin::Id(KeyId::from(id))),
        ..request(asked, &[])
    }
}

/// AR-060, AR-061.
#[test]
fn the_pin_of_a_rule_comes_before_the_callers_and_stays_with_its_provider() {
    let two = || {
        view([
            provider("alpha", [key("k-1"), key("k-2")]),
            provider("beta", [key("k-b")]),
        ])
    };
    assert_eq!(
        always(&two(), &ruled("alpha/gpt-4o", "k-1", Some("k-2"))),
        ["alpha@k-1"]
    );
    let mut failing = redirect(two());
    for id in ["k-1", "k-2"] {
        failing.hold_key("alpha", &KeyId::from(id), LATER);
    }
    assert_eq!(
        always(&failing, &ruled("alpha/gpt-4o", "k-1", None)),
        ["beta", "alpha@k-1"]
    );
    let error = plan(
        &two(),
        &ruled("alpha/gpt-4o", "k-9", None),
        &mut rng(1),
        NOW,
    );
    insta::assert_snapshot!(error.unwrap_err().to_string());
}

// Switches off leave things alone.

/// AR-042, LB-083.
#[test]
fn without_adaptive_routing_health_decides_nothing() {
    let mut view = redirect(view([one("alpha", Failed, 0.1), one("beta", Healthy, 0.9)]))
        .set(|s| s.append_fallbacks_to_pinned = true);
    let off = view.clone().set(|s| s.direction_selection_enabled = false);
    assert_eq!(
        always(&off, &request(MODEL, &["beta/x"])),
        ["alpha", "beta/x"]
    );
    view.adaptive = false;
    assert_eq!(always(&view, &request(MODEL, &[])), ["alpha"]);
    let plan = planned(&view, &request("alpha/gpt-4o", &[]), 1);
    assert!(!plan.kept_on_failing);
}
