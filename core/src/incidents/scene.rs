//! What is in trouble at one instant, read off a view: holds, measured health, providers with every key out.

use std::collections::{BTreeMap, BTreeSet};

use super::sighting::{Cause, Entity, Worst};
use crate::health::State;
use crate::holds::{Body, HoldRef};
use crate::ids::{ModelId, ProviderId};
use crate::routing::view::{KeyView, ModelRule, ProviderView, View};
use crate::time::{Hlc, Mono, WallMs};

/// Models of one provider that are looked at.
const MAX_MODELS: usize = 2_000;

/// A view at one instant.
pub(super) struct Scene<'a> {
    view: &'a View,
    now: Mono,
    pub(super) troubles: BTreeMap<Entity, Trouble>,
    /// Out of trouble, but not yet what it was.
    pub(super) recovering: BTreeSet<Entity>,
    states: BTreeMap<(ProviderId, ModelId), State>,
}

/// One thing that is in trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) cause: Cause,
    pub(super) worst: Worst,
    /// What holds it.
    pub(super) hold: Option<Held>,
    /// The models it concerns.
    pub(super) models: BTreeSet<ModelId>,
    /// What people call the key.
    pub(super) key_name: String,
    /// Something else serves what it served.
    pub(super) contained: bool,
}

/// A hold, as far as a view shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The release that it came after.
    pub(super) release: Hlc,
    /// When its present state was made.
    pub(super) since: WallMs,
}

/// Whether something is still there to be in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Configured,
    Gone,
}

impl<'a> Scene<'a> {
    /// Reads the view. `open` is what is followed already: its models are looked at too.
    pub(super) fn new<'o>(
        view: &'a View,
        now: Mono,
        open: impl Iterator<Item = &'o Entity>,
    ) -> Self {
        let mut scene = Self {
            view,
            now,
            troubles: BTreeMap::new(),
            recovering: BTreeSet::new(),
            states: BTreeMap::new(),
        };
        if !view.adaptive {
            return scene;
        }
        let mut followed: BTreeMap<&ProviderId, Vec<&ModelId>> = BTreeMap::new();
        for entity in open {
            followed
                .entry(entity.provider())
                .or_default()
                .extend(entity.model());
        }
        for (id, provider) in &view.providers {
            scene.keys(provider);
            let followed = followed.remove(id).unwrap_or_default();
            scene.directions(provider, &followed);
        }
        scene.contain();
        scene
    }

    /// Whether the configuration still has it.
    pub(super) fn presence(&self, entity: &Entity) -> Presence {
        let provider = self.view.providers.get(entity.provider());
        let there = provider.is_some_and(|provider| match entity {
            Entity::Key { key, .. } => provider
                .keys
                .iter()
                .any(|k| k.spec.id == *key && k.spec.enabled),
            Entity::Route { key, model, .. } => provider
                .serving(model)
                .any(|serving| serving.spec.id == *key),
            Entity::Direction { model, .. } => provider.serves(model).is_some(),
        });
        if there && self.view.adaptive {
            Presence::Configured
        } else {
            Presence::Gone
        }
    }

    /// Whether something that is out of trouble is still on its way back. A whole key is back when one of
    /// its routes is, and none is in trouble: models that nobody asks for prove nothing.
    pub(super) fn recovers(&self, entity: &Entity) -> bool {
        let Entity::Key { provider, key } = entity else {
            return self.recovering.contains(entity);
        };
        let of_key = |found: &Entity| found.provider() == provider && found.key() == Some(key);
        if self.troubles.keys().any(of_key) {
            return true;
        }
        let is_back = || {
            let provider = self.view.providers.get(provider)?;
            let index = provider.keys.iter().position(|k| k.spec.id == *key)?;
            let mut routes = provider.health.values().filter_map(|h| h.routes.get(index));
            Some(routes.any(|route| route.tried && route.state == State::Healthy))
        };
        self.recovering.iter().any(of_key) && is_back() != Some(true)
    }

    fn keys(&mut self, provider: &ProviderView) {
        for (index, key) in provider.keys.iter().enumerate() {
            if !key.spec.enabled {
                continue;
            }
            if let Some((hold, cause)) = key.holds.key.as_ref().and_then(held) {
                let models = concerned(provider, key, index);
                let entity = Entity::Key {
                    provider: provider.id.clone(),
                    key: key.spec.id.clone(),
                };
                self.trouble(entity, key, cause, Worst::Failed, Some(hold), models);
            }
            for (model, register) in &key.holds.models {
                if let Some((hold, cause)) = held(register)
                    && key.spec.serves(model.as_str())
                {
                    let entity = route(provider, key, model);
                    let models = [model.clone()].into();
                    self.trouble(entity, key, cause, Worst::Failed, Some(hold), models);
                }
            }
            self.measured(provider, key, index);
        }
    }

    /// Health comes behind holds: a route that is held has its cause.
    fn measured(&mut self, provider: &ProviderView, key: &KeyView, index: usize) {
        for (model, health) in provider.health.iter() {
            let Some(route_health) = health.routes.get(index) else {
                continue;
            };
            if !key.spec.serves(model.as_str()) {
                continue;
            }
            let (cause, worst) = match route_health.state {
                State::Healthy => continue,
                State::Recovering => {
                    self.recovering.insert(route(provider, key, model));
                    continue;
                }
                State::Degraded => (Cause::Degraded, Worst::Degraded),
                State::Failed => (Cause::Failing, Worst::Failed),
            };
            let entity = route(provider, key, model);
            if route_health.tried && !self.troubles.contains_key(&entity) {
                self.trouble(entity, key, cause, worst, None, [model.clone()].into());
            }
        }
    }

    fn trouble(
        &mut self,
        entity: Entity,
        key: &KeyView,
        cause: Cause,
        worst: Worst,
        hold: Option<Held>,
        models: BTreeSet<ModelId>,
    ) {
        let trouble = Trouble {
            cause,
            worst,
            hold,
            models,
            key_name: key.spec.name.clone(),
            contained: false,
        };
        self.troubles.insert(entity, trouble);
    }

    /// A provider for a model is in trouble when every key that may serve it is out. One of several keys
    /// out is that key's trouble.
    fn directions(&mut self, provider: &ProviderView, followed: &[&ModelId]) {
        let mut models: BTreeSet<&ModelId> = followed.iter().copied().collect();
        models.extend(provider.health.keys().take(MAX_MODELS));
        // Not every model that a held key could serve: only those that are asked for here.
        let held: Vec<ModelId> = self
            .troubles
            .keys()
            .filter(|entity| *entity.provider() == provider.id)
            .filter_map(|entity| entity.model().cloned())
            .collect();
        models.extend(&held);
        for model in models.into_iter().take(MAX_MODELS) {
            let entity = Entity::Direction {
                provider: provider.id.clone(),
                model: model.clone(),
            };
            match self.state(provider, model) {
                State::Healthy | State::Degraded => {}
                State::Recovering => {
                    self.recovering.insert(entity);
                }
                State::Failed => {
                    let trouble = Trouble {
                        cause: self.common_cause(provider, model),
                        worst: Worst::Failed,
                        hold: None,
                        models: [model.clone()].into(),
                        key_name: String::new(),
                        contained: false,
                    };
                    self.troubles.insert(entity, trouble);
                }
            }
        }
    }

    /// What put most of a provider's keys out; of equals, the graver.
    fn common_cause(&self, provider: &ProviderView, model: &ModelId) -> Cause {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for key in provider.serving(model) {
            let whole = Entity::Key {
                provider: provider.id.clone(),
                key: key.spec.id.clone(),
            };
            let found = [whole, route(provider, key, model)]
                .iter()
                .find_map(|entity| self.troubles.get(entity));
            let rank = Cause::ALL
                .iter()
                .position(|cause| found.is_some_and(|trouble| trouble.cause == *cause));
            if let Some(rank) = rank {
                *counts.entry(rank).or_default() += 1;
            }
        }
        let most = counts
            .into_iter()
            .max_by_key(|(rank, count)| (*count, std::cmp::Reverse(*rank)));
        most.map_or(Cause::Failing, |(rank, _)| Cause::ALL[rank])
    }

    /// Says of every trouble whether something else serves.
    fn contain(&mut self) {
        let entities: Vec<(Entity, BTreeSet<ModelId>)> = self
            .troubles
            .iter()
            .map(|(entity, trouble)| (entity.clone(), trouble.models.clone()))
            .collect();
        for (entity, models) in entities {
            let contained = if models.is_empty() {
                self.has_another_key(&entity)
            } else {
                models.iter().all(|model| self.is_served(&entity, model))
            };
            if let Some(trouble) = self.troubles.get_mut(&entity) {
                trouble.contained = contained;
            }
        }
    }

    /// Whether the model is served in spite of the trouble: by another key of the provider or, where the
    /// provider is out, by a provider that serves it as surely.
    fn is_served(&mut self, entity: &Entity, model: &ModelId) -> bool {
        let view = self.view;
        let own = view
            .providers
            .get(entity.provider())
            .and_then(|provider| provider.serves(model));
        view.serving(model)
            .into_iter()
            .filter(|(serves, _)| own.is_none_or(|own| *serves <= own))
            .any(|(_, provider)| {
                let is_itself = entity.extent() == super::Extent::Direction
                    && provider.id == *entity.provider();
                !is_itself && self.state(provider, model) != State::Failed
            })
    }

    /// For a key that is open to any model and was not asked for one here.
    fn has_another_key(&self, entity: &Entity) -> bool {
        let provider = self.view.providers.get(entity.provider());
        provider.is_some_and(|provider| {
            provider.keys.iter().any(|key| {
                key.spec.enabled
                    && Some(&key.spec.id) != entity.key()
                    && key.holds.key.as_ref().is_none_or(|h| !h.register.is_held())
            })
        })
    }

    fn state(&mut self, provider: &ProviderView, model: &ModelId) -> State {
        let place = (provider.id.clone(), model.clone());
        if let Some(known) = self.states.get(&place) {
            return *known;
        }
        let state = self.view.direction(provider, model, self.now).state;
        self.states.insert(place, state);
        state
    }
}

fn route(provider: &ProviderView, key: &KeyView, model: &ModelId) -> Entity {
    Entity::Route {
        provider: provider.id.clone(),
        model: model.clone(),
        key: key.spec.id.clone(),
    }
}

fn held(hold: &HoldRef) -> Option<(Held, Cause)> {
    let register = &hold.register;
    let Body::Held { reason, .. } = register.body else {
        return None;
    };
    let held = Held {
        release: register.release,
        since: WallMs(register.stamp.ms),
    };
    Some((held, Cause::Refused(reason)))
}

/// The models of a key: those it names, or those it was asked for here.
fn concerned(provider: &ProviderView, key: &KeyView, index: usize) -> BTreeSet<ModelId> {
    match &key.spec.models {
        ModelRule::Only(names) => names
            .iter()
            .filter(|name| key.spec.serves(name))
            .map(|name| ModelId::from(name.as_str()))
            .take(MAX_MODELS)
            .collect(),
        ModelRule::All => provider
            .health
            .iter()
            .filter(|(_, health)| health.routes.get(index).is_some_and(|route| route.tried))
            .map(|(model, _)| model.clone())
            .take(MAX_MODELS)
            .collect(),
    }
}
