//! An answer on its way to the client: read as the client reads, never kept. Only what says where results are is
//! read before.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use holdline_core::failure::FailureClass;
use holdline_core::time::WallMs;

use super::super::Told;
use super::super::answer_headers;
use super::super::decode::Decoder;
use super::super::failed::Failed;
use super::asked::Asked;
use super::record::Record;
use super::results::{self, Changed};
use super::send::Accepted;
use super::upload::{self, ADDRESS};
use crate::config::Key;
use crate::server::{Body, BodyError};

/// What a broken answer is recorded as: its status was sent before.
const BROKEN: Told = Told {
    class: Some(FailureClass::Transient),
    error_type: "provider_connection_failed",
};

/// An answer that is on its way, or in which addresses were changed.
pub(super) enum Taken {
    /// It moves through; the header says where the client sends the pieces of an upload.
    Passing(Box<Accepted>, Option<HeaderValue>),
    /// It was read.
    Changed(Changed),
}

impl Taken {
    /// The answer of a call with this key.
    pub(super) async fn of(
        accepted: Accepted,
        asked: &Asked,
        key: Option<&Key>,
        now: WallMs,
    ) -> Result<Self, Failed> {
        if results::are_told(asked) {
            return results::change(asked, accepted).await.map(Self::Changed);
        }
        let address = upload::address(asked, key, accepted.response.headers(), now)?;
        Ok(Self::Passing(Box::new(accepted), address))
    }

    /// For the client.
    pub(super) fn into_response(self, asked: &Asked, mut record: Record) -> Response<Body> {
        match self {
            Self::Passing(accepted, address) => passed(*accepted, asked, address, record),
            Self::Changed(changed) => {
                let response = changed.into_response();
                record.end(response.status().as_u16(), None);
                response
            }
        }
    }
}

/// The provider's status, type and body.
fn passed(
    accepted: Accepted,
    asked: &Asked,
    address: Option<HeaderValue>,
    record: Record,
) -> Response<Body> {
    let (head, upstream) = accepted.response.into_parts();
    let mut headers = answer_headers::of(&head.headers, &accepted.judge);
    let kind = head.headers.get(CONTENT_TYPE).cloned();
    let json = || HeaderValue::from_static("application/json");
    if kind.is_some() || !upstream.is_end_stream() {
        headers.insert(CONTENT_TYPE, kind.unwrap_or_else(json));
    }
    if let Some(address) = address {
        headers.insert(ADDRESS, address);
    }
    let patience = asked.provider.network.stream_idle_timeout;
    let callers = asked.deadline.map(Instant::from_std);
    let body = Passed {
        upstream,
        decoder: Decoder::of(&head.headers),
        status: head.status.as_u16(),
        patience,
        silence: Box::pin(tokio::time::sleep(patience)),
        callers: callers.map(|at| Box::pin(tokio::time::sleep_until(at))),
        record,
    };
    let mut response = Response::new(Body::stream(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = headers;
    response
}

/// The body of such an answer.
struct Passed {
    upstream: Incoming,
    decoder: Decoder,
    status: u16,
    patience: Duration,
    silence: Pin<Box<Sleep>>,
    callers: Option<Pin<Box<Sleep>>>,
    record: Record,
}

impl Passed {
    fn breaks(&mut self, message: &str) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.record.end(self.status, Some(BROKEN));
        Poll::Ready(Some(Err(message.into())))
    }

    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let callers = self.callers.as_mut();
        let callers = callers.is_some_and(|at| at.as_mut().poll(context).is_ready());
        callers || self.silence.as_mut().poll(context).is_ready()
    }
}

impl HttpBody for Passed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let passed = self.get_mut();
        loop {
            let frame = match Pin::new(&mut passed.upstream).poll_frame(context) {
                Poll::Pending if passed.is_late(context) => {
                    return passed.breaks("the provider's answer came to a halt");
                }
                Poll::Pending => return Poll::Pending,
                Poll::Ready(frame) => frame,
            };
            let until = Instant::now() + passed.patience;
            passed.silence.as_mut().reset(until);
            let data = match frame {
                None => {
                    passed.record.end(passed.status, None);
                    return Poll::Ready(None);
                }
                Some(Err(_)) => return passed.breaks("the provider cut the answer off"),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            match passed.decoder.decode(data) {
                Err(_) => return passed.breaks("the answer cannot be unpacked"),
                Ok(data) if data.is_empty() => {}
                Ok(data) => {
                    if passed.upstream.is_end_stream() {
                        passed.record.end(passed.status, None);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.upstream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.decoder {
            Decoder::Plain => self.upstream.size_hint(),
            Decoder::Gzip(_) | Decoder::Zlib(_) | Decoder::Unknown => SizeHint::default(),
        }
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        // An answer without a body is never polled.
        if self.upstream.is_end_stream() {
            self.record.end(self.status, None);
        }
    }
}
