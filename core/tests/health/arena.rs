//! A pool of keys under seeded traffic, where keys slow down, fail and heal, and what each way of
//! choosing among them makes of it.
//!
//! One provider, one model. Requests arrive at random, one attempt each; nothing is retried, so that only
//! the choice counts. A key answers after its base latency times noise, stretched by what it has in
//! flight beyond its capacity. `tests/health` holds the targets, `benches/health` prints the table.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::chooser::Chooser;

/// What a failed request costs its caller: about what a retry elsewhere and its backoff take.
pub(crate) const FAILURE_COSTS_MS: f64 = 2_000.0;

/// Shares are compared between windows of this length: the time between two recomputes.
pub(crate) const WINDOW_MS: u64 = 5_000;

/// How a key does for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spell {
    /// From when on, until the next one.
    pub(crate) from_ms: u64,
    /// Part of the requests that fail.
    pub(crate) fails: f64,
    /// Times its base latency.
    pub(crate) slower: f64,
}

/// One key.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// Typical latency with nothing else in flight.
    pub(crate) base_ms: f64,
    /// What it serves side by side before requests queue.
    pub(crate) capacity: f64,
    /// In order of time; before the first it serves.
    pub(crate) spells: Vec<Spell>,
}

/// A pool, its traffic, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// For the table.
    pub(crate) name: &'static str,
    /// The keys.
    pub(crate) keys: Vec<Upstream>,
    /// Requests per second, on average.
    pub(crate) per_second: f64,
    /// How long it lasts.
    pub(crate) lasts_ms: u64,
}

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// When it was sent.
    pub(crate) at_ms: u64,
    /// To which key.
    pub(crate) key: usize,
    /// How long it took.
    pub(crate) took_ms: f64,
    /// It served.
    pub(crate) served: bool,
    /// What the best key would have been expected to cost at that moment.
    pub(crate) best_ms: f64,
}

/// Everything that happened, in the order of the ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// Requests.
    pub(crate) done: Vec<Done>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Millis(f64);

impl Eq for Millis {}

impl PartialOrd for Millis {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Millis {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Upstream {
    /// One that serves well all the time.
    pub(crate) fn good(base_ms: f64) -> Self {
        Self {
            base_ms,
            capacity: 200.0,
            spells: Vec::new(),
        }
    }

    /// With one more spell.
    pub(crate) fn then(mut self, from_s: u64, fails: f64, slower: f64) -> Self {
        self.spells.push(Spell {
            from_ms: from_s * 1_000,
            fails,
            slower,
        });
        self
    }

    fn now(&self, at_ms: u64) -> (f64, f64) {
        let spell = self.spells.iter().rfind(|spell| spell.from_ms <= at_ms);
        spell.map_or((0.0, 1.0), |spell| (spell.fails, spell.slower))
    }

    fn typical_ms(&self, at_ms: u64, in_flight: u32) -> f64 {
        let crowded = (f64::from(in_flight + 1) / self.capacity).max(1.0);
        self.base_ms * self.now(at_ms).1 * crowded
    }

    fn expected_cost_ms(&self, at_ms: u64, in_flight: u32) -> f64 {
        let fails = self.now(at_ms).0;
        (1.0 - fails) * self.typical_ms(at_ms, in_flight) + fails * FAILURE_COSTS_MS
    }
}

impl Scenario {
    /// Plays it with this way of choosing.
    pub(crate) fn play(&self, chooser: &mut dyn Chooser, seed: u64) -> Story {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut story = Story::default();
        let mut in_flight = vec![0_u32; self.keys.len()];
        let mut ends: BinaryHeap<Reverse<(Millis, usize)>> = BinaryHeap::new();
        let mut open: Vec<Done> = Vec::new();
        let mut next_window = WINDOW_MS;
        let mut arrives = 0.0;
        loop {
            arrives += -(1.0 - rng.random::<f64>()).ln() * 1_000.0 / self.per_second;
            let at_ms = whole(arrives);
            if at_ms >= self.lasts_ms {
                return story;
            }
            loop {
                let end = ends.peek().map(|Reverse((Millis(end), _))| *end);
                match end {
                    Some(end) if end <= arrives && whole(end) < next_window => {
                        let Some(Reverse((_, index))) = ends.pop() else {
                            break;
                        };
                        let done = open[index];
                        in_flight[done.key] -= 1;
                        chooser.ended(done.key, done.at_ms, done.took_ms, done.served, whole(end));
                        story.done.push(done);
                    }
                    _ if next_window <= at_ms => {
                        chooser.recompute(next_window);
                        next_window += WINDOW_MS;
                    }
                    _ => break,
                }
            }
            let key = chooser.choose(at_ms, &in_flight);
            let done = self.ask(key, at_ms, &in_flight, &mut rng);
            in_flight[key] += 1;
            ends.push(Reverse((Millis(arrives + done.took_ms), open.len())));
            open.push(done);
        }
    }

    fn ask(&self, key: usize, at_ms: u64, in_flight: &[u32], rng: &mut StdRng) -> Done {
        let costs =
            |(key, upstream): (usize, &Upstream)| upstream.expected_cost_ms(at_ms, in_flight[key]);
        let best_ms = self.keys.iter().enumerate().map(costs);
        let best_ms = best_ms.fold(f64::INFINITY, f64::min);
        let upstream = &self.keys[key];
        let served = rng.random::<f64>() >= upstream.now(at_ms).0;
        // A long tail, as of models: half of all take 0.8 to 1.25 times the typical, one in 100 twice.
        let tail = (0.3 * normal(rng)).exp();
        let took_ms = upstream.typical_ms(at_ms, in_flight[key]) * tail;
        Done {
            at_ms,
            key,
            took_ms: if served { took_ms } else { took_ms.min(100.0) },
            served,
            best_ms,
        }
    }
}

impl Story {
    /// Requests sent in this time.
    pub(crate) fn between(&self, from_ms: u64, to_ms: u64) -> impl Iterator<Item = &Done> + Clone {
        let sent = move |done: &&Done| (from_ms..to_ms).contains(&done.at_ms);
        self.done.iter().filter(sent)
    }

    /// A key's part of the requests sent in this time; 0 where there were none.
    pub(crate) fn share(&self, key: usize, from_ms: u64, to_ms: u64) -> f64 {
        let (mut its, mut all) = (0_u32, 0_u32);
        for done in self.between(from_ms, to_ms) {
            all += 1;
            its += u32::from(done.key == key);
        }
        f64::from(its) / f64::from(all.max(1))
    }

    /// Part of all requests that failed.
    pub(crate) fn failed(&self) -> f64 {
        mean(self.done.iter().map(|done| f64::from(!done.served)))
    }

    /// What the best key at every moment would have spared a request on average; failures cost too.
    pub(crate) fn regret_ms(&self) -> f64 {
        mean(self.done.iter().map(|done| cost(done) - done.best_ms))
    }

    /// A percentile of the latency of these requests that served.
    pub(crate) fn percentile_ms<'a>(part: f64, of: impl Iterator<Item = &'a Done>) -> f64 {
        let served = of.filter(|done| done.served);
        let mut took: Vec<f64> = served.map(|done| done.took_ms).collect();
        took.sort_by(f64::total_cmp);
        let at = (part * took.len() as f64) as usize;
        took.get(at.min(took.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0.0)
    }

    /// How much traffic moves from one window to the next, on average: 0 none, 1 all of it.
    pub(crate) fn oscillation(&self, keys: usize) -> f64 {
        let last = self.done.iter().map(|done| done.at_ms).max().unwrap_or(0);
        let windows = last / WINDOW_MS;
        let shares = |window: u64| {
            let from = window * WINDOW_MS;
            (0..keys).map(move |key| self.share(key, from, from + WINDOW_MS))
        };
        mean((1..windows).map(|window| {
            let moved = shares(window).zip(shares(window - 1));
            moved.map(|(now, before)| (now - before).abs()).sum::<f64>() / 2.0
        }))
    }
}

fn cost(done: &Done) -> f64 {
    if done.served {
        done.took_ms
    } else {
        FAILURE_COSTS_MS
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u32);
    for value in values {
        sum += value;
        count += 1;
    }
    sum / f64::from(count.max(1))
}

/// By Box and Muller.
fn normal(rng: &mut StdRng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

fn whole(ms: f64) -> u64 {
    ms as u64
}

/// A pool of three, on days of all kinds.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut days = good_days();
    days.extend(bad_days());
    days
}

fn day(name: &'static str, keys: Vec<Upstream>, per_second: f64) -> Scenario {
    Scenario {
        name,
        keys,
        per_second,
        lasts_ms: 300_000,
    }
}

fn good() -> Upstream {
    Upstream::good(400.0)
}

fn good_days() -> Vec<Scenario> {
    let small = |upstream: Upstream, capacity| Upstream {
        capacity,
        ..upstream
    };
    vec![
        day("good: three equal keys", vec![good(), good(), good()], 60.0),
        day(
            "good: one key a little slower",
            vec![good(), good(), Upstream::good(600.0)],
            60.0,
        ),
        day(
            "good: one key with half the capacity",
            vec![
                small(good(), 20.0),
                small(good(), 20.0),
                small(good(), 10.0),
            ],
            80.0,
        ),
        day("good: little traffic", vec![good(), good(), good()], 1.0),
    ]
}

fn bad_days() -> Vec<Scenario> {
    vec![
        day(
            "bad: one key at 10 times the latency",
            vec![good(), good(), good().then(60, 0.0, 10.0)],
            60.0,
        ),
        day(
            "bad: one key fails whole for a minute",
            vec![
                good(),
                good(),
                good().then(60, 1.0, 1.0).then(120, 0.0, 1.0),
            ],
            60.0,
        ),
        day(
            "bad: a burst of 3 s",
            vec![good(), good(), good().then(60, 1.0, 1.0).then(63, 0.0, 1.0)],
            60.0,
        ),
        day(
            "bad: one key fails one in five",
            vec![
                good(),
                good(),
                good().then(60, 0.2, 1.0).then(180, 0.0, 1.0),
            ],
            60.0,
        ),
        day(
            "bad: a brown-out of the whole pool",
            (0..3)
                .map(|_| good().then(60, 0.1, 5.0).then(150, 0.0, 1.0))
                .collect(),
            60.0,
        ),
        day(
            "bad: one after the other fails",
            (0..3)
                .map(|at| {
                    good()
                        .then(40 + 80 * at, 1.0, 1.0)
                        .then(90 + 80 * at, 0.0, 1.0)
                })
                .collect(),
            60.0,
        ),
    ]
}
