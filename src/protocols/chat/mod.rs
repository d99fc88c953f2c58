//! OpenAI's chat completions, as most providers and clients speak them.

mod answer;
mod request;
mod seen;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use bytes::BytesMut;

pub(in crate::protocols) use request::{arguments_of, file_data, source};
pub(in crate::protocols) use seen::usage;
use seen::{glance, read as read_seen};

use super::talk::{Answer, Aspect, Field, Request, Usage};
use super::{
    Edits, Event, Malformed, ReadStream, Seen, Shown, Spoken, To, Unsupported, WriteStream,
    Written, write_event,
};
use crate::api::error::ApiError;

/// How a stream says that it is complete.
pub const DONE: &str = "[DONE]";

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Chat;

impl Spoken for Chat {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            stream: true,
            ask_for_usage: true,
            form: false,
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        usage(answer)
    }

    fn seen(&self, event: &Event, committed: bool) -> Seen {
        if committed {
            glance(&event.data)
        } else {
            read_seen(&event.data)
        }
    }

    fn end_mark(&self) -> &'static [u8] {
        b"data: [DONE]\n\n"
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        error.to_json()
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &error.to_json(), out);
    }

    fn name_of(&self, field: Field) -> &'static str {
        match field {
            Field::Turns | Field::Media | Field::ToolErrors => "messages",
            Field::Thoughts => "messages[].reasoning_content",
            Field::Seals => "messages[].reasoning_details[].signature",
            Field::MediaName => "messages[].content[].file.filename",
            Field::Strict => "tools[].function.strict",
            Field::FormatName => "response_format.json_schema.name",
            Field::FormatDescription => "response_format.json_schema.description",
            Field::Tools => "tools",
            Field::ToolChoice => "tool_choice",
            Field::ParallelToolCalls => "parallel_tool_calls",
            Field::MaxTokens => "max_completion_tokens",
            Field::Temperature => "temperature",
            Field::TopP => "top_p",
            Field::TopK => "top_k",
            Field::Seed => "seed",
            Field::FrequencyPenalty => "frequency_penalty",
            Field::PresencePenalty => "presence_penalty",
            Field::Stop => "stop",
            Field::Format => "response_format",
            Field::Reasoning => "reasoning_effort",
            Field::User => "user",
        }
    }

    fn omits(&self) -> &'static [Aspect] {
        &[Aspect::StopText, Aspect::Pause, Aspect::CacheWritten]
    }

    fn read_request(&self, body: &[u8]) -> Result<Request, Malformed> {
        request::read(body)
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
        Some(Box::new(stream::Writer::new(shown)))
    }
}
