//! The legs of one request: the provider it goes to and the fallbacks behind it.

mod bare;
mod named;
#[cfg(test)]
mod tests;

use rand_core::RngCore;

use super::key::below;
use super::pin::Pin;
use super::provider::{Serves, Standing};
use super::view::{ProviderView, View};
use crate::holds::CheckGuard;
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::time::Mono;
use crate::trail::{self, LogLine, Route};

/// What planning needs of a request.
#[derive(Clone, Debug)]
pub struct RequestFacts {
    /// What the request asks for first.
    pub target: Target,
    /// Its own fallbacks, in order.
    pub fallbacks: Vec<Target>,
    /// The key the caller pinned.
    pub pin: Option<Pin>,
    /// The caller brings its own key: nothing is picked, measured or held on the first leg.
    pub direct_key: bool,
}

/// A model, at a provider or wherever it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The provider, where one is named.
    pub provider: Option<ProviderId>,
    /// The model.
    pub model: ModelId,
}

/// One provider to try, with its own retry budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where.
    pub provider: ProviderId,
    /// Which model.
    pub model: ModelId,
    /// The only key to use.
    pub pin: Option<KeyId>,
    /// The caller's own key is used.
    pub direct_key: bool,
}

/// What a request will do, and why.
#[derive(Debug, Default)]
pub struct Plan {
    /// In order: the primary, then its fallbacks.
    pub legs: Vec<Leg>,
    /// What is worth telling in the request's log.
    pub notes: Vec<LogLine>,
    /// Set where this request is the one that finds out whether a provider held on every key serves
    /// again: the key that the first leg begins with. No other request of this node has it.
    pub check: Option<PlannedCheck>,
}

/// A check that planning took for the first leg.
#[derive(Debug)]
pub struct PlannedCheck {
    /// The key to check.
    pub key: KeyId,
    /// Frees the slot when it is dropped.
    pub guard: CheckGuard,
}

/// Why a request cannot be planned: each is the caller's to mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nobody serves it.
    #[error(
        "no configured provider serves the model \"{0}\": name one as \"provider/{0}\", or add the model to a key's `models`"
    )]
    UnknownModel(ModelId),
    /// The named provider is not configured.
    #[error("the provider \"{0}\" is not configured")]
    UnknownProvider(ProviderId),
    /// No enabled key of the named provider may serve the model.
    #[error(
        "no key of the provider \"{provider}\" may serve the model \"{model}\": check the keys' `models`, `blacklisted_models` and `enabled`"
    )]
    NoKeyServes {
        /// Named provider.
        provider: ProviderId,
        /// Requested model.
        model: ModelId,
    },
    /// The pinned key does not exist or may not serve the model.
    #[error(
        "the pinned key \"{pin}\" ({header}) is no usable key of the provider \"{provider}\" for the model \"{model}\""
    )]
    UnknownPin {
        /// What the caller sent.
        pin: String,
        /// In which header.
        header: &'static str,
        /// Where it was looked for.
        provider: ProviderId,
        /// For what.
        model: ModelId,
    },
}

/// Plans a request.
///
/// # Errors
/// When no configured provider or key can serve what is asked for.
pub fn plan<R: RngCore>(
    view: &View,
    facts: &RequestFacts,
    rng: &mut R,
    now: Mono,
) -> Result<Plan, PlanError> {
    Planning::new(view, facts, Checks::Take, rng, now).finish()
}

/// Plans a request that will not be sent: the same decisions, but no check slot is taken.
///
/// # Errors
/// As [`plan`].
pub fn dry_run<R: RngCore>(
    view: &View,
    facts: &RequestFacts,
    rng: &mut R,
    now: Mono,
) -> Result<Plan, PlanError> {
    Planning::new(view, facts, Checks::Look, rng, now).finish()
}

/// Whether a check is taken or only looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    Take,
    Look,
}

/// A plan in the making. Requests that name a provider are in `named`, the others in `bare`.
struct Planning<'a, R> {
    view: &'a View,
    facts: &'a RequestFacts,
    checks: Checks,
    rng: &'a mut R,
    now: Mono,
    plan: Plan,
}

impl<'a, R: RngCore> Planning<'a, R> {
    fn new(
        view: &'a View,
        facts: &'a RequestFacts,
        checks: Checks,
        rng: &'a mut R,
        now: Mono,
    ) -> Self {
        Self {
            view,
            facts,
            checks,
            rng,
            now,
            plan: Plan::default(),
        }
    }

    fn finish(mut self) -> Result<Plan, PlanError> {
        match &self.facts.target.provider {
            Some(provider) => self.named(provider)?,
            None => self.bare()?,
        }
        Ok(self.plan)
    }

    fn model(&self) -> &'a ModelId {
        &self.facts.target.model
    }

    /// The caller's pin, where it counts: a caller's own key leaves nothing to pin.
    fn pin(&self) -> Option<&'a Pin> {
        self.facts.pin.as_ref().filter(|_| !self.facts.direct_key)
    }

    fn is_open(&self, provider: &ProviderView, model: &ModelId) -> bool {
        self.view.standing(provider, model, self.now) == Standing::Open
    }

    /// Makes this request the check of a provider held on every key, if one of its keys is due and
    /// nobody checks it. Requests with a key of their own choice are no checks.
    fn take_check(&mut self, provider: &ProviderView) -> bool {
        if self.facts.direct_key || self.facts.pin.is_some() {
            return false;
        }
        match self.checks {
            Checks::Look => provider.has_due_key(self.model(), self.now),
            Checks::Take => match provider.try_check(self.model(), self.now) {
                Some((key, guard)) => {
                    self.plan.check = Some(PlannedCheck { key, guard });
                    true
                }
                None => false,
            },
        }
    }

    fn first_leg(&mut self, provider: &ProviderView, pin: Option<KeyId>) {
        self.plan.legs.push(Leg {
            provider: provider.id.clone(),
            model: self.model().clone(),
            pin,
            direct_key: self.facts.direct_key,
        });
    }

    /// The open providers that serve the model, in an order of chance: those that name it, then those
    /// open to any.
    fn open_providers(&mut self, model: &ModelId) -> Vec<&'a ProviderView> {
        let mut open = self.view.serving(model);
        open.retain(|(_, provider)| self.is_open(provider, model));
        let named = open.partition_point(|(serves, _)| *serves == Serves::Named);
        let (first, second) = open.split_at_mut(named);
        shuffle(first, self.rng);
        shuffle(second, self.rng);
        open.into_iter().map(|(_, provider)| provider).collect()
    }

    /// The request's own fallbacks, in its order. Those whose provider is not configured stay: the
    /// walk tells of them where it gets there. `except` is one that the request begins with.
    fn own_fallbacks(&mut self, may_prune: bool, except: Option<&Leg>) {
        let facts = self.facts;
        let prune = may_prune && self.view.settings.prune_failed_fallbacks;
        for target in &facts.fallbacks {
            if except.is_some_and(|leg| target.is(leg)) {
                continue;
            }
            let Some(leg) = self.fallback(target) else {
                self.plan
                    .notes
                    .push(trail::fallback_nobody_serves(&target.model));
                continue;
            };
            let standing = self
                .view
                .provider(&leg.provider)
                .map(|provider| self.view.standing(provider, &leg.model, self.now));
            if prune && matches!(standing, Some(Standing::HeldOnEveryKey { .. })) {
                self.plan.notes.push(trail::fallback_pruned(leg.route()));
            } else {
                self.plan.legs.push(leg);
            }
        }
    }

    /// The leg of one own fallback; where it names no provider, one that serves it, best one that the
    /// request does not go to anyway.
    fn fallback(&mut self, target: &Target) -> Option<Leg> {
        if let Some(provider) = &target.provider {
            return Some(Leg::new(provider, &target.model));
        }
        let open = self.open_providers(&target.model);
        let fresh = open
            .iter()
            .find(|provider| !self.plan.goes_to(&provider.id, &target.model));
        let chosen = fresh.or(open.first()).copied();
        let any = || self.view.serving(&target.model).first().map(|(_, p)| *p);
        chosen
            .or_else(any)
            .map(|provider| Leg::new(&provider.id, &target.model))
    }

    /// Adds providers of the request's model behind what is planned, each once.
    fn append(&mut self, providers: &[&ProviderView]) {
        let model = self.model();
        let before = self.plan.legs.len();
        for provider in providers {
            if !self.plan.goes_to(&provider.id, model) {
                self.plan.legs.push(Leg::new(&provider.id, model));
            }
        }
        let added = self.plan.legs.len() - before;
        if added > 0 {
            self.plan.notes.push(trail::fallbacks_added(added, model));
        }
    }
}

impl Target {
    fn is(&self, leg: &Leg) -> bool {
        self.provider.as_ref() == Some(&leg.provider) && self.model == leg.model
    }
}

impl Leg {
    /// A leg with keys of the provider's own.
    #[must_use]
    pub fn new(provider: &ProviderId, model: &ModelId) -> Self {
        Self {
            provider: provider.clone(),
            model: model.clone(),
            pin: None,
            direct_key: false,
        }
    }

    /// For log lines.
    #[must_use]
    pub fn route(&self) -> Route<'_> {
        Route {
            provider: &self.provider,
            model: &self.model,
        }
    }
}

impl Plan {
    fn goes_to(&self, provider: &ProviderId, model: &ModelId) -> bool {
        self.legs
            .iter()
            .any(|leg| leg.provider == *provider && leg.model == *model)
    }
}

impl PlanError {
    fn unknown_pin(pin: &Pin, provider: &ProviderView, model: &ModelId) -> Self {
        Self::UnknownPin {
            pin: pin.text().to_owned(),
            header: pin.header(),
            provider: provider.id.clone(),
            model: model.clone(),
        }
    }
}

/// Fisher and Yates.
fn shuffle<T, R: RngCore>(items: &mut [T], rng: &mut R) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, rng));
    }
}
