//! Health in a simulated pool: the targets that its tuning is held to, and that it beats static weights
//! and the power of two choices on good days and on bad ones.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "simulated times and counts are small"
)]

mod arena;
mod chooser;

use std::collections::BTreeMap;

use arena::{Scenario, Story, Upstream, WINDOW_MS, scenarios};
use chooser::{ByHealth, Chooser, PeakEwma, Static};
use holdline_core::health::State;
use holdline_core::health::tuning::LEAST_WEIGHT;

const SEEDS: u64 = 8;
const FAIR: f64 = 1.0 / 3.0;

fn pool(third: Upstream) -> Scenario {
    Scenario {
        name: "one of three",
        keys: vec![Upstream::good(400.0), Upstream::good(400.0), third],
        per_second: 60.0,
        lasts_ms: 240_000,
    }
}

fn by_health(scenario: &Scenario, seed: u64) -> (Story, ByHealth) {
    let mut chooser = ByHealth::new(scenario.keys.len(), seed);
    let story = scenario.play(&mut chooser, seed);
    (story, chooser)
}

#[test]
fn a_failing_key_loses_95_percent_of_its_share_within_one_recompute() {
    for offset_s in 0..5 {
        for seed in 0..SEEDS {
            let fails_s = 60 + offset_s;
            let scenario = pool(Upstream::good(400.0).then(fails_s, 1.0, 1.0));
            let (story, _) = by_health(&scenario, seed);
            // The first recompute that a period of failures lies before.
            let seen_ms = (fails_s * 1_000 + WINDOW_MS).next_multiple_of(WINDOW_MS);
            let left = story.share(2, seen_ms, seen_ms + WINDOW_MS);
            assert!(
                left <= 0.05 * FAIR,
                "it fails from {fails_s} s on, seed {seed}: {left}"
            );
        }
    }
}

#[test]
fn a_healed_key_is_back_at_90_percent_of_its_share_within_30_s() {
    for heals_s in 100..115 {
        let mut share = 0.0;
        for seed in 0..SEEDS {
            let third = Upstream::good(400.0)
                .then(60, 1.0, 1.0)
                .then(heals_s, 0.0, 1.0);
            let (story, _) = by_health(&pool(third), seed);
            let back_ms = (heals_s + 30) * 1_000;
            share += story.share(2, back_ms, back_ms + 2 * WINDOW_MS) / SEEDS as f64;
        }
        assert!(share >= 0.9 * FAIR, "it heals at {heals_s} s: {share}");
    }
}

#[test]
fn one_key_at_ten_times_the_latency_leaves_the_pools_p99_within_1_3_of_the_good_ones() {
    for seed in 0..SEEDS {
        let scenario = pool(Upstream::good(400.0).then(60, 0.0, 10.0));
        let (story, _) = by_health(&scenario, seed);
        let settled = || story.between(75_000, 240_000);
        let all = Story::percentile_ms(0.99, settled());
        let good = Story::percentile_ms(0.99, settled().filter(|done| done.key != 2));
        assert!(all <= 1.3 * good, "seed {seed}: {all} against {good}");
    }
}

#[test]
fn no_usable_key_falls_below_its_floor() {
    for scenario in scenarios() {
        let (_, chooser) = by_health(&scenario, 1);
        for (round, keys) in chooser.weights.iter().enumerate() {
            for (key, (weight, state)) in keys.iter().enumerate() {
                let fits = match state {
                    State::Failed => *weight == 0.0,
                    State::Healthy | State::Degraded | State::Recovering => *weight >= LEAST_WEIGHT,
                };
                assert!(
                    fits,
                    "{}: recompute {round}, key {key}: {weight}",
                    scenario.name
                );
            }
        }
    }
}

#[test]
fn a_slow_key_is_still_asked_and_comes_back_when_it_is_fast_again() {
    let third = Upstream::good(400.0)
        .then(30, 0.0, 10.0)
        .then(120, 0.0, 1.0);
    let (story, _) = by_health(&pool(third), 3);
    let slow = story.share(2, 60_000, 120_000);
    assert!(slow > 0.0 && slow < 0.05 * FAIR, "{slow}");
    let back = story.share(2, 200_000, 240_000);
    assert!(back >= 0.8 * FAIR, "{back}");
}

/// By each way of choosing, what the best choice would have spared, over the days of a kind.
fn regrets_ms(kind: &str) -> BTreeMap<&'static str, f64> {
    let mut regrets = BTreeMap::new();
    for scenario in scenarios().iter().filter(|day| day.name.starts_with(kind)) {
        for seed in 0..SEEDS {
            let keys = scenario.keys.len();
            let choosers: [Box<dyn Chooser>; 3] = [
                Box::new(ByHealth::new(keys, seed)),
                Box::new(Static::new(keys, seed)),
                Box::new(PeakEwma::new(keys, seed)),
            ];
            for mut chooser in choosers {
                let regret = scenario.play(chooser.as_mut(), seed).regret_ms();
                *regrets.entry(chooser.name()).or_default() += regret;
            }
        }
    }
    regrets
}

#[test]
fn it_beats_static_weights_and_two_choices_on_good_and_bad_days() {
    for kind in ["good", "bad"] {
        let regrets = regrets_ms(kind);
        let best = regrets.iter().min_by(|one, other| one.1.total_cmp(other.1));
        assert_eq!(
            best.map(|(name, _)| *name),
            Some("holdline"),
            "{kind} days: {regrets:?}"
        );
    }
}

#[test]
fn a_key_that_fails_whole_for_a_minute_fails_few_requests() {
    let third = Upstream::good(400.0).then(60, 1.0, 1.0).then(120, 0.0, 1.0);
    for seed in 0..SEEDS {
        let (story, _) = by_health(&pool(third.clone()), seed);
        // Its fair share of that minute is 8 % of all requests.
        assert!(story.failed() < 0.01, "seed {seed}: {}", story.failed());
    }
}

#[test]
fn a_quiet_pool_does_not_swing() {
    let scenario = &scenarios()[0];
    let mut moved = [0.0; 2];
    for seed in 0..SEEDS {
        let (story, _) = by_health(scenario, seed);
        moved[0] += story.oscillation(3);
        let fixed = scenario.play(&mut Static::new(3, seed), seed);
        moved[1] += fixed.oscillation(3);
    }
    // Static weights move by chance alone.
    assert!(moved[0] < 1.5 * moved[1], "{moved:?}");
}
