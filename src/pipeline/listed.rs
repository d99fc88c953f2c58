//! A stream as one JSON list, for clients of generateContent that did not ask for events: each event is
//! an element, sent off when it comes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame};

use crate::protocols::sse::SseReader;
use crate::server::BodyError;

/// The list of the events of a body.
pub(super) struct Listed<B> {
    events: B,
    reader: SseReader,
    /// The bracket is written.
    begun: bool,
    over: bool,
}

impl<B> Listed<B> {
    /// Of a body of whole server-sent events.
    pub(super) fn new(events: B) -> Self {
        Self {
            events,
            reader: SseReader::default(),
            begun: false,
            over: false,
        }
    }

    fn take(&mut self, data: &[u8]) -> Result<Bytes, BodyError> {
        self.reader.push(data);
        let mut out = BytesMut::new();
        while let Some(event) = self.reader.next_event()? {
            out.extend_from_slice(if self.begun { b",\r\n" } else { b"[" });
            self.begun = true;
            out.extend_from_slice(&event.data);
        }
        Ok(out.freeze())
    }

    fn end(&mut self) -> Option<Bytes> {
        let end: &[u8] = if self.begun { b"]" } else { b"[]" };
        let was_over = std::mem::replace(&mut self.over, true);
        (!was_over).then(|| Bytes::from_static(end))
    }
}

impl<B: HttpBody<Data = Bytes, Error = BodyError> + Unpin> HttpBody for Listed<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let listed = self.get_mut();
        loop {
            if listed.over {
                return Poll::Ready(None);
            }
            let frame = match Pin::new(&mut listed.events).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Some(Err(e))),
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(None) => {
                    let end = listed.end().map(|end| Ok(Frame::data(end)));
                    return Poll::Ready(end);
                }
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            match listed.take(&data) {
                Ok(out) if out.is_empty() => {}
                Ok(out) => return Poll::Ready(Some(Ok(Frame::data(out)))),
                Err(e) => return Poll::Ready(Some(Err(e))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Body;

    fn listed(frames: &[&str]) -> String {
        let mut list = Listed::new(Body::empty());
        let mut out = Vec::new();
        for frame in frames {
            out.extend_from_slice(&list.take(frame.as_bytes()).unwrap());
        }
        out.extend_from_slice(&list.end().unwrap());
        assert!(list.end().is_none());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn events_become_elements() {
        assert_eq!(listed(&[]), "[]");
        assert_eq!(listed(&["data: {\"a\":1}\n\n"]), r#"[{"a":1}]"#);
        assert_eq!(
            listed(&["data: {}\n\ndata: {\"b\"", ":2}\n\n", "data: 3\n\n"]),
            "[{},\r\n{\"b\":2},\r\n3]"
        );
    }
}
