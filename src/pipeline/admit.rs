//! Who asks for what: headers and body of a request, read and bounded before anything is decided.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Incoming};

use holdline_core::ids::{KeyId, ModelId, ProviderId};
use holdline_core::routing::{ModelRule, Pin, RequestFacts, Target};

use super::caller::bearer;
use super::edit::{EditError, JsonBody};
use super::outgoing::REQUEST_ID;
use super::session::Session;
use crate::api::error::ApiError;
use crate::api::routes::Route;
use crate::config::governance::is_virtual;
use crate::config::{Catalog, Key, Secret, builtin};
use crate::protocols::{Malformed, talk};
use crate::providers::CLIENT_HEADERS;

/// Longest `x-request-id` that is taken over.
const MAX_ID: usize = 128;

/// Longest pin that is looked up.
const MAX_PIN: usize = 256;

/// A body that does not arrive within this time is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);

static PIN_BY_ID_HEADER: HeaderName = HeaderName::from_static("x-bf-api-key-id");
static PIN_BY_NAME_HEADER: HeaderName = HeaderName::from_static("x-bf-api-key");
static DIRECT_KEY_HEADER: HeaderName = HeaderName::from_static("x-bf-direct-key");
static TIMEOUT_HEADER: HeaderName = HeaderName::from_static("x-bf-request-timeout-ms");

/// Prefix of the headers that go up under the name behind it.
const EXTRA_HEADER: &str = "x-bf-eh-";

/// What callers may not set at a provider: credentials, hop-by-hop headers, the gateway's own.
const NEVER_EXTRA: [&str; 16] = [
    "accept-encoding",
    "api-key",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
];

/// A request, admitted.
#[derive(Debug)]
pub(super) struct Inbound {
    /// How it came: what its client speaks.
    pub(super) route: Route,
    /// The body, to be edited.
    pub(super) body: JsonBody,
    /// For planning.
    pub(super) facts: RequestFacts,
    /// The caller's own key.
    pub(super) direct_key: Option<Secret>,
    /// The session that it is part of.
    pub(super) session: Option<Session>,
    /// When the caller wants no answer any more.
    pub(super) deadline: Option<Instant>,
    /// What the caller wants the provider to be told.
    pub(super) extra_headers: Vec<(HeaderName, HeaderValue)>,
    /// Those of the client's own that some provider knows.
    pub(super) client_headers: HeaderMap,
    /// Of a body that is no JSON.
    pub(super) content_type: Option<HeaderValue>,
    /// The body read in full, for providers that speak something else: read once, when first needed.
    talk: OnceLock<Result<talk::Request, Malformed>>,
    /// The same of texts that become vectors.
    texts: OnceLock<Result<talk::Texts, Malformed>>,
}

/// The caller's `x-request-id`, if it is fit to be logged and answered, else a fresh one. Fresh ones
/// sort by time: records then go to the end of the index, not all over it.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|v| v.to_str().ok());
    given
        .filter(|id| {
            !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(|b| b.is_ascii_graphic())
        })
        .map_or_else(|| uuid::Uuid::now_v7().to_string(), str::to_owned)
}

impl Inbound {
    /// Reads the request, or says what to change about it.
    pub(super) async fn read(
        route: Route,
        headers: &HeaderMap,
        body: Incoming,
        catalog: &Catalog,
        arrived: Instant,
    ) -> Result<Self, ApiError> {
        required_headers(headers, catalog)?;
        plain_body(headers)?;
        let sender = Sender::of(headers);
        let bytes = read_body(body, sender, catalog.client.max_body_bytes).await?;
        Self::parse(route, headers, bytes, catalog, arrived)
    }

    /// As answers and records name it.
    pub(super) const fn request_type(&self) -> &'static str {
        self.route.request_type(self.body.stream)
    }

    fn parse(
        route: Route,
        headers: &HeaderMap,
        bytes: Bytes,
        catalog: &Catalog,
        arrived: Instant,
    ) -> Result<Self, ApiError> {
        let edits = route.protocol.spoken().edits();
        let content_type = headers.get(CONTENT_TYPE).filter(|_| edits.form).cloned();
        let read = if edits.form {
            let kind = content_type.as_ref().and_then(|v| v.to_str().ok());
            JsonBody::parse_form(bytes, edits, kind.unwrap_or_default())
        } else if route.model.is_some() {
            JsonBody::parse_named(bytes, edits)
        } else {
            JsonBody::parse(bytes, edits)
        };
        let mut body = read.map_err(refused_body)?;
        body.stream |= route.stream;
        if let Some(model) = &route.model {
            body.model.clone_from(model);
        }
        let target = split(&body.model, catalog);
        let kind = route.request_type(body.stream);
        let target = of_family(target, &route, catalog, kind);
        if target.model.as_str().trim().is_empty() {
            return Err(bad(
                "`model` names a provider but no model: send \"provider/model\"",
            ));
        }
        let fallbacks = body.fallbacks.iter().map(|name| split(name, catalog));
        let fallbacks = fallbacks.filter(|t| !t.model.as_str().is_empty()).collect();
        let direct_key = direct_key(headers, catalog, &target)?;
        Ok(Self {
            route,
            facts: RequestFacts {
                target,
                fallbacks,
                pin: pin(headers)?,
                rule_pin: None,
                direct_key: direct_key.is_some(),
                session: None,
            },
            direct_key,
            session: None,
            deadline: deadline(headers, arrived)?,
            extra_headers: extra_headers(headers),
            client_headers: client_headers(headers),
            content_type,
            body,
            talk: OnceLock::new(),
            texts: OnceLock::new(),
        })
    }

    /// What is asked, in no protocol's words.
    pub(super) fn talk(&self) -> Result<&talk::Request, &Malformed> {
        let read = || self.route.protocol.spoken().read_request(&self.body.bytes);
        self.talk.get_or_init(read).as_ref()
    }

    /// The texts that are to become vectors.
    pub(super) fn texts(&self) -> Result<&talk::Texts, &Malformed> {
        let read = || self.route.protocol.spoken().read_texts(&self.body.bytes);
        self.texts.get_or_init(read).as_ref()
    }
}

/// Refuses a request without the headers that the operator wants.
pub(super) fn required_headers(headers: &HeaderMap, catalog: &Catalog) -> Result<(), ApiError> {
    let mut wanted = catalog.client.required_headers.iter();
    match wanted.find(|name| !headers.contains_key(name.as_str())) {
        Some(name) => Err(bad(format!(
            "the header {name} is required here and was not sent"
        ))),
        None => Ok(()),
    }
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::caller(StatusCode::BAD_REQUEST, message)
}

fn refused_body(error: EditError) -> ApiError {
    let mut refusal = bad(error.to_string());
    refusal.error.param = match error {
        EditError::NoModel | EditError::BadModel => Some("model".to_owned()),
        EditError::BadStream => Some("stream".to_owned()),
        EditError::NotJson(_)
        | EditError::NotAnObject
        | EditError::NotAForm
        | EditError::TooDeep
        | EditError::TooManyCuts => None,
    };
    refusal
}

/// Bodies are edited, and nobody packs small ones: packed ones are refused in words, not as broken JSON.
fn plain_body(headers: &HeaderMap) -> Result<(), ApiError> {
    let coding = headers.get(CONTENT_ENCODING);
    let is_plain = |coding: &HeaderValue| {
        let coding = coding.as_bytes().trim_ascii();
        coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")
    };
    if coding.is_none_or(is_plain) {
        return Ok(());
    }
    Err(ApiError::caller(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "the body must not be compressed: send it without Content-Encoding",
    ))
}

/// Who sends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Sends it at once, and listens when all is sent.
    Eager,
    /// Waits to be told to: `Expect: 100-continue`.
    Waiting,
}

impl Sender {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let waits = |expects: &HeaderValue| {
            let expects = expects.as_bytes().trim_ascii();
            expects.eq_ignore_ascii_case(b"100-continue")
        };
        if headers.get(EXPECT).is_some_and(waits) {
            Self::Waiting
        } else {
            Self::Eager
        }
    }
}

/// The body, unless it is too large: then it is not read to its end.
pub(super) async fn read_body(
    mut body: Incoming,
    sender: Sender,
    limit: usize,
) -> Result<Bytes, ApiError> {
    let stated = body.size_hint().lower();
    if stated > limit as u64 {
        // Whoever waits is answered before anything was sent: reading would ask for it.
        if sender == Sender::Eager {
            tokio::spawn(discard(body));
        }
        return Err(too_large(limit));
    }
    let until = tokio::time::Instant::now() + BODY_TIMEOUT;
    let mut whole = BytesMut::new();
    let mut only = Bytes::new();
    loop {
        let frame = tokio::time::timeout_at(until, body.frame())
            .await
            .map_err(|_| {
                ApiError::caller(
                    StatusCode::REQUEST_TIMEOUT,
                    "the body did not arrive in time",
                )
            })?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| bad("the body ended early or is badly framed"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if only.len() + whole.len() + data.len() > limit {
            tokio::spawn(discard(body));
            return Err(too_large(limit));
        }
        if whole.is_empty() && only.is_empty() {
            only = data;
            continue;
        }
        if whole.is_empty() {
            let stated = usize::try_from(stated).unwrap_or(0);
            whole.reserve(stated.max(only.len() + data.len()));
            whole.extend_from_slice(&std::mem::take(&mut only));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() {
        only
    } else {
        whole.freeze()
    })
}

/// Of a body of more bytes than these.
pub(super) fn too_large(limit: usize) -> ApiError {
    ApiError::caller(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!(
            "the body is larger than {} MB: send less, or raise `client.max_request_body_size_mb`",
            limit >> 20
        ),
    )
}

/// Reads on for a little while, beside the answer, so that ordinary clients, which listen only once they have
/// sent all, hear the refusal instead of a reset connection.
async fn discard(mut body: Incoming) {
    const ENOUGH_BYTES: usize = 16 << 20;
    const ENOUGH_TIME: Duration = Duration::from_secs(3);
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > ENOUGH_BYTES {
                break;
            }
        }
    };
    // Late or not, the refusal was answered.
    let _ = tokio::time::timeout(ENOUGH_TIME, reading).await;
}

/// Splits at the first slash behind a provider: a configured one, or one that is known by name. Other
/// slashes belong to the model.
pub(super) fn split(name: &str, catalog: &Catalog) -> Target {
    let name = name.trim();
    match name.split_once('/') {
        Some((provider, model)) if is_provider(provider, name, catalog) => Target {
            provider: Some(ProviderId::from(provider)),
            model: ModelId::from(model),
        },
        Some(_) | None => Target {
            provider: None,
            model: ModelId::from(name),
        },
    }
}

/// A bare model on a vendor's own route is asked of that vendor, if it is configured and a key of it
/// serves the model and it takes such requests.
fn of_family(target: Target, route: &Route, catalog: &Catalog, kind: &str) -> Target {
    let family = route.family.filter(|_| target.provider.is_none());
    let provider = family.and_then(|name| catalog.providers.get(name));
    let serving = provider.filter(|provider| {
        let mut keys = provider.keys.iter();
        provider.custom.takes(kind)
            && (provider.keyless || keys.any(|key| key.spec.serves(target.model.as_str())))
    });
    Target {
        provider: serving.map(|p| p.id.clone()).or(target.provider),
        ..target
    }
}

/// Whether the text before the first slash names a provider. That of a provider which is not
/// configured does, unless some key lists the whole name as a model: asking everybody who serves any
/// model would get keys refused for it.
fn is_provider(prefix: &str, name: &str, catalog: &Catalog) -> bool {
    let lists = |key: &Key| {
        let ModelRule::Only(models) = &key.spec.models else {
            return key.spec.aliases.contains_key(name);
        };
        models.contains(name) || key.spec.aliases.contains_key(name)
    };
    let keys = || catalog.providers.values().flat_map(|p| p.keys.iter());
    catalog.providers.contains_key(prefix)
        || builtin::find(prefix).is_some() && !keys().any(|key| lists(key))
}

/// The key that the caller asks for.
pub(super) fn pin(headers: &HeaderMap) -> Result<Option<Pin>, ApiError> {
    let read = |name: &HeaderName| -> Result<Option<String>, ApiError> {
        let Some(value) = headers.get(name) else {
            return Ok(None);
        };
        let text = value.to_str().ok().map(str::trim);
        let text = text.filter(|t| !t.is_empty() && t.len() <= MAX_PIN);
        text.map(|t| Some(t.to_owned()))
            .ok_or_else(|| bad(format!("{name} must be a key's id or name in plain text")))
    };
    if let Some(id) = read(&PIN_BY_ID_HEADER)? {
        return Ok(Some(Pin::Id(KeyId::from(id))));
    }
    Ok(read(&PIN_BY_NAME_HEADER)?.map(Pin::Name))
}

/// The key that the caller brings, where it asks for that and may.
pub(super) fn direct_key(
    headers: &HeaderMap,
    catalog: &Catalog,
    target: &Target,
) -> Result<Option<Secret>, ApiError> {
    let asked = headers
        .get(&DIRECT_KEY_HEADER)
        .is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"true"));
    if !asked || !catalog.client.allow_direct_keys {
        return Ok(None);
    }
    if catalog.client.direct_keys_need_named_provider && target.provider.is_none() {
        return Ok(None);
    }
    let text = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let candidates = [
        bearer(headers),
        text(HeaderName::from_static("x-api-key")),
        text(HeaderName::from_static("x-goog-api-key")),
    ];
    let key = candidates
        .into_iter()
        .flatten()
        .find(|key| !key.is_empty() && !is_virtual(key));
    key.map(|key| Some(Secret::from(key.to_owned()))).ok_or_else(|| {
        bad("x-bf-direct-key is set, but neither Authorization nor x-api-key has a provider key")
    })
}

/// When the caller wants no answer any more.
pub(super) fn deadline(headers: &HeaderMap, arrived: Instant) -> Result<Option<Instant>, ApiError> {
    let Some(value) = headers.get(&TIMEOUT_HEADER) else {
        return Ok(None);
    };
    let ms = value
        .to_str()
        .ok()
        .and_then(|v| v.trim().parse::<u32>().ok());
    match ms {
        Some(ms @ 1..) => Ok(Some(arrived + Duration::from_millis(ms.into()))),
        Some(0) | None => Err(bad(
            "x-bf-request-timeout-ms must be a whole number of milliseconds above 0",
        )),
    }
}

/// Those of the client's own headers that some provider knows.
pub(super) fn client_headers(headers: &HeaderMap) -> HeaderMap {
    let mut known = HeaderMap::new();
    for name in &CLIENT_HEADERS {
        for value in headers.get_all(name) {
            known.append(name.clone(), value.clone());
        }
    }
    known
}

/// What the caller wants the provider to be told.
pub(super) fn extra_headers(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let wanted = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(EXTRA_HEADER)?;
        let is_ours = name.starts_with("x-bf-") || name.starts_with("proxy-");
        if is_ours || name.contains("api-key") || NEVER_EXTRA.contains(&name) {
            return None;
        }
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value.clone()))
    });
    wanted.collect()
}

#[cfg(test)]
mod tests;
