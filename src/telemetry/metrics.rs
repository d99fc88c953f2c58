//! What a node counts. Labels are configured names, models that exist, and closed sets: never a provider's
//! words, never a name that a caller made up.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use holdline_core::failure::{FailureClass, Reason};
use holdline_core::ids::ProviderId;

use super::labels::{Called, ModelLabels, Models, RouteLabels};
use super::together::Together;

/// Prometheus metrics of one node. Every method is a few atomic adds.
pub struct Metrics {
    pub(super) registry: Registry,
    http: Family<HttpAnswer, Counter>,
    http_seconds: Family<HttpAnswer, Histogram>,
    http_request_bytes: Family<HttpAnswer, Histogram>,
    http_response_bytes: Family<HttpAnswer, Histogram>,
    answers: Together<HttpAnswer, Answers>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histogram,
    active: Family<MethodLabels, Gauge>,
    retries: Family<ProviderLabels, Histogram>,
    overhead_microseconds: Histogram,
    models: Models,
    upstream: Family<(RouteLabels, CallLabels), Counter>,
    succeeded: Family<(RouteLabels, MethodLabels), Counter>,
    failed: Family<(RouteLabels, FaultLabels), Counter>,
    served: Together<(RouteLabels, CallLabels), Served>,
    upstream_seconds: Family<ModelLabels, Histogram>,
    first_token_seconds: Family<ModelLabels, Histogram>,
    inter_token_seconds: Family<ModelLabels, Histogram>,
    rotations: Family<ProviderLabels, Counter>,
    spared: Family<ProviderLabels, Counter>,
    checks: Family<ProviderLabels, Counter>,
    holds: Family<HoldLabels, Counter>,
    token_limits: Family<ProviderLabels, Counter>,
    propagation_seconds: Histogram,
    input_tokens: Family<RouteLabels, Counter>,
    output_tokens: Family<RouteLabels, Counter>,
    tokens: Together<RouteLabels, Tokens>,
}

/// Of answers over HTTP with the same labels.
struct Answers {
    count: Counter,
    seconds: Histogram,
    /// From the first body on whose length was known.
    request_bytes: OnceLock<Histogram>,
    response_bytes: OnceLock<Histogram>,
}

/// Of calls that served.
struct Served {
    calls: Counter,
    succeeded: Counter,
    seconds: Histogram,
}

/// Of a route.
struct Tokens {
    input: Counter,
    output: Counter,
}

/// An answer over HTTP, by closed sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HttpAnswer {
    /// The route: what may be anything is in braces.
    pub path: Cow<'static, str>,
    /// GET and its kin, or `other`.
    pub method: &'static str,
    /// What was answered.
    pub status: u16,
}

/// Why a call failed.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What it means.
    pub class: FailureClass,
    /// The provider's status, or the one that its absence stands for.
    pub status: u16,
    /// Of the closed set that clients are told.
    pub error_type: &'static str,
}

/// A request under way: it is one for as long as this lives.
#[derive(Debug)]
pub struct Active(Gauge);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    status_code: u32,
    error_type: &'static str,
    stream: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    class: &'static str,
    fallback_index: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FaultLabels {
    method: &'static str,
    status_code: u16,
    error_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ProviderLabels {
    provider: ProviderId,
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

fn bytes() -> Histogram {
    Histogram::new(exponential_buckets(64.0, 4.0, 12))
}

fn microseconds() -> Histogram {
    Histogram::new(exponential_buckets(10.0, 2.0, 16))
}

fn between_tokens() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 12))
}

fn counts() -> Histogram {
    Histogram::new([0.0, 1.0, 2.0, 3.0, 5.0, 10.0])
}

fn propagation() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 18))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            http: Family::default(),
            http_seconds: Family::new_with_constructor(seconds),
            http_request_bytes: Family::new_with_constructor(bytes),
            http_response_bytes: Family::new_with_constructor(bytes),
            answers: Together::default(),
            requests: Family::default(),
            request_seconds: seconds(),
            active: Family::default(),
            retries: Family::new_with_constructor(counts),
            overhead_microseconds: microseconds(),
            models: Models::default(),
            upstream: Family::default(),
            succeeded: Family::default(),
            failed: Family::default(),
            served: Together::default(),
            upstream_seconds: Family::new_with_constructor(seconds),
            first_token_seconds: Family::new_with_constructor(seconds),
            inter_token_seconds: Family::new_with_constructor(between_tokens),
            rotations: Family::default(),
            spared: Family::default(),
            checks: Family::default(),
            holds: Family::default(),
            token_limits: Family::default(),
            propagation_seconds: propagation(),
            input_tokens: Family::default(),
            output_tokens: Family::default(),
            tokens: Together::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        self.register_http();
        self.register_requests();
        self.register_calls();
        self.register_holds();
    }

    fn register_http(&mut self) {
        let to = &mut self.registry;
        to.register(
            "http_requests",
            "Answers over HTTP, by route",
            self.http.clone(),
        );
        to.register(
            "http_request_duration_seconds",
            "From a request's head to the head of its answer",
            self.http_seconds.clone(),
        );
        to.register(
            "http_request_size_bytes",
            "Bodies of requests whose length was told",
            self.http_request_bytes.clone(),
        );
        to.register(
            "http_response_size_bytes",
            "Bodies of answers that were known as a whole",
            self.http_response_bytes.clone(),
        );
    }

    fn register_requests(&mut self) {
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
            "bifrost_active_requests",
            "Requests under way",
            self.active.clone(),
        );
        to.register(
            "bifrost_request_retries",
            "Attempts of a request beyond its first, by the provider of the last",
            self.retries.clone(),
        );
        to.register(
            "bifrost_overhead_latency_microseconds",
            "Of a served request's time up to its first output, what no provider and no wait took",
            self.overhead_microseconds.clone(),
        );
    }

    fn register_calls(&mut self) {
        let to = &mut self.registry;
        to.register(
            "bifrost_upstream_requests",
            "Calls to providers, by what came of them",
            self.upstream.clone(),
        );
        to.register(
            "bifrost_success_requests",
            "Calls that served",
            self.succeeded.clone(),
        );
        to.register(
            "bifrost_error_requests",
            "Calls that failed, by status and kind of error",
            self.failed.clone(),
        );
        to.register(
            "bifrost_upstream_latency_seconds",
            "Duration of calls to providers",
            self.upstream_seconds.clone(),
        );
        to.register(
            "bifrost_stream_first_token_latency_seconds",
            "From a streamed call to its first output",
            self.first_token_seconds.clone(),
        );
        to.register(
            "bifrost_stream_inter_token_latency_seconds",
            "Mean time from one token of a stream to the next, one sample per stream",
            self.inter_token_seconds.clone(),
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
    }

    fn register_holds(&mut self) {
        let to = &mut self.registry;
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

    /// An answer's head goes out; `sizes` of the bodies of request and answer, where they are known.
    pub fn http(&self, told: HttpAnswer, sizes: (Option<u64>, Option<u64>), took: Duration) {
        let answers = self.answers.of(&told, || Answers {
            count: self.http.get_or_create_owned(&told),
            seconds: self.http_seconds.get_or_create_owned(&told),
            request_bytes: OnceLock::new(),
            response_bytes: OnceLock::new(),
        });
        answers.count.inc();
        answers.seconds.observe(took.as_secs_f64());
        let bodies = [
            (&answers.request_bytes, &self.http_request_bytes, sizes.0),
            (&answers.response_bytes, &self.http_response_bytes, sizes.1),
        ];
        for (histogram, family, size) in bodies {
            if let Some(size) = size {
                let histogram = histogram.get_or_init(|| family.get_or_create_owned(&told));
                #[expect(clippy::cast_precision_loss, reason = "no body has 2^53 bytes")]
                histogram.observe(size as f64);
            }
        }
    }

    /// A request begins.
    #[must_use]
    pub fn active(&self, method: &'static str) -> Active {
        let gauge = self.active.get_or_create_owned(&MethodLabels { method });
        gauge.inc();
        Active(gauge)
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

    /// A request that was sent to a provider is over, after so many attempts there beyond the first.
    pub fn retries(&self, provider: &ProviderId, retries: u32) {
        let histogram = self.retries.get_or_create(&of(provider));
        histogram.observe(f64::from(retries));
    }

    /// A served request's own part of the time up to its first output.
    pub fn overhead(&self, took: Duration) {
        self.overhead_microseconds
            .observe(took.as_secs_f64() * 1_000_000.0);
    }

    /// A call to a provider ended; `None` is a served one.
    pub fn upstream(&self, called: &Called<'_>, fault: Option<Fault>, took: Duration) {
        let method = called.method;
        let route = RouteLabels::new(self.models.labels(called, fault.is_none()), called);
        let labels = CallLabels {
            method,
            class: fault.map_or("success", |fault| fault.class.as_str()),
            fallback_index: place(called.fallback_index),
        };
        let labels = (route, labels);
        let Some(fault) = fault else {
            let served = self.served.of(&labels, || self.find_served(&labels));
            served.calls.inc();
            served.succeeded.inc();
            served.seconds.observe(took.as_secs_f64());
            return;
        };
        self.upstream.get_or_create(&labels).inc();
        let (route, _) = labels;
        let seconds = self.upstream_seconds.get_or_create(&route.direction);
        seconds.observe(took.as_secs_f64());
        let labels = FaultLabels {
            method,
            status_code: known_status(fault.status),
            error_type: fault.error_type,
        };
        self.failed.get_or_create(&(route.clone(), labels)).inc();
    }

    fn find_served(&self, labels: &(RouteLabels, CallLabels)) -> Served {
        let (route, call) = labels;
        let method = call.method;
        let of_method = (route.clone(), MethodLabels { method });
        Served {
            calls: self.upstream.get_or_create_owned(labels),
            succeeded: self.succeeded.get_or_create_owned(&of_method),
            seconds: self.upstream_seconds.get_or_create_owned(&route.direction),
        }
    }

    /// A stream's first output is here.
    pub fn first_token(&self, called: &Called<'_>, took: Duration) {
        let labels = self.models.labels(called, true);
        let histogram = self.first_token_seconds.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    /// A stream was served to its end; `took` from its first output.
    pub fn stream_tokens(&self, called: &Called<'_>, output: u64, took: Duration) {
        // The first token is where the time begins.
        let Some(steps) = output.checked_sub(1).filter(|steps| *steps > 0) else {
            return;
        };
        let labels = self.models.labels(called, true);
        let histogram = self.inter_token_seconds.get_or_create(&labels);
        #[expect(clippy::cast_precision_loss, reason = "no stream has 2^53 tokens")]
        histogram.observe(took.as_secs_f64() / steps as f64);
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

    /// Tokens of a served call.
    pub fn tokens(&self, called: &Called<'_>, input: u64, output: u64) {
        let route = RouteLabels::new(self.models.labels(called, true), called);
        let tokens = self.tokens.of(&route, || Tokens {
            input: self.input_tokens.get_or_create_owned(&route),
            output: self.output_tokens.get_or_create_owned(&route),
        });
        tokens.input.inc_by(input);
        tokens.output.inc_by(output);
    }
}

/// A fallback's place as a label: few requests have more.
const fn place(index: u32) -> &'static str {
    match index {
        0 => "0",
        1 => "1",
        2 => "2",
        3 => "3",
        _ => "more",
    }
}

/// A provider may write any number.
fn known_status(status: u16) -> u16 {
    if (100..600).contains(&status) {
        status
    } else {
        0
    }
}

impl EncodeLabelSet for ProviderLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("provider", self.provider.as_str()).encode(encoder.encode_label())
    }
}

fn of(provider: &ProviderId) -> ProviderLabels {
    ProviderLabels {
        provider: provider.clone(),
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}
