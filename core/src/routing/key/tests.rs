//! Which key is picked: weights, holds, checks, and what the request is done with.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::fixture::{MODEL, key, model, provider, rng, view};
use super::*;
use crate::health::ModelHealth;
use crate::routing::ModelRule;

const NOW: Mono = Mono(1_000);

fn wanted<'a>(model: &'a ModelId, dead: &'a [KeyId], used: &'a [KeyId]) -> Wanted<'a> {
    Wanted {
        model,
        holds: true,
        health: false,
        dead,
        used,
    }
}

fn ids(names: &[&str]) -> Vec<KeyId> {
    names.iter().map(|name| KeyId::from(*name)).collect()
}

/// What is picked with this seed, by name, and how.
fn picked(provider: &ProviderView, dead: &[&str], used: &[&str], seed: u64) -> Option<String> {
    let (dead, used) = (ids(dead), ids(used));
    let model = model();
    let pick = pick(provider, wanted(&model, &dead, &used), NOW, &mut rng(seed))?;
    let how = match pick.how {
        How::Free => "free",
        How::Check(_) => "check",
        How::DueSoonest => "due soonest",
    };
    Some(format!("{} {how}", pick.key.spec.id))
}

fn shares(provider: &ProviderView, draws: u32) -> Vec<f64> {
    let mut rng = rng(7);
    let mut counts = vec![0_u32; provider.keys.len()];
    let model = model();
    for _ in 0..draws {
        let pick = pick(provider, wanted(&model, &[], &[]), NOW, &mut rng).unwrap();
        let at = provider
            .keys
            .iter()
            .position(|key| key.spec.id == pick.key.spec.id);
        counts[at.unwrap()] += 1;
    }
    counts
        .into_iter()
        .map(|count| f64::from(count) / f64::from(draws))
        .collect()
}

fn assert_shares(provider: &ProviderView, expected: &[f64]) {
    let found = shares(provider, 20_000);
    for (share, expected) in found.iter().zip(expected) {
        assert!((share - expected).abs() < 0.015, "{found:?}");
    }
}

#[test]
fn shares_follow_the_weights() {
    let weighted = |id, weight| key(id).with(|spec| spec.weight = weight);
    assert_shares(
        &provider(
            "p",
            [weighted("a", 1.0), weighted("b", 3.0), weighted("c", 0.0)],
        ),
        &[0.25, 0.75, 0.0],
    );
    assert_shares(
        &provider(
            "p",
            [weighted("a", 0.0), weighted("b", 0.5), weighted("c", 0.5)],
        ),
        &[0.0, 0.5, 0.5],
    );
    assert_shares(
        &provider("p", [weighted("a", 0.0), weighted("b", 0.0)]),
        &[0.5, 0.5],
    );
}

#[test]
fn a_key_of_weight_0_is_picked_when_nothing_else_is_left() {
    let two = provider("p", [key("a"), key("b").with(|spec| spec.weight = 0.0)]);
    for seed in 0..50 {
        assert_eq!(picked(&two, &[], &[], seed).unwrap(), "a free");
        assert_eq!(picked(&two, &["a"], &[], seed).unwrap(), "b free");
    }
}

#[test]
fn only_keys_that_may_serve_the_model_are_picked() {
    let keys = [
        key("other").with(|spec| spec.models = ModelRule::Only(["x".to_owned()].into())),
        key("none").with(|spec| spec.models = ModelRule::Only([].into())),
        key("blocked").with(|spec| spec.blocked = [MODEL.to_owned()].into()),
        key("disabled").with(|spec| spec.enabled = false),
        key("any").with(|spec| spec.models = ModelRule::All),
    ];
    let provider = provider("p", keys);
    for seed in 0..20 {
        assert_eq!(picked(&provider, &[], &[], seed).unwrap(), "any free");
    }
}

#[test]
fn held_keys_are_passed_over_and_counted() {
    let three = provider(
        "p",
        [
            key("a").held(9_000),
            key("b"),
            key("c").held_for(MODEL, 9_000),
        ],
    );
    for seed in 0..20 {
        assert_eq!(picked(&three, &[], &[], seed).unwrap(), "b free");
    }
    let model = model();
    let pick = pick(&three, wanted(&model, &[], &[]), NOW, &mut rng(1)).unwrap();
    assert_eq!((pick.held, pick.serving), (2, 3));
}

#[test]
fn a_hold_of_another_model_is_none_of_this_ones() {
    let one = provider("p", [key("a").held_for("other", 9_000)]);
    assert_eq!(picked(&one, &[], &[], 1).unwrap(), "a free");
}

/// AR-090, AR-091.
#[test]
fn the_first_request_that_could_use_a_due_key_checks_it() {
    let two = provider("p", [key("a"), key("b").held(1_000)]);
    let model = model();
    let mut rng = rng(1);
    let check = pick(&two, wanted(&model, &[], &[]), NOW, &mut rng).unwrap();
    assert_eq!(check.key.spec.id.as_str(), "b");
    for _ in 0..20 {
        let other = pick(&two, wanted(&model, &[], &[]), NOW, &mut rng).unwrap();
        assert_eq!(other.key.spec.id.as_str(), "a");
    }
    drop(check);
    assert_eq!(picked(&two, &[], &[], 1).unwrap(), "b check");
}

/// AR-099.
#[test]
fn where_every_key_is_held_the_one_due_soonest_is_used() {
    let three = provider(
        "p",
        [
            key("a").held(9_000),
            key("b").held(5_000),
            key("c").held(7_000),
        ],
    );
    assert_eq!(picked(&three, &[], &[], 1).unwrap(), "b due soonest");
    assert_eq!(picked(&three, &["b"], &[], 1).unwrap(), "c due soonest");
    assert_eq!(picked(&three, &["b"], &["c"], 1).unwrap(), "a due soonest");
    assert_eq!(picked(&three, &["a", "b", "c"], &[], 1), None);
}

#[test]
fn a_key_under_check_is_used_when_nothing_else_is_there() {
    let one = provider("p", [key("a").held(1_000)]);
    let model = model();
    let mut rng = rng(1);
    let check = pick(&one, wanted(&model, &[], &[]), NOW, &mut rng).unwrap();
    assert!(matches!(check.how, How::Check(_)));
    assert_eq!(picked(&one, &[], &[], 1).unwrap(), "a due soonest");
}

#[test]
fn a_request_that_is_done_with_the_free_keys_does_not_try_the_held_ones() {
    let two = provider("p", [key("a"), key("b").held(9_000)]);
    assert_eq!(picked(&two, &["a"], &[], 1), None);
    assert_eq!(picked(&two, &[], &["a"], 1), None);
}

#[test]
fn without_holds_nothing_is_held() {
    let one = provider("p", [key("a").held(9_000)]);
    let model = model();
    let wanted = Wanted {
        holds: false,
        ..wanted(&model, &[], &[])
    };
    let pick = pick(&one, wanted, NOW, &mut rng(1)).unwrap();
    assert!(matches!(pick.how, How::Free));
    assert_eq!(pick.held, 0);
}

#[test]
fn a_retry_stays_with_its_key_while_no_hold_covers_it() {
    let two = provider("p", [key("a"), key("b").held(500)]);
    let stays = |id: &str, holds| stay(&two, &KeyId::from(id), &model(), holds, NOW).is_some();
    assert!(stays("a", true));
    assert!(!stays("b", true), "a due key needs its check");
    assert!(stays("b", false));
    assert!(!stays("gone", true));
}

/// A provider of keys a, b, c … with these measured states and weights.
fn measured(routes: &[(State, f64)]) -> ProviderView {
    let names = ["a", "b", "c", "d"];
    let mut measured = provider("p", names[..routes.len()].iter().map(|id| key(id)));
    let routes = routes
        .iter()
        .enumerate()
        .map(|(at, (state, weight))| RouteHealth {
            state: *state,
            weight: *weight,
            tried: true,
            // The later ones have failed for longer.
            since: Mono(900 - at as u64),
        });
    let health = ModelHealth {
        routes: routes.collect(),
        ..ModelHealth::default()
    };
    measured.health = Arc::new([(model(), health)].into());
    measured
}

fn by_health<'a>(model: &'a ModelId, dead: &'a [KeyId]) -> Wanted<'a> {
    Wanted {
        health: true,
        ..wanted(model, dead, &[])
    }
}

/// How often each key is picked by health.
fn drawn(provider: &ProviderView, dead: &[&str]) -> BTreeMap<String, u32> {
    let (model, dead, mut rng) = (model(), ids(dead), rng(3));
    let mut drawn = BTreeMap::new();
    for _ in 0..10_000 {
        if let Some(pick) = pick(provider, by_health(&model, &dead), NOW, &mut rng) {
            *drawn.entry(pick.key.spec.id.to_string()).or_default() += 1;
        }
    }
    drawn
}

const HEALTHY: (State, f64) = (State::Healthy, 1_000.0);
const FAILED: (State, f64) = (State::Failed, 0.0);

#[test]
fn healthier_keys_get_more_and_every_usable_one_gets_some() {
    let three = measured(&[HEALTHY, (State::Degraded, 500.0), (State::Recovering, 10.0)]);
    let drawn = drawn(&three, &[]);
    assert!((6_300..6_900).contains(&drawn["a"]), "{drawn:?}");
    assert!((3_000..3_600).contains(&drawn["b"]), "{drawn:?}");
    assert!((30..120).contains(&drawn["c"]), "{drawn:?}");
}

#[test]
fn configured_weights_do_not_count_beside_health_but_a_spare_stays_one() {
    let weights = [9.0, 1.0, 0.0];
    let keys = ["a", "b", "c"].into_iter().zip(weights);
    let keys = keys.map(|(id, weight)| key(id).with(|spec| spec.weight = weight));
    let unmeasured = provider("p", keys);
    let found = drawn(&unmeasured, &[]);
    assert!((4_700..5_300).contains(&found["a"]), "{found:?}");
    assert_eq!(found.get("c"), None);
    assert_eq!(drawn(&unmeasured, &["a", "b"])["c"], 10_000);
}

#[test]
fn a_key_whose_token_limit_is_dry_gets_less_until_it_refills() {
    let mut two = measured(&[HEALTHY, HEALTHY]);
    let mut dry = KeyView::clone(&two.keys[0]);
    dry.dry = Arc::new([(model(), NOW.plus_ms(1))].into());
    two.keys[0] = Arc::new(dry);
    let (model, mut rng) = (model(), rng(3));
    let mut drawn = |now| {
        let picks = (0..2_000).map(|_| pick(&two, by_health(&model, &[]), now, &mut rng).unwrap());
        picks
            .filter(|pick| pick.key.spec.id.as_str() == "a")
            .count()
    };
    let (dry, full) = (drawn(NOW), drawn(NOW.plus_ms(1)));
    assert!((900..1_100).contains(&full), "{full}");
    assert!(dry > 0 && dry < full / 2, "{dry}");
}

#[test]
fn a_failed_key_is_the_last_resort_and_the_longest_rested_first() {
    let four = measured(&[FAILED, HEALTHY, FAILED, HEALTHY]);
    assert!(drawn(&four, &[]).keys().eq(["b", "d"]));
    assert!(drawn(&four, &["b", "d"]).keys().eq(["c"]));
    assert!(drawn(&four, &["b", "c", "d"]).keys().eq(["a"]));
    assert!(drawn(&four, &["a", "b", "c", "d"]).is_empty());
}

#[test]
fn a_failed_key_is_preferred_to_a_held_one() {
    let mut two = measured(&[FAILED, HEALTHY]);
    two.keys[1] = Arc::new(key("b").held(9_000));
    assert!(drawn(&two, &[]).keys().eq(["a"]));
    assert!(
        drawn(&two, &["a"]).is_empty(),
        "held keys are not for a request's own failures"
    );
}

#[test]
fn without_key_selection_health_does_not_count() {
    let two = measured(&[FAILED, HEALTHY]);
    let found = shares(&two, 10_000);
    assert!((found[0] - 0.5).abs() < 0.02, "{found:?}");
}

proptest! {
    /// What is told of shares is what is drawn.
    #[test]
    fn shares_are_what_picking_comes_to(
        keys in prop::collection::vec((0..5u8, 1..1_000u32, any::<bool>()), 1..4),
        adaptive in any::<bool>(),
        by_health in any::<bool>(),
    ) {
        let state = |kind: u8| if kind == 0 { State::Failed } else { State::Healthy };
        let routes: Vec<_> = keys.iter().map(|(kind, weight, _)| (state(*kind), f64::from(*weight))).collect();
        let mut provider = measured(&routes);
        for (slot, (kind, _, held)) in provider.keys.iter_mut().zip(&keys) {
            let plain = KeyView::clone(slot).with(|spec| spec.weight = f64::from(*kind / 2));
            *slot = Arc::new(if *held { plain.held(9_000) } else { plain });
        }
        let mut view = view([provider.clone()]).set(|settings| settings.route_selection_enabled = by_health);
        view.adaptive = adaptive;
        let told = super::shares(&view, &provider, &model(), NOW);
        let model = model();
        let wanted = Wanted {
            model: &model,
            holds: adaptive,
            health: view.picks_by_health(),
            dead: &[],
            used: &[],
        };
        let mut rng = rng(9);
        let mut counts = vec![0_u32; told.len()];
        for _ in 0..2_000 {
            let pick = pick(&provider, wanted, NOW, &mut rng).unwrap();
            if matches!(pick.how, How::Free) {
                let at = provider.keys.iter().position(|key| key.spec.id == pick.key.spec.id);
                counts[at.unwrap()] += 1;
            }
        }
        for (told, count) in told.iter().zip(counts) {
            prop_assert!((told - f64::from(count) / 2_000.0).abs() < 0.06, "{told} {count}");
        }
    }
}

proptest! {
    /// Whatever the keys are: no dead or used key is picked, no key that may not serve, no held one
    /// past a free one, and something is picked wherever something may be.
    #[test]
    fn a_pick_is_always_allowed(
        keys in prop::collection::vec((0..3u8, any::<bool>(), 0..4_000u64, any::<bool>()), 0..8),
        seed in any::<u64>(),
    ) {
        let mut dead = vec![];
        let mut built = vec![];
        for (at, (weight, held, due, is_dead)) in keys.iter().enumerate() {
            let id = format!("k{at}");
            let plain = key(&id).with(|spec| spec.weight = f64::from(*weight));
            built.push(if *held { plain.held(*due) } else { plain });
            if *is_dead {
                dead.push(KeyId::from(id));
            }
        }
        let provider = provider("p", built);
        let model = model();
        let free_left = keys.iter().any(|(_, held, _, dead)| !held && !dead);
        let any_free = keys.iter().any(|(_, held, _, _)| !held);
        let due_left = keys.iter().any(|(_, held, due, dead)| *held && *due <= NOW.0 && !dead);
        let any_left = keys.iter().any(|(_, _, _, dead)| !dead);
        match pick(&provider, wanted(&model, &dead, &[]), NOW, &mut rng(seed)) {
            Some(pick) => {
                let id = &pick.key.spec.id;
                prop_assert!(!dead.contains(id));
                let at = provider.keys.iter().position(|key| key.spec.id == *id).unwrap();
                let (_, held, due, _) = keys[at];
                match pick.how {
                    How::Free => prop_assert!(!held && !due_left),
                    How::Check(_) => prop_assert!(held && due <= NOW.0),
                    How::DueSoonest => prop_assert!(held && !any_free && !due_left),
                }
            }
            None => prop_assert!(!due_left && !free_left && (any_free || !any_left)),
        }
    }

    #[test]
    fn below_is_below(end in 1..1_000usize, seed in any::<u64>()) {
        prop_assert!(below(end, &mut rng(seed)) < end);
        prop_assert!((0.0..1.0).contains(&uniform(&mut rng(seed))));
    }
}
