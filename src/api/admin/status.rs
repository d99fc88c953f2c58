//! This node's health view: what it has measured of providers and keys, and how it would choose by it.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use holdline_core::failure::FailureClass;
use holdline_core::health::{Book, Measured, State as Health};
use holdline_core::holds::view::Standing;
use holdline_core::holds::{Body, HoldRef};
use holdline_core::ids::{KeyId, ModelId, ProviderId};
use holdline_core::routing::explain::provider_shares;
use holdline_core::routing::{KeyView, ModelRule, ProviderView, View, key::shares};
use holdline_core::time::{Mono, WallMs};
use serde::Serialize;
use serde_json::json;

use super::{Admin, Answer};
use crate::node::Clock;
use crate::timestamp::serialize_wall;

/// A provider for a model.
#[derive(Debug, Serialize)]
struct Direction<'a> {
    provider: &'a ProviderId,
    model: ModelId,
    state: &'static str,
    score: f64,
    share: f64,
    actual_share: f64,
}

/// A key of a provider for a model.
#[derive(Debug, Serialize)]
struct Route<'a> {
    provider: &'a ProviderId,
    model: ModelId,
    key_id: Option<&'a KeyId>,
    key_name: Option<&'a str>,
    state: &'static str,
    weight: f64,
    share: f64,
    actual_share: f64,
    error_rate: f64,
    latency_ms: Option<f64>,
    in_flight: u32,
    requests: u64,
    requests_per_minute: f64,
    tokens_per_minute: f64,
    never_used: bool,
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_for: Option<FailureClass>,
    #[serde(serialize_with = "optional_wall")]
    tpm_backoff_until: Option<WallMs>,
}

/// `GET /api/adaptive-routing/status`.
pub(super) async fn show(State(admin): State<Admin>) -> Answer {
    let node = &admin.node;
    let live = node.live();
    let sight = Sight {
        view: &live.view,
        now: node.clock.now(),
        clock: node.clock.clone(),
    };
    let book = node.book();
    let recomputed_at = node.clock.wall_at(book.recomputed_at());
    let (directions, routes) = sight.all(&book);
    drop(book);
    let answer = json!({
        "node_id": node.id,
        "region": node.region,
        "recomputed_at": crate::timestamp::wall_text(recomputed_at),
        "directions": directions,
        "routes": routes,
    });
    Ok(Json(answer).into_response())
}

/// What is shown, and when.
struct Sight<'a> {
    view: &'a View,
    now: Mono,
    clock: Clock,
}

impl<'a> Sight<'a> {
    fn all(&self, book: &Book) -> (Vec<Direction<'a>>, Vec<Route<'a>>) {
        let (mut directions, mut routes, mut requests) = (vec![], vec![], vec![]);
        for provider in self.view.providers.values() {
            for model in models(provider, book) {
                let of_model = self.routes(provider, &model, book, &mut routes);
                let Some(recent) = of_model else { continue };
                let found = self.view.direction(provider, &model, self.now);
                requests.push(recent);
                let shares = provider_shares(self.view, &model, self.now);
                let own = shares.iter().find(|(id, _)| **id == provider.id);
                let share = own.map_or(0.0, |(_, share)| *share);
                directions.push(Direction {
                    provider: &provider.id,
                    model,
                    state: found.state.name(),
                    score: found.score,
                    share,
                    actual_share: 0.0,
                });
            }
        }
        for at in 0..directions.len() {
            let same = |(other, _): &(&Direction<'_>, &f64)| other.model == directions[at].model;
            let all = directions.iter().zip(&requests).filter(same);
            let all: f64 = all.map(|(_, recent)| recent).sum();
            directions[at].actual_share = part(requests[at], all);
        }
        (directions, routes)
    }

    /// The routes of a provider for a model, and how many recent requests they had. `None` where no key
    /// serves the model.
    fn routes(
        &self,
        provider: &'a ProviderView,
        model: &ModelId,
        book: &Book,
        routes: &mut Vec<Route<'a>>,
    ) -> Option<f64> {
        if provider.keyless {
            let measured = book.measured(&provider.id, 0, model);
            let state = measured.health.state;
            routes.push(Route {
                share: 1.0,
                actual_share: part(measured.recent_requests, measured.recent_requests),
                ..route(provider, model, &measured, state)
            });
            return Some(measured.recent_requests);
        }
        let shares = shares(self.view, provider, model, self.now);
        let serving: Vec<(usize, &KeyView, Measured)> = (provider.keys.iter().enumerate())
            .filter(|(_, key)| key.spec.serves(model.as_str()))
            .map(|(at, key)| (at, key.as_ref(), book.measured(&provider.id, at, model)))
            .collect();
        let recent: f64 = serving.iter().map(|(.., m)| m.recent_requests).sum();
        let any = !serving.is_empty();
        for (at, key, measured) in serving {
            routes.push(Route {
                share: shares.get(at).copied().unwrap_or_default(),
                actual_share: part(measured.recent_requests, recent),
                ..self.route_of_key(provider, key, model, &measured)
            });
        }
        any.then_some(recent)
    }

    fn route_of_key(
        &self,
        provider: &'a ProviderView,
        key: &'a KeyView,
        model: &ModelId,
        measured: &Measured,
    ) -> Route<'a> {
        let held = self.view.adaptive && key.holds.standing(model, self.now) != Standing::Free;
        let state = if held {
            Health::Failed
        } else {
            measured.health.state
        };
        let weight = if !self.view.picks_by_health() {
            key.spec.weight
        } else if state == Health::Failed {
            0.0
        } else {
            measured.health.weight * key.tpm_factor(model, self.now)
        };
        let covering = key.holds.key.iter().chain(key.holds.models.get(model));
        let dry = key.dry.get(model).filter(|until| **until > self.now);
        Route {
            key_id: Some(&key.spec.id),
            key_name: Some(&key.spec.name),
            weight,
            held,
            held_for: covering.filter_map(class).next().filter(|_| held),
            tpm_backoff_until: dry.map(|until| self.clock.wall_at(*until)),
            ..route(provider, model, measured, state)
        }
    }
}

/// What is the same with and without keys.
fn route<'a>(
    provider: &'a ProviderView,
    model: &ModelId,
    measured: &Measured,
    state: Health,
) -> Route<'a> {
    Route {
        provider: &provider.id,
        model: model.clone(),
        key_id: None,
        key_name: None,
        state: state.name(),
        weight: measured.health.weight,
        share: 0.0,
        actual_share: 0.0,
        error_rate: measured.error_rate,
        latency_ms: measured.latency_ms,
        in_flight: measured.in_flight,
        requests: measured.requests,
        requests_per_minute: measured.requests_per_minute,
        tokens_per_minute: measured.tokens_per_minute,
        never_used: !measured.health.tried,
        held: false,
        held_for: None,
        tpm_backoff_until: None,
    }
}

/// The models that a provider was asked for, and those that its keys name.
fn models(provider: &ProviderView, book: &Book) -> BTreeSet<ModelId> {
    let mut models = book.models(&provider.id);
    for key in &provider.keys {
        if let ModelRule::Only(names) = &key.spec.models {
            models.extend(names.iter().map(|name| ModelId::from(name.as_str())));
        }
        let aliases = key.spec.aliases.keys();
        models.extend(aliases.map(|name| ModelId::from(name.as_str())));
        models.extend(key.dry.keys().cloned());
    }
    models
}

fn class(hold: &HoldRef) -> Option<FailureClass> {
    match hold.register.body {
        Body::Held { reason, .. } => Some(reason.class()),
        Body::Free { .. } => None,
    }
}

fn part(some: f64, all: f64) -> f64 {
    if all > 0.0 { some / all } else { 0.0 }
}

fn optional_wall<S: serde::Serializer>(
    wall: &Option<WallMs>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match wall {
        Some(wall) => serialize_wall(wall, serializer),
        None => serializer.serialize_none(),
    }
}
