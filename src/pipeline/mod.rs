//! One request's way: admitted, planned, walked through its attempts, answered, accounted for.
//!
//! No decision is made here: `core::routing::plan` plans, [`Walk`] says what comes next, and
//! `core::failure` says what an answer means. `call` is the only place that sends to a provider.

mod account;
mod admit;
pub(crate) mod allowed;
mod answer_headers;
mod call;
pub(crate) mod caller;
mod convert;
mod course;
mod decode;
mod details;
mod edit;
pub(crate) mod explain;
mod failed;
mod kept;
mod listed;
pub mod listing;
mod opening;
mod outgoing;
mod relay;
mod session;
mod tokens;
mod upstream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;

use holdline_core::failure::FailureClass;
use holdline_core::routing::plan::PlanError;
use holdline_core::routing::{self, Target};
use holdline_core::time::WallMs;
use holdline_core::walk::{Ending, Limits, Walk};

use account::{Closing, Told};
use admit::Inbound;
use allowed::Candidates;
use call::Reply;
use course::{Course, Next};
use failed::{Failed, Late};
use listed::Listed;
use relay::Relay;
use tokens::Tokens;
use upstream::Upstream;

use crate::api::error::{ApiError, ErrorBody, ErrorExtra, RoutingInfo, error_type};
use crate::api::kept::Kept;
use crate::api::routes::Route;
use crate::config::governance::VirtualKey;
use crate::config::{Catalog, Key};
use crate::node::Node;
use crate::protocols::kept::Verb;
use crate::server::Body;

/// Serves inference.
#[derive(Debug)]
pub struct Pipeline {
    node: Arc<Node>,
    upstream: Arc<Upstream>,
    tokens: Tokens,
    sessions: Arc<session::Store>,
}

impl Pipeline {
    /// For one node.
    #[must_use]
    pub fn new(node: Arc<Node>) -> Self {
        let upstream = Arc::new(Upstream::new());
        Self {
            node,
            tokens: Tokens::new(Arc::clone(&upstream)),
            upstream,
            sessions: Arc::default(),
        }
    }

    /// Any inference. Dropping the future is the caller leaving.
    pub async fn infer(&self, request: Request<Incoming>, route: Route) -> Response<Body> {
        let arrived = (Instant::now(), self.node.clock.wall());
        let (head, body) = request.into_parts();
        let id = admit::request_id(&head.headers);
        let dialect = route.protocol;
        let admitted = self.admit(route, &head.headers, body, &id, arrived).await;
        let mut response = match admitted {
            Ok(course) => Box::pin(self.run(course)).await,
            Err(refusal) => {
                account::refused(&self.node, &id, arrived, &refusal);
                refusal.into_response_in(dialect)
            }
        };
        if let Ok(id) = HeaderValue::try_from(id) {
            response.headers_mut().insert(outgoing::REQUEST_ID, id);
        }
        response
    }

    /// A response, file or batch that a provider keeps.
    pub async fn kept(&self, request: Request<Incoming>, kept: Kept, verb: Verb) -> Response<Body> {
        Box::pin(kept::serve(self, request, kept, verb)).await
    }

    async fn admit(
        &self,
        route: Route,
        headers: &HeaderMap,
        body: Incoming,
        id: &str,
        arrived: (Instant, WallMs),
    ) -> Result<Course, ApiError> {
        let caller = self.caller(headers)?;
        let live = Arc::clone(&self.node.live());
        let mut inbound = Inbound::read(route, headers, body, &live.catalog, arrived.0).await?;
        let now = self.node.clock.now();
        // The body may have taken its time: plan with what is known by then.
        let live = self.node.live();
        if live.view.adaptive && inbound.facts.pin.is_none() && !inbound.facts.direct_key {
            let named = session::named(headers, &inbound.body.model)?;
            inbound.session = named.map(|named| self.sessions.follow(named, now));
            let followed = inbound.session.as_ref().and_then(|s| s.followed.clone());
            inbound.facts.session = followed;
        }
        let kind = inbound.request_type();
        let candidates = Candidates::of(&live.view, &live.catalog, &mut inbound.facts, kind);
        let mut plan = routing::plan::plan(&candidates.view, &inbound.facts, &mut rand::rng(), now)
            .map_err(|error| {
                let refused = candidates.why_nobody(&live.catalog, &inbound.facts, kind);
                told_why(&error, refused, &inbound)
            })?;
        plan.notes.extend(candidates.notes);
        if plan.kept_on_failing
            && let Some(provider) = &inbound.facts.target.provider
        {
            self.node
                .count_kept_on_failing(provider, &inbound.facts.target.model);
        }
        let limits = Limits {
            max_attempts: live.catalog.client.max_attempts_per_request,
        };
        let walk = Walk::new(plan, limits);
        let node = Arc::clone(&self.node);
        let mut course = Course::new(node, inbound, id.to_owned(), arrived, walk);
        course.caller = caller;
        Ok(course)
    }

    /// Who asks; an error where nobody may who shows what the headers show.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Option<Arc<VirtualKey>>, ApiError> {
        let config = &self.node.config;
        caller::identify(
            headers,
            &config.virtual_keys,
            config.client.needs_virtual_key,
            self.node.clock.wall(),
        )
    }

    /// A token may have been taken back before its time: the next call with a refused key gets another.
    fn forget_token(&self, key: Option<&Key>, failed: &Failed) {
        if let (Some(key), FailureClass::Credential) = (key, failed.failure.class) {
            self.tokens.forget(key.spec.fingerprint);
        }
    }

    /// Walks a request to its end.
    async fn run(&self, mut course: Course) -> Response<Body> {
        let mut failures = Vec::new();
        loop {
            match course.next() {
                Next::Call => match call::call(&course, &self.upstream, &self.tokens).await {
                    Ok(Reply::Whole {
                        headers,
                        body,
                        usage,
                        dropped,
                    }) => {
                        (course.usage, course.dropped) = (usage, dropped);
                        return served(course, headers, body);
                    }
                    Ok(Reply::Stream(mut opened)) => {
                        course.dropped = std::mem::take(&mut opened.dropped);
                        course.settle_served();
                        course.first_output();
                        let headers = std::mem::take(&mut opened.headers);
                        let listed = course.inbound.route.listed;
                        let kind = course.inbound.route.protocol.spoken().stream_type();
                        let relay = Relay::new(course, *opened);
                        return streamed(headers, relay, listed, kind);
                    }
                    Err(failed) => {
                        let flight = course.flight.as_ref();
                        self.forget_token(flight.and_then(|f| f.key.as_deref()), &failed);
                        course.settle_failed(&failed);
                        course.observe(Some(&failed));
                        failures.push(ToldFailure {
                            error: failure_told(&course, &failed),
                            failed,
                        });
                    }
                },
                Next::Wait(wait) => {
                    if !sleep(wait, course.inbound.deadline).await {
                        let failed = Failed::late(Late::Caller, Duration::ZERO);
                        let error = failure_told(&course, &failed);
                        return refused(course, ToldFailure { failed, error });
                    }
                }
                Next::Gone => {
                    let failed = Failed::misconfigured("it was deleted in this moment");
                    let error = failure_told(&course, &failed);
                    return refused(course, ToldFailure { failed, error });
                }
                Next::Done(ending) => return ended(course, ending, failures),
            }
        }
    }
}

/// What a request with this `model` asks for.
pub(crate) fn target(name: &str, catalog: &Catalog) -> Target {
    admit::split(name, catalog)
}

fn told_why(error: &PlanError, refused: Option<ApiError>, inbound: &Inbound) -> ApiError {
    let (status, kind, param) = match error {
        PlanError::UnknownModel(_) => (StatusCode::NOT_FOUND, "caller_model_unknown", "model"),
        PlanError::UnknownProvider(_) => (StatusCode::BAD_REQUEST, "caller_model_unknown", "model"),
        PlanError::NoKeyServes { .. } => (
            StatusCode::BAD_REQUEST,
            "caller_model_not_available",
            "model",
        ),
        PlanError::UnknownPin { header, .. } => {
            (StatusCode::BAD_REQUEST, "caller_invalid_request", *header)
        }
    };
    let mut refusal = refused.unwrap_or_else(|| {
        let mut refusal = ApiError::new(status, "invalid_request_error", kind, error.to_string());
        refusal.error.param = Some(param.to_owned());
        refusal
    });
    refusal.extra_fields.request_type = Some(inbound.request_type());
    refusal.extra_fields.original_model_requested = Some(inbound.body.model.clone());
    refusal
}

/// True when the wait is over, false when the caller's deadline comes first.
async fn sleep(wait: Duration, deadline: Option<Instant>) -> bool {
    let until = Instant::now() + wait;
    match deadline.filter(|deadline| *deadline < until) {
        Some(deadline) => {
            tokio::time::sleep_until(deadline.into()).await;
            false
        }
        None => {
            tokio::time::sleep_until(until.into()).await;
            true
        }
    }
}

fn served(mut course: Course, headers: HeaderMap, mut body: Bytes) -> Response<Body> {
    course.served();
    course.end(&Closing::SERVED);
    let is_object = body.trim_ascii_start().first() == Some(&b'{');
    if course.inbound.route.unified && is_object {
        body = opening::with_extra_fields(&body, &extra_fields(&course));
    }
    let mut response = Response::new(Body::from(body));
    *response.headers_mut() = headers;
    response
}

fn streamed(headers: HeaderMap, relay: Relay, listed: bool, kind: &'static str) -> Response<Body> {
    let (body, kind) = if listed {
        (Body::stream(Listed::new(relay)), "application/json")
    } else {
        (Body::stream(relay), kind)
    };
    let mut response = Response::new(body);
    let all = response.headers_mut();
    *all = headers;
    all.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    all.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies in front (nginx) would collect the events otherwise.
    all.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn ended(mut course: Course, ending: Ending, mut failures: Vec<ToldFailure>) -> Response<Body> {
    let mut of = |attempt: u32| {
        let index = usize::try_from(attempt).unwrap_or(usize::MAX);
        (index < failures.len()).then(|| failures.swap_remove(index))
    };
    match ending {
        Ending::Failed { attempt } => match of(attempt) {
            Some(failed) => refused(course, failed),
            None => nothing_to_call(course),
        },
        Ending::CredentialsExhausted { attempt } => {
            let mut error = ApiError::new(
                StatusCode::BAD_GATEWAY,
                "upstream_credentials_exhausted",
                "provider_credentials_exhausted",
                "the provider refused every configured key: the gateway's own keys need attention, not the caller's",
            );
            error.error.code = Some("upstream_credentials_exhausted".to_owned());
            let told = of(attempt).map(|f| f.error.extra_fields);
            *error.extra_fields = ErrorExtra {
                error_type: error.extra_fields.error_type,
                retry_after_ms: None,
                ..told.map_or_else(|| course.error_extra(), |told| *told)
            };
            let class = error.extra_fields.failure_class;
            finish(&mut course, error, class, HeaderMap::new())
        }
        Ending::Served | Ending::NothingToCall => nothing_to_call(course),
    }
}

fn nothing_to_call(mut course: Course) -> Response<Body> {
    let mut error = ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "no_route",
        "bifrost_internal",
        "no provider of this request can be called: see its log record for what was skipped and why",
    );
    error.is_bifrost_error = true;
    finish(&mut course, error, None, HeaderMap::new())
}

/// A failed attempt and its error, told while it is known where the attempt went.
struct ToldFailure {
    failed: Failed,
    error: ApiError,
}

fn refused(mut course: Course, told: ToldFailure) -> Response<Body> {
    let ToldFailure { failed, mut error } = told;
    error.status_code = call::client_status(error.status_code).as_u16();
    error.extra_fields.latency = Some(course.latency_ms());
    finish(
        &mut course,
        error,
        Some(failed.failure.class),
        *failed.headers,
    )
}

fn finish(
    course: &mut Course,
    error: ApiError,
    class: Option<FailureClass>,
    headers: HeaderMap,
) -> Response<Body> {
    course.end(&Closing {
        status: error.status_code,
        failure: Some(Told {
            class,
            error_type: error.extra_fields.error_type,
        }),
    });
    let mut response = error.into_response_in(course.inbound.route.protocol);
    for (name, value) in headers {
        if let Some(name) = name.filter(|n| !response.headers().contains_key(n)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A failed attempt as the client hears of it.
fn failure_told(course: &Course, failed: &Failed) -> ApiError {
    let failure = &failed.failure;
    ApiError {
        is_bifrost_error: false,
        status_code: failure.status,
        error: ErrorBody::clone(&failed.error),
        extra_fields: Box::new(ErrorExtra {
            error_type: error_type(failure.class, failure.status),
            failure_class: Some(failure.class),
            retry_after_ms: failure.retry_after_ms,
            ..course.error_extra()
        }),
    }
}

/// `extra_fields` of a served request, as JSON.
fn extra_fields(course: &Course) -> Vec<u8> {
    #[derive(Serialize)]
    struct Extra<'a> {
        request_type: &'static str,
        provider: &'a str,
        original_model_requested: &'a str,
        resolved_model_used: &'a str,
        routing_info: Option<RoutingInfo>,
        latency: u64,
        chunk_index: u32,
        number_of_retries: u32,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        dropped_params: &'a [String],
    }
    let flight = course.flight.as_ref();
    let extra = Extra {
        request_type: course.request_type(),
        provider: flight.map_or("", |f| f.attempt.provider.as_str()),
        original_model_requested: &course.inbound.body.model,
        resolved_model_used: flight.map_or("", |f| f.upstream_model()),
        routing_info: course.routing_info(),
        latency: course.latency_ms(),
        chunk_index: 0,
        number_of_retries: course.walk.retries(),
        dropped_params: &course.dropped,
    };
    serde_json::to_vec(&extra).expect("it holds only strings and numbers")
}
