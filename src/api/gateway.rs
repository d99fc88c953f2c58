//! The front door: sends inference to the pipeline and everything else to the admin router.
//!
//! A hyper service, not an axum router: inference passes no middleware.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::MatchedPath;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::service::Service;
use tower_service::Service as _;

use super::cors::Cors;
use super::error::ApiError;
use super::{kept, models, paths, routes};
use crate::node::Node;
use crate::pipeline::Pipeline;
use crate::protocols::Protocol;
use crate::server::{BadHead, Body};
use crate::telemetry::HttpAnswer;

/// Serves everything that a node serves over HTTP.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    node: Arc<Node>,
    pipeline: Pipeline,
    router: Router,
    cors: Cors,
}

impl Gateway {
    /// `router` serves `/health`, `/ready`, `/metrics` and `/api/*`.
    #[must_use]
    pub fn new(node: Arc<Node>, router: Router) -> Self {
        let client = &node.config.client;
        Self(Arc::new(Parts {
            cors: Cors::new(&client.allowed_origins, &client.allowed_headers),
            pipeline: Pipeline::new(Arc::clone(&node)),
            node,
            router,
        }))
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        let parts = &*self.0;
        if let Some(bad) = request.extensions().get::<BadHead>() {
            return closing(bad.status, bad.message);
        }
        if request.headers().get_all(HOST).iter().nth(1).is_some() {
            return closing(StatusCode::BAD_REQUEST, "the request has two Host headers");
        }
        if names_two_hosts(&request) {
            let words = "the request's `:authority` and its Host header name different hosts";
            return closing(StatusCode::BAD_REQUEST, words);
        }
        let path = request.uri().path();
        if let Some(route) = routes::find(path) {
            let route = route.with_query(request.uri().query());
            return match *request.method() {
                Method::POST => parts.pipeline.infer(request, route).await,
                _ => wrong_method("POST", route.protocol),
            };
        }
        if let Some(kept) = kept::find(path, request.headers()) {
            return match kept.verb(request.method()) {
                Some(verb) => parts.pipeline.kept(request, kept, verb).await,
                None => wrong_method(&kept.methods(), kept.collection.protocol()),
            };
        }
        match (path, request.method()) {
            // A model's name may have a colon, so only what is posted is meant as a verb.
            (_, &Method::POST) if routes::is_unknown_verb(path) => {
                ApiError::not_found(path).into_response_in(routes::dialect(path))
            }
            _ if models::are_at(path) => match parts.may_list(&request) {
                Ok(()) => {
                    parts.node.lists().await;
                    models::answer(&parts.node.live(), request.uri())
                }
                Err(refusal) => *refusal,
            },
            ("/", &Method::GET | &Method::HEAD) => root(),
            ("/", _) => wrong_method("GET, HEAD", Protocol::Chat),
            (paths::HEALTH | paths::READY | paths::METRICS, _) => parts.routed(request).await,
            _ if path.starts_with(paths::ADMIN_PREFIX) => parts.routed(request).await,
            _ => ApiError::not_found(path).into_response_in(routes::dialect(path)),
        }
    }
}

impl Parts {
    /// Models are told to callers who may ask for answers.
    fn may_list(&self, request: &Request<Incoming>) -> Result<(), Box<Response<Body>>> {
        let dialect = routes::dialect(request.uri().path());
        if request.method() != Method::GET {
            return Err(Box::new(wrong_method("GET", dialect)));
        }
        let caller = self.pipeline.caller(request.headers());
        let refused = |refusal: ApiError| Box::new(refusal.into_response_in(dialect));
        caller.map(|_| ()).map_err(refused)
    }

    async fn routed(&self, request: Request<Incoming>) -> Response<Body> {
        let Ok(response) = self.router.clone().call(request).await;
        response.map(Body::Router)
    }
}

/// What metrics tell of a request, whatever it is for.
struct Asked {
    path: Cow<'static, str>,
    method: &'static str,
    bytes: Option<u64>,
    at: Instant,
}

impl Asked {
    fn of(request: &Request<Incoming>) -> Self {
        let path = request.uri().path();
        let known = [
            "/",
            paths::MODELS,
            paths::OPENAI_MODELS,
            paths::OPENAI_MODELS_BARE,
            paths::ANTHROPIC_MODELS,
            paths::HEALTH,
            paths::READY,
            paths::METRICS,
        ];
        let known = known.into_iter().find(|known| *known == path);
        Self {
            path: match known {
                Some(known) => Cow::Borrowed(known),
                None if models::is_one(path) => Cow::Borrowed(paths::MODEL),
                None => routes::label(path),
            },
            method: known_method(request.method()),
            bytes: request.body().size_hint().exact(),
            at: Instant::now(),
        }
    }

    fn count(self, node: &Node, response: &mut Response<Body>) {
        let matched = response.extensions_mut().remove::<MatchedPath>();
        let path = matched.map_or(self.path, |matched| matched.as_str().to_owned().into());
        let told = HttpAnswer {
            path,
            method: self.method,
            status: response.status().as_u16(),
        };
        let sizes = (self.bytes, response.body().size_hint().exact());
        node.metrics.http(told, sizes, self.at.elapsed());
    }
}

/// HTTP/2 has the host in the target; HTTP/1.1 says which of the two counts where both are there.
fn names_two_hosts<B>(request: &Request<B>) -> bool {
    let host = request.headers().get(HOST);
    let target = request.uri().authority();
    match (request.version(), target, host) {
        (Version::HTTP_2, Some(target), Some(host)) => {
            let target = target.as_str().as_bytes();
            !target.eq_ignore_ascii_case(host.as_bytes().trim_ascii())
        }
        _ => false,
    }
}

/// Callers may send any word.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}

fn root() -> Response<Body> {
    let mut response = Response::new(Body::from("Holdline is running.\n"));
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// Proxies would disagree about such a request: nothing behind it on the connection is believed either.
fn closing(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = ApiError::caller(status, message).into_response();
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn wrong_method(allowed: &str, protocol: Protocol) -> Response<Body> {
    let mut response = ApiError::wrong_method(allowed).into_response_in(protocol);
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

impl Service<Request<Incoming>> for Gateway {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let gateway = self.clone();
        let asked = Asked::of(&request);
        Box::pin(async move {
            let node = Arc::clone(&gateway.0.node);
            let cors = Arc::clone(&gateway.0);
            let cors = &cors.cors;
            if let Some(answer) = cors.preflight(&request) {
                return Ok(answer);
            }
            let page = cors.page(&request);
            let mut response = gateway.route(request).await;
            page.mark(&mut response);
            asked.count(&node, &mut response);
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_and_a_host_that_differ_are_two_hosts() {
        for (version, target, host, expected) in [
            (Version::HTTP_2, "http://a:1/v1", "a:1", false),
            (Version::HTTP_2, "http://a/v1", "A", false),
            (Version::HTTP_2, "http://a/v1", "b", true),
            (Version::HTTP_2, "http://a/v1", "a:1", true),
            (Version::HTTP_2, "/v1", "b", false),
            (Version::HTTP_11, "http://a/v1", "b", false),
        ] {
            let request = Request::builder().version(version).uri(target);
            let request = request.header(HOST, host).body(()).unwrap();
            assert_eq!(names_two_hosts(&request), expected, "{target} {host}");
        }
    }
}
