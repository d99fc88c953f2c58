//! How a stream is cut into events: as server-sent events, or as an AWS event stream.

use super::event_stream::{self, EventStreamReader};
use super::sse::{Event, SseReader};

/// Reads the events of a stream.
#[derive(Debug)]
pub enum EventReader {
    /// Server-sent events.
    Sse(SseReader),
    /// An AWS event stream.
    EventStream(EventStreamReader),
}

impl EventReader {
    /// For a stream of this content type. One that names none is taken for server-sent events.
    #[must_use]
    pub fn of(content_type: Option<&str>) -> Self {
        let kind = content_type.unwrap_or_default().trim_start();
        let start = kind.get(..event_stream::CONTENT_TYPE.len());
        if start.is_some_and(|start| start.eq_ignore_ascii_case(event_stream::CONTENT_TYPE)) {
            Self::EventStream(EventStreamReader::default())
        } else {
            Self::Sse(SseReader::default())
        }
    }

    /// Takes in what came.
    pub fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Sse(reader) => reader.push(bytes),
            Self::EventStream(reader) => reader.push(bytes),
        }
    }

    /// The next whole event.
    ///
    /// # Errors
    /// When there can be none: why, in words.
    pub fn next_event(&mut self) -> Result<Option<Event>, String> {
        match self {
            Self::Sse(reader) => reader.next_event().map_err(|e| e.to_string()),
            Self::EventStream(reader) => reader.next_event().map_err(|e| e.to_string()),
        }
    }

    /// What is left when the stream is over.
    pub fn last(&mut self) -> Option<Event> {
        match self {
            Self::Sse(reader) => reader.last(),
            // A frame is whole or nothing.
            Self::EventStream(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_says_how_a_stream_is_cut() {
        let is_aws = |kind| matches!(EventReader::of(kind), EventReader::EventStream(_));
        assert!(is_aws(Some("application/vnd.amazon.eventstream")));
        assert!(is_aws(Some("Application/vnd.amazon.EventStream; x=y")));
        for other in [None, Some("text/event-stream"), Some(""), Some("é")] {
            assert!(!is_aws(other), "{other:?}");
        }
    }
}
