//! Whole courses: keys that fail, slow down, burst, are held, and heal.

use rand::Rng as _;

use super::super::tuning::{LEAST_WEIGHT, RECOMPUTE_MS, REST_MS};
use super::super::{Reach, Took};
use super::*;
use crate::routing::fixture::{MODEL, hold, key, model, provider, rng, view};
use crate::routing::key::{Wanted, pick};

mod holds;
mod providers;

/// A node's health with traffic by its own choice of keys.
struct World {
    book: Book,
    view: View,
    now: Mono,
    rng: rand::rngs::StdRng,
}

/// What a key does to a request.
type Behaviour<'a> = &'a mut dyn FnMut(&str) -> Ended;

const SERVED: Ended = served(100.0);
const FAILED: Ended = Ended::Failed(Reach::Connected);

const fn served(ms: f64) -> Ended {
    Ended::Served {
        took: Took::Whole { ms },
        output_tokens: Some(100),
    }
}

impl World {
    fn new(providers: impl IntoIterator<Item = ProviderView>) -> Self {
        let mut world = Self {
            book: Book::default(),
            view: view(providers),
            now: Mono(1_000),
            rng: rng(11),
        };
        world.configure();
        world
    }

    fn configure(&mut self) {
        let host = |provider: &ProviderId, _: Option<&KeyId>| Arc::from(provider.as_str());
        self.book.configure(&self.view, host, self.now);
        self.show();
    }

    /// One provider "p" with keys "a", "b" …
    fn keys(count: usize) -> Self {
        let names = ["a", "b", "c", "d"];
        Self::new([provider("p", names[..count].iter().map(|id| key(id)))])
    }

    fn show(&mut self) {
        for (id, provider) in &mut self.view.providers {
            Arc::make_mut(provider).health = Arc::new(self.book.health(id));
        }
    }

    fn launch(&mut self, provider: &str, key: Option<&str>) -> Option<Ticket> {
        let (provider, model) = (ProviderId::from(provider), model());
        let key = key.map(KeyId::from);
        let attempted = Attempted {
            provider: &provider,
            key: key.as_ref().map(|key| (key, Fingerprint(1))),
            model: &model,
        };
        self.book.launched(attempted, self.now)
    }

    fn end(&mut self, provider: &str, key: Option<&str>, ticket: Ticket, ended: Ended) {
        let (provider, model) = (ProviderId::from(provider), model());
        let key = key.map(KeyId::from);
        let attempted = Attempted {
            provider: &provider,
            key: key.as_ref().map(|key| (key, Fingerprint(1))),
            model: &model,
        };
        self.book.ended(attempted, ticket, ended, self.now);
    }

    fn request(&mut self, provider: &str, key: &str, ended: Ended) {
        let ticket = self.launch(provider, Some(key)).unwrap();
        self.end(provider, Some(key), ticket, ended);
    }

    fn requests(&mut self, key: &str, count: u32, ended: Ended) {
        for _ in 0..count {
            self.request("p", key, ended);
        }
    }

    fn recompute(&mut self) -> Recomputed {
        self.now = self.now.plus_ms(RECOMPUTE_MS);
        let recomputed = self.book.recompute(&self.view, self.now);
        self.show();
        recomputed
    }

    /// One period of traffic where the health says; how many requests each key got.
    fn period(&mut self, requests: u32, behaviour: Behaviour<'_>) -> BTreeMap<String, u32> {
        let mut got = BTreeMap::new();
        for _ in 0..requests {
            let picked = self.pick();
            let ended = behaviour(&picked);
            self.request("p", &picked, ended);
            *got.entry(picked).or_default() += 1;
        }
        self.recompute();
        got
    }

    fn pick(&mut self) -> String {
        let model = model();
        let wanted = Wanted {
            model: &model,
            holds: true,
            health: true,
            dead: &[],
            used: &[],
        };
        let provider = self.view.provider(&ProviderId::from("p")).unwrap();
        let pick = pick(provider, wanted, self.now, &mut self.rng).unwrap();
        pick.key.spec.id.as_str().to_owned()
    }

    fn hold(&mut self, key: &str, held: bool) {
        let holds = if held {
            let mut view = view([]);
            std::mem::swap(&mut view, &mut self.view);
            view.hold_key("p", &KeyId::from(key), 1_000_000);
            self.view = view;
            return self.see_holds();
        } else {
            crate::holds::KeyHolds::default()
        };
        let id = ProviderId::from("p");
        self.view = self.view.with_holds(&id, &KeyId::from(key), holds);
        self.see_holds();
    }

    fn see_holds(&mut self) {
        let provider = Arc::clone(&self.view.providers[&ProviderId::from("p")]);
        self.book.see_holds(&provider, self.now);
        self.show();
    }

    fn measured(&self, key: &str) -> Measured {
        let id = ProviderId::from("p");
        let keys = &self.view.provider(&id).unwrap().keys;
        let at = keys.iter().position(|k| k.spec.id.as_str() == key);
        self.book.measured(&id, at.unwrap(), &model())
    }

    fn state(&self, key: &str) -> State {
        self.measured(key).health.state
    }

    fn weight(&self, key: &str) -> f64 {
        self.measured(key).health.weight
    }

    fn score(&self, provider: &str) -> f64 {
        let provider = &self.view.providers[&ProviderId::from(provider)];
        provider.health[&model()].score
    }
}

#[test]
fn new_keys_compete_for_a_full_share() {
    let mut world = World::keys(2);
    let got = world.period(1_000, &mut |_| SERVED);
    assert!((400..600).contains(&got["a"]), "{got:?}");
    assert_eq!(world.weight("a"), FULL_WEIGHT);
    assert_eq!(world.state("a"), State::Healthy);
}

#[test]
fn a_key_that_fails_throughout_is_shed_within_one_recompute() {
    let mut world = World::keys(3);
    world.period(300, &mut |_| SERVED);
    let mut down = |key: &str| if key == "a" { FAILED } else { SERVED };
    world.period(100, &mut down);
    assert_eq!(world.state("a"), State::Failed);
    let got = world.period(300, &mut down);
    assert_eq!(got.get("a"), None, "{got:?}");
}

#[test]
fn a_healed_key_is_back_within_30_s_whenever_it_heals() {
    // Healed right before, and right after, each recompute of its first minute of failure.
    for healed_after in 1..12 {
        let mut world = World::keys(3);
        world.period(300, &mut |_| SERVED);
        for _ in 0..healed_after {
            world.period(300, &mut |key| if key == "a" { FAILED } else { SERVED });
        }
        let mut waited_ms = 0;
        loop {
            let got = world.period(300, &mut |_| SERVED);
            if got.get("a").is_some_and(|got| *got > 80) {
                break;
            }
            waited_ms += RECOMPUTE_MS;
            assert!(waited_ms <= 30_000, "failed for {healed_after} periods");
        }
    }
}

#[test]
fn of_three_keys_one_at_ten_times_the_latency_gets_less_than_a_hundredth() {
    let mut world = World::keys(3);
    world.period(300, &mut |_| SERVED);
    let mut noise = rng(5);
    let mut slow = |key: &str| {
        let factor = if key == "a" { 10.0 } else { 1.0 };
        served(factor * noise.random_range(80.0..120.0))
    };
    for _ in 0..3 {
        world.period(300, &mut slow);
    }
    let got: u32 = (0..20)
        .map(|_| world.period(300, &mut slow).get("a").copied().unwrap_or(0))
        .sum();
    assert!((1..60).contains(&got), "{got} of 6,000");
    assert_eq!(world.state("a"), State::Degraded);
    assert!(world.weight("a") >= LEAST_WEIGHT);
}

#[test]
fn a_slow_key_that_is_fast_again_gets_its_share_back() {
    let mut world = World::keys(2);
    for _ in 0..5 {
        world.period(500, &mut |key| {
            served(if key == "a" { 1_000.0 } else { 100.0 })
        });
    }
    let mut periods = 0;
    while world.weight("a") < 0.9 * FULL_WEIGHT {
        world.period(500, &mut |_| SERVED);
        periods += 1;
        assert!(periods <= 12, "{}", world.weight("a"));
    }
}

#[test]
fn all_keys_that_slow_down_together_are_degraded() {
    let mut world = World::keys(2);
    for _ in 0..3 {
        world.period(100, &mut |_| served(200.0));
    }
    let before = world.weight("a");
    for _ in 0..2 {
        world.period(100, &mut |_| served(1_000.0));
    }
    for key in ["a", "b"] {
        assert_eq!(world.state(key), State::Degraded);
        assert!(world.weight(key) < before);
    }
}

#[test]
fn long_answers_do_not_look_slow() {
    let mut world = World::keys(2);
    for _ in 0..4 {
        let mut turn = 0_u32;
        world.period(200, &mut |key| {
            turn += 1;
            let tokens: u32 = if key == "a" || turn.is_multiple_of(3) {
                2_000
            } else {
                50
            };
            Ended::Served {
                took: Took::Whole {
                    ms: f64::from(tokens) * 20.0,
                },
                output_tokens: Some(u64::from(tokens)),
            }
        });
    }
    assert_eq!(
        (world.state("a"), world.weight("a")),
        (State::Healthy, FULL_WEIGHT)
    );
}

#[test]
fn errors_cost_more_than_slowness_and_slowness_more_than_load() {
    let mut world = World::keys(4);
    for turn in 0..60_u32 {
        world.requests("a", 1, served(90.0));
        world.requests("b", 1, served(270.0));
        let fails = turn.is_multiple_of(3);
        world.requests("c", 1, if fails { FAILED } else { served(90.0) });
        world.requests("d", 1, served(90.0));
    }
    for _ in 0..12 {
        let _ = world.launch("p", Some("d"));
    }
    world.recompute();
    let [clean, slow, errs, loaded] = ["a", "b", "c", "d"].map(|key| world.weight(key));
    assert!(
        errs < slow && slow < loaded && loaded < clean,
        "{errs} {slow} {loaded} {clean}"
    );
}

#[test]
fn a_key_that_errs_a_little_is_degraded_then_settles() {
    let mut world = World::keys(2);
    let mut turn = 0_u32;
    for _ in 0..6 {
        world.period(200, &mut |key| {
            turn += 1;
            if key == "a" && turn.is_multiple_of(10) {
                FAILED
            } else {
                SERVED
            }
        });
    }
    assert_eq!(world.state("a"), State::Degraded);
    assert!(world.weight("a") < world.weight("b"));
    assert!(world.measured("a").error_rate > 0.0);
    let mut seen = vec![];
    for _ in 0..10 {
        world.period(200, &mut |_| SERVED);
        seen.push(world.state("a"));
    }
    assert_eq!(seen.last(), Some(&State::Healthy));
    assert!(!seen.contains(&State::Failed));
}

#[test]
fn nothing_is_learnt_of_what_the_caller_did() {
    let mut world = World::keys(1);
    world.requests("a", 1, SERVED);
    world.requests("a", 100, Ended::Nothing);
    world.recompute();
    let measured = world.measured("a");
    assert_eq!(
        (measured.error_rate, measured.health.state),
        (0.0, State::Healthy)
    );
    assert_eq!((measured.in_flight, measured.requests), (0, 101));
}

#[test]
fn a_failed_key_rests_for_its_short_wait() {
    let mut world = World::keys(2);
    world.requests("a", 10, FAILED);
    let changes = world.recompute().changes;
    assert_eq!(
        (changes[0].from, changes[0].to),
        (State::Healthy, State::Failed)
    );
    let failed_at = world.now;
    while world.state("a") == State::Failed {
        assert_eq!(world.weight("a"), 0.0);
        world.recompute();
    }
    assert_eq!(world.state("a"), State::Recovering);
    assert_eq!(world.now.since_ms(failed_at), REST_MS);
}

#[test]
fn models_of_a_key_stand_for_themselves() {
    let mut world = World::keys(1);
    let (id, other) = (ProviderId::from("p"), ModelId::from("other"));
    let key_id = KeyId::from("a");
    for _ in 0..10 {
        world.request("p", "a", FAILED);
        let attempted = Attempted {
            provider: &id,
            key: Some((&key_id, Fingerprint(1))),
            model: &other,
        };
        let ticket = world.book.launched(attempted, world.now).unwrap();
        world.book.ended(attempted, ticket, SERVED, world.now);
    }
    world.recompute();
    assert_eq!(world.state("a"), State::Failed);
    assert_eq!(
        world.book.measured(&id, 0, &other).health.state,
        State::Healthy
    );
}

#[test]
fn throughput_is_counted_per_route() {
    let mut world = World::keys(1);
    for _ in 0..30 {
        world.requests("a", 10, SERVED);
        world.recompute();
    }
    let measured = world.measured("a");
    assert!((measured.requests_per_minute - 120.0).abs() < 1.0);
    assert!((measured.tokens_per_minute - 12_000.0).abs() < 100.0);
}

#[test]
fn shares_of_traffic_do_not_wait_for_a_recompute() {
    let mut world = World::keys(2);
    world.requests("a", 3, SERVED);
    world.requests("b", 1, FAILED);
    let recent = |world: &World, key| world.measured(key).recent_requests;
    assert_eq!((recent(&world, "a"), recent(&world, "b")), (3.0, 1.0));
    world.recompute();
    let share = recent(&world, "a") / (recent(&world, "a") + recent(&world, "b"));
    assert!((share - 0.75).abs() < 1e-9, "{share}");
}
