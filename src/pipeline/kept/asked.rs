//! What is asked, of whom, and with which keys.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use hyper::body::{Body as _, Incoming};

use holdline_core::failure::FailureClass;
use holdline_core::ids::ProviderId;
use holdline_core::routing::{Pin, Target};

use super::super::admit::Sender;
use super::super::failed::Failed;
use super::super::upstream::sent::Broken;
use super::super::{Pipeline, admit, allowed};
use super::upload::{self, Door, Session};
use crate::api::error::ApiError;
use crate::api::kept::Kept;
use crate::api::routes::percent_decoded;
use crate::config::governance::VirtualKey;
use crate::config::{Catalog, Key, Provider, Secret};
use crate::node::Live;
use crate::protocols::Protocol;
use crate::protocols::kept::{Collection, Verb};
use crate::providers::Kind;

/// Keys that are asked for one thing.
const MAX_KEYS: usize = 32;

/// Bodies up to this size are read before they are sent, so that they can be sent again.
const REPLAYABLE_BYTES: u64 = 1 << 20;

/// The header that names a provider; the query's `provider` comes before it.
const PROVIDER_HEADER: &str = "x-model-provider";

/// A request, admitted.
pub(super) struct Asked {
    /// The request's.
    pub(super) id: String,
    pub(super) kept: Kept,
    pub(super) verb: Verb,
    pub(super) method: Method,
    /// Without what is ours.
    pub(super) query: Option<String>,
    /// How the client reaches this.
    pub(super) door: Option<Door>,
    /// The client named the provider.
    pub(super) is_named: bool,
    /// It is a later piece of an upload.
    pub(super) goes_on: bool,
    pub(super) provider: Arc<Provider>,
    /// In the order in which they are asked; one without a key where the provider wants none.
    pub(super) keys: Vec<Option<Arc<Key>>>,
    /// The caller's own key: then no other is asked.
    pub(super) own_key: Option<Secret>,
    pub(super) caller: Option<Arc<VirtualKey>>,
    pub(super) deadline: Option<Instant>,
    pub(super) extra_headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) client_headers: HeaderMap,
    /// The body's type, and what else says what it is.
    pub(super) content_headers: HeaderMap,
    max_body_bytes: usize,
}

/// The body as it came.
pub(super) enum Given {
    /// Read; possibly nothing.
    Whole(Bytes),
    /// Too large to be kept, at most of so many bytes.
    Unread(Incoming, usize),
}

impl Asked {
    /// Reads the request, or says what to change about it.
    pub(super) async fn read(
        pipeline: &Pipeline,
        request: Request<Incoming>,
        (kept, verb): (Kept, Verb),
        id: &str,
        arrived: Instant,
    ) -> Result<(Self, Given), ApiError> {
        let live = Arc::clone(&pipeline.node.live());
        let catalog = &live.catalog;
        let headers = request.headers();
        let query = Query::read(request.uri().query(), kept.collection);
        let session = Session::find(catalog, &query, pipeline.node.clock.wall());
        let caller = caller(pipeline, headers, catalog, session.as_ref())?;
        query.check(kept.collection)?;
        let named = match &query.provider {
            Some(name) => Some(name.clone()),
            None => named_by_header(headers)?,
        };
        let provider = provider(catalog, named.as_deref(), kept.collection)?;
        if !provider.custom.takes(verb.kind) {
            let told = allowed::told_of(provider.id.as_str(), verb.kind);
            return Err(allowed::refusal(told));
        }
        let target = Target {
            // Where own keys are for providers that are named, the route's usual one is not.
            provider: named.as_ref().map(|_| provider.id.clone()),
            model: "".into(),
        };
        let mut own_key = admit::direct_key(headers, catalog, &target)?;
        let keys = if let Some(session) = &session {
            own_key = None;
            vec![Some(Arc::clone(&session.key))]
        } else if own_key.is_some() {
            vec![None]
        } else {
            let pin = admit::pin(headers)?;
            keys(&live, &provider, kept.collection, pin.as_ref())?
        };
        if kept.collection == Collection::GoogleUploads {
            let has_key = keys.iter().flatten().next().is_some();
            upload::check(&query, session.is_some(), headers, has_key)?;
        }
        let max_body_bytes = catalog.client.max_body_bytes;
        let deadline = admit::deadline(headers, arrived)?;
        let extra_headers = admit::extra_headers(headers);
        let client_headers = admit::client_headers(headers);
        let content_headers = content_headers(headers, kept.collection);
        let door = Door::of(&request);
        let (sender, method) = (Sender::of(headers), request.method().clone());
        let body = given(verb, sender, request.into_body(), max_body_bytes).await?;
        let asked = Self {
            id: id.to_owned(),
            kept,
            verb,
            method,
            is_named: named.is_some(),
            goes_on: session.is_some(),
            query: session.map_or(query.rest, |session| Some(session.query())),
            door,
            provider,
            keys,
            own_key,
            caller,
            deadline,
            extra_headers,
            client_headers,
            content_headers,
            max_body_bytes,
        };
        Ok((asked, body))
    }

    /// A key that may not see the thing, or does not know it, says nothing about the others. What makes or
    /// lists things is asked of the next key also where this one's account can do no more at present.
    pub(super) fn is_anothers(&self, failed: &Failed) -> bool {
        let has_id = self.verb.has_id();
        let failure = &failed.failure;
        let spent = matches!(
            failure.class,
            FailureClass::Credential | FailureClass::Quota | FailureClass::RateLimit
        );
        matches!(failure.status, 401 | 403)
            || (failure.status == 404 && has_id)
            || (spent && !has_id)
    }

    /// Whether the same may be asked again: what only reads or deletes, and what reached nobody.
    pub(super) fn may_try_again(&self, failed: &Failed) -> bool {
        let passes = failed.failure.class == FailureClass::Transient;
        passes && (!self.verb.has_body() || failed.reached_nobody())
    }

    /// Of a body that did not get through.
    pub(super) fn broken_body(&self, broken: Broken) -> ApiError {
        let mut refusal = match broken {
            Broken::TooLarge => admit::too_large(self.max_body_bytes),
            Broken::Client => ApiError::caller(StatusCode::BAD_REQUEST, broken.to_string()),
        };
        refusal.extra_fields.request_type = Some(self.verb.kind);
        refusal
    }
}

/// Who asks. A later piece of an upload is asked for less: its begin showed the rest.
fn caller(
    pipeline: &Pipeline,
    headers: &HeaderMap,
    catalog: &Catalog,
    session: Option<&Session>,
) -> Result<Option<Arc<VirtualKey>>, ApiError> {
    if let Some(session) = session {
        return session.caller(pipeline, headers);
    }
    admit::required_headers(headers, catalog)?;
    pipeline.caller(headers)
}

/// The body, where the verb has one: read where it is small, else left where it is.
async fn given(
    verb: Verb,
    sender: Sender,
    body: Incoming,
    limit: usize,
) -> Result<Given, ApiError> {
    if !verb.has_body() {
        return Ok(Given::Whole(Bytes::new()));
    }
    let stated = body.size_hint();
    let is_small = stated
        .exact()
        .is_some_and(|bytes| bytes <= REPLAYABLE_BYTES);
    if is_small || stated.lower() > limit as u64 {
        return Ok(Given::Whole(admit::read_body(body, sender, limit).await?));
    }
    Ok(Given::Unread(body, limit))
}

/// What the query says: to us, and besides.
#[derive(Default)]
pub(super) struct Query {
    pub(super) provider: Option<String>,
    /// The key of an upload that goes on, and the rest of its address.
    pub(super) key_id: Option<String>,
    pub(super) session: Option<String>,
    /// For the provider.
    rest: Option<String>,
    streams: bool,
}

impl Query {
    pub(super) fn read(query: Option<&str>, collection: Collection) -> Self {
        let mut read = Self::default();
        let is_upload = collection == Collection::GoogleUploads;
        let is_googles = collection.protocol() == Protocol::Generate;
        let mut rest = Vec::new();
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = || Some(percent_decoded(value));
            match name {
                "provider" => read.provider = text(),
                "key_id" if is_upload => read.key_id = text(),
                "session" if is_upload => read.session = text(),
                // A credential of the client's, as Google takes it.
                "key" if is_googles => {}
                "" => {}
                _ => {
                    read.streams |= name == "stream" && value != "false";
                    rest.push(pair);
                }
            }
        }
        read.rest = (!rest.is_empty()).then(|| rest.join("&"));
        read
    }

    fn check(&self, collection: Collection) -> Result<(), ApiError> {
        if !self.streams || collection != Collection::Responses {
            return Ok(());
        }
        let message = "`stream` is not passed on for a response that is kept: ask for it without, until its `status` says that it is over";
        let mut refusal = ApiError::caller(StatusCode::BAD_REQUEST, message);
        refusal.error.param = Some("stream".to_owned());
        Err(refusal)
    }
}

/// What the client says its body is.
fn content_headers(headers: &HeaderMap, collection: Collection) -> HeaderMap {
    let names = collection.headers().iter().copied();
    let names = names.map(HeaderName::from_static).chain([CONTENT_TYPE]);
    let said = names.filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
    said.collect()
}

fn named_by_header(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(PROVIDER_HEADER) else {
        return Ok(None);
    };
    let text = value.to_str().ok().map(str::trim);
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        let message = format!("{PROVIDER_HEADER} must be a provider's name in plain text");
        ApiError::caller(StatusCode::BAD_REQUEST, message)
    })
}

fn provider(
    catalog: &Catalog,
    named: Option<&str>,
    collection: Collection,
) -> Result<Arc<Provider>, ApiError> {
    let name = named.unwrap_or(collection.usual());
    let what = collection.words();
    let shown: String = name.chars().take(64).collect();
    let found = catalog.providers.get(&ProviderId::from(name));
    let provider = found.ok_or_else(|| {
        let message = format!(
            "the provider \"{shown}\" is not configured: name the one that keeps the {what} with ?provider= or {PROVIDER_HEADER}"
        );
        ApiError::caller(StatusCode::BAD_REQUEST, message)
    })?;
    if !keeps(provider, collection) {
        let message = format!(
            "the provider \"{shown}\" keeps no {what} of this kind: name the one that does with ?provider= or {PROVIDER_HEADER}"
        );
        return Err(ApiError::caller(StatusCode::BAD_REQUEST, message));
    }
    Ok(Arc::clone(provider))
}

fn keeps(provider: &Provider, collection: Collection) -> bool {
    match collection {
        Collection::Responses => provider.speaks.contains(&Protocol::Responses),
        Collection::Files | Collection::Uploads | Collection::Batches | Collection::Containers => {
            matches!(provider.kind, Kind::OpenAi | Kind::Azure)
        }
        Collection::AnthropicFiles | Collection::MessageBatches => provider.kind == Kind::Anthropic,
        Collection::GoogleUploads
        | Collection::GoogleFiles
        | Collection::GoogleBatches
        | Collection::GoogleModels
        | Collection::GoogleCaches => provider.kind == Kind::Gemini,
    }
}

/// The keys that may be asked: the pinned one, else of files and batches those for batches where some are,
/// those that are held behind the others.
fn keys(
    live: &Live,
    provider: &Provider,
    collection: Collection,
    pin: Option<&Pin>,
) -> Result<Vec<Option<Arc<Key>>>, ApiError> {
    if provider.keyless {
        return Ok(vec![None]);
    }
    let enabled = provider.keys.iter().filter(|key| key.spec.enabled);
    if let Some(pin) = pin {
        let is_pinned = |key: &&Arc<Key>| match pin {
            Pin::Id(id) => key.spec.id == *id,
            Pin::Name(name) => key.spec.name == *name,
        };
        let found = enabled.clone().find(is_pinned).ok_or_else(|| {
            let message = format!("the key that is asked for is none of {}'s", provider.id);
            ApiError::caller(StatusCode::BAD_REQUEST, message)
        })?;
        return Ok(vec![Some(Arc::clone(found))]);
    }
    let some_for_batches =
        collection.is_for_batches() && enabled.clone().any(|key| key.for_batches);
    let fit = enabled.filter(|key| key.for_batches || !some_for_batches);
    let is_held = |key: &Arc<Key>| {
        let seen = live.view.provider(&provider.id);
        let seen = seen.and_then(|seen| seen.key(&key.spec.id));
        let hold = seen.and_then(|seen| seen.holds.key.as_ref());
        hold.is_some_and(|hold| hold.register.is_held())
    };
    let (held, free): (Vec<_>, Vec<_>) = fit.cloned().partition(is_held);
    let all = free.into_iter().chain(held).map(Some);
    Ok(all.take(MAX_KEYS).collect())
}
