//! Embeddings: pass through to Google, never converted.

use bytes::BytesMut;

use super::{told, wire};
use crate::api::error::ApiError;
use crate::protocols::talk::Usage;
use crate::protocols::{Edits, Event, Seen, Spoken, write_event};

/// `embedContent` and `batchEmbedContents`.
#[derive(Clone, Copy, Debug)]
pub struct Embed;

impl Spoken for Embed {
    fn edits(&self) -> Edits {
        Edits::default()
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        wire::usage(answer)
    }

    fn seen(&self, _event: &Event, _committed: bool) -> Seen {
        Seen::OUTPUT
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        told(error)
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &told(error), out);
    }
}
