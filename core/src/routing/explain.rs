//! What a request would do in this moment, provider by provider and key by key, and why.
//!
//! Nothing is decided here: the plan is the planner's own dry run, the odds are those that it draws by,
//! and the shares of keys are those that the key choice draws by. Nothing is taken and nothing sent.

mod keys;
#[cfg(test)]
mod tests;

use rand_core::RngCore;

use super::plan::{Because, Candidate, Pool, common_name};
use super::view::{ProviderView, View};
use super::{Leg, Plan, PlanError, RequestFacts, dry_run};
use crate::health::State;
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::time::Mono;
use crate::trail::{Failing, LogLine};

/// What a request would do.
#[derive(Debug)]
pub struct Explanation {
    /// One of the ways it may go: equals are drawn anew for each request.
    pub legs: Vec<Leg>,
    /// What the request's log would say of it.
    pub notes: Vec<LogLine>,
    /// Every configured provider, by name.
    pub providers: Vec<ProviderTold>,
}

/// One provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderTold {
    /// Which.
    pub provider: ProviderId,
    /// The model as its keys name it.
    pub model: ModelId,
    /// Some key of it may serve the model, or none is needed.
    pub serves: bool,
    /// How it does for the model.
    pub state: State,
    /// From 0 to 1.
    pub score: f64,
    /// The part of such requests that begin there, from 0 to 1.
    pub share: f64,
    /// Its place in the chain of [`Explanation::legs`], 0 for the first.
    pub place: Option<usize>,
    /// In one line.
    pub why: String,
    /// Its keys, in the order of the configuration.
    pub keys: Vec<KeyTold>,
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyTold {
    /// Its id.
    pub key: KeyId,
    /// What people call it.
    pub name: String,
    /// How it does for the model; Failed while it is held.
    pub state: State,
    /// A hold covers it.
    pub held: bool,
    /// The part of the provider's requests that its first attempt makes with it, from 0 to 1.
    pub share: f64,
    /// In one line.
    pub why: String,
}

/// Explains a request.
///
/// # Errors
/// Those that the request would meet.
pub fn explain<R: RngCore>(
    view: &View,
    facts: &RequestFacts,
    rng: &mut R,
    now: Mono,
) -> Result<Explanation, PlanError> {
    let plan = dry_run(view, facts, rng, now)?;
    let start = Start::of(view, facts, &plan, now);
    let told = |provider: &ProviderView| start.told(view, facts, &plan, provider, now);
    let providers = view
        .providers
        .values()
        .map(|provider| told(provider))
        .collect();
    Ok(Explanation {
        providers,
        legs: plan.legs.into_vec(),
        notes: plan.notes,
    })
}

/// The part of the requests for this model that name no provider which begins at each of them, from 0
/// to 1. A provider that does not serve the model has none.
#[must_use]
pub fn provider_shares<'a>(
    view: &'a View,
    model: &'a ModelId,
    now: Mono,
) -> Vec<(&'a ProviderId, f64)> {
    let pool = Pool::of(view, model, now);
    let drawn = view.adaptive && view.settings.direction_selection_enabled;
    if pool.candidates.is_empty() || !drawn {
        let first = (!pool.candidates.is_empty()).then(|| pool.first_by_name());
        return first.map(|it| (&it.provider.id, 1.0)).into_iter().collect();
    }
    let (odds, _) = pool.odds(true);
    let all = pool.candidates.iter().map(|it| &it.provider.id);
    all.zip(odds).collect()
}

/// How the first leg is found.
enum Start<'a> {
    /// The request names it, or all of it is settled: this one.
    Certain {
        first: Option<ProviderId>,
        why: &'static str,
    },
    /// Drawn from a pool by these odds.
    Drawn {
        pool: Box<Pool<'a>>,
        odds: Vec<f64>,
        because: Because,
    },
}

impl<'a> Start<'a> {
    fn of(view: &'a View, facts: &'a RequestFacts, plan: &Plan, now: Mono) -> Self {
        let begins = plan.legs.first().map(|leg| leg.provider.clone());
        let certain = |why| Self::Certain {
            first: begins.clone(),
            why,
        };
        let pool = Pool::of(view, asked(view, facts), now);
        let Some(named) = &facts.target.provider else {
            if !view.adaptive || !view.settings.direction_selection_enabled {
                return certain("it comes first: choosing providers is off");
            }
            return Self::drawn(facts.fit(pool), facts.may_prove());
        };
        if plan.moved_to_pool {
            let others = pool.only(|candidate| candidate.provider.id != *named);
            return Self::drawn(others, false);
        }
        if begins.as_ref() == Some(named) {
            return certain("the request names it");
        }
        certain("it is the first own fallback that is not failing")
    }

    fn drawn(pool: Pool<'a>, may_prove: bool) -> Self {
        let (odds, because) = pool.odds(may_prove);
        Self::Drawn {
            odds: odds.into_vec(),
            because,
            pool: Box::new(pool),
        }
    }

    /// How likely the provider is to begin, and why it does.
    fn share(&self, provider: &ProviderView) -> (f64, String) {
        match self {
            Self::Certain { first, why } => {
                let begins = first.as_ref() == Some(&provider.id);
                (f64::from(u8::from(begins)), (*why).to_owned())
            }
            Self::Drawn {
                pool,
                odds,
                because,
            } => {
                let is_it = |c: &Candidate<'_>| c.provider.id == provider.id;
                let at = pool.candidates.iter().position(is_it);
                let proves = at.is_some_and(|at| pool.proves(at, *because));
                let because = if proves { Because::Proof } else { *because };
                (at.map_or(0.0, |at| odds[at]), because.to_string())
            }
        }
    }

    fn told(
        &self,
        view: &View,
        facts: &RequestFacts,
        plan: &Plan,
        provider: &ProviderView,
        now: Mono,
    ) -> ProviderTold {
        let candidate = Candidate::new(view, provider, &facts.target.model, now)
            .or_else(|| Candidate::new(view, provider, asked(view, facts), now));
        let model = candidate.map_or(&facts.target.model, |candidate| candidate.model);
        let leg = |leg: &Leg| leg.provider == provider.id && leg.model == *model;
        let place = plan.legs.iter().position(leg);
        let (share, why) = self.share(provider);
        let why = match (candidate, place) {
            _ if share > 0.0 => why,
            (_, Some(0)) => why,
            (None, _) => format!("no key of it may serve {model}"),
            (_, Some(at)) => format!("it stands behind as fallback {at}"),
            (Some(candidate), None) => left_out(view, facts, &candidate),
        };
        let pinned = match place {
            // A pin that was moved along with the request may have been left behind.
            Some(0) => plan.legs[0].pin.clone(),
            Some(_) | None if share > 0.0 => facts.pinned_at(provider, model),
            Some(_) | None => None,
        };
        ProviderTold {
            provider: provider.id.clone(),
            serves: candidate.is_some(),
            state: candidate.map_or(State::Healthy, |c| c.direction.state),
            score: candidate.map_or(0.0, |c| c.direction.score),
            share,
            place,
            why,
            keys: keys::told(view, provider, model, pinned.as_ref(), now),
            model: model.clone(),
        }
    }
}

/// The model as all providers are asked for it.
fn asked<'a>(view: &'a View, facts: &'a RequestFacts) -> &'a ModelId {
    let model = &facts.target.model;
    let named = facts
        .target
        .provider
        .as_ref()
        .and_then(|id| view.provider(id));
    named.map_or(model, |named| common_name(named, model))
}

/// Why a provider that serves the model is no part of the plan.
fn left_out(view: &View, facts: &RequestFacts, candidate: &Candidate<'_>) -> String {
    if candidate.failing() {
        return Failing {
            provider: &candidate.provider.id,
            held: candidate.held(),
        }
        .to_string();
    }
    let settings = &view.settings;
    if facts.target.provider.is_some() && !settings.append_fallbacks_to_pinned {
        return "the request names another provider, and adding fallbacks is off".to_owned();
    }
    if !view.adaptive || !settings.direction_selection_enabled {
        return "choosing providers is off, and another comes first".to_owned();
    }
    "it does not have the key that the request is pinned to".to_owned()
}
