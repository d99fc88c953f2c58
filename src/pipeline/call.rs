//! One call to a provider: sent, awaited within its limits, read. Never retried here, never judged
//! beyond what it was: an answer, the start of a stream, or a failure.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::answer_headers;
use super::convert;
use super::course::Course;
use super::decode::Decoder;
use super::failed::{Failed, Judge, Late};
use super::opening::{self, Opened};
use super::outgoing::Outgoing;
use super::tokens::Tokens;
use super::upstream::Upstream;
use crate::protocols::Protocol;
use crate::protocols::talk::Usage;

/// The largest answer that is taken from a provider.
const MAX_ANSWER_BYTES: usize = 128 << 20;

/// The largest error body that is read: more is cut.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A served attempt.
pub(super) enum Reply {
    /// As a whole, in the client's protocol.
    Whole {
        headers: HeaderMap,
        body: Bytes,
        usage: Option<Usage>,
        /// Of the request, what could not be said.
        dropped: Vec<String>,
    },
    /// A stream whose first real output is here.
    Stream(Box<Opened>),
}

/// When an attempt must be over, by whose clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) providers: Instant,
    /// What the trail calls it.
    pub(super) label: &'static str,
    pub(super) callers: Option<Instant>,
}

impl Limit {
    /// Waits for the work, or says whose clock ran out.
    pub(super) async fn race<T>(self, work: impl Future<Output = T>) -> Result<T, Late> {
        let (at, late) = match self.callers {
            Some(callers) if callers <= self.providers => (callers, Late::Caller),
            Some(_) | None => (self.providers, Late::Provider(self.label)),
        };
        tokio::time::timeout_at(at, work).await.map_err(|_| late)
    }
}

/// Makes the attempt that was launched last.
pub(super) async fn call(
    course: &Course,
    upstream: &Upstream,
    tokens: &Tokens,
) -> Result<Reply, Failed> {
    let flight = course.flight.as_ref().expect("a call follows a launch");
    let network = &flight.provider.network;
    let mut judge = Judge::of(course, flight);
    let mut outgoing = Outgoing::build(course, flight)?;
    let dropped = std::mem::take(&mut outgoing.dropped);
    let protocol = outgoing.call.protocol;
    let start = Instant::now();
    let limit = Limit {
        providers: start + network.request_timeout,
        label: "request_timed_out",
        callers: course.inbound.deadline.map(Instant::from_std),
    };
    let first_token = network.first_token_timeout.map(|limit| start + limit);
    let to_headers = match first_token.filter(|_| course.inbound.body.stream) {
        Some(providers) if providers < limit.providers => Limit {
            providers,
            label: "ttft_timeout",
            ..limit
        },
        Some(_) | None => limit,
    };
    let late = |late| Failed::late(late, network.request_timeout);
    let exchange = async {
        let request = outgoing.finish(course, &mut judge, tokens).await?;
        let response = upstream.send(network, request).await;
        response.map_err(|error| Failed::transport(&error))
    };
    let response = to_headers.race(exchange).await.map_err(late)??;
    if !response.status().is_success() {
        return Err(refused(response, limit, &judge).await);
    }
    flight.note_limits(&course.node, response.headers());
    if course.inbound.body.stream && is_event_stream(response.headers()) {
        let mut opened = opening::open(flight, response, limit, start, judge, protocol).await?;
        opened.dropped = dropped;
        return Ok(Reply::Stream(Box::new(opened)));
    }
    let timeout = network.request_timeout;
    let (headers, body) = whole(timeout, response, limit, &judge, protocol).await?;
    let (body, usage) = answer(course, protocol, body)?;
    Ok(Reply::Whole {
        headers,
        body,
        usage,
        dropped,
    })
}

/// The answer as the client reads it, and what it cost.
fn answer(
    course: &Course,
    protocol: Protocol,
    body: Bytes,
) -> Result<(Bytes, Option<Usage>), Failed> {
    if protocol == course.inbound.route.protocol {
        let usage = protocol.spoken().usage(&body);
        return Ok((body, usage));
    }
    let (body, usage) = convert::answer(course, protocol, &body)?;
    Ok((body.into(), usage))
}

/// What a refusal says.
pub(super) async fn refused(response: Response<Incoming>, limit: Limit, judge: &Judge) -> Failed {
    let (head, body) = response.into_parts();
    let mut decoder = Decoder::of(&head.headers);
    // An error body that does not come is no reason to forget the status.
    let patience = Limit {
        providers: limit.providers.min(Instant::now() + Duration::from_secs(5)),
        ..limit
    };
    let mut read = BytesMut::new();
    let outcome = patience
        .race(read_into(
            &mut read,
            body,
            &mut decoder,
            OnLimit::Cut(MAX_ERROR_BYTES),
        ))
        .await;
    // What came until it broke or lingered is all that there is.
    match outcome {
        Ok(Ok(()) | Err(_)) | Err(Late::Provider(_)) => {}
        Err(late @ Late::Caller) => return Failed::late(late, Duration::ZERO),
    }
    judge.answer(head.status.as_u16(), &head.headers, &read)
}

async fn whole(
    timeout: Duration,
    response: Response<Incoming>,
    limit: Limit,
    judge: &Judge,
    protocol: Protocol,
) -> Result<(HeaderMap, Bytes), Failed> {
    let (headers, body) = read_whole(timeout, response, limit).await?;
    if let Some(failed) = judge.error_in(&headers, &body) {
        return Err(failed);
    }
    let json = protocol.answers_json();
    let body = if json { without_mark(body) } else { body };
    if json && !is_object(&body) {
        return Err(Failed::broken(
            "the provider's answer is no JSON object".to_owned(),
        ));
    }
    let mut shown = answer_headers::of(&headers, judge);
    let kind = headers.get(CONTENT_TYPE).filter(|_| !json);
    let json = || HeaderValue::from_static("application/json");
    shown.insert(CONTENT_TYPE, kind.cloned().unwrap_or_else(json));
    Ok((shown, body))
}

/// Some put a byte order mark before their JSON, which its readers refuse.
fn without_mark(body: Bytes) -> Bytes {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if body.starts_with(MARK) {
        body.slice(MARK.len()..)
    } else {
        body
    }
}

/// Whether it looks like a whole object: one that breaks off is no answer, whatever its status.
fn is_object(body: &[u8]) -> bool {
    let body = body.trim_ascii();
    body.starts_with(b"{") && body.ends_with(b"}")
}

/// The answer as a whole, unpacked.
pub(super) async fn read_whole(
    timeout: Duration,
    response: Response<Incoming>,
    limit: Limit,
) -> Result<(HeaderMap, Bytes), Failed> {
    let (head, body) = response.into_parts();
    let mut decoder = Decoder::of(&head.headers);
    let mut read = BytesMut::new();
    limit
        .race(read_into(
            &mut read,
            body,
            &mut decoder,
            OnLimit::Refuse(MAX_ANSWER_BYTES),
        ))
        .await
        .map_err(|late| Failed::late(late, timeout))?
        .map_err(Failed::broken)?;
    Ok((head.headers, read.freeze()))
}

/// What becomes of a body of more bytes than these.
#[derive(Clone, Copy, Debug)]
enum OnLimit {
    Cut(usize),
    Refuse(usize),
}

/// Reads the whole body. On an error, and when this is dropped, `all` has what came before.
async fn read_into(
    all: &mut BytesMut,
    mut body: Incoming,
    decoder: &mut Decoder,
    on_limit: OnLimit,
) -> Result<(), String> {
    let (OnLimit::Cut(limit) | OnLimit::Refuse(limit)) = on_limit;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "the provider cut the answer off".to_owned())?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let data = decoder
            .decode(data)
            .map_err(|e| format!("the answer cannot be unpacked: {e}"))?;
        if all.len() + data.len() > limit {
            return match on_limit {
                OnLimit::Cut(_) => {
                    all.extend_from_slice(&data[..limit - all.len()]);
                    Ok(())
                }
                OnLimit::Refuse(_) => Err(format!(
                    "the provider's answer is larger than {} MB",
                    limit >> 20
                )),
            };
        }
        all.extend_from_slice(&data);
    }
    Ok(())
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    kind.is_none_or(|kind| {
        let kind = kind.trim_start().to_ascii_lowercase();
        !kind.starts_with("application/json") && !kind.starts_with("text/html")
    })
}

/// Statuses that a provider may not give a client: informational ones and nonsense.
pub(super) fn client_status(status: u16) -> StatusCode {
    match StatusCode::from_u16(status) {
        Ok(status) if status.as_u16() >= 400 => status,
        Ok(_) | Err(_) => StatusCode::BAD_GATEWAY,
    }
}
