//! What is left of a request: its record and its figures.

use std::time::Instant;

use holdline_core::failure::FailureClass;
use holdline_core::ids::{ModelId, ProviderId};
use holdline_core::time::WallMs;

use super::course::Course;
use crate::api::error::ApiError;
use crate::node::Node;
use crate::store::RequestLog;
use crate::store::logs::ErrorDetails;

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    /// What the client was answered.
    pub(super) status: u16,
    /// Why it failed, if it did.
    pub(super) failure: Option<Told>,
}

/// A failure as it is recorded: classes and numbers, no words of a provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// What it means, where it is of an attempt.
    pub(super) class: Option<FailureClass>,
    /// Of the closed set.
    pub(super) error_type: &'static str,
}

impl Closing {
    pub(super) const SERVED: Self = Self {
        status: 200,
        failure: None,
    };

    pub(super) const fn cancelled() -> Self {
        Self {
            status: 499,
            failure: Some(Told {
                class: Some(FailureClass::Cancelled),
                error_type: "caller_cancelled",
            }),
        }
    }
}

/// Counts the request and hands its record to the node, where records are kept.
pub(super) fn close(course: &mut Course, closing: &Closing) {
    let metrics = &course.node.metrics;
    metrics.request(
        closing.status,
        closing.failure.map_or("", |f| f.error_type),
        course.inbound.body.stream,
        course.arrived.elapsed(),
    );
    if let Some(flight) = &course.flight {
        let called = flight.called(course.request_type());
        metrics.retries(called.provider, course.walk.retries_of_leg());
        let served = closing.failure.is_none();
        if served && flight.first_output.is_none() {
            metrics.overhead(course.overhead());
        }
        if let Some(usage) = course.usage {
            metrics.tokens(&called, usage.input, usage.output);
            if let Some(begun) = flight.first_output.filter(|_| served) {
                metrics.stream_tokens(&called, usage.output, begun.elapsed());
            }
        }
    }
    if course.node.config.client.enable_logging {
        let record = record(course, closing);
        course.node.log_request(record);
    }
}

/// The same for a request that was refused before it was planned: nothing of its body is kept but the model
/// it names, where it came so far.
pub(super) fn refused(node: &Node, id: &str, arrived: (Instant, WallMs), refusal: &ApiError) {
    let told = &refusal.extra_fields;
    let took = arrived.0.elapsed();
    node.metrics
        .request(refusal.status_code, told.error_type, false, took);
    if !node.config.client.enable_logging {
        return;
    }
    node.log_request(RequestLog {
        id: id.to_owned(),
        timestamp: arrived.1,
        object: told.request_type.unwrap_or("chat_completion"),
        node_id: node.id.clone(),
        provider: ProviderId::from(""),
        model: told
            .original_model_requested
            .as_deref()
            .map_or_else(|| ModelId::from(""), shown_model),
        status: "error",
        latency: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        status_code: refusal.status_code,
        is_stream: told
            .request_type
            .is_some_and(|kind| kind.ends_with("_stream")),
        token_usage: None,
        virtual_key_id: None,
        virtual_key_name: None,
        selected_key_id: None,
        selected_key_name: None,
        number_of_retries: 0,
        fallback_index: 0,
        error_details: Some(ErrorDetails {
            status_code: refusal.status_code,
            failure_class: told.failure_class,
            error_type: told.error_type,
        }),
        routing_engines_used: Vec::new(),
        routing_engine_logs: Vec::new(),
        attempt_trail: Vec::new(),
    });
}

/// A name that nobody has may be of any length.
fn shown_model(name: &str) -> ModelId {
    const MAX_CHARS: usize = 256;
    ModelId::from(name.chars().take(MAX_CHARS).collect::<String>())
}

fn record(course: &mut Course, closing: &Closing) -> RequestLog {
    let lines = std::mem::take(&mut course.lines);
    let mut engines: Vec<_> = lines.iter().map(|l| l.line.engine).collect();
    engines.sort_unstable();
    engines.dedup();
    let attempts = course.walk.attempts().to_vec();
    let flight = course.flight.as_ref().map(|f| &f.attempt);
    let target = &course.inbound.facts.target;
    let served_by = flight
        .filter(|_| closing.failure.is_none())
        .and_then(|a| a.key.as_ref());
    RequestLog {
        id: course.id.clone(),
        timestamp: course.arrived_at,
        object: course.request_type(),
        node_id: course.node.id.clone(),
        provider: flight
            .map(|a| &a.provider)
            .or(target.provider.as_ref())
            .map_or_else(|| ProviderId::from(""), ProviderId::clone),
        model: flight.map_or(&target.model, |a| &a.model).clone(),
        status: if closing.failure.is_none() {
            "success"
        } else {
            "error"
        },
        latency: course.latency_ms(),
        status_code: closing.status,
        is_stream: course.inbound.body.stream,
        token_usage: course.usage,
        virtual_key_id: course.caller.as_ref().map(|key| key.id.clone()),
        virtual_key_name: course.caller.as_ref().map(|key| key.name.clone()),
        selected_key_id: served_by.map(|k| k.id.clone()),
        selected_key_name: served_by.map(|k| k.name.clone()),
        number_of_retries: course.walk.retries(),
        fallback_index: flight.map_or(0, |a| a.fallback_index),
        error_details: closing.failure.map(|told| ErrorDetails {
            status_code: closing.status,
            failure_class: told.class,
            error_type: told.error_type,
        }),
        routing_engines_used: engines,
        routing_engine_logs: lines,
        attempt_trail: attempts,
    }
}
