//! OpenAI's responses.
//!
//! A response is a list of items: messages, reasoning, function calls. Converted ones know these three;
//! hosted tools and everything that OpenAI keeps between requests pass only to who speaks responses
//! itself.

mod answer;
mod item;
mod read;
mod seen;
mod stream;
#[cfg(test)]
mod tests;
mod text_tool;
mod write;
mod writer;

use bytes::BytesMut;
use serde::Serialize;

use super::talk::{Answer, Aspect, Field, Request, Usage};
use super::{
    Edits, Event, Malformed, ReadStream, Seen, Shown, Spoken, To, Unsupported, WriteStream,
    Written, write_event,
};
use crate::api::error::ApiError;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Responses;

impl Spoken for Responses {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            stream: true,
            ..Edits::default()
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        seen::usage(answer)
    }

    fn seen(&self, event: &Event, committed: bool) -> Seen {
        seen::seen(event, committed)
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        error.to_json()
    }

    fn error_event(&self, error: &ApiError, place: u64, out: &mut BytesMut) {
        let body = &error.error;
        let inner = Inner {
            kind: body.kind.as_deref().unwrap_or("server_error"),
            code: body.code.as_deref(),
            message: &body.message,
            param: body.param.as_deref(),
        };
        // The documentation has the members flat, the service sends them in `error`: clients read either.
        let told = Told {
            kind: "error",
            sequence_number: place,
            code: inner.code.unwrap_or(inner.kind),
            message: inner.message,
            param: inner.param,
            error: inner,
        };
        let data = serde_json::to_vec(&told).expect("strings and numbers can be written");
        write_event(Some("error"), &data, out);
    }

    fn name_of(&self, field: Field) -> &'static str {
        match field {
            Field::Turns | Field::Media | Field::ToolErrors => "input",
            Field::Thoughts => "input[].summary",
            Field::Seals => "input[].encrypted_content",
            Field::MediaName => "input[].content[].filename",
            Field::Strict => "tools[].strict",
            Field::FormatName => "text.format.name",
            Field::FormatDescription => "text.format.description",
            Field::Tools => "tools",
            Field::ToolChoice => "tool_choice",
            Field::ParallelToolCalls => "parallel_tool_calls",
            Field::MaxTokens => "max_output_tokens",
            Field::Temperature => "temperature",
            Field::TopP => "top_p",
            Field::TopK => "top_k",
            Field::Seed => "seed",
            Field::FrequencyPenalty => "frequency_penalty",
            Field::PresencePenalty => "presence_penalty",
            Field::Stop => "stop",
            Field::Format => "text.format",
            Field::Reasoning => "reasoning",
            Field::User => "user",
        }
    }

    fn omits(&self) -> &'static [Aspect] {
        &[Aspect::StopText, Aspect::Pause, Aspect::CacheWritten]
    }

    fn read_request(&self, body: &[u8]) -> Result<Request, Malformed> {
        read::read(body)
    }

    fn write_request(&self, request: &Request, to: To<'_>) -> Result<Written, Unsupported> {
        write::write(request, to)
    }

    fn read_answer(&self, body: &[u8]) -> Result<Answer, Malformed> {
        answer::read(body)
    }

    fn write_answer(&self, answer: &Answer, shown: &Shown) -> Vec<u8> {
        answer::write(answer, shown)
    }

    fn stream_reader(&self) -> Option<Box<dyn ReadStream>> {
        Some(Box::<stream::Reader>::default())
    }

    fn stream_writer(&self, shown: Shown) -> Option<Box<dyn WriteStream>> {
        Some(Box::new(writer::Writer::new(shown)))
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    code: &'a str,
    message: &'a str,
    param: Option<&'a str>,
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    code: Option<&'a str>,
    message: &'a str,
    param: Option<&'a str>,
}
