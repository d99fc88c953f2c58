//! What a request reads when it plans: providers, keys, holds. Immutable; replaced as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::budget::{BudgetRule, RetryBudget};
use super::naming::Names;
use super::settings::Settings;
use crate::health::ModelHealth;
use crate::holds::KeyHolds;
use crate::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use crate::time::Mono;
use crate::tpm;

/// Everything planning and walking need to know. Loaded once per decision, never locked.
///
/// Replacing one key's holds copies pointers, not keys.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Configured providers.
    pub providers: BTreeMap<ProviderId, Arc<ProviderView>>,
    /// The adaptive settings in force.
    pub settings: Arc<Settings>,
    /// `load_balancer_config.enabled`: without it nothing is held and weights are static.
    pub adaptive: bool,
}

/// One provider.
#[derive(Clone, Debug)]
pub struct ProviderView {
    /// Its name.
    pub id: ProviderId,
    /// Its keys, in the order of the configuration.
    pub keys: Vec<Arc<KeyView>>,
    /// A custom provider without keys: called without credentials.
    pub keyless: bool,
    /// How its failed attempts are retried.
    pub retry: RetryPolicy,
    /// How many retries all requests together may make; none where that is not limited.
    pub retry_budget: Option<Arc<dyn RetryBudget>>,
    /// What this node has measured, by model. A model without traffic is not in it.
    pub health: Arc<BTreeMap<ModelId, ModelHealth>>,
    /// What its models are called, here and elsewhere.
    pub names: Arc<Names>,
}

/// One key: what is configured, and what holds it.
#[derive(Clone, Debug)]
pub struct KeyView {
    /// Configured.
    pub spec: Arc<KeySpec>,
    /// Registers.
    pub holds: Arc<KeyHolds>,
    /// Models whose token limit has run dry, and until when.
    pub dry: Arc<BTreeMap<ModelId, Mono>>,
}

/// What routing needs of a key's configuration. No secret is in here.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// Stable id.
    pub id: KeyId,
    /// What people call it.
    pub name: String,
    /// The configuration it stands for.
    pub fingerprint: Fingerprint,
    /// Share of traffic relative to the other keys.
    pub weight: f64,
    /// Disabled keys are never picked.
    pub enabled: bool,
    /// What it may serve.
    pub models: ModelRule,
    /// What it may not serve, whatever `models` says.
    pub blocked: BTreeSet<String>,
    /// Requested name to the provider's name.
    pub aliases: BTreeMap<String, String>,
}

/// An allow-list of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelRule {
    /// Any model.
    All,
    /// These models only; empty means none.
    Only(BTreeSet<String>),
}

/// How a provider's failed attempts are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Charged attempts after the first.
    pub max_retries: u32,
    /// First backoff.
    pub backoff_initial_ms: u64,
    /// Longest backoff, jitter included.
    pub backoff_max_ms: u64,
    /// What all requests together may retry; `None` for no limit.
    pub budget: Option<BudgetRule>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 0,
            backoff_initial_ms: 500,
            backoff_max_ms: 5_000,
            budget: None,
        }
    }
}

impl KeySpec {
    /// Whether the key may serve a model that is asked for under this name.
    #[must_use]
    pub fn serves(&self, model: &str) -> bool {
        self.enabled
            && !self.blocked.contains(model)
            && (self.aliases.contains_key(model)
                || match &self.models {
                    ModelRule::All => true,
                    ModelRule::Only(names) => names.contains(model),
                })
    }

    /// The provider's own name for the model.
    #[must_use]
    pub fn upstream_model<'a>(&'a self, model: &'a str) -> &'a str {
        self.aliases.get(model).map_or(model, String::as_str)
    }
}

impl ProviderView {
    /// One of its keys.
    #[must_use]
    pub fn key(&self, id: &KeyId) -> Option<&Arc<KeyView>> {
        self.keys.iter().find(|key| key.spec.id == *id)
    }
}

impl KeyView {
    /// What the key's weight for the model is multiplied with: less than 1 while its token limit is dry,
    /// never 0.
    #[must_use]
    pub fn tpm_factor(&self, model: &ModelId, now: Mono) -> f64 {
        tpm::weight_factor(self.dry_until(model, now).is_some())
    }

    /// When the key's token limit for the model is refilled, while it is dry.
    #[must_use]
    pub fn dry_until(&self, model: &ModelId, now: Mono) -> Option<Mono> {
        self.dry.get(model).copied().filter(|until| *until > now)
    }
}

impl View {
    /// Whether keys are picked by measured health; else by configured weight.
    #[must_use]
    pub fn picks_by_health(&self) -> bool {
        self.adaptive && self.settings.route_selection_enabled
    }

    /// The view with one key's holds replaced; unchanged where the key is not configured.
    #[must_use]
    pub fn with_holds(&self, provider: &ProviderId, key: &KeyId, holds: KeyHolds) -> Self {
        self.with_key(provider, key, |slot| slot.holds = Arc::new(holds))
    }

    /// The view with one key's dry models replaced; unchanged where the key is not configured.
    #[must_use]
    pub fn with_dry(
        &self,
        provider: &ProviderId,
        key: &KeyId,
        dry: BTreeMap<ModelId, Mono>,
    ) -> Self {
        self.with_key(provider, key, |slot| slot.dry = Arc::new(dry))
    }

    fn with_key(
        &self,
        provider: &ProviderId,
        key: &KeyId,
        change: impl FnOnce(&mut KeyView),
    ) -> Self {
        let mut view = self.clone();
        if let Some(found) = view.providers.get_mut(provider) {
            let mut changed = ProviderView::clone(found);
            if let Some(slot) = changed.keys.iter_mut().find(|k| k.spec.id == *key) {
                change(Arc::make_mut(slot));
                *found = Arc::new(changed);
            }
        }
        view
    }
}
