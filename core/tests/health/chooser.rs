//! Ways of choosing a key: by health as the gateway does, by static weights, and by the power of two
//! choices on peak EWMA.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdline_core::health::{Attempted, Book, Ended, Reach, RouteHealth, State, Ticket, Took};
use holdline_core::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use holdline_core::routing::key::{Wanted, pick};
use holdline_core::routing::{
    KeySpec, KeyView, ModelRule, ProviderView, RetryPolicy, Settings, View,
};
use holdline_core::time::Mono;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::arena::FAILURE_COSTS_MS;

/// A way of choosing.
pub(crate) trait Chooser {
    /// For the table.
    fn name(&self) -> &'static str;
    /// The key of a request that is sent now.
    fn choose(&mut self, now_ms: u64, in_flight: &[u32]) -> usize;
    /// It ended.
    fn ended(&mut self, key: usize, sent_ms: u64, took_ms: f64, served: bool, now_ms: u64);
    /// Every five seconds.
    fn recompute(&mut self, now_ms: u64);
}

/// Every key the same, whatever happens.
pub(crate) struct Static {
    keys: usize,
    rng: StdRng,
}

impl Static {
    /// Over so many keys.
    pub(crate) fn new(keys: usize, seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        Self { keys, rng }
    }
}

impl Chooser for Static {
    fn name(&self) -> &'static str {
        "static"
    }

    fn choose(&mut self, _: u64, _: &[u32]) -> usize {
        self.rng.random_range(0..self.keys)
    }

    fn ended(&mut self, _: usize, _: u64, _: f64, _: bool, _: u64) {}

    fn recompute(&mut self, _: u64) {}
}

/// Of two keys drawn at random the one with the lower product of peak EWMA latency and requests in
/// flight. A failure counts as a request that took what a failure costs, or fast failures would attract
/// traffic.
pub(crate) struct PeakEwma {
    costs: Vec<(f64, u64)>,
    rng: StdRng,
}

impl PeakEwma {
    const DECAY_MS: f64 = 10_000.0;

    /// Over so many keys.
    pub(crate) fn new(keys: usize, seed: u64) -> Self {
        Self {
            costs: vec![(0.0, 0); keys],
            rng: StdRng::seed_from_u64(seed),
        }
    }

    fn load(&self, key: usize, in_flight: &[u32]) -> f64 {
        (self.costs[key].0 + 1.0) * f64::from(in_flight[key] + 1)
    }
}

impl Chooser for PeakEwma {
    fn name(&self) -> &'static str {
        "two choices"
    }

    fn choose(&mut self, _: u64, in_flight: &[u32]) -> usize {
        let keys = self.costs.len();
        let one = self.rng.random_range(0..keys);
        let other = (one + self.rng.random_range(1..keys)) % keys;
        if self.load(one, in_flight) <= self.load(other, in_flight) {
            one
        } else {
            other
        }
    }

    fn ended(&mut self, key: usize, _: u64, took_ms: f64, served: bool, now_ms: u64) {
        let sample = if served { took_ms } else { FAILURE_COSTS_MS };
        let (cost, at) = &mut self.costs[key];
        let kept = (-(now_ms.saturating_sub(*at) as f64) / Self::DECAY_MS).exp();
        *cost = sample.max(*cost * kept + sample * (1.0 - kept));
        *at = now_ms;
    }

    fn recompute(&mut self, _: u64) {}
}

/// As the gateway chooses.
pub(crate) struct ByHealth {
    book: Book,
    view: View,
    provider: ProviderId,
    model: ModelId,
    rng: StdRng,
    /// When each request was sent, and its ticket.
    flying: Vec<Vec<(u64, Ticket)>>,
    /// Weight and state of each key after each recompute.
    pub(crate) weights: Vec<Vec<(f64, State)>>,
}

impl ByHealth {
    /// Over so many keys.
    pub(crate) fn new(keys: usize, seed: u64) -> Self {
        let (provider, model) = (ProviderId::from("pool"), ModelId::from("some-model"));
        let of_pool = ProviderView {
            id: provider.clone(),
            keys: (0..keys).map(|at| Arc::new(key(at, &model))).collect(),
            keyless: false,
            retry: RetryPolicy::default(),
            retry_budget: None,
            health: Arc::default(),
            names: Arc::default(),
        };
        let view = View {
            providers: BTreeMap::from([(provider.clone(), Arc::new(of_pool))]),
            settings: Arc::new(Settings::default()),
            adaptive: true,
        };
        let mut book = Book::default();
        book.configure(&view, |id, _| Arc::from(id.as_str()), Mono(0));
        Self {
            book,
            view,
            provider,
            model,
            rng: StdRng::seed_from_u64(seed),
            flying: vec![Vec::new(); keys],
            weights: Vec::new(),
        }
    }

    fn pool(&self) -> &ProviderView {
        &self.view.providers[&self.provider]
    }
}

fn key(at: usize, model: &ModelId) -> KeyView {
    KeyView {
        spec: Arc::new(KeySpec {
            id: KeyId::from(format!("key-{at}")),
            name: format!("key {at}"),
            fingerprint: Fingerprint(1),
            weight: 1.0,
            enabled: true,
            models: ModelRule::Only(BTreeSet::from([model.as_str().to_owned()])),
            blocked: BTreeSet::new(),
            aliases: BTreeMap::new(),
        }),
        holds: Arc::default(),
        dry: Arc::default(),
    }
}

impl Chooser for ByHealth {
    fn name(&self) -> &'static str {
        "holdline"
    }

    fn choose(&mut self, now_ms: u64, _: &[u32]) -> usize {
        let wanted = Wanted {
            model: &self.model,
            holds: true,
            health: true,
            dead: &[],
            used: &[],
        };
        let pool = Arc::clone(&self.view.providers[&self.provider]);
        let picked = pick(&pool, wanted, Mono(now_ms), &mut self.rng).expect("the pool has keys");
        let id = &picked.key.spec.id;
        let at = pool.keys.iter().position(|key| key.spec.id == *id);
        let at = at.expect("it is one of them");
        let attempted = Attempted {
            provider: &self.provider,
            key: Some((id, Fingerprint(1))),
            model: &self.model,
        };
        let ticket = self.book.launched(attempted, Mono(now_ms));
        self.flying[at].push((now_ms, ticket.expect("the key is configured")));
        at
    }

    fn ended(&mut self, key: usize, sent_ms: u64, took_ms: f64, served: bool, now_ms: u64) {
        let id = self.pool().keys[key].spec.id.clone();
        let flying = &mut self.flying[key];
        let at = flying.iter().position(|(sent, _)| *sent == sent_ms);
        let (_, ticket) = flying.swap_remove(at.expect("it was sent"));
        let ended = if served {
            Ended::Served {
                took: Took::Whole { ms: took_ms },
                output_tokens: None,
            }
        } else {
            Ended::Failed(Reach::Connected)
        };
        let attempted = Attempted {
            provider: &self.provider,
            key: Some((&id, Fingerprint(1))),
            model: &self.model,
        };
        self.book.ended(attempted, ticket, ended, Mono(now_ms));
    }

    fn recompute(&mut self, now_ms: u64) {
        self.book.recompute(&self.view, Mono(now_ms));
        let health = self.book.health(&self.provider);
        let of_model = health.get(&self.model);
        let of_key = |key: usize| {
            let route = of_model.and_then(|health| health.routes.get(key).copied());
            route.map_or((0.0, State::Healthy), |route: RouteHealth| {
                (route.weight, route.state)
            })
        };
        self.weights
            .push((0..self.flying.len()).map(of_key).collect());
        if let Some(pool) = self.view.providers.get_mut(&self.provider) {
            Arc::make_mut(pool).health = Arc::new(health);
        }
    }
}
