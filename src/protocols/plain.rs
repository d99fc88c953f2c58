//! Protocols that pass through: the same on both sides, never converted.

use bytes::BytesMut;

use super::talk::Usage;
use super::{Edits, Event, Seen, Spoken, chat, write_event};
use crate::api::error::ApiError;

/// OpenAI's completions: a prompt, and text that goes on from it.
#[derive(Clone, Copy, Debug)]
pub struct Completions;

impl Spoken for Completions {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            stream: true,
            ask_for_usage: true,
            form: false,
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        chat::usage(answer)
    }

    fn seen(&self, event: &Event, committed: bool) -> Seen {
        chat::Chat.seen(event, committed)
    }

    fn end_mark(&self) -> &'static [u8] {
        chat::Chat.end_mark()
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        error.to_json()
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &error.to_json(), out);
    }
}
