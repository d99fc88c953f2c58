//! The legs of one request: the provider it goes to and the fallbacks behind it.

mod bare;
mod behind;
mod named;
mod pool;
#[cfg(test)]
mod tests;

use rand_core::RngCore;
use smallvec::SmallVec;

use super::key::below;
use super::pin::Pin;
use super::session::Bound;
use super::view::{ProviderView, View};
use crate::holds::CheckGuard;
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::time::Mono;
use crate::trail::{LogLine, Route};

pub(crate) use crate::trail::Because;
pub(crate) use named::common_name;
pub(crate) use pool::{Candidate, Pool};

/// What planning needs of a request.
#[derive(Clone, Debug)]
pub struct RequestFacts {
    /// What the request asks for first.
    pub target: Target,
    /// Its own fallbacks, in order.
    pub fallbacks: Vec<Target>,
    /// The key the caller pinned.
    pub pin: Option<Pin>,
    /// The key that the operator's rule pinned which named the provider: it comes before the caller's,
    /// and stays with its provider.
    pub rule_pin: Option<Pin>,
    /// The caller brings its own key: nothing is picked, measured or held on the first leg.
    pub direct_key: bool,
    /// Where the request's session is served.
    pub session: Option<Bound>,
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
    /// The key that the request's session was served with: used first, while it may be.
    pub session_key: Option<KeyId>,
    /// The caller's own key is used.
    pub direct_key: bool,
}

/// The legs of a plan: few requests have more than a primary and three fallbacks.
pub type Legs = SmallVec<[Leg; 4]>;

/// What a request will do, and why.
#[derive(Debug, Default)]
pub struct Plan {
    /// In order: the primary, then its fallbacks.
    pub legs: Legs,
    /// What is worth telling in the request's log.
    pub notes: Vec<LogLine>,
    /// Set where this request is the one that finds out whether a held key of a provider serves again:
    /// the key that the first leg begins with. No other request of this node has it.
    pub check: Option<PlannedCheck>,
    /// The provider that the request named is failing, and another that serves the model takes over.
    pub(crate) moved_to_pool: bool,
    /// The provider that the request named is failing, and it goes there all the same, as no check.
    pub kept_on_failing: bool,
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

/// Plans a request that will not be sent: the same decisions, but no check and no turn is taken.
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

/// A plan in the making. Requests that name a provider are in `named`, the others in `bare`, what
/// stands behind the first leg in `behind`.
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
        self.offer_session_key();
        Ok(self.plan)
    }

    fn model(&self) -> &'a ModelId {
        &self.facts.target.model
    }

    /// The caller's pin, where it counts: a caller's own key leaves nothing to pin.
    fn pin(&self) -> Option<&'a Pin> {
        self.facts.callers_pin()
    }

    /// Where the session is served, where that counts: pins and own keys leave nothing to choose.
    fn session(&self) -> Option<&'a Bound> {
        let chosen = self.facts.direct_key || self.facts.pin.is_some();
        self.facts.session.as_ref().filter(|_| !chosen)
    }

    /// As the request's facts say.
    fn may_prove(&self) -> bool {
        self.facts.may_prove()
    }

    /// Makes this request the check of one of the provider's held keys, if one is due and nobody checks
    /// it.
    fn take_check(&mut self, provider: &ProviderView, model: &ModelId) -> bool {
        if !self.may_prove() {
            return false;
        }
        match self.checks {
            Checks::Look => provider.has_due_key(model, self.now),
            Checks::Take => match provider.try_check(model, self.now) {
                Some((key, guard)) => {
                    self.plan.check = Some(PlannedCheck { key, guard });
                    true
                }
                None => false,
            },
        }
    }

    /// Takes a Recovering provider's turn, if nobody has.
    fn take_turn(&self, candidate: &Candidate<'_>) -> bool {
        let health = candidate.provider.health.get(candidate.model);
        health.is_some_and(|health| match self.checks {
            Checks::Look => health.turn.is_free(),
            Checks::Take => health.turn.take(),
        })
    }

    fn first_leg(&mut self, provider: &ProviderView, model: &ModelId, pin: Option<KeyId>) {
        self.plan.legs.push(Leg {
            pin,
            direct_key: self.facts.direct_key,
            ..Leg::new(&provider.id, model)
        });
    }

    /// Legs where the session was served begin with its key.
    fn offer_session_key(&mut self) {
        let Some(bound) = self.session() else {
            return;
        };
        for leg in &mut self.plan.legs {
            if leg.is_at(&bound.provider, &bound.model) && leg.pin.is_none() {
                leg.session_key.clone_from(&bound.key);
            }
        }
    }
}

impl RequestFacts {
    /// A request for nothing but this.
    #[must_use]
    pub const fn new(target: Target) -> Self {
        Self {
            target,
            fallbacks: Vec::new(),
            pin: None,
            rule_pin: None,
            direct_key: false,
            session: None,
        }
    }

    /// The caller's pin, where it counts.
    fn callers_pin(&self) -> Option<&Pin> {
        self.pin.as_ref().filter(|_| !self.direct_key)
    }

    /// Whether the request may find things out for others: not with a key of its own choice.
    pub(crate) fn may_prove(&self) -> bool {
        !self.direct_key && self.pin.is_none() && self.rule_pin.is_none()
    }

    /// Where a request without a provider could begin: where the pinned key is, if there is a pin.
    pub(crate) fn fit<'a>(&self, pool: Pool<'a>) -> Pool<'a> {
        match self.callers_pin() {
            Some(pin) => pool.only(|c| pin.find(c.provider, c.model).is_some()),
            None => pool,
        }
    }

    /// The key that the request is pinned to where it begins at this provider.
    pub(crate) fn pinned_at(&self, provider: &ProviderView, model: &ModelId) -> Option<KeyId> {
        let named = self.target.provider.as_ref() == Some(&provider.id);
        let rule = self.rule_pin.as_ref().filter(|_| named && !self.direct_key);
        let key = rule.or(self.callers_pin())?.find(provider, model)?;
        Some(key.spec.id.clone())
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
            session_key: None,
            direct_key: false,
        }
    }

    fn is_at(&self, provider: &ProviderId, model: &ModelId) -> bool {
        self.provider == *provider && self.model == *model
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
        self.legs.iter().any(|leg| leg.is_at(provider, model))
    }
}

impl PlanError {
    fn unknown_pin(
        pin: &Pin,
        header: &'static str,
        provider: &ProviderView,
        model: &ModelId,
    ) -> Self {
        Self::UnknownPin {
            pin: pin.text().to_owned(),
            header,
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
