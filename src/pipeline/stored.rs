//! Responses that a provider keeps: read, deleted and cancelled there, never converted.
//!
//! Nobody but the provider knows whose key made one, so its keys are asked in turn until one knows it.
//! Nothing is learnt from the answers: no key is measured or held for a response that is not its own.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use tokio::time::Instant;

use holdline_core::ids::ProviderId;
use holdline_core::routing::Pin;

use super::Pipeline;
use super::admit;
use super::allowed;
use super::call::{Limit, as_it_came, client_status};
use super::failed::{Failed, Judge};
use super::outgoing::PRODUCT;
use crate::api::error::{ApiError, ErrorExtra, error_type};
use crate::api::routes::Stored;
use crate::config::{Catalog, Key, Provider};
use crate::protocols::{Operation, Protocol};
use crate::providers::{Adapter, Call, Credential, NotCallable};
use crate::server::Body;

/// Who is asked where the query names nobody.
const USUAL: &str = "openai";

/// Keys that are asked for one response.
const MAX_KEYS: usize = 32;

/// A call of one key.
struct Asked<'a> {
    adapter: &'static dyn Adapter,
    call: Call<'a>,
    method: &'a Method,
    stored: &'a Stored,
    query: Option<String>,
}

/// Asks the provider for a response that it keeps.
pub(super) async fn ask(
    pipeline: &Pipeline,
    method: &Method,
    stored: &Stored,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let live = Arc::clone(&pipeline.node.live());
    let catalog = &live.catalog;
    admit::required_headers(headers, catalog)?;
    pipeline.caller(headers)?;
    let (named, query) = without_provider(query)?;
    let provider = provider(catalog, named)?;
    let Some(adapter) = provider.kind.adapter() else {
        return Err(not_kept(provider));
    };
    let kind = stored.kind(method);
    if !provider.custom.takes(kind) {
        let told = allowed::told_of(provider.id.as_str(), kind);
        return Err(allowed::refusal(told));
    }
    let keys = keys(provider, admit::pin(headers)?.as_ref())?;
    let client = admit::client_headers(headers);
    let mut refusal = None;
    for key in keys {
        let asked = Asked {
            adapter,
            call: Call {
                provider,
                key,
                protocol: Protocol::Responses,
                operation: Operation::Answer,
                stream: false,
                model: "",
                alias: None,
                client: &client,
            },
            method,
            stored,
            query: query.clone(),
        };
        match asked.send(pipeline).await {
            Ok(response) => return Ok(response),
            Err(failed) if is_anothers(&failed) => refusal = Some(failed),
            Err(failed) => return Err(told(&failed, provider)),
        }
    }
    let none = || Failed::misconfigured("no key of it is enabled");
    Err(told(&refusal.unwrap_or_else(none), provider))
}

/// The provider that the query names, and the rest of the query.
fn without_provider(query: Option<&str>) -> Result<(Option<&str>, Option<String>), ApiError> {
    let mut named = None;
    let mut rest = Vec::new();
    for pair in query.unwrap_or_default().split('&') {
        match pair.split_once('=') {
            Some(("provider", name)) => named = Some(name),
            Some(("stream", value)) if value != "false" => {
                let message = "`stream` is not passed on for a response that is kept: ask for it without, until its `status` says that it is over";
                let mut refusal = ApiError::caller(StatusCode::BAD_REQUEST, message);
                refusal.error.param = Some("stream".to_owned());
                return Err(refusal);
            }
            _ if pair.is_empty() => {}
            _ => rest.push(pair),
        }
    }
    Ok((named, (!rest.is_empty()).then(|| rest.join("&"))))
}

fn provider<'a>(catalog: &'a Catalog, named: Option<&str>) -> Result<&'a Provider, ApiError> {
    let name = named.unwrap_or(USUAL);
    let found = catalog.providers.get(&ProviderId::from(name));
    let provider = found.ok_or_else(|| {
        let message = format!(
            "the provider \"{name}\" is not configured: name the one that keeps the response with ?provider="
        );
        ApiError::caller(StatusCode::BAD_REQUEST, message)
    })?;
    if !provider.speaks.contains(&Protocol::Responses) {
        return Err(not_kept(provider));
    }
    Ok(provider)
}

fn not_kept(provider: &Provider) -> ApiError {
    let message = format!(
        "the provider \"{}\" keeps no responses: name the one that does with ?provider=",
        provider.id
    );
    ApiError::caller(StatusCode::BAD_REQUEST, message)
}

/// The keys that may be asked; one without a key where the provider wants none.
fn keys<'a>(provider: &'a Provider, pin: Option<&Pin>) -> Result<Vec<Option<&'a Key>>, ApiError> {
    if provider.keyless {
        return Ok(vec![None]);
    }
    let is_pinned = |key: &&Arc<Key>| match pin {
        None => true,
        Some(Pin::Id(id)) => key.spec.id == *id,
        Some(Pin::Name(name)) => key.spec.name == *name,
    };
    let usable = provider.keys.iter().filter(|key| key.spec.enabled);
    let found: Vec<_> = usable.filter(is_pinned).take(MAX_KEYS).collect();
    if found.is_empty() && pin.is_some() {
        let message = format!("the key that is asked for is none of {}'s", provider.id);
        return Err(ApiError::caller(StatusCode::BAD_REQUEST, message));
    }
    Ok(found.into_iter().map(|key| Some(&**key)).collect())
}

/// A key that may not see the response, or does not know it, says nothing about the others.
fn is_anothers(failed: &Failed) -> bool {
    matches!(failed.failure.status, 401 | 403 | 404)
}

fn told(failed: &Failed, provider: &Provider) -> ApiError {
    let failure = &failed.failure;
    let status = client_status(failure.status);
    let mut error = ApiError::new(status, "", error_type(failure.class, failure.status), "");
    error.error = (*failed.error).clone();
    *error.extra_fields = ErrorExtra {
        error_type: error.extra_fields.error_type,
        provider: Some(provider.id.as_str().to_owned()),
        request_type: Some("responses"),
        failure_class: Some(failure.class),
        retry_after_ms: failure.retry_after_ms,
        ..ErrorExtra::default()
    };
    error
}

impl Asked<'_> {
    async fn send(&self, pipeline: &Pipeline) -> Result<Response<Body>, Failed> {
        let network = &self.call.provider.network;
        let mut judge = Judge::of_key(&pipeline.node, self.call.provider, self.call.key);
        let limit = Limit {
            providers: Instant::now() + network.request_timeout,
            label: "request_timed_out",
            callers: None,
        };
        let late = |late| Failed::late(late, network.request_timeout);
        let request = self.request(pipeline, &mut judge);
        let request = limit.race(request).await.map_err(late)??;
        let sent = pipeline.upstream.send(network, request.map(Full::new));
        let response = limit.race(sent).await.map_err(late)?;
        let response = response.map_err(|error| Failed::transport(&error))?;
        let (headers, body) = as_it_came(network.request_timeout, response, limit, &judge).await?;
        let mut response = Response::new(Body::from(body));
        *response.headers_mut() = headers;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        Ok(response)
    }

    async fn request(
        &self,
        pipeline: &Pipeline,
        judge: &mut Judge,
    ) -> Result<Request<Bytes>, Failed> {
        let misconfigured = |error: NotCallable| Failed::misconfigured(&error.to_string());
        let place = self
            .call
            .provider
            .custom
            .place(self.stored.kind(self.method));
        let (id, part) = (self.stored.id(), self.stored.part());
        let uri = match place {
            Some(place) => place
                .of_id(self.call.base(), id, part)
                .map_err(misconfigured)?,
            None => self
                .behind(self.adapter.endpoint(&self.call).map_err(misconfigured)?)
                .map_err(misconfigured)?,
        };
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.with_query(uri).map_err(misconfigured)?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(PRODUCT));
        for (name, value) in &self.call.provider.network.extra_headers {
            headers.insert(name, value.clone());
        }
        let now = pipeline.node.clock.wall();
        let grant = self.adapter.grant(&self.call, now).map_err(misconfigured)?;
        let proof = match grant {
            Some(grant) => {
                let (tokens, upstream) = (&pipeline.tokens, &pipeline.upstream);
                let clock = pipeline.node.clock;
                let proof = tokens.of(&self.call, grant, judge, upstream, clock).await?;
                judge.also_sent(&proof);
                Some(proof)
            }
            None => None,
        };
        let credential = match (&proof, self.call.key) {
            (Some(proof), _) => proof.credential(),
            (None, Some(key)) => Credential::Secret(&key.value),
            (None, None) => Credential::None,
        };
        let signed = self.adapter.sign(&self.call, credential, now, &mut request);
        signed.map_err(misconfigured)?;
        Ok(request)
    }

    /// The address of the response, behind that of all responses.
    fn behind(&self, root: Uri) -> Result<Uri, NotCallable> {
        let query = root
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        let target = format!("{}{}{query}", root.path(), self.stored.behind());
        let mut parts = root.into_parts();
        let unfit = || NotCallable::from("its address cannot be behind that of all responses");
        parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| unfit())?);
        Uri::from_parts(parts).map_err(|_| unfit())
    }

    /// The client's query behind the address' own.
    fn with_query(&self, root: Uri) -> Result<Uri, NotCallable> {
        let mut target = root.path().to_owned();
        for (n, query) in [root.query(), self.query.as_deref()]
            .into_iter()
            .flatten()
            .enumerate()
        {
            target.push(if n == 0 { '?' } else { '&' });
            target.push_str(query);
        }
        let mut parts = root.into_parts();
        let unfit = || NotCallable::from("the query cannot be passed on");
        parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| unfit())?);
        Uri::from_parts(parts).map_err(|_| unfit())
    }
}
