//! Which providers serve a model, and how each stands.

use super::view::{KeyView, ModelRule, ProviderView, View};
use crate::health::State;
use crate::holds::{CheckGuard, view::Standing as KeyStanding};
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::time::Mono;
use crate::tpm;

/// How sure it is that a provider serves a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Serves {
    /// A key names the model, among its models or aliases.
    Named,
    /// A key is open to any model, or the provider needs none.
    Any,
}

/// How a provider stands for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Some key is free, or none is needed.
    Open,
    /// Every key that may serve the model is held.
    HeldOnEveryKey {
        /// When the first of them is due.
        due: Mono,
    },
}

/// How a provider does for a model: its measured health and its holds, rolled up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// Failed when every key that may serve the model is held or Failed.
    pub state: State,
    /// From 0 to 1; the better provider has the higher one.
    pub score: f64,
    /// Where every key is held: when the first of them is due.
    pub due: Option<Mono>,
    /// A key is due, and nobody checks it.
    pub check: bool,
}

impl ProviderView {
    /// The keys that may serve the model.
    pub fn serving<'a>(&'a self, model: &'a ModelId) -> impl Iterator<Item = &'a KeyView> {
        self.keys
            .iter()
            .map(AsRef::as_ref)
            .filter(|key| key.spec.serves(model.as_str()))
    }

    /// Whether and how surely the provider serves the model.
    #[must_use]
    pub fn serves(&self, model: &ModelId) -> Option<Serves> {
        if self.keyless {
            return Some(Serves::Any);
        }
        self.serving(model)
            .map(|key| {
                let named = match &key.spec.models {
                    ModelRule::All => key.spec.aliases.contains_key(model.as_str()),
                    ModelRule::Only(_) => true,
                };
                if named { Serves::Named } else { Serves::Any }
            })
            .min()
    }

    /// Whether and how surely the provider serves the model, and the model as its keys name it.
    #[must_use]
    pub fn offer<'a>(&'a self, model: &'a ModelId) -> Option<(Serves, &'a ModelId)> {
        match self.serves(model) {
            Some(Serves::Named) => Some((Serves::Named, model)),
            Some(Serves::Any) if self.names.lists(model) => Some((Serves::Named, model)),
            found => {
                let own = self.names.own(model);
                let own = own.and_then(|own| self.serves(own).map(|_| (Serves::Named, own)));
                own.or_else(|| Some((found?, model)))
            }
        }
    }

    /// How the provider stands for the model.
    #[must_use]
    pub fn standing(&self, model: &ModelId, now: Mono) -> Standing {
        let mut soonest = None;
        for key in self.serving(model) {
            let due = match key.holds.standing(model, now) {
                KeyStanding::Free => return Standing::Open,
                KeyStanding::Held { due } => due,
                KeyStanding::Due | KeyStanding::Checking => now,
            };
            soonest = Some(soonest.map_or(due, |s: Mono| s.min(due)));
        }
        soonest.map_or(Standing::Open, |due| Standing::HeldOnEveryKey { due })
    }

    /// The state of the key at this place for a model, without regard to holds.
    #[must_use]
    pub fn route_state(&self, at: usize, model: &ModelId) -> State {
        let route = self
            .health
            .get(model)
            .and_then(|health| health.routes.get(at));
        route.map_or(State::Healthy, |route| route.state)
    }

    /// Takes the check of the first key that is due and that nobody checks.
    #[must_use]
    pub fn try_check(&self, model: &ModelId, now: Mono) -> Option<(KeyId, CheckGuard)> {
        self.serving(model).find_map(|key| {
            let guard = key.holds.try_check(model, now)?;
            Some((key.spec.id.clone(), guard))
        })
    }

    /// Whether a check could be taken, without taking it.
    #[must_use]
    pub fn has_due_key(&self, model: &ModelId, now: Mono) -> bool {
        self.serving(model)
            .any(|key| key.holds.standing(model, now) == KeyStanding::Due)
    }
}

impl Direction {
    /// Of a provider that was never asked.
    pub const UNMEASURED: Self = Self {
        state: State::Healthy,
        score: 1.0,
        due: None,
        check: false,
    };
}

impl View {
    /// One provider.
    #[must_use]
    pub fn provider(&self, id: &ProviderId) -> Option<&ProviderView> {
        self.providers.get(id).map(AsRef::as_ref)
    }

    /// How a provider stands for a model; always open where nothing is held.
    #[must_use]
    pub fn standing(&self, provider: &ProviderView, model: &ModelId, now: Mono) -> Standing {
        if self.adaptive {
            provider.standing(model, now)
        } else {
            Standing::Open
        }
    }

    /// How a provider does for a model.
    #[must_use]
    pub fn direction(&self, provider: &ProviderView, model: &ModelId, now: Mono) -> Direction {
        if !self.adaptive {
            return Direction::UNMEASURED;
        }
        let (mut serving, mut dry) = (0, 0);
        let (mut out, mut recovering, mut degraded) = (0, 0, 0);
        let health = provider.health.get(model);
        let mut due = None;
        let (mut free, mut check) = (false, false);
        for (index, key) in provider.keys.iter().enumerate() {
            if !key.spec.serves(model.as_str()) {
                continue;
            }
            serving += 1;
            dry += u32::from(key.dry_until(model, now).is_some());
            let standing = key.holds.standing(model, now);
            check |= standing == KeyStanding::Due;
            let soonest = match standing {
                KeyStanding::Free => None,
                KeyStanding::Held { due } => Some(due),
                KeyStanding::Due | KeyStanding::Checking => Some(now),
            };
            if let Some(soonest) = soonest {
                out += 1;
                due = Some(due.map_or(soonest, |d: Mono| d.min(soonest)));
                continue;
            }
            free = true;
            let route = health.and_then(|health| health.routes.get(index));
            match route.map_or(State::Healthy, |route| route.state) {
                State::Healthy => {}
                State::Degraded => degraded += 1,
                State::Recovering => recovering += 1,
                State::Failed => out += 1,
            }
        }
        if provider.keyless {
            let route = health.and_then(|health| health.routes.first());
            return Direction {
                state: route.map_or(State::Healthy, |route| route.state),
                score: health.map_or(1.0, |health| health.score),
                ..Direction::UNMEASURED
            };
        }
        let state = if serving == 0 || out + recovering + degraded == 0 {
            State::Healthy
        } else if out == serving {
            State::Failed
        } else if out + recovering == serving {
            State::Recovering
        } else {
            State::Degraded
        };
        let score = health.map_or(1.0, |health| health.score);
        Direction {
            state,
            // Less while token limits of its keys are dry.
            score: score * tpm::score_factor(dry, serving),
            due: due.filter(|_| !free),
            check,
        }
    }

    /// The providers that serve the model: those that name it before those open to any, in order of
    /// name.
    #[must_use]
    pub fn serving(&self, model: &ModelId) -> Vec<(Serves, &ProviderView)> {
        let mut found: Vec<_> = self
            .providers
            .values()
            .filter_map(|provider| Some((provider.serves(model)?, provider.as_ref())))
            .collect();
        found.sort_by_key(|(serves, _)| *serves);
        found
    }
}
