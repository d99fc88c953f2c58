//! The request to a provider: the client's bytes with the model's name spliced in where both sides speak
//! the same, a conversion where they do not; then address, headers, credentials.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use tracing::info;

use super::course::{Course, Flight};
use super::edit::reshaped;
use super::failed::{Failed, Judge};
use super::tokens::Tokens;
use crate::config::Network;
use crate::protocols::{Malformed, Protocol, To, dropped};
use crate::providers::{Adapter, Call, NotCallable, address};

/// How the gateway names itself to providers.
const PRODUCT: &str = concat!("holdline/", env!("CARGO_PKG_VERSION"));

/// The request's id, in both directions.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names that are told of what was dropped.
const MAX_TOLD: usize = 32;

/// A request to a provider, without its credentials.
pub(super) struct Outgoing<'a> {
    pub(super) adapter: &'static dyn Adapter,
    pub(super) call: Call<'a>,
    /// What the provider's protocol cannot say, in the client's names.
    pub(super) dropped: Vec<String>,
    body: Bytes,
}

impl<'a> Outgoing<'a> {
    /// Writes the body, or says why it cannot be written for this provider.
    pub(super) fn build(course: &'a Course, flight: &'a Flight) -> Result<Self, Failed> {
        let (inbound, provider) = (&course.inbound, &flight.provider);
        let route = &inbound.route;
        let kind = inbound.request_type();
        if !provider.custom.takes(kind) {
            return Err(Failed::not_taken(provider.id.as_str(), kind));
        }
        let model = flight.upstream_model();
        let key = flight.key.as_deref();
        let asked = flight.attempt.model.as_str();
        let alias = key.and_then(|key| key.alias_details.get(asked));
        let spoken = provider.protocol_for(route.protocol, route.operation, model, alias);
        let (Some(adapter), Some(protocol)) = (provider.kind.adapter(), spoken) else {
            let name = provider.id.as_str();
            return Err(Failed::not_spoken(name, route.protocol, route.operation));
        };
        let call = Call {
            provider,
            key,
            protocol,
            operation: route.operation,
            stream: inbound.body.stream,
            model,
            alias,
            client: &inbound.client_headers,
        };
        let name = adapter.body_model(&call);
        let (body, dropped) = if protocol == route.protocol {
            (inbound.body.for_upstream(&name), Vec::new())
        } else {
            converted(course, protocol, &call, adapter.like(&call), &name)?
        };
        let reshape = adapter.reshape(&call);
        let body = reshaped(body, &reshape)
            .map_err(|error| Failed::unconvertible("body", &error.to_string()))?;
        Ok(Self {
            adapter,
            call,
            dropped,
            body,
        })
    }

    /// Addresses and signs it. A token that is not at hand is granted first.
    pub(super) async fn finish(
        self,
        course: &Course,
        judge: &mut Judge,
        tokens: &Tokens,
    ) -> Result<Request<Bytes>, Failed> {
        let misconfigured = |error: NotCallable| Failed::misconfigured(&error.to_string());
        let uri = address(self.adapter, &self.call).map_err(misconfigured)?;
        let mut request = Request::new(self.body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        let json = || HeaderValue::from_static("application/json");
        let content_type = course.inbound.content_type.clone();
        headers.insert(CONTENT_TYPE, content_type.unwrap_or_else(json));
        let accepted = if self.call.stream {
            "text/event-stream"
        } else if self.call.protocol.answers_json() {
            "application/json"
        } else {
            "*/*"
        };
        headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        let network = &self.call.provider.network;
        introduce(
            headers,
            Some(&course.id),
            network,
            &course.inbound.extra_headers,
        );
        let flight = course.flight.as_ref();
        let is_callers = flight.is_some_and(|flight| flight.attempt.direct_key);
        let (adapter, call) = (self.adapter, &self.call);
        tokens
            .prove(adapter, call, is_callers, judge, &mut request)
            .await?;
        Ok(request)
    }
}

/// Says who calls and for which request, then what the configuration and the caller want said instead or besides.
pub(super) fn introduce(
    headers: &mut HeaderMap,
    id: Option<&str>,
    network: &Network,
    callers: &[(HeaderName, HeaderValue)],
) {
    headers.insert(USER_AGENT, HeaderValue::from_static(PRODUCT));
    if let Some(id) = id.and_then(|id| HeaderValue::try_from(id).ok()) {
        headers.insert(REQUEST_ID, id);
    }
    for (name, value) in network.extra_headers.iter().chain(callers) {
        headers.insert(name, value.clone());
    }
}

fn converted(
    course: &Course,
    protocol: Protocol,
    call: &Call<'_>,
    provider: &str,
    model: &str,
) -> Result<(Bytes, Vec<String>), Failed> {
    let to = To {
        model,
        stream: call.stream,
        provider,
    };
    let (body, mut dropped) = if protocol.embeds() {
        texts(course, protocol, to)?
    } else {
        talk(course, protocol, to)?
    };
    dropped.truncate(MAX_TOLD);
    if !dropped.is_empty() {
        info!(
            request = course.id,
            provider = call.provider.id.as_str(),
            fields = dropped.join(", "),
            "left out what the provider's protocol cannot say"
        );
    }
    Ok((body, dropped))
}

fn talk(course: &Course, protocol: Protocol, to: To<'_>) -> Result<(Bytes, Vec<String>), Failed> {
    let client = course.inbound.route.protocol.spoken();
    let request = course.inbound.talk().map_err(unread)?;
    let written = protocol.spoken().write_request(request, to);
    let written = written.map_err(|unsupported| {
        let name = client.name_of(unsupported.field);
        Failed::unconvertible(name, &format!("`{name}` {}", unsupported.message))
    })?;
    let dropped = dropped::of_request(client, request, &written);
    Ok((written.body, dropped))
}

fn texts(course: &Course, protocol: Protocol, to: To<'_>) -> Result<(Bytes, Vec<String>), Failed> {
    let client = course.inbound.route.protocol.spoken();
    let request = course.inbound.texts().map_err(unread)?;
    let written = protocol.spoken().write_texts(request, to);
    let written = written.map_err(|unsaid| {
        let name = client.name_of_text(unsaid.field);
        Failed::unconvertible(name, &format!("`{name}` {}", unsaid.message))
    })?;
    let dropped = dropped::of_texts(client, request, &written);
    Ok((written.body, dropped))
}

fn unread(malformed: &Malformed) -> Failed {
    let message = format!("`{}` {}", malformed.path, malformed.message);
    Failed::unconvertible(&malformed.path, &message)
}
