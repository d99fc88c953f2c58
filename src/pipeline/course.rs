//! One request from its plan to its record: the walk, the attempt in the air, and what was learnt.
//!
//! A [`Course`] that is dropped before it ended is a caller that left: the attempt in the air is
//! settled as cancelled (a check keeps its slot), the upstream call is dropped with its future, and
//! the record says 499. It does not matter in which phase that happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdline_core::health::{Attempted, Ended, Ticket, Took};
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::view::Standing;
use holdline_core::holds::{Answer, Body as Register, Record, Token};
use holdline_core::ids::ModelId;
use holdline_core::time::{Hlc, WallMs};
use holdline_core::tpm::Level;
use holdline_core::trail::{self, Route};
use holdline_core::walk::{Attempt, Outcome, Step, Walk};

use super::account::{self, Closing};
use super::admit::Inbound;
use super::failed::{Failed, limits_in};
use crate::api::error::{ErrorExtra, RoutingInfo, error_type};
use crate::config::governance::VirtualKey;
use crate::config::{Key, Provider};
use crate::node::{Live, Node};
use crate::protocols::talk::Usage;
use crate::store::logs::StampedLine;
use crate::telemetry::{Active, Called, Fault};

/// A request under way.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) node: Arc<Node>,
    pub(super) inbound: Inbound,
    pub(super) id: String,
    pub(super) arrived: Instant,
    pub(super) arrived_at: WallMs,
    pub(super) walk: Walk,
    pub(super) lines: Vec<StampedLine>,
    /// The attempt that was made last.
    pub(super) flight: Option<Flight>,
    pub(super) usage: Option<Usage>,
    /// Of the request, what the provider's protocol could not say.
    pub(super) dropped: Vec<String>,
    /// Who asks, where it said so.
    pub(super) caller: Option<Arc<VirtualKey>>,
    /// In calls and waits that are over.
    away: Duration,
    /// Counts it as a request under way.
    _active: Active,
    /// Nothing is left to be told.
    ended: bool,
}

/// One attempt, from its launch on.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) attempt: Attempt,
    pub(super) provider: Arc<Provider>,
    pub(super) key: Option<Arc<Key>>,
    pub(super) launched: Instant,
    /// A stream's first output.
    pub(super) first_output: Option<Instant>,
    /// The walk has not heard how it ended.
    in_air: bool,
    /// Holds have heard of its answer.
    settled: bool,
    /// Health waits to hear how it ended.
    ticket: Option<Ticket>,
}

/// What the walk wants, with what it takes to do it.
pub(super) enum Next {
    Call,
    Wait(Duration),
    Done(holdline_core::walk::Ending),
    /// The provider or key of the attempt was deleted in this moment.
    Gone,
}

impl Course {
    pub(super) fn new(
        node: Arc<Node>,
        inbound: Inbound,
        id: String,
        (arrived, arrived_at): (Instant, WallMs),
        walk: Walk,
    ) -> Self {
        let active = node.metrics.active(inbound.request_type());
        Self {
            node,
            inbound,
            id,
            arrived,
            arrived_at,
            walk,
            lines: Vec::new(),
            flight: None,
            usage: None,
            dropped: Vec::new(),
            caller: None,
            away: Duration::ZERO,
            _active: active,
            ended: false,
        }
    }

    /// Asks the walk. A call is launched: see [`Course::flight`].
    pub(super) fn next(&mut self) -> Next {
        let live = Arc::clone(&self.node.live());
        let now = self.node.clock.now();
        let step = self.walk.next(&live.view, now, &mut rand::rng());
        self.stamp_lines();
        match step {
            Step::Call(attempt) => self.launch(*attempt, &live),
            Step::Wait(until) => {
                let wait = self.node.clock.until(until);
                self.away += wait;
                Next::Wait(wait)
            }
            Step::Done(ending) => Next::Done(ending),
        }
    }

    fn launch(&mut self, attempt: Attempt, live: &Live) -> Next {
        let Some(provider) = live.provider(&attempt.provider).map(Arc::clone) else {
            return Next::Gone;
        };
        let key = match &attempt.key {
            Some(spec) => match live.key(&attempt.provider, &spec.id) {
                Some(key) => Some(Arc::clone(key)),
                None => return Next::Gone,
            },
            None => None,
        };
        self.count_launch(&attempt, live);
        let ticket = attempted(&attempt).and_then(|attempted| self.node.launched(attempted));
        self.flight = Some(Flight {
            attempt,
            provider,
            key,
            launched: Instant::now(),
            first_output: None,
            in_air: true,
            settled: false,
            ticket,
        });
        Next::Call
    }

    /// Counts checks, rotations and requests that were spared a refusal.
    fn count_launch(&self, attempt: &Attempt, live: &Live) {
        let metrics = &self.node.metrics;
        if attempt.check.is_some() {
            metrics.check(&attempt.provider);
        }
        let before = self.flight.as_ref().map(|f| &f.attempt);
        let same_leg = before.filter(|b| b.fallback_index == attempt.fallback_index);
        let id = |a: &Attempt| a.key.as_ref().map(|k| k.id.clone());
        match same_leg {
            Some(before) if id(before) != id(attempt) => metrics.rotation(&attempt.provider),
            Some(_) => {}
            None if skips_held_key(attempt, live) => metrics.spared(&attempt.provider),
            None => {}
        }
    }

    /// The attempt served: for a stream, its first real output is here.
    pub(super) fn settle_served(&mut self) {
        let records = self.settle(&Answer::Served);
        for record in records.iter().filter(|r| !r.register.is_held()) {
            if let Some(flight) = &self.flight {
                let route = flight.route();
                self.walk
                    .note(trail::serving_again(&record.subject.key, route));
            }
        }
        self.stamp_lines();
    }

    /// The attempt was refused, or failed: holds hear of it before the walk picks the next key.
    pub(super) fn settle_failed(&mut self, failed: &Failed) {
        let stated_ms = failed.failure.retry_after_ms;
        let records = self.settle(&failed.answer);
        if let (Some(wait_ms), Some(flight)) = (failed.dry_ms, &self.flight) {
            let held = records.iter().filter(|r| r.register.is_held());
            let held = held.map(|r| r.register.stamp).max();
            flight.note_level(&self.node, Level::Dry { wait_ms }, held);
        }
        for record in records {
            if let Register::Held {
                refused: true,
                reason,
                wait,
                ..
            } = record.register.body
            {
                self.walk.note(trail::refused(
                    &record.subject.provider,
                    &record.subject.key,
                    record.subject.scope.model(),
                    reason,
                    wait.ms,
                    stated_ms.filter(|_| wait.stated),
                ));
            }
        }
        self.stamp_lines();
    }

    fn settle(&mut self, answer: &Answer) -> Vec<Record> {
        let Some(flight) = self.flight.as_mut().filter(|f| !f.settled) else {
            return Vec::new();
        };
        flight.settled = true;
        let records = match (flight.route_key(), &flight.attempt.token) {
            (Some(route), Some(token)) => settle_at(&self.node, &route, token, answer),
            _ => Vec::new(),
        };
        if let Some(check) = flight.attempt.check.take() {
            if *answer == Answer::Cancelled {
                check.abandon(abandon_until(&self.node, &flight.attempt));
            } else {
                check.settled();
            }
        }
        records
    }

    /// The walk and health hear how the attempt ended.
    pub(super) fn observe(&mut self, failed: Option<&Failed>) {
        let Some(flight) = self.flight.as_mut().filter(|f| f.in_air) else {
            return;
        };
        flight.in_air = false;
        let ended = failed.map_or_else(|| flight.ended_well(self.usage), Failed::ended);
        if let (Some(ticket), Some(attempted)) = (flight.ticket.take(), attempted(&flight.attempt))
        {
            self.node.ended(attempted, ticket, ended);
        }
        let failure = failed.map(|failed| failed.failure.clone());
        if let Some(session) = &self.inbound.session {
            session.ended(&flight.attempt, failure.as_ref(), self.node.clock.now());
        }
        let took = flight.launched.elapsed();
        self.away += took;
        let fault = failure.as_ref().map(|f| Fault {
            class: f.class,
            status: f.status,
            error_type: error_type(f.class, f.status),
        });
        let called = flight.called(self.inbound.request_type());
        self.node.metrics.upstream(&called, fault, took);
        self.walk
            .observe(Outcome { failure }, self.node.clock.now());
        self.stamp_lines();
    }

    /// A stream's first output is here.
    pub(super) fn first_output(&mut self) {
        let method = self.request_type();
        if let Some(flight) = &mut self.flight {
            let took = flight.launched.elapsed();
            flight.first_output = Some(Instant::now());
            let metrics = &self.node.metrics;
            metrics.first_token(&flight.called(method), took);
            let overhead = self.arrived.elapsed().saturating_sub(self.away + took);
            metrics.overhead(overhead);
        }
    }

    /// What was not spent in calls and waits.
    pub(super) fn overhead(&self) -> Duration {
        self.arrived.elapsed().saturating_sub(self.away)
    }

    /// The attempt served to its end.
    pub(super) fn served(&mut self) {
        self.settle_served();
        self.observe(None);
        // The walk tells what served only when it is asked what comes next.
        let _ = self.next();
    }

    /// Tells of the request, once.
    pub(super) fn end(&mut self, closing: &Closing) {
        if !std::mem::replace(&mut self.ended, true) {
            self.stamp_lines();
            account::close(self, closing);
        }
    }

    fn stamp_lines(&mut self) {
        let lines = self.walk.take_lines();
        if lines.is_empty() {
            return;
        }
        let timestamp = self.node.clock.wall().0;
        let stamped = lines
            .into_iter()
            .map(|line| StampedLine { line, timestamp });
        self.lines.extend(stamped);
    }

    /// What every answer to this request says of where it went.
    pub(super) fn routing_info(&self) -> Option<RoutingInfo> {
        let flight = self.flight.as_ref()?;
        Some(RoutingInfo {
            provider: flight.attempt.provider.clone(),
            model: flight.attempt.model.clone(),
            key: flight.attempt.key.as_ref().map(|k| k.name.clone()),
            is_fallback: flight.attempt.fallback_index > 0,
        })
    }

    /// `extra_fields` of an error of the attempt in hand.
    pub(super) fn error_extra(&self) -> ErrorExtra {
        let flight = self.flight.as_ref();
        ErrorExtra {
            provider: flight.map(|f| f.attempt.provider.as_str().to_owned()),
            original_model_requested: Some(self.inbound.body.model.clone()),
            resolved_model_used: flight.map(|f| f.upstream_model().to_owned()),
            request_type: Some(self.request_type()),
            latency: Some(self.latency_ms()),
            routing_info: self.routing_info(),
            ..ErrorExtra::default()
        }
    }

    pub(super) const fn request_type(&self) -> &'static str {
        self.inbound.request_type()
    }

    pub(super) fn latency_ms(&self) -> u64 {
        u64::try_from(self.arrived.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _ = self.settle(&Answer::Cancelled);
        self.observe(Some(&Failed::cancelled()));
        self.end(&Closing::cancelled());
    }
}

impl Flight {
    fn route(&self) -> Route<'_> {
        Route {
            provider: &self.attempt.provider,
            model: &self.attempt.model,
        }
    }

    fn route_key(&self) -> Option<RouteKey> {
        let spec = self.attempt.key.as_ref()?;
        Some(RouteKey {
            provider: self.attempt.provider.clone(),
            key: spec.id.clone(),
            fingerprint: spec.fingerprint,
            model: self.attempt.model.clone(),
        })
    }

    /// As metrics label it.
    pub(super) fn called(&self, method: &'static str) -> Called<'_> {
        Called {
            provider: &self.attempt.provider,
            model: &self.attempt.model,
            key: self.attempt.key.as_ref(),
            method,
            fallback_index: self.attempt.fallback_index,
        }
    }

    /// What a served answer's headers say of the route's token limit.
    pub(super) fn note_limits(&self, node: &Node, headers: &http::HeaderMap) {
        if let Some(level) = limits_in(headers, node.clock.wall()).level {
            self.note_level(node, level, None);
        }
    }

    fn note_level(&self, node: &Node, level: Level, held: Option<Hlc>) {
        if let (Some(route), Some(token)) = (self.route_key(), &self.attempt.token) {
            node.note_tokens(&route, level, token.sent, held);
        }
    }

    /// What health is told of an attempt that served to its end.
    fn ended_well(&self, usage: Option<Usage>) -> Ended {
        let ms = |took: Duration| took.as_secs_f64() * 1_000.0;
        let took = self.first_output.map_or_else(
            || Took::Whole {
                ms: ms(self.launched.elapsed()),
            },
            |first| Took::FirstOutput {
                ms: ms(first.duration_since(self.launched)),
            },
        );
        Ended::Served {
            took,
            output_tokens: usage.map(|usage| usage.output).filter(|tokens| *tokens > 0),
        }
    }

    /// The provider's own name for the model.
    pub(super) fn upstream_model(&self) -> &str {
        let model = self.attempt.model.as_str();
        let spec = self.attempt.key.as_ref();
        spec.map_or(model, |spec| spec.upstream_model(model))
    }
}

/// The route that an attempt measures; none where the key is the caller's own.
fn attempted(attempt: &Attempt) -> Option<Attempted<'_>> {
    let key = attempt.key.as_deref();
    (!attempt.direct_key).then(|| Attempted {
        provider: &attempt.provider,
        key: key.map(|spec| (&spec.id, spec.fingerprint)),
        model: &attempt.model,
    })
}

fn settle_at(node: &Node, route: &RouteKey, token: &Token, answer: &Answer) -> Vec<Record> {
    let records = node.settle(route, token, answer);
    for record in &records {
        if let Register::Held {
            refused: true,
            reason,
            ..
        } = record.register.body
        {
            node.metrics.held_here(&record.subject.provider, reason);
        }
    }
    records
}

/// Until when an abandoned check keeps its slot.
fn abandon_until(node: &Node, attempt: &Attempt) -> holdline_core::time::Mono {
    let (live, now) = (node.live(), node.clock.now());
    let provider = live.view.providers.get(&attempt.provider);
    let key = attempt.key.as_ref().and_then(|spec| {
        let keys = &provider?.keys;
        keys.iter().find(|k| k.spec.id == spec.id)
    });
    key.map_or(now, |key| key.holds.abandon_until(&attempt.model, now))
}

/// Whether another key would have been asked but for a hold.
fn skips_held_key(attempt: &Attempt, live: &Live) -> bool {
    let (Some(used), Some(provider)) = (&attempt.key, live.view.providers.get(&attempt.provider))
    else {
        return false;
    };
    let is_held = |model: &ModelId, key: &holdline_core::routing::KeyView| {
        let holds = &key.holds;
        (holds.key.is_some() || !holds.models.is_empty())
            && !matches!(
                holds.standing(model, holdline_core::time::Mono(0)),
                Standing::Free
            )
    };
    provider.keys.iter().any(|key| {
        key.spec.id != used.id
            && is_held(&attempt.model, key)
            && key.spec.serves(attempt.model.as_str())
    })
}
