//! What a node counts. Labels are configured names and closed sets: never a provider's words, never a
//! caller's model names.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use holdline_core::failure::{FailureClass, Reason};
use holdline_core::ids::ProviderId;

/// Prometheus metrics of one node. Every method is a few atomic adds.
pub struct Metrics {
    pub(super) registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histogram,
    upstream: Family<UpstreamLabels, Counter>,
    upstream_seconds: Family<ProviderLabels, Histogram>,
    rotations: Family<ProviderLabels, Counter>,
    spared: Family<ProviderLabels, Counter>,
    checks: Family<ProviderLabels, Counter>,
    holds: Family<HoldLabels, Counter>,
    token_limits: Family<ProviderLabels, Counter>,
    propagation_seconds: Histogram,
    input_tokens: Counter,
    output_tokens: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    status_code: u32,
    error_type: &'static str,
    stream: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    provider: String,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabels {
    provider: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HoldLabels {
    provider: String,
    class: &'static str,
    source: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

fn propagation() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 18))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            request_seconds: seconds(),
            upstream: Family::default(),
            upstream_seconds: Family::new_with_constructor(seconds),
            rotations: Family::default(),
            spared: Family::default(),
            checks: Family::default(),
            holds: Family::default(),
            token_limits: Family::default(),
            propagation_seconds: propagation(),
            input_tokens: Counter::default(),
            output_tokens: Counter::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let to = &mut self.registry;
        to.register(
            "bifrost_requests",
            "Requests answered, by status and kind of error",
            self.requests.clone(),
        );
        to.register(
            "bifrost_request_duration_seconds",
            "From a request's head to its last byte",
            self.request_seconds.clone(),
        );
        to.register(
            "bifrost_upstream_requests",
            "Calls to providers, by what came of them",
            self.upstream.clone(),
        );
        to.register(
            "bifrost_upstream_latency_seconds",
            "Duration of calls to providers",
            self.upstream_seconds.clone(),
        );
        to.register(
            "bifrost_key_rotation_events",
            "Attempts that went to another key of the provider",
            self.rotations.clone(),
        );
        to.register(
            "bifrost_input_tokens",
            "Tokens in, as providers counted them",
            self.input_tokens.clone(),
        );
        to.register(
            "bifrost_output_tokens",
            "Tokens out, as providers counted them",
            self.output_tokens.clone(),
        );
        to.register(
            "holdline_hits_spared",
            "Requests that a hold kept from a key that would have refused them",
            self.spared.clone(),
        );
        to.register(
            "holdline_checks",
            "Requests that found out whether a held key serves again",
            self.checks.clone(),
        );
        to.register(
            "holdline_holds",
            "Refusals that held a key, found here or told by another node",
            self.holds.clone(),
        );
        to.register(
            "holdline_token_limits_reached",
            "Answers that told of a token limit that had run dry",
            self.token_limits.clone(),
        );
        to.register(
            "holdline_propagation_seconds",
            "From the refusal on another node to this node skipping the key",
            self.propagation_seconds.clone(),
        );
    }

    /// A request was answered. `error_type` is of the closed set, empty if it was served.
    pub fn request(&self, status: u16, error_type: &'static str, stream: bool, took: Duration) {
        let labels = RequestLabels {
            status_code: status.into(),
            error_type,
            stream: if stream { "true" } else { "false" },
        };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.observe(took.as_secs_f64());
    }

    /// A call to a provider ended; `None` is a served one.
    pub fn upstream(&self, provider: &ProviderId, class: Option<FailureClass>, took: Duration) {
        let labels = UpstreamLabels {
            provider: provider.as_str().to_owned(),
            class: class.map_or("success", FailureClass::as_str),
        };
        self.upstream.get_or_create(&labels).inc();
        self.upstream_seconds
            .get_or_create(&of(provider))
            .observe(took.as_secs_f64());
    }

    /// An attempt went to another key than the one before it.
    pub fn rotation(&self, provider: &ProviderId) {
        self.rotations.get_or_create(&of(provider)).inc();
    }

    /// A request passed over a held key.
    pub fn spared(&self, provider: &ProviderId) {
        self.spared.get_or_create(&of(provider)).inc();
    }

    /// A request finds out whether a held key serves.
    pub fn check(&self, provider: &ProviderId) {
        self.checks.get_or_create(&of(provider)).inc();
    }

    /// A refusal of a request of this node held a key.
    pub fn held_here(&self, provider: &ProviderId, reason: Reason) {
        self.held(provider, reason, "here");
    }

    /// Another node told of a hold, this long after the provider's answer.
    pub fn held_elsewhere(&self, provider: &ProviderId, reason: Reason, age: Duration) {
        self.held(provider, reason, "elsewhere");
        self.propagation_seconds.observe(age.as_secs_f64());
    }

    fn held(&self, provider: &ProviderId, reason: Reason, source: &'static str) {
        let labels = HoldLabels {
            provider: provider.as_str().to_owned(),
            class: reason.class().as_str(),
            source,
        };
        self.holds.get_or_create(&labels).inc();
    }

    /// A token limit of a key has run dry.
    pub fn token_limit(&self, provider: &ProviderId) {
        self.token_limits.get_or_create(&of(provider)).inc();
    }

    /// Tokens of a served request.
    pub fn tokens(&self, input: u64, output: u64) {
        self.input_tokens.inc_by(input);
        self.output_tokens.inc_by(output);
    }
}

fn of(provider: &ProviderId) -> ProviderLabels {
    ProviderLabels {
        provider: provider.as_str().to_owned(),
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}
