//! The start of a stream, before the client hears of it: until its first real output an error is
//! still recovered by another key or a fallback.
//!
//! What comes before the first real output is held back, up to [`MAX_EVENTS`] events or
//! [`MAX_BYTES`]; a stream with more of it is committed all the same.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::answer_headers;
use super::call::Limit;
use super::course::Flight;
use super::decode::Decoder;
use super::failed::{Failed, Judge};
use crate::protocols::Protocol;
use crate::protocols::framing::EventReader;
use crate::protocols::sse::{Event, without_comments};

const MAX_EVENTS: usize = 64;
const MAX_BYTES: usize = 256 << 10;
/// What is kept of a body that may be no event stream at all.
const MAX_PLAIN_BYTES: usize = 64 << 10;

/// A stream that is committed: its next bytes go to the client.
pub(super) struct Opened {
    /// For the client.
    pub(super) headers: HeaderMap,
    /// Events held back, in order, the first real output last.
    pub(super) held_back: Vec<Event>,
    pub(super) upstream: Incoming,
    pub(super) reader: EventReader,
    pub(super) decoder: Decoder,
    pub(super) judge: Judge,
    /// What the provider speaks.
    pub(super) protocol: Protocol,
    /// Of the request, what could not be said in it.
    pub(super) dropped: Vec<String>,
    /// The provider has sent all.
    pub(super) over: bool,
    /// What came before the first event: an error may stand there as plain JSON.
    plain: Option<BytesMut>,
}

/// Reads a stream up to its first real output.
pub(super) async fn open(
    flight: &Flight,
    response: Response<Incoming>,
    limit: Limit,
    start: Instant,
    judge: Judge,
    protocol: Protocol,
) -> Result<Opened, Failed> {
    let network = &flight.provider.network;
    let (head, upstream) = response.into_parts();
    let content_type = head.headers.get(CONTENT_TYPE);
    let mut opened = Opened {
        headers: answer_headers::of(&head.headers, &judge),
        plain: Some(BytesMut::new()),
        held_back: Vec::new(),
        decoder: Decoder::of(&head.headers),
        reader: EventReader::of(content_type.and_then(|v| v.to_str().ok())),
        upstream,
        judge: judge.of_stream(&head.headers),
        protocol,
        dropped: Vec::new(),
        over: false,
    };
    let first_token = network.first_token_timeout.map(|t| start + t);
    let mut held_bytes = 0;
    loop {
        while let Some(event) = opened.next_event().map_err(Failed::broken)? {
            if let Some(failed) = opened.judge.error_event(&event) {
                return Err(failed);
            }
            let commits = protocol.spoken().seen(&event, false).output;
            held_bytes += event.data.len();
            opened.plain = None;
            opened.held_back.push(event);
            if commits || opened.held_back.len() >= MAX_EVENTS || held_bytes >= MAX_BYTES {
                return Ok(opened);
            }
        }
        if opened.over {
            if let Some(failed) = opened.plain_error() {
                return Err(failed);
            }
            let message = "the provider ended the stream before any output".to_owned();
            return Err(Failed::broken(message));
        }
        let idle = Instant::now() + network.stream_idle_timeout;
        let (providers, label) = match first_token {
            Some(first) if first < idle => (first, "ttft_timeout"),
            Some(_) | None => (idle, "stream_idle_timeout"),
        };
        let limit = Limit {
            providers,
            label,
            callers: limit.callers,
        };
        let frame = limit.race(opened.upstream.frame()).await;
        let frame = frame.map_err(|late| Failed::late(late, network.stream_idle_timeout))?;
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    opened.take(data).map_err(Failed::broken)?;
                }
            }
            Some(Err(_)) => {
                let message = "the provider cut the stream off before any output".to_owned();
                return Err(Failed::broken(message));
            }
            None => opened.over = true,
        }
    }
}

impl Opened {
    /// Takes in what the socket brought.
    pub(super) fn take(&mut self, data: Bytes) -> Result<(), String> {
        let data = self.decoder.decode(data);
        let data = data.map_err(|e| format!("the stream cannot be unpacked: {e}"))?;
        self.reader.push(&data);
        if let Some(plain) = &mut self.plain {
            let room = MAX_PLAIN_BYTES - plain.len();
            plain.extend_from_slice(&data[..data.len().min(room)]);
        }
        Ok(())
    }

    /// The failure that a body without a single event tells of, if it does.
    fn plain_error(&self) -> Option<Failed> {
        self.judge
            .error_in_stream(&without_comments(self.plain.as_ref()?))
    }

    /// The next event that a client may see: keep-alives in data fields are none.
    pub(super) fn next_event(&mut self) -> Result<Option<Event>, String> {
        loop {
            let event = match self.reader.next_event()? {
                None if self.over => self.reader.last(),
                event => event,
            };
            let Some(event) = event else { return Ok(None) };
            // A mark such as `[DONE]`, JSON, or what is called an error whatever stands in it.
            if event.exception
                || event.is_named_error()
                || event.data.starts_with(b"[")
                || event.data.trim_ascii_start().starts_with(b"{")
            {
                return Ok(Some(event));
            }
        }
    }
}

/// Puts `,"extra_fields":{…}` before the closing brace of an object.
pub(super) fn with_extra_fields(object: &[u8], extra: &[u8]) -> Bytes {
    const NAME: &[u8] = b"\"extra_fields\":";
    let Some(brace) = memchr::memrchr(b'}', object) else {
        return Bytes::copy_from_slice(object);
    };
    let (inside, end) = object.split_at(brace);
    let is_empty = inside.trim_ascii() == b"{";
    let mut out = BytesMut::with_capacity(object.len() + NAME.len() + extra.len() + 1);
    out.extend_from_slice(inside);
    if !is_empty {
        out.extend_from_slice(b",");
    }
    out.extend_from_slice(NAME);
    out.extend_from_slice(extra);
    out.extend_from_slice(end);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_fields_are_appended() {
        let spliced = |text: &str| with_extra_fields(text.as_bytes(), b"{\"a\":1}");
        assert_eq!(spliced(r#"{"x":{}}"#), r#"{"x":{},"extra_fields":{"a":1}}"#);
        assert_eq!(
            spliced("{\"x\":1 }\n"),
            "{\"x\":1 ,\"extra_fields\":{\"a\":1}}\n"
        );
        assert_eq!(spliced("{ }"), r#"{ "extra_fields":{"a":1}}"#);
    }
}
