//! What is left of a request: its record and its figures.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use holdline_core::failure::FailureClass;
use holdline_core::time::WallMs;

use super::course::Course;
use crate::store::RequestLog;

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
    if let Some(usage) = course.usage {
        metrics.tokens(usage.prompt_tokens, usage.completion_tokens);
    }
    if course.node.config.client.enable_logging {
        let record = record(course, closing);
        course.node.log_request(record);
    }
}

fn record(course: &mut Course, closing: &Closing) -> RequestLog {
    let lines = std::mem::take(&mut course.lines);
    let mut engines: Vec<_> = lines.iter().map(|l| l.line.engine).collect();
    engines.sort_unstable();
    engines.dedup();
    let engine_name = |engine| match serde_json::to_value(engine) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(_) | Err(_) => String::new(),
    };
    let attempts = course.walk.attempts().to_vec();
    let flight = course.flight.as_ref().map(|f| &f.attempt);
    let target = &course.inbound.facts.target;
    let served_by = flight
        .filter(|_| closing.failure.is_none())
        .and_then(|a| a.key.as_ref());
    RequestLog {
        id: course.id.clone(),
        timestamp: rfc3339(course.arrived_at),
        object: course.request_type().to_owned(),
        node_id: course.node.id.as_str().to_owned(),
        provider: flight
            .map(|a| &a.provider)
            .or(target.provider.as_ref())
            .map_or_else(String::new, |p| p.as_str().to_owned()),
        model: flight
            .map_or(&target.model, |a| &a.model)
            .as_str()
            .to_owned(),
        status: if closing.failure.is_none() {
            "success"
        } else {
            "error"
        },
        latency: course.latency_ms(),
        status_code: closing.status,
        is_stream: course.inbound.body.stream,
        token_usage: course.usage.and_then(|u| serde_json::to_value(u).ok()),
        selected_key_id: served_by.map(|k| k.id.as_str().to_owned()),
        selected_key_name: served_by.map(|k| k.name.clone()),
        number_of_retries: u32::try_from(attempts.len().saturating_sub(1)).unwrap_or(u32::MAX),
        fallback_index: flight.map_or(0, |a| a.fallback_index),
        error_details: closing.failure.map(|told| {
            serde_json::json!({
                "status_code": closing.status,
                "failure_class": told.class,
                "error_type": told.error_type,
            })
        }),
        routing_engines_used: engines.into_iter().map(engine_name).collect(),
        routing_engine_logs: lines,
        attempt_trail: attempts,
    }
}

/// As logs and answers show instants.
fn rfc3339(at: WallMs) -> String {
    let nanoseconds = i128::from(at.0) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .ok()
        .and_then(|t| t.format(&Rfc3339).ok())
        .unwrap_or_default()
}
