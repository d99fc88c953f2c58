//! Reads AWS event streams from bytes, however the network cut them.
//!
//! A frame states its length first, so one that cannot be meant is refused before it is waited for; its
//! two checksums are judged once it is whole. What it is stands in its headers: an event, an exception
//! that the model's service throws, or an error of what stands before it.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use bytes::{Bytes, BytesMut};

use super::sse::Event;

/// One frame longer than this is an attack.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// The content type of such a stream.
pub const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// The stream is no event stream, or arrived damaged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// It grew beyond all reason.
    #[error("a frame of the event stream is longer than {MAX_FRAME_BYTES} bytes")]
    TooLong,
    /// Its lengths, checksums or headers do not fit.
    #[error("a frame of the event stream is damaged: {0}")]
    Damaged(String),
}

/// The reader's state between two reads of the socket.
#[derive(Debug, Default)]
pub struct EventStreamReader {
    buffer: BytesMut,
}

impl EventStreamReader {
    /// Takes in what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When it is damaged, or longer than any that is meant. Nothing behind it can be read.
    pub fn next_event(&mut self) -> Result<Option<Event>, BadFrame> {
        let Some(length) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(BadFrame::TooLong);
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        let wire = self.buffer.split_to(length).freeze();
        let message = read_message_from(&mut wire.clone());
        let message = message.map_err(|e| BadFrame::Damaged(e.to_string()))?;
        Ok(Some(event(&message, wire)))
    }
}

fn event(message: &Message, wire: Bytes) -> Event {
    let header = |name: &str| {
        let found = message.headers().iter().find(|h| h.name().as_str() == name);
        let text = found.and_then(|h| h.value().as_string().ok());
        text.map(|text| Bytes::copy_from_slice(text.as_str().as_bytes()))
    };
    let kind = header(":message-type");
    let (name, exception) = match kind.as_deref() {
        Some(b"exception") => (header(":exception-type"), true),
        Some(b"error") => (header(":error-code"), true),
        Some(_) | None => (header(":event-type"), false),
    };
    let mut data = message.payload().clone();
    if data.is_empty() && exception {
        let words = header(":error-message").unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        data = serde_json::json!({ "message": words }).to_string().into();
    }
    Event {
        data,
        name,
        wire,
        exception,
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn frame(headers: &[(&'static str, &str)], payload: &str) -> Vec<u8> {
        let mut message = Message::new(payload.as_bytes().to_vec());
        for (name, value) in headers {
            let value = HeaderValue::String((*value).to_owned().into());
            message = message.add_header(Header::new(*name, value));
        }
        let mut out = Vec::new();
        write_message_to(&message, &mut out).unwrap();
        out
    }

    fn read(parts: &[&[u8]]) -> Result<Vec<Event>, BadFrame> {
        let mut reader = EventStreamReader::default();
        let mut events = Vec::new();
        for part in parts {
            reader.push(part);
            while let Some(event) = reader.next_event()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    #[test]
    fn events_exceptions_and_errors_are_told_apart() {
        let stream = [
            frame(
                &[(":message-type", "event"), (":event-type", "messageStart")],
                r#"{"role":"assistant"}"#,
            ),
            frame(
                &[
                    (":message-type", "exception"),
                    (":exception-type", "throttlingException"),
                ],
                r#"{"message":"slow down"}"#,
            ),
            frame(
                &[
                    (":message-type", "error"),
                    (":error-code", "InternalFailure"),
                    (":error-message", "it \"broke\""),
                ],
                "",
            ),
        ];
        let events = read(&[&stream.concat()]).unwrap();
        let told: Vec<_> = events
            .iter()
            .map(|e| (e.kind(), e.exception, std::str::from_utf8(&e.data).unwrap()))
            .collect();
        assert_eq!(
            told,
            [
                ("messageStart", false, r#"{"role":"assistant"}"#),
                ("throttlingException", true, r#"{"message":"slow down"}"#),
                ("InternalFailure", true, r#"{"message":"it \"broke\""}"#),
            ]
        );
        assert_eq!(events[0].wire, stream[0]);
    }

    #[test]
    fn damaged_and_endless_frames_are_refused() {
        let whole = frame(&[(":event-type", "x")], "{}");
        for at in 4..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0x20;
            assert!(
                matches!(read(&[&broken]), Err(BadFrame::Damaged(_))),
                "byte {at}"
            );
        }
        for length in [0_u32, 1, 11, 12, 15] {
            let mut short = length.to_be_bytes().to_vec();
            short.extend_from_slice(&[0; 16]);
            assert!(
                matches!(read(&[&short]), Err(BadFrame::Damaged(_))),
                "{length}"
            );
        }
        assert_eq!(read(&[&[0xff; 4]]), Err(BadFrame::TooLong));
        // A text where frames should be states a length beyond all reason.
        assert_eq!(read(&[b"data: {}\n\n"]), Err(BadFrame::TooLong));
    }

    #[test]
    fn a_frame_that_is_cut_short_is_waited_for() {
        let whole = frame(&[(":event-type", "x")], "{}");
        assert_eq!(read(&[&whole[..whole.len() - 1]]), Ok(Vec::new()));
    }

    proptest! {
        /// Cuts change nothing.
        #[test]
        fn cuts_change_nothing(
            payloads in prop::collection::vec("[a-zé🦀]{0,9}", 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let frames = payloads.iter().map(|p| frame(&[(":event-type", p)], p));
            let bytes = frames.collect::<Vec<_>>().concat();
            let mut places: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            places.push(0);
            places.push(bytes.len());
            places.sort_unstable();
            let parts: Vec<&[u8]> = places.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(read(&parts), read(&[&bytes]));
        }
    }
}
