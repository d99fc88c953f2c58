//! Where requests go: named and bare, held and due, moved, appended, pruned, pinned.

mod health;
mod names;
mod sessions;

use std::collections::BTreeMap;

use super::*;
use crate::routing::ModelRule;
use crate::routing::fixture::{MODEL, key, provider, rng, view};
use crate::routing::settings::RerouteTarget;

const NOW: Mono = Mono(1_000);
const LATER: u64 = 9_000;

/// `alpha`, `beta` and `gamma`, each with one key of its own that serves the model.
fn three() -> View {
    view(["alpha", "beta", "gamma"].map(|id| provider(id, [key(&format!("k-{id}"))])))
}

fn held(mut view: View, providers: &[&str], due: u64) -> View {
    for provider in providers {
        view.hold_key(provider, &KeyId::from(format!("k-{provider}")), due);
    }
    view
}

fn target(text: &str) -> Target {
    match text.split_once('/') {
        Some((provider, model)) => Target {
            provider: Some(ProviderId::from(provider)),
            model: ModelId::from(model),
        },
        None => Target {
            provider: None,
            model: ModelId::from(text),
        },
    }
}

fn request(asked: &str, fallbacks: &[&str]) -> RequestFacts {
    RequestFacts {
        fallbacks: fallbacks.iter().map(|text| target(text)).collect(),
        ..RequestFacts::new(target(asked))
    }
}

fn pinned(asked: &str, pin: &str) -> RequestFacts {
    RequestFacts {
        pin: Some(Pin::Id(KeyId::from(pin))),
        ..request(asked, &[])
    }
}

fn legs(plan: &Plan) -> Vec<String> {
    plan.legs
        .iter()
        .map(|leg| {
            let model = if leg.model.as_str() == MODEL {
                String::new()
            } else {
                format!("/{}", leg.model)
            };
            let pin = leg
                .pin
                .as_ref()
                .map_or_else(String::new, |pin| format!("@{pin}"));
            let own = if leg.direct_key { "+own" } else { "" };
            format!("{}{model}{pin}{own}", leg.provider)
        })
        .collect()
}

fn planned(view: &View, facts: &RequestFacts, seed: u64) -> Plan {
    plan(view, facts, &mut rng(seed), NOW).unwrap()
}

/// The legs, which must be the same whatever chance says.
fn always(view: &View, facts: &RequestFacts) -> Vec<String> {
    let first = legs(&planned(view, facts, 0));
    for seed in 1..30 {
        assert_eq!(legs(&planned(view, facts, seed)), first);
    }
    first
}

/// How often each provider comes first.
fn starts(view: &View, facts: &RequestFacts) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for seed in 0..300 {
        let plan = planned(view, facts, seed);
        *counts.entry(plan.legs[0].provider.to_string()).or_default() += 1;
    }
    counts
}

fn lines(plan: &Plan) -> String {
    plan.notes
        .iter()
        .map(|line| line.message.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

// Named.

/// AR-041, AR-042.
#[test]
fn a_named_request_is_left_as_it_is() {
    assert_eq!(always(&three(), &request("alpha/gpt-4o", &[])), ["alpha"]);
    assert_eq!(
        always(
            &three(),
            &request(
                "alpha/gpt-4o",
                &["gamma/gpt-4o", "nobody/x", "alpha/gpt-4o"]
            )
        ),
        ["alpha", "gamma", "nobody/x", "alpha"]
    );
}

/// AR-044, AR-102.
#[test]
fn without_redirect_a_held_provider_keeps_its_requests() {
    let view = held(three(), &["alpha"], LATER);
    assert_eq!(always(&view, &request("alpha/gpt-4o", &[])), ["alpha"]);
    let due = held(three(), &["alpha"], 0);
    let plan = planned(&due, &request("alpha/gpt-4o", &[]), 1);
    assert!(plan.check.is_none(), "only redirecting makes it the check");
}

/// AR-052, LB-085.
#[test]
fn append_adds_open_providers_behind_own_fallbacks() {
    let view = held(three(), &["gamma"], LATER).set(|s| s.append_fallbacks_to_pinned = true);
    assert_eq!(
        always(&view, &request("alpha/gpt-4o", &["alpha/mini"])),
        ["alpha", "alpha/mini", "beta"]
    );
}

/// LB-088.
#[test]
fn pruning_drops_own_fallbacks_that_are_held_on_every_key() {
    let asked = request("alpha/gpt-4o", &["beta/gpt-4o", "gamma/gpt-4o"]);
    let append = held(three(), &["beta"], LATER).set(|s| s.append_fallbacks_to_pinned = true);
    assert_eq!(always(&append, &asked), ["alpha", "beta", "gamma"]);
    let prune = append.set(|s| s.prune_failed_fallbacks = true);
    assert_eq!(always(&prune, &asked), ["alpha", "gamma"]);
    let untouched = prune.set(|s| s.append_fallbacks_to_pinned = false);
    assert_eq!(always(&untouched, &asked), ["alpha", "beta", "gamma"]);
}

fn redirect(view: View) -> View {
    view.set(|s| s.reroute_failed_directions = true)
}

/// AR-043.
#[test]
fn redirect_leaves_an_open_provider_alone() {
    assert_eq!(
        always(&redirect(three()), &request("alpha/gpt-4o", &[])),
        ["alpha"]
    );
}

/// AR-045, AR-048.
#[test]
fn redirect_moves_to_the_pool_and_keeps_the_named_provider_last() {
    let view = redirect(held(three(), &["alpha"], LATER)).set(|s| s.prune_failed_fallbacks = true);
    for seed in 0..20 {
        let plan = planned(&view, &request("alpha/gpt-4o", &["alpha/mini"]), seed);
        let mut legs = legs(&plan);
        assert_eq!(legs.pop().unwrap(), "alpha");
        assert_eq!(legs.remove(1), "alpha/mini");
        legs.sort();
        assert_eq!(legs, ["beta", "gamma"]);
        assert!(lines(&plan).contains("Moving this request from alpha/gpt-4o to"));
    }
}

/// AR-046, AR-047.
#[test]
fn redirect_to_own_fallbacks_takes_the_first_open_one() {
    let view = redirect(held(three(), &["alpha", "beta"], LATER))
        .set(|s| s.reroute_target = RerouteTarget::Fallbacks);
    let own = request("alpha/gpt-4o", &["beta/gpt-4o", "gamma/gpt-4o"]);
    assert_eq!(always(&view, &own), ["gamma", "beta", "alpha"]);
    let none = request("alpha/gpt-4o", &["beta/gpt-4o"]);
    assert_eq!(always(&view, &none), ["gamma", "beta", "alpha"]);
}

/// AR-049.
#[test]
fn with_nowhere_to_go_the_request_stays() {
    let view = redirect(held(three(), &["alpha", "beta", "gamma"], LATER));
    assert_eq!(always(&view, &request("alpha/gpt-4o", &[])), ["alpha"]);
}

/// AR-050, AR-101, AR-102.
#[test]
fn one_redirected_request_checks_the_due_provider() {
    let view = redirect(held(three(), &["alpha"], 1_000));
    let asked = request("alpha/gpt-4o", &[]);
    let check = planned(&view, &asked, 1);
    assert_eq!(legs(&check)[0], "alpha");
    assert_eq!(check.legs.len(), 3);
    assert_eq!(check.check.as_ref().unwrap().key.as_str(), "k-alpha");
    for seed in 0..40 {
        let other = planned(&view, &asked, seed);
        assert_ne!(legs(&other)[0], "alpha");
        assert!(other.check.is_none());
    }
    drop(check);
    assert!(
        planned(&view, &asked, 1).check.is_some(),
        "a dropped plan gives the check back"
    );
}

/// AR-058, AR-059.
#[test]
fn a_pin_goes_along_with_a_redirect() {
    let view = redirect(held(three(), &["alpha"], LATER));
    for seed in 0..20 {
        let plan = planned(&view, &pinned("alpha/gpt-4o", "k-alpha"), seed);
        let legs = legs(&plan);
        assert!(
            legs == ["beta", "alpha"] || legs == ["gamma", "alpha"],
            "{legs:?}"
        );
        assert!(lines(&plan).contains("does not have the key"));
    }
}

/// AR-063.
#[test]
fn a_callers_own_key_goes_along_with_a_redirect() {
    let view = redirect(held(
        view([
            provider("alpha", [key("k-alpha")]),
            provider("beta", [key("k-beta")]),
        ]),
        &["alpha"],
        0,
    ));
    let own = RequestFacts {
        direct_key: true,
        ..request("alpha/gpt-4o", &[])
    };
    assert_eq!(always(&view, &own), ["beta+own", "alpha"]);
}

// Bare.

/// AR-100.
#[test]
fn a_bare_model_goes_to_any_open_provider_with_the_others_behind() {
    let view = held(three(), &["beta"], LATER);
    let counts = starts(&view, &request(MODEL, &[]));
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["alpha", "gamma"]);
    assert!(counts.values().all(|count| *count > 100), "{counts:?}");
    for seed in 0..20 {
        let mut legs = legs(&planned(&view, &request(MODEL, &[]), seed));
        legs.sort();
        assert_eq!(legs, ["alpha", "gamma"]);
    }
}

#[test]
fn own_fallbacks_of_a_bare_model_come_before_the_added_ones() {
    let view = view([
        provider("alpha", [key("k-alpha")]),
        provider("beta", [key("k-beta")]),
    ]);
    for seed in 0..20 {
        let plan = planned(&view, &request(MODEL, &["alpha/mini"]), seed);
        assert_eq!(legs(&plan)[1], "alpha/mini");
        assert_eq!(plan.legs.len(), 3);
    }
}

/// AR-101.
#[test]
fn one_bare_request_checks_the_due_provider_with_the_open_ones_behind() {
    let view = held(three(), &["beta"], 1_000);
    let asked = request(MODEL, &[]);
    let check = planned(&view, &asked, 1);
    assert_eq!(legs(&check)[0], "beta");
    assert_eq!(check.legs.len(), 3);
    assert!(check.check.is_some());
    for seed in 0..40 {
        let other = planned(&view, &asked, seed);
        assert!(!legs(&other).contains(&"beta".to_owned()));
    }
}

/// Of requests that plan at the same time, one is the check.
#[test]
fn a_check_is_planned_once_however_many_plan() {
    let view = held(three(), &["beta"], 1_000);
    let asked = request(MODEL, &[]);
    let plans: Vec<Plan> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                let (view, asked) = (&view, &asked);
                scope.spawn(move || {
                    (0..5)
                        .map(|n| planned(view, asked, seed * 5 + n))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(plans.iter().filter(|plan| plan.check.is_some()).count(), 1);
    assert_eq!(
        plans
            .iter()
            .filter(|plan| plan.legs[0].provider.as_str() == "beta")
            .count(),
        1
    );
}

/// AR-130.
#[test]
fn a_dry_run_decides_the_same_and_takes_no_check() {
    let view = held(three(), &["beta"], 1_000);
    let asked = request(MODEL, &[]);
    for seed in 0..5 {
        let dry = dry_run(&view, &asked, &mut rng(seed), NOW).unwrap();
        assert_eq!(legs(&dry)[0], "beta");
        assert!(dry.check.is_none());
    }
    assert!(planned(&view, &asked, 1).check.is_some());
}

/// AR-099.
#[test]
fn where_every_provider_is_held_the_one_due_soonest_is_asked() {
    let view = held(held(three(), &["alpha", "gamma"], LATER), &["beta"], 5_000);
    assert_eq!(always(&view, &request(MODEL, &[])), ["beta"]);
}

/// LB-083.
#[test]
fn without_provider_selection_the_first_provider_is_used_and_nothing_added() {
    let off = three().set(|s| s.direction_selection_enabled = false);
    assert_eq!(
        always(&off, &request(MODEL, &["gamma/gpt-4o"])),
        ["alpha", "gamma"]
    );
    let mut plain = held(three(), &["alpha"], LATER);
    plain.adaptive = false;
    assert_eq!(always(&plain, &request(MODEL, &[])), ["alpha"]);
}

#[test]
fn providers_that_name_the_model_come_before_those_open_to_any() {
    let open = key("k-any").with(|spec| spec.models = ModelRule::All);
    let aliased = key("k-alias").with(|spec| {
        spec.models = ModelRule::All;
        spec.aliases = [(MODEL.to_owned(), "deployment".to_owned())].into();
    });
    let view = view([
        provider("any", [open]),
        provider("local", []).keyless(),
        provider("named", [key("k-named")]),
        provider("aliased", [aliased]),
    ]);
    let counts = starts(&view, &request(MODEL, &[]));
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["aliased", "named"]);
    let plan = planned(&view, &request(MODEL, &[]), 3);
    let mut last = legs(&plan).split_off(2);
    last.sort();
    assert_eq!(last, ["any", "local"]);
}

#[test]
fn a_bare_fallback_goes_to_a_provider_of_its_model() {
    let mini = key("k-mini").with(|spec| spec.models = ModelRule::Only(["mini".to_owned()].into()));
    let view = view([
        provider("alpha", [key("k-alpha")]),
        provider("small", [mini]),
    ]);
    let plan = planned(&view, &request("alpha/gpt-4o", &["mini", "unheard-of"]), 1);
    assert_eq!(legs(&plan), ["alpha", "small/mini"]);
    assert!(lines(&plan).contains("no configured provider serves"));
}

// Pins, own keys, mistakes.

#[test]
fn a_pin_is_found_by_id_and_by_name() {
    let view = view([provider("alpha", [key("k-1"), key("k-2")])]);
    assert_eq!(always(&view, &pinned("alpha/gpt-4o", "k-2")), ["alpha@k-2"]);
    let by_name = RequestFacts {
        pin: Some(Pin::Name("K-1".to_owned())),
        ..request("alpha/gpt-4o", &["alpha/gpt-4o"])
    };
    assert_eq!(always(&view, &by_name), ["alpha@k-1", "alpha"]);
}

#[test]
fn a_bare_model_with_a_pin_goes_to_the_provider_that_has_the_key() {
    for seed in 0..20 {
        let plan = planned(&held(three(), &["beta"], 0), &pinned(MODEL, "k-beta"), seed);
        assert_eq!(legs(&plan)[0], "beta@k-beta");
        assert!(plan.check.is_none(), "the walk takes it when it sends");
    }
}

/// AR-062.
#[test]
fn a_callers_own_key_is_for_the_first_leg_and_checks_nothing() {
    let view = held(three(), &["alpha"], 0);
    let own = |asked| RequestFacts {
        direct_key: true,
        ..request(asked, &["beta/gpt-4o"])
    };
    assert_eq!(always(&view, &own("alpha/gpt-4o")), ["alpha+own", "beta"]);
    assert_eq!(
        always(&view, &own("alpha/unheard-of")),
        ["alpha/unheard-of+own", "beta"]
    );
    for seed in 0..20 {
        let plan = planned(&view, &own(MODEL), seed);
        assert!(plan.legs[0].direct_key && plan.check.is_none());
        assert!(plan.legs[1..].iter().all(|leg| !leg.direct_key));
    }
}

#[test]
fn mistakes_of_the_caller_are_told() {
    let view = three();
    let error = |facts: &RequestFacts| {
        plan(&view, facts, &mut rng(1), NOW)
            .unwrap_err()
            .to_string()
    };
    let told = [
        error(&request("nobody/gpt-4o", &[])),
        error(&request("alpha/unheard-of", &[])),
        error(&request("unheard-of", &[])),
        error(&pinned("alpha/gpt-4o", "no-such-key")),
        error(&pinned(MODEL, "no-such-key")),
        error(&RequestFacts {
            pin: Some(Pin::Name("k-beta".to_owned())),
            ..request("alpha/gpt-4o", &[])
        }),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn what_a_plan_tells() {
    let view = held(held(three(), &["alpha"], LATER), &["beta"], 0);
    insta::assert_snapshot!(lines(&planned(&view, &request(MODEL, &[]), 1)));
}
