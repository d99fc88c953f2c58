//! What choosing keys by health is worth: a table of simulated days, against static weights and the
//! power of two choices on peak EWMA. Counts of a seeded simulation, not times: the same on any machine.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a table of small simulated numbers"
)]

#[path = "../tests/health/arena.rs"]
mod arena;
#[path = "../tests/health/chooser.rs"]
mod chooser;

use arena::{Scenario, Story, Upstream, WINDOW_MS, scenarios};
use chooser::{ByHealth, Chooser, PeakEwma, Static};

const SEEDS: u64 = 8;

fn choosers(keys: usize, seed: u64) -> [Box<dyn Chooser>; 3] {
    [
        Box::new(ByHealth::new(keys, seed)),
        Box::new(PeakEwma::new(keys, seed)),
        Box::new(Static::new(keys, seed)),
    ]
}

fn main() {
    println!("choosing keys by health, simulated ({SEEDS} seeds; a failure costs 2,000 ms)\n");
    println!(
        "{:<40} {:<12} {:>8} {:>8} {:>8} {:>9} {:>11}",
        "day", "choice", "failed", "p50 ms", "p99 ms", "regret ms", "oscillation"
    );
    for scenario in scenarios() {
        for way in 0..choosers(1, 0).len() {
            line(&scenario, way);
        }
    }
    println!();
    shed_and_return();
}

fn line(scenario: &Scenario, way: usize) {
    let keys = scenario.keys.len();
    let (mut failed, mut p50, mut p99, mut regret, mut moved) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut name = "";
    for seed in 0..SEEDS {
        let mut all = choosers(keys, seed);
        let chooser = &mut all[way];
        let story = scenario.play(chooser.as_mut(), seed);
        name = chooser.name();
        failed += story.failed();
        p50 += Story::percentile_ms(0.5, story.done.iter());
        p99 += Story::percentile_ms(0.99, story.done.iter());
        regret += story.regret_ms();
        moved += story.oscillation(keys);
    }
    let of = |sum: f64| sum / SEEDS as f64;
    println!(
        "{:<40} {name:<12} {:>7.2}% {:>8.0} {:>8.0} {:>9.1} {:>11.3}",
        scenario.name,
        of(failed) * 100.0,
        of(p50),
        of(p99),
        of(regret),
        of(moved)
    );
}

/// How long a key that fails whole keeps 5 % of its share, and how long until it is back at 90 %.
fn shed_and_return() {
    let (fails_s, heals_s) = (60, 120);
    let third = Upstream::good(400.0)
        .then(fails_s, 1.0, 1.0)
        .then(heals_s, 0.0, 1.0);
    let scenario = Scenario {
        name: "shed and return",
        keys: vec![Upstream::good(400.0), Upstream::good(400.0), third],
        per_second: 60.0,
        lasts_ms: 240_000,
    };
    let mut chooser = ByHealth::new(3, 1);
    let story = scenario.play(&mut chooser, 1);
    let first = |from_s: u64, is_so: &dyn Fn(f64) -> bool| {
        let mut windows = (from_s * 1_000..240_000).step_by(WINDOW_MS as usize);
        let found = windows.find(|at| is_so(story.share(2, *at, at + WINDOW_MS)));
        found.map_or("never".to_owned(), |at| {
            format!("{} s", at / 1_000 - from_s)
        })
    };
    let shed = first(fails_s, &|share| share <= 0.05 / 3.0);
    let back = first(heals_s, &|share| share >= 0.9 / 3.0);
    println!(
        "a key that fails whole has lost 95 % of its share after {shed} (aim: one recompute, 5 s)"
    );
    println!("a healed key is back at 90 % of its share after {back} (aim: 30 s)");
}
