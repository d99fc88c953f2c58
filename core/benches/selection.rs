//! What choosing costs: one key of a provider, and a whole plan. 5 providers of 10 keys that serve 5
//! models, all measured, every fifth key held.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use holdline_core::failure::Reason;
use holdline_core::health::{InFlight, ModelHealth, RouteHealth};
use holdline_core::holds::view::HoldRef;
use holdline_core::holds::{Body, KeyHolds, Register, Wait};
use holdline_core::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use holdline_core::routing::key::{Wanted, pick};
use holdline_core::routing::{
    KeySpec, KeyView, ModelRule, ProviderView, RequestFacts, RetryPolicy, Settings, Target, View,
    plan,
};
use holdline_core::time::Mono;
use rand::SeedableRng;
use rand::rngs::StdRng;

const PROVIDERS: usize = 5;
const KEYS: usize = 10;
const MODELS: usize = 5;
const HELD_EVERY: usize = 5;
const NOW: Mono = Mono(1_000);

fn model(number: usize) -> String {
    format!("some-model-{number}")
}

fn hold() -> HoldRef {
    HoldRef {
        register: Register {
            seq: 1,
            body: Body::Held {
                refused: true,
                rung: 0,
                reason: Reason::ModelAccess,
                wait: Wait {
                    ms: 30_000,
                    stated: false,
                },
            },
            ..Register::NEVER
        },
        due: NOW.plus_ms(30_000),
        slot: Arc::default(),
    }
}

/// Every fifth key is held: by turns whole and for each model.
fn key(provider: usize, number: usize) -> KeyView {
    let mut holds = KeyHolds::default();
    if number.is_multiple_of(HELD_EVERY) {
        if number == 0 {
            holds.key = Some(hold());
        } else {
            holds.models = (0..MODELS)
                .map(|at| (ModelId::from(model(at)), hold()))
                .collect();
        }
    }
    KeyView {
        spec: Arc::new(KeySpec {
            id: KeyId::from(format!("key-{provider}-{number}")),
            name: format!("key {number}"),
            fingerprint: Fingerprint(1),
            weight: if number < KEYS / 2 { 1.0 } else { 0.5 },
            enabled: true,
            models: ModelRule::Only((0..MODELS).map(model).collect()),
            blocked: BTreeSet::new(),
            aliases: BTreeMap::new(),
        }),
        holds: Arc::new(holds),
        dry: Arc::default(),
    }
}

/// Every key was used; the providers differ a little.
fn health(provider: usize) -> BTreeMap<ModelId, ModelHealth> {
    let of_model = |at| {
        let health = ModelHealth {
            routes: vec![
                RouteHealth {
                    tried: true,
                    ..RouteHealth::UNMEASURED
                };
                KEYS
            ],
            in_flight: vec![InFlight::default(); KEYS],
            score: if provider == 0 { 0.7 } else { 0.95 },
            ..ModelHealth::default()
        };
        (ModelId::from(model(at)), health)
    };
    (0..MODELS).map(of_model).collect()
}

fn view() -> View {
    let provider = |at| {
        let id = ProviderId::from(format!("provider-{at}"));
        let view = ProviderView {
            id: id.clone(),
            keys: (0..KEYS).map(|number| Arc::new(key(at, number))).collect(),
            keyless: false,
            retry: RetryPolicy::default(),
            retry_budget: None,
            health: Arc::new(health(at)),
            names: Arc::default(),
        };
        (id, Arc::new(view))
    };
    View {
        providers: (0..PROVIDERS).map(provider).collect(),
        settings: Arc::new(Settings::default()),
        adaptive: true,
    }
}

fn selection(bench: &mut Criterion) {
    let view = view();
    let models: Vec<ModelId> = (0..MODELS).map(|at| ModelId::from(model(at))).collect();
    let providers: Vec<&ProviderView> = view.providers.values().map(AsRef::as_ref).collect();
    let mut rng = StdRng::seed_from_u64(1);
    let mut turn = 0;
    bench.bench_function("pick one key", |bench| {
        bench.iter(|| {
            turn += 1;
            let wanted = Wanted {
                model: &models[turn % MODELS],
                holds: true,
                health: true,
                dead: &[],
                used: &[],
            };
            let picked = pick(
                black_box(providers[turn % PROVIDERS]),
                wanted,
                NOW,
                &mut rng,
            );
            black_box(picked.is_some())
        });
    });
    let request = |provider: Option<usize>| {
        RequestFacts::new(Target {
            provider: provider.map(|at| ProviderId::from(format!("provider-{at}"))),
            model: models[0].clone(),
        })
    };
    for (name, facts) in [
        ("plan a named request", request(Some(1))),
        ("plan a bare request", request(None)),
    ] {
        bench.bench_function(name, |bench| {
            bench.iter(|| black_box(plan(&view, black_box(&facts), &mut rng, NOW)));
        });
    }
}

criterion_group!(benches, selection);
criterion_main!(benches);
