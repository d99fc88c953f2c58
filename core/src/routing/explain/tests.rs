//! Explaining tells what planning and walking then do.

use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use super::*;
use crate::health::{ModelHealth, RouteHealth};
use crate::routing::fixture::{MODEL, key, model, provider, rng, view};
use crate::routing::settings::RerouteTarget;
use crate::routing::{KeyView, ModelRule, Pin, Target, plan};
use crate::walk::{Limits, Step, Walk};

const NOW: Mono = Mono(1_000);

fn random_key(id: &str, rng: &mut StdRng) -> KeyView {
    let mut made = key(id).with(|spec| {
        spec.weight = [0.0, 0.5, 1.0, 2.0][rng.random_range(0..4)];
        spec.enabled = rng.random_ratio(19, 20);
        if rng.random_ratio(1, 4) {
            spec.models = ModelRule::All;
        } else if rng.random_ratio(1, 8) {
            spec.models = ModelRule::Only(["other".to_owned()].into());
        }
    });
    let due = [NOW.0 - 1, NOW.0 + 9_000, NOW.0 + 500_000][rng.random_range(0..3)];
    if rng.random_ratio(1, 5) {
        made = made.held(due);
    }
    if rng.random_ratio(1, 8) {
        made = made.held_for(MODEL, due + 7);
    }
    made
}

fn random_provider(at: usize, rng: &mut StdRng) -> ProviderView {
    let count = rng.random_range(0..4);
    let keys: Vec<KeyView> = (0..count)
        .map(|number| random_key(&format!("k-{at}-{number}"), rng))
        .collect();
    let mut made = provider(&format!("p{at}"), keys);
    made.keyless = made.keys.is_empty() && rng.random();
    if rng.random_ratio(2, 3) {
        let states = [
            State::Healthy,
            State::Healthy,
            State::Degraded,
            State::Recovering,
            State::Failed,
        ];
        let route = |rng: &mut StdRng| {
            let state = states[rng.random_range(0..states.len())];
            RouteHealth {
                state,
                weight: if state == State::Failed {
                    0.0
                } else {
                    rng.random_range(0.1..1.0)
                },
                since: Mono(rng.random_range(0..900)),
                ..RouteHealth::default()
            }
        };
        let health = ModelHealth {
            routes: (0..made.keys.len().max(1)).map(|_| route(rng)).collect(),
            score: [0.1, 0.5, 0.52, 0.9][rng.random_range(0..4)],
            ..ModelHealth::default()
        };
        made.health = Arc::new([(model(), health)].into());
    }
    made
}

/// A state of a node and a request, the same for the same seed.
fn state(seed: u64) -> (View, RequestFacts) {
    let rng = &mut rng(seed);
    let count = rng.random_range(1..5);
    let providers: Vec<ProviderView> = (0..count).map(|at| random_provider(at, rng)).collect();
    let named = |rng: &mut StdRng| ProviderId::from(format!("p{}", rng.random_range(0..count)));
    let target = |rng: &mut StdRng| Target {
        provider: rng.random::<bool>().then(|| named(rng)),
        model: ModelId::from(if rng.random_ratio(9, 10) {
            MODEL
        } else {
            "other"
        }),
    };
    let first = Target {
        model: model(),
        ..target(rng)
    };
    let pinned = KeyId::from(format!("k-{}-0", rng.random_range(0..count)));
    let facts = RequestFacts {
        fallbacks: (0..rng.random_range(0..3)).map(|_| target(rng)).collect(),
        pin: rng.random_ratio(1, 8).then_some(Pin::Id(pinned)),
        ..RequestFacts::new(first)
    };
    let mut view = view(providers).set(|settings| {
        settings.direction_selection_enabled = rng.random_ratio(7, 8);
        settings.route_selection_enabled = rng.random_ratio(3, 4);
        settings.append_fallbacks_to_pinned = rng.random();
        settings.reroute_failed_directions = rng.random();
        settings.prune_failed_fallbacks = rng.random();
        if rng.random() {
            settings.reroute_target = RerouteTarget::Fallbacks;
        }
    });
    view.adaptive = rng.random_ratio(9, 10);
    (view, facts)
}

fn told<'e>(explanation: &'e Explanation, provider: &ProviderId) -> &'e ProviderTold {
    let mut providers = explanation.providers.iter();
    providers.find(|told| told.provider == *provider).unwrap()
}

/// What is the same in every way that the request may go.
fn assert_agrees(seed: u64, explanation: &Explanation, draw: u64) {
    let (view, facts) = state(seed);
    let mut rng = rng(seed * 1_000 + draw);
    let live = plan(&view, &facts, &mut rng, NOW).unwrap();
    let first = live.legs[0].clone();
    let stays = facts.target.provider.as_ref() == Some(&first.provider) && first.pin.is_some();
    let moved_pin = facts.pin.is_some() && facts.target.provider.is_some() && !stays;
    let is_own = |leg: &Leg| {
        let own = facts.fallbacks.iter().chain([&facts.target]);
        own.clone()
            .any(|t| t.provider.as_ref() == Some(&leg.provider) || t.model != facts.target.model)
    };
    for leg in &live.legs {
        let told = told(explanation, &leg.provider);
        let asked_for = told.share > 0.0 || is_own(leg) || told.state != State::Failed;
        let only_failing = explanation
            .providers
            .iter()
            .all(|t| !t.serves || t.state == State::Failed);
        assert!(
            asked_for || only_failing,
            "seed {seed}: {} is called, told {told:?}",
            leg.provider
        );
    }
    if moved_pin {
        return;
    }
    let begins = told(explanation, &first.provider);
    if facts.target.model == first.model {
        assert!(begins.share > 0.0, "seed {seed}: began at {begins:?}");
    }
    let certain = explanation
        .providers
        .iter()
        .find(|told| told.share > 0.999_999);
    if let Some(certain) = certain {
        assert_eq!(
            certain.provider, first.provider,
            "seed {seed}: told {certain:?}"
        );
    }
    let mut walk = Walk::new(live, Limits { max_attempts: 200 });
    let Step::Call(attempt) = walk.next(&view, NOW, &mut rng) else {
        panic!("seed {seed}: nothing is called");
    };
    if attempt.provider == first.provider
        && first.model == begins.model
        && let Some(used) = &attempt.key
    {
        let key = begins.keys.iter().find(|key| key.key == used.id).unwrap();
        assert!(key.share > 0.0, "seed {seed}: used {key:?} of {begins:?}");
    }
}

#[test]
fn explain_and_the_live_choice_agree_in_thousands_of_states() {
    let mut plans = 0;
    for seed in 0..4_000 {
        let (view, facts) = state(seed);
        let explained = explain(&view, &facts, &mut rng(seed), NOW);
        let (fresh, _) = state(seed);
        let live = plan(&fresh, &facts, &mut rng(seed), NOW);
        match (explained, live) {
            (Err(explained), Err(live)) => assert_eq!(explained, live, "seed {seed}"),
            (Ok(explanation), Ok(live)) => {
                plans += 1;
                assert_eq!(explanation.legs, live.legs.to_vec(), "seed {seed}");
                assert_eq!(explanation.notes, live.notes, "seed {seed}");
                for draw in 0..4 {
                    assert_agrees(seed, &explanation, draw);
                }
            }
            (explained, live) => panic!("seed {seed}: {explained:?} and {live:?}"),
        }
    }
    assert!(plans > 2_000, "{plans} of the states can be planned for");
}

/// How often requests begin somewhere, and use a key there, is what is told of the shares.
#[test]
fn shares_are_what_requests_come_to() {
    const DRAWS: u32 = 2_000;
    let mut drawn = 0;
    for seed in (0..8_000).filter(|seed| explained(*seed).is_some_and(|told| is_open(&told))) {
        let explanation = explained(seed).unwrap();
        drawn += 1;
        let mut begun = vec![0_u32; explanation.providers.len()];
        for draw in 0..DRAWS {
            let (view, facts) = state(seed);
            let live = plan(&view, &facts, &mut rng(u64::from(draw)), NOW).unwrap();
            let at = explanation
                .providers
                .iter()
                .position(|t| t.provider == live.legs[0].provider);
            begun[at.unwrap()] += 1;
        }
        for (told, count) in explanation.providers.iter().zip(begun) {
            let share = f64::from(count) / f64::from(DRAWS);
            assert!(
                (share - told.share).abs() < 0.06,
                "seed {seed}: {share} of {told:?}"
            );
        }
        if drawn == 8 {
            break;
        }
    }
    assert!(drawn >= 5, "{drawn} states leave something to chance");
}

fn explained(seed: u64) -> Option<Explanation> {
    let (view, facts) = state(seed);
    let plain = facts.pin.is_none() && facts.fallbacks.is_empty();
    explain(&view, &facts, &mut rng(seed), NOW)
        .ok()
        .filter(|_| plain)
}

/// Something is left to chance.
fn is_open(explanation: &Explanation) -> bool {
    explanation
        .providers
        .iter()
        .any(|told| told.share > 0.0 && told.share < 0.999)
}

/// Every reason that a key or a provider is used or passed over for, in words.
#[test]
fn what_is_told_of_a_node_in_trouble() {
    let off = |spec: &mut crate::routing::KeySpec| spec.enabled = false;
    let only = |spec: &mut crate::routing::KeySpec| {
        spec.models = ModelRule::Only(["other".to_owned()].into());
    };
    let view = view([
        provider(
            "alpha",
            [
                key("k-held").held(13_000),
                key("k-free"),
                key("k-off").with(off),
            ],
        ),
        provider("beta", [key("k-beta")]).does(State::Failed, 0.1),
        provider("delta", [key("k-only").with(only)]),
        provider("gamma", [key("k-gamma")]),
    ]);
    let shown = |facts: &RequestFacts| {
        let explanation = explain(&view, facts, &mut rng(1), NOW).unwrap();
        let mut lines = Vec::new();
        for told in &explanation.providers {
            let ProviderTold {
                provider,
                state,
                share,
                why,
                ..
            } = told;
            lines.push(format!("{provider} {} {share:.2}: {why}", state.name()));
            for KeyTold {
                name,
                state,
                share,
                why,
                ..
            } in &told.keys
            {
                lines.push(format!("  {name} {} {share:.2}: {why}", state.name()));
            }
        }
        lines.join("\n")
    };
    let asked = |provider: Option<&str>| {
        RequestFacts::new(Target {
            provider: provider.map(ProviderId::from),
            model: model(),
        })
    };
    insta::assert_snapshot!("bare", shown(&asked(None)));
    insta::assert_snapshot!("named", shown(&asked(Some("beta"))));
}

#[test]
fn the_shares_of_a_models_providers_are_those_of_a_request_for_it() {
    for seed in 0..1_000 {
        let (view, _) = state(seed);
        let model = model();
        let target = Target {
            provider: None,
            model: model.clone(),
        };
        let facts = RequestFacts::new(target);
        let Ok(explained) = explain(&view, &facts, &mut rng(seed), NOW) else {
            assert_eq!(provider_shares(&view, &model, NOW), [], "seed {seed}");
            continue;
        };
        let shares = provider_shares(&view, &model, NOW);
        for told in &explained.providers {
            let own = shares.iter().find(|(id, _)| **id == told.provider);
            let share = own.map_or(0.0, |(_, share)| *share);
            assert!((share - told.share).abs() < 1e-9, "seed {seed}: {told:?}");
        }
    }
}
