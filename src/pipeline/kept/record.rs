//! The record of a request for something that is kept: written once, whenever it ends.

use std::sync::Arc;
use std::time::Instant;

use holdline_core::ids::{ModelId, ProviderId};
use holdline_core::time::WallMs;
use holdline_core::trail::AttemptEntry;

use super::super::Told;
use super::super::failed::Failed;
use super::asked::Asked;
use crate::api::error::error_type;
use crate::config::Key;
use crate::config::governance::VirtualKey;
use crate::node::Node;
use crate::store::RequestLog;
use crate::store::logs::ErrorDetails;
use crate::telemetry::{Active, Called, Fault};

/// What is known of it so far. Dropped before it ended, it tells of a caller that left.
pub(super) struct Record {
    node: Arc<Node>,
    id: String,
    arrived: (Instant, WallMs),
    provider: ProviderId,
    kind: &'static str,
    caller: Option<Arc<VirtualKey>>,
    /// Who served.
    served_by: Option<(holdline_core::ids::KeyId, String)>,
    attempts: Vec<AttemptEntry>,
    _active: Active,
    ended: bool,
}

impl Record {
    pub(super) fn new(node: &Arc<Node>, asked: &Asked, arrived: (Instant, WallMs)) -> Self {
        Self {
            _active: node.metrics.active(asked.verb.kind),
            node: Arc::clone(node),
            id: asked.id.clone(),
            arrived,
            provider: asked.provider.id.clone(),
            kind: asked.verb.kind,
            caller: asked.caller.clone(),
            served_by: None,
            attempts: Vec::new(),
            ended: false,
        }
    }

    /// A call with this key is over, or its answer has begun.
    pub(super) fn attempt(&mut self, key: Option<&Key>, failed: Option<&Failed>, begun: Instant) {
        let failure = failed.map(|failed| &failed.failure);
        let fault = failure.map(|failure| Fault {
            class: failure.class,
            status: failure.status,
            error_type: error_type(failure.class, failure.status),
        });
        let model = ModelId::from("");
        let called = Called {
            provider: &self.provider,
            model: &model,
            key: key.map(|key| &key.spec),
            method: self.kind,
            fallback_index: 0,
        };
        self.node.metrics.upstream(&called, fault, begun.elapsed());
        let id = key.map(|key| key.spec.id.clone());
        if let Some(before) = self.attempts.last_mut() {
            before.triggered_rotation = before.key_id != id;
        }
        if failed.is_none() {
            self.served_by = key.map(|key| (key.spec.id.clone(), key.spec.name.clone()));
        }
        self.attempts.push(AttemptEntry {
            attempt: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            key_id: id,
            key_name: key.map(|key| key.spec.name.clone()),
            fail_reason: failure.map(|failure| failure.label.clone()),
            failure_class: failure.map(|failure| failure.class),
            status_code: failure.map(|failure| failure.status),
            triggered_rotation: false,
            retry_after_ms: failure.and_then(|failure| failure.retry_after_ms),
        });
    }

    /// Tells of it, once.
    pub(super) fn end(&mut self, status_code: u16, failure: Option<Told>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let took = self.arrived.0.elapsed();
        let metrics = &self.node.metrics;
        let error_type = failure.map_or("", |told| told.error_type);
        metrics.request(status_code, error_type, false, took);
        let retries = u32::try_from(self.attempts.len().saturating_sub(1)).unwrap_or(u32::MAX);
        metrics.retries(&self.provider, retries);
        if !self.node.config.client.enable_logging {
            return;
        }
        let served_by = self.served_by.take().filter(|_| failure.is_none());
        let (key_id, key_name) = served_by.unzip();
        self.node.log_request(RequestLog {
            id: std::mem::take(&mut self.id),
            timestamp: self.arrived.1,
            object: self.kind,
            node_id: self.node.id.clone(),
            provider: self.provider.clone(),
            model: ModelId::from(""),
            status: if failure.is_none() {
                "success"
            } else {
                "error"
            },
            latency: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            status_code,
            is_stream: false,
            token_usage: None,
            virtual_key_id: self.caller.as_ref().map(|key| key.id.clone()),
            virtual_key_name: self.caller.as_ref().map(|key| key.name.clone()),
            selected_key_id: key_id,
            selected_key_name: key_name,
            number_of_retries: retries,
            fallback_index: 0,
            error_details: failure.map(|told| ErrorDetails {
                status_code,
                failure_class: told.class,
                error_type: told.error_type,
            }),
            routing_engines_used: Vec::new(),
            routing_engine_logs: Vec::new(),
            attempt_trail: std::mem::take(&mut self.attempts),
        });
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.end(
            499,
            Some(Told {
                class: Some(holdline_core::failure::FailureClass::Cancelled),
                error_type: "caller_cancelled",
            }),
        );
    }
}
