//! Views for tests: providers, keys and holds in a few words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::{BudgetRule, KeySpec, KeyView, ModelRule, ProviderView, RetryPolicy, Settings, View};
use crate::failure::Reason;
use crate::health::{ModelHealth, RouteHealth, State};
use crate::holds::view::HoldRef;
use crate::holds::{Body, KeyHolds, Register, Wait};
use crate::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use crate::time::{Hlc, Mono};

/// The model that tests ask for.
pub(crate) const MODEL: &str = "gpt-4o";

/// A generator with a fixed seed.
pub(crate) fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

pub(crate) fn model() -> ModelId {
    ModelId::from(MODEL)
}

/// A key that serves [`MODEL`] only. Its name is its id in capitals.
pub(crate) fn key(id: &str) -> KeyView {
    KeyView {
        spec: Arc::new(KeySpec {
            id: KeyId::from(id),
            name: id.to_uppercase(),
            fingerprint: Fingerprint(1),
            weight: 1.0,
            enabled: true,
            models: ModelRule::Only(BTreeSet::from([MODEL.to_owned()])),
            blocked: BTreeSet::new(),
            aliases: BTreeMap::new(),
        }),
        holds: Arc::default(),
        dry: Arc::default(),
    }
}

impl KeyView {
    /// With another configuration.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut KeySpec)) -> Self {
        change(Arc::make_mut(&mut self.spec));
        self
    }

    /// Held as a whole until then.
    pub(crate) fn held(mut self, due: u64) -> Self {
        Arc::make_mut(&mut self.holds).key = Some(hold(due));
        self
    }

    /// Held for one model until then.
    pub(crate) fn held_for(mut self, model: &str, due: u64) -> Self {
        let holds = Arc::make_mut(&mut self.holds);
        holds.models.insert(ModelId::from(model), hold(due));
        self
    }
}

/// A hold that is due then.
pub(crate) fn hold(due: u64) -> HoldRef {
    let stamp = Hlc {
        ms: 1,
        counter: 0,
        node: 1,
    };
    HoldRef {
        register: Register {
            release: Hlc::default(),
            seq: 1,
            body: Body::Held {
                refused: true,
                rung: 0,
                reason: Reason::Credential,
                wait: Wait {
                    ms: 30_000,
                    stated: false,
                },
            },
            stamp,
        },
        due: Mono(due),
        slot: Arc::default(),
    }
}

pub(crate) fn provider(id: &str, keys: impl IntoIterator<Item = KeyView>) -> ProviderView {
    ProviderView {
        id: ProviderId::from(id),
        keys: keys.into_iter().map(Arc::new).collect(),
        keyless: false,
        retry: RetryPolicy::default(),
        retry_budget: None,
        health: Arc::default(),
        names: Arc::default(),
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "stands for the node, which owns what requests share"
)]
mod shared {
    use std::sync::{Arc, Mutex};

    use crate::routing::{Bucket, BudgetRule, RetryBudget};
    use crate::time::Mono;

    #[derive(Debug)]
    struct Shared(BudgetRule, Mutex<Bucket>);

    pub(super) fn budget(rule: BudgetRule) -> Arc<dyn RetryBudget> {
        Arc::new(Shared(rule, Mutex::new(Bucket::new(rule))))
    }

    impl RetryBudget for Shared {
        fn rule(&self) -> BudgetRule {
            self.0
        }

        fn earn(&self, now: Mono) {
            self.1.lock().unwrap().earn(now);
        }

        fn spend(&self, now: Mono) -> bool {
            self.1.lock().unwrap().spend(now)
        }
    }
}

impl ProviderView {
    /// With so many retries.
    pub(crate) fn retries(mut self, max_retries: u32) -> Self {
        self.retry.max_retries = max_retries;
        self
    }

    /// With a retry budget.
    pub(crate) fn budget(mut self, ratio_permille: u32, min_per_second: u32) -> Self {
        let rule = BudgetRule {
            ratio_permille,
            min_per_second,
        };
        self.retry.budget = Some(rule);
        self.retry_budget = Some(shared::budget(rule));
        self
    }

    /// Measured for [`MODEL`]: every key in this state.
    pub(crate) fn does(mut self, state: State, score: f64) -> Self {
        let route = RouteHealth {
            state,
            weight: f64::from(u8::from(state != State::Failed)),
            tried: true,
            ..RouteHealth::UNMEASURED
        };
        let health = ModelHealth {
            routes: vec![route; self.keys.len()],
            score,
            ..ModelHealth::default()
        };
        self.health = Arc::new([(model(), health)].into());
        self
    }

    /// Without keys.
    pub(crate) fn keyless(mut self) -> Self {
        self.keyless = true;
        self
    }
}

pub(crate) fn view(providers: impl IntoIterator<Item = ProviderView>) -> View {
    View {
        providers: providers
            .into_iter()
            .map(|provider| (provider.id.clone(), Arc::new(provider)))
            .collect(),
        settings: Arc::default(),
        adaptive: true,
    }
}

impl View {
    /// With other settings.
    pub(crate) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// With one key held for [`MODEL`]'s sake or as a whole until then.
    pub(crate) fn hold_key(&mut self, provider: &str, key: &KeyId, due: u64) {
        let holds = KeyHolds {
            key: Some(hold(due)),
            models: BTreeMap::new(),
        };
        *self = self.with_holds(&ProviderId::from(provider), key, holds);
    }
}
