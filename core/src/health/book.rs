//! What a node has measured: of each provider, key and model, bounded, and owned by one caller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::route::{Ended, Reach, Route, Ticket};
use super::score;
use super::tuning::{
    FULL_WEIGHT, HOSTS_OF_AN_OUTAGE, IDLE_FORGOTTEN_MS, LEAST_PROVIDER_LOAD_FACTOR, MODELS_PER_KEY,
};
use super::window::{Latency, Reference};
use super::{ModelHealth, RouteHealth, State, Turn};
use crate::holds::view::{HoldRef, Standing};
use crate::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use crate::routing::{KeyView, ModelRule, ProviderView, View};
use crate::time::Mono;

/// The route of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Attempted<'a> {
    /// Of the provider.
    pub provider: &'a ProviderId,
    /// The key as it was configured; none of a provider without keys. A caller's own key has no route.
    pub key: Option<(&'a KeyId, Fingerprint)>,
    /// As requests name it.
    pub model: &'a ModelId,
}

/// Everything a node has measured.
///
/// It follows a [`View`]: [`Book::configure`] whenever providers or keys changed, and
/// [`Book::see_holds`] whenever a provider's holds did. Keys that are gone are forgotten.
#[derive(Debug, Default)]
pub struct Book {
    providers: BTreeMap<ProviderId, Provider>,
    network: Network,
    recomputed: Mono,
    serial: u64,
}

#[derive(Debug, Default)]
struct Provider {
    /// In the order of the view's; one without an id of a provider that needs none.
    keys: Vec<Key>,
    scores: BTreeMap<ModelId, Score>,
}

/// Of a provider for a model, as of the last recompute.
#[derive(Clone, Debug)]
struct Score {
    value: f64,
    turn: Turn,
}

#[derive(Debug)]
struct Key {
    id: Option<KeyId>,
    fingerprint: Fingerprint,
    host: Arc<str>,
    serial: u64,
    /// As a whole: models that it is first asked for meanwhile are held too.
    held: bool,
    routes: BTreeMap<ModelId, Route>,
}

/// Whether this node reaches anybody.
#[derive(Debug, Default)]
struct Network {
    /// Times that a host was reached after others were not.
    spell: u64,
    /// Hosts that could not be connected to since any was.
    unreached: BTreeSet<Arc<str>>,
}

/// What a recompute found.
#[derive(Debug, Default)]
pub struct Recomputed {
    /// States that changed by measurement. What holds and releases do is in their records.
    pub changes: Vec<Change>,
    /// Nobody could be connected to: it is this node's network, and no route was judged by it.
    pub own_network_out: bool,
}

/// A route went from one state to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of the provider.
    pub provider: ProviderId,
    /// None of a provider without keys.
    pub key: Option<KeyId>,
    /// Of the model.
    pub model: ModelId,
    /// Before.
    pub from: State,
    /// Now.
    pub to: State,
}

/// A route as people read it: as of the last recompute, but requests as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// As requests read it.
    pub health: RouteHealth,
    /// Failed of all, the recent ones first; from 0 to 1.
    pub error_rate: f64,
    /// What a typical served request takes, or a stream until its first output: real milliseconds.
    pub latency_ms: Option<f64>,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests since the key was configured.
    pub requests: u64,
    /// Recent requests up to now, fading: for shares of traffic.
    pub recent_requests: f64,
    /// Recent throughput.
    pub requests_per_minute: f64,
    /// Recent throughput: output.
    pub tokens_per_minute: f64,
}

impl Book {
    /// Follows a change of providers or keys. A key whose fingerprint changed is another key.
    ///
    /// `host` says where the calls of a provider, and of one of its keys, go.
    pub fn configure(
        &mut self,
        view: &View,
        host: impl Fn(&ProviderId, Option<&KeyId>) -> Arc<str>,
        now: Mono,
    ) {
        let mut before = std::mem::take(&mut self.providers);
        for (id, provider) in &view.providers {
            let mut known = before.remove(id).unwrap_or_default();
            let mut follow = |key: Option<&KeyId>, fingerprint| {
                let is_same = |k: &Key| k.id.as_ref() == key && k.fingerprint == fingerprint;
                let place = known.keys.iter().position(is_same);
                let mut kept = place.map_or_else(
                    || {
                        self.serial += 1;
                        Key {
                            id: key.cloned(),
                            fingerprint,
                            host: host(id, key),
                            serial: self.serial,
                            held: false,
                            routes: BTreeMap::new(),
                        }
                    },
                    |place| known.keys.swap_remove(place),
                );
                kept.host = host(id, key);
                kept
            };
            let keys = if provider.keyless {
                vec![follow(None, KEYLESS)]
            } else {
                let specs = provider.keys.iter().map(|key| &key.spec);
                specs
                    .map(|spec| follow(Some(&spec.id), spec.fingerprint))
                    .collect()
            };
            let scores = known.scores;
            self.providers.insert(id.clone(), Provider { keys, scores });
            self.see_holds(provider, now);
        }
    }

    /// An attempt goes out. `None` where it is not measured: the key is not configured (any more), or
    /// its models are too many.
    pub fn launched(&mut self, attempted: Attempted<'_>, now: Mono) -> Option<Ticket> {
        let key = self.key(attempted)?;
        let serial = key.serial;
        let route = key.route(attempted.model, now)?;
        route.launched(now);
        Some(Ticket {
            serial,
            launched: now,
        })
    }

    /// An attempt ended. Each ticket is given back once.
    pub fn ended(&mut self, attempted: Attempted<'_>, ticket: Ticket, ended: Ended, now: Mono) {
        let spell = self.network.spell;
        let Some(key) = self.key(attempted).filter(|k| k.serial == ticket.serial) else {
            return;
        };
        let host = Arc::clone(&key.host);
        if let Some(route) = key.routes.get_mut(attempted.model) {
            route.ended(ticket.launched, ended, spell, now);
        }
        self.network.heard(&host, ended);
    }

    /// Follows the holds of a provider: what they cover is out and begins its recovery when they end.
    /// True if that changed any route's health: it should be shown at once.
    pub fn see_holds(&mut self, view: &ProviderView, now: Mono) -> bool {
        let Some(provider) = self.providers.get_mut(&view.id) else {
            return false;
        };
        if view.keyless {
            return false;
        }
        let known = provider.models();
        let mut news = false;
        for (key, key_view) in provider.keys.iter_mut().zip(&view.keys) {
            key.held = key_view.holds.key.as_ref().is_some_and(is_held);
            for model in covered(key_view, &known) {
                if !key.routes.contains_key(&model) && key.routes.len() < MODELS_PER_KEY {
                    key.routes.insert(model, Route::new(now));
                }
            }
            for (model, route) in &mut key.routes {
                let held = key_view.holds.standing(model, now) != Standing::Free;
                news |= route.set_held(held, now);
            }
        }
        news
    }

    /// Turns what was measured since the last time into states, weights and scores.
    ///
    /// To be called every [`super::tuning::RECOMPUTE_MS`]; then [`Book::health`] of each provider is to
    /// be shown.
    pub fn recompute(&mut self, view: &View, now: Mono) -> Recomputed {
        let elapsed_ms = now.since_ms(self.recomputed);
        self.recomputed = now;
        let outage = self.network.outage();
        let mut changes = Vec::new();
        for (id, provider_view) in &view.providers {
            self.see_holds(provider_view, now);
            let Some(provider) = self.providers.get_mut(id) else {
                continue;
            };
            provider.fold(elapsed_ms, outage, now);
            for model in provider.models() {
                provider.step(id, &model, now, &mut changes);
                provider.weigh(provider_view, &model);
            }
        }
        self.score(view);
        self.network.next_period();
        Recomputed {
            changes,
            own_network_out: outage.is_some(),
        }
    }

    /// When the last recompute was.
    #[must_use]
    pub const fn recomputed_at(&self) -> Mono {
        self.recomputed
    }

    /// One provider's health, as requests read it.
    #[must_use]
    pub fn health(&self, provider: &ProviderId) -> BTreeMap<ModelId, ModelHealth> {
        let Some(provider) = self.providers.get(provider) else {
            return BTreeMap::new();
        };
        let of = |model: ModelId| {
            let routes = provider.keys.iter().map(|key| {
                let route = key.routes.get(&model);
                route.map_or(RouteHealth::UNMEASURED, |route| route.health)
            });
            let routes = routes.collect();
            let in_flight = provider.keys.iter().map(|key| {
                let route = key.routes.get(&model);
                route
                    .map(|route| route.in_flight.clone())
                    .unwrap_or_default()
            });
            let in_flight = in_flight.collect();
            let score = provider.scores.get(&model);
            let health = ModelHealth {
                routes,
                in_flight,
                score: score.map_or(1.0, |score| score.value),
                turn: score.map(|score| score.turn.clone()).unwrap_or_default(),
            };
            (model, health)
        };
        provider.models().into_iter().map(of).collect()
    }

    /// The models that a provider was asked for, or is held for.
    #[must_use]
    pub fn models(&self, provider: &ProviderId) -> BTreeSet<ModelId> {
        let provider = self.providers.get(provider);
        provider.map_or_else(BTreeSet::new, Provider::models)
    }

    /// A route as people read it. The key is counted in the order of the view's keys.
    #[must_use]
    pub fn measured(&self, provider: &ProviderId, key: usize, model: &ModelId) -> Measured {
        let provider = self.providers.get(provider);
        let key = provider.and_then(|provider| provider.keys.get(key));
        let Some(route) = key.and_then(|key| key.routes.get(model)) else {
            return Measured::default();
        };
        Measured {
            health: route.health,
            error_rate: route.errors.shown(),
            latency_ms: route.latency.typical_ms(),
            in_flight: route.load.in_flight,
            requests: route.requests,
            recent_requests: route.traffic.recent_requests(),
            requests_per_minute: route.traffic.requests_per_minute(),
            tokens_per_minute: route.traffic.tokens_per_minute(),
        }
    }

    fn key(&mut self, attempted: Attempted<'_>) -> Option<&mut Key> {
        let (id, fingerprint) = match attempted.key {
            Some((id, fingerprint)) => (Some(id), fingerprint),
            None => (None, KEYLESS),
        };
        let keys = &mut self.providers.get_mut(attempted.provider)?.keys;
        keys.iter_mut()
            .find(|key| key.id.as_ref() == id && key.fingerprint == fingerprint)
    }

    /// Compares providers, model by model.
    fn score(&mut self, view: &View) {
        let mut of_models: BTreeMap<ModelId, Vec<(ProviderId, Rolled)>> = BTreeMap::new();
        for (id, provider) in &self.providers {
            for model in provider.models() {
                let rolled = provider.rolled(&model, view.provider(id));
                of_models
                    .entry(model)
                    .or_default()
                    .push((id.clone(), rolled));
            }
        }
        for provider in self.providers.values_mut() {
            provider.scores.clear();
        }
        for (model, rolled) in of_models {
            let means: Vec<Reference> = rolled.iter().map(|(_, r)| r.latency.means()).collect();
            let peers = Reference::of_the_faster_half(&means);
            let serving = view.providers.values();
            let serving = serving.filter(|p| p.serves(&model).is_some()).count();
            let all: f64 = rolled.iter().map(|(_, r)| r.in_flight).sum();
            let fair = all / count(serving.max(rolled.len()));
            for (id, rolled) in rolled {
                if let Some(provider) = self.providers.get_mut(&id) {
                    let score = Score {
                        value: rolled.score(&peers, fair),
                        turn: Turn::default(),
                    };
                    provider.scores.insert(model.clone(), score);
                }
            }
        }
    }
}

/// A provider for a model: its usable keys, each by its weight.
struct Rolled {
    soundness: f64,
    latency: Latency,
    to_usual: f64,
    in_flight: f64,
}

impl Rolled {
    fn score(&self, peers: &Reference, fair: f64) -> f64 {
        let ratio = self.latency.ratio(peers).unwrap_or(1.0);
        let to_peers = score::with_evidence(ratio, self.latency.samples());
        let load = score::of_load(self.in_flight, fair, LEAST_PROVIDER_LOAD_FACTOR);
        self.soundness * score::of_latency(to_peers, self.to_usual) * load
    }
}

impl Provider {
    fn models(&self) -> BTreeSet<ModelId> {
        let routes = self.keys.iter().flat_map(|key| key.routes.keys());
        routes.cloned().collect()
    }

    fn fold(&mut self, elapsed_ms: u64, outage: Option<u64>, now: Mono) {
        for key in &mut self.keys {
            key.routes.retain(|_, route| {
                route.load.in_flight > 0
                    || route.held
                    || now.since_ms(route.last_used) < IDLE_FORGOTTEN_MS
            });
            for route in key.routes.values_mut() {
                route.fold(elapsed_ms, outage, now);
            }
        }
    }

    fn step(&mut self, id: &ProviderId, model: &ModelId, now: Mono, changes: &mut Vec<Change>) {
        let routes = self.keys.iter().filter_map(|key| key.routes.get(model));
        let means: Vec<Reference> = routes.map(|route| route.latency.means()).collect();
        let peers = Reference::of_the_faster_half(&means);
        for key in &mut self.keys {
            let Some(route) = key.routes.get_mut(model) else {
                continue;
            };
            let from = route.phase.state();
            route.step(&peers, now);
            let to = route.phase.state();
            if from != to {
                changes.push(Change {
                    provider: id.clone(),
                    key: key.id.clone(),
                    model: model.clone(),
                    from,
                    to,
                });
            }
        }
    }

    fn weigh(&mut self, view: &ProviderView, model: &ModelId) {
        let (mut usable, mut in_flight) = (0, 0.0);
        for (at, key) in self.keys.iter().enumerate() {
            match key.routes.get(model) {
                Some(route) if route.is_usable() => {
                    usable += 1;
                    in_flight += route.load.mean;
                }
                Some(_) => {}
                None => usable += usize::from(serves(view, at, model)),
            }
        }
        let fair = in_flight / count(usable.max(1));
        for key in &mut self.keys {
            if let Some(route) = key.routes.get_mut(model) {
                route.weigh(fair);
            }
        }
    }

    fn rolled(&self, model: &ModelId, view: Option<&ProviderView>) -> Rolled {
        let (mut weights, mut sound, mut usual) = (0.0, 0.0, 0.0);
        let mut in_flight = 0.0;
        let mut latencies = Vec::new();
        for (at, key) in self.keys.iter().enumerate() {
            let route = key.routes.get(model);
            in_flight += route.map_or(0.0, |route| route.load.mean);
            let weight = match route {
                Some(route) if route.is_usable() => route.health.weight,
                None if view.is_some_and(|view| serves(view, at, model)) => FULL_WEIGHT,
                Some(_) | None => continue,
            };
            weights += weight;
            sound += weight * route.map_or(1.0, Route::soundness);
            usual += weight * route.map_or(0.0, |route| route.to_usual.ln());
            if let Some(route) = route {
                latencies.push((weight, &route.latency));
            }
        }
        if weights <= 0.0 {
            weights = 1.0;
        }
        Rolled {
            soundness: sound / weights,
            latency: Latency::mixed(&latencies),
            to_usual: (usual / weights).exp(),
            in_flight,
        }
    }
}

impl Key {
    /// The route, made if there is none; in place of the one idle for longest if there are too many.
    fn route(&mut self, model: &ModelId, now: Mono) -> Option<&mut Route> {
        if !self.routes.contains_key(model) {
            if self.routes.len() >= MODELS_PER_KEY {
                let idle = self.routes.iter().filter(|(_, r)| r.load.in_flight == 0);
                let oldest = idle.min_by_key(|(_, route)| route.last_used)?.0.clone();
                self.routes.remove(&oldest);
            }
            let mut route = Route::new(now);
            route.set_held(self.held, now);
            self.routes.insert(model.clone(), route);
        }
        self.routes.get_mut(model)
    }
}

impl Network {
    fn heard(&mut self, host: &Arc<str>, ended: Ended) {
        match ended {
            Ended::Failed(Reach::NotConnected) => {
                self.unreached.insert(Arc::clone(host));
            }
            Ended::Served { .. } | Ended::Failed(Reach::Connected) => self.reached(),
            Ended::Failed(Reach::Silent) | Ended::Nothing => {}
        }
    }

    fn reached(&mut self) {
        if !self.unreached.is_empty() {
            self.unreached.clear();
            self.spell += 1;
        }
    }

    fn outage(&self) -> Option<u64> {
        (self.unreached.len() >= HOSTS_OF_AN_OUTAGE).then_some(self.spell)
    }

    /// An outage lasts until a host is reached; less than one is over with its period.
    fn next_period(&mut self) {
        if self.outage().is_none() {
            self.reached();
        }
    }
}

/// Stands for a provider without keys.
const KEYLESS: Fingerprint = Fingerprint(0);

fn serves(view: &ProviderView, key: usize, model: &ModelId) -> bool {
    let key = view.keys.get(key);
    view.keyless || key.is_some_and(|key| key.spec.serves(model.as_str()))
}

fn is_held(hold: &HoldRef) -> bool {
    hold.register.is_held()
}

/// The models that a key's holds cover and that are known of: those that the provider was asked for,
/// and those that the key names.
fn covered(key: &KeyView, known: &BTreeSet<ModelId>) -> Vec<ModelId> {
    let holds = &key.holds;
    let mut covered: Vec<ModelId> = Vec::new();
    if holds.key.as_ref().is_some_and(is_held) {
        let named = match &key.spec.models {
            ModelRule::All => None,
            ModelRule::Only(names) => Some(names),
        };
        let named = named.into_iter().flatten().chain(key.spec.aliases.keys());
        let named = named.map(|name| ModelId::from(name.as_str()));
        let all = known.iter().cloned().chain(named);
        covered.extend(all.filter(|model| key.spec.serves(model.as_str())));
    }
    let models = holds.models.iter().filter(|(_, hold)| is_held(hold));
    covered.extend(models.map(|(model, _)| model.clone()));
    covered
}

#[expect(clippy::cast_precision_loss, reason = "keys and providers are few")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
