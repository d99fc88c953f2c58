//! Which key is picked: weights, holds, checks, and what the request is done with.

use proptest::prelude::*;

use super::super::fixture::{MODEL, key, model, provider, rng};
use super::*;
use crate::routing::ModelRule;

const NOW: Mono = Mono(1_000);

fn wanted<'a>(model: &'a ModelId, dead: &'a [KeyId], used: &'a [KeyId]) -> Wanted<'a> {
    Wanted {
        model,
        holds: true,
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
