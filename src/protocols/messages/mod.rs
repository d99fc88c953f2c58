//! Anthropic's messages.

mod answer;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod write;

pub(in crate::protocols) use read::reasoning;
pub(in crate::protocols) use write::{Thinking, safe_id, thinking};

use bytes::BytesMut;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::json::count;
use super::talk::{Answer, Aspect, Field, Request, Usage};
use super::{
    Edits, Event, Malformed, ReadStream, Seen, Shown, Spoken, To, Unsupported, WriteStream,
    Written, write_event,
};
use crate::api::error::ApiError;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Messages;

impl Spoken for Messages {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            stream: true,
            ..Edits::default()
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        answer::usage(answer)
    }

    fn seen(&self, event: &Event, committed: bool) -> Seen {
        // Deltas, nearly all of a stream, are known without being read.
        if committed && memmem::find(&event.data, b"\"message_").is_none() {
            return Seen::OUTPUT;
        }
        seen(&event.data)
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        let told = Told {
            kind: "error",
            error: Inner {
                kind: error_kind(error),
                message: &error.error.message,
                details: details(error),
            },
        };
        serde_json::to_vec(&told).expect("strings can be written")
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(Some("error"), &self.error(error), out);
    }

    fn name_of(&self, field: Field) -> &'static str {
        match field {
            Field::Turns | Field::Media => "messages",
            Field::Thoughts => "messages[].content[].thinking",
            Field::Seals => "messages[].content[].signature",
            Field::ToolErrors => "messages[].content[].is_error",
            Field::MediaName => "messages[].content[].title",
            Field::Strict => "tools[].strict",
            Field::FormatName => "output_config.format.name",
            Field::FormatDescription => "output_config.format.description",
            Field::Tools => "tools",
            Field::ToolChoice => "tool_choice",
            Field::ParallelToolCalls => "tool_choice.disable_parallel_tool_use",
            Field::MaxTokens => "max_tokens",
            Field::Temperature => "temperature",
            Field::TopP => "top_p",
            Field::TopK => "top_k",
            Field::Seed => "seed",
            Field::FrequencyPenalty => "frequency_penalty",
            Field::PresencePenalty => "presence_penalty",
            Field::Stop => "stop_sequences",
            Field::Format => "output_config.format",
            Field::Reasoning => "thinking",
            Field::User => "metadata.user_id",
        }
    }

    fn omits(&self) -> &'static [Aspect] {
        &[Aspect::ReasoningTokens]
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
        Some(Box::new(stream::Writer::new(shown)))
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

/// Anthropic's own, which are an object, or what makes its SDKs go on without a thread, with all messages.
fn details(error: &ApiError) -> Option<Value> {
    let given = error.error.details.as_deref();
    let given = given.filter(|given| given.is_object()).cloned();
    let threads = error.error.param.as_deref() == Some(read::THREAD);
    let no_threads =
        || json!({"error_code": "thread_unsupported_request", "unsupported": ["provider"]});
    given.or_else(|| threads.then(no_threads))
}

/// The types that Anthropic's clients know.
const KINDS: [&str; 10] = [
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "timeout_error",
    "api_error",
    "overloaded_error",
];

/// The provider's type if Anthropic has it and it fits the status, else the one of the status.
fn error_kind(error: &ApiError) -> &'static str {
    let by_status = match error.status_code {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let given = error.error.kind.as_deref();
    let known = KINDS.into_iter().find(|kind| Some(*kind) == given);
    // Others use this one for everything.
    known
        .filter(|kind| *kind != "invalid_request_error")
        .unwrap_or(by_status)
}

/// Usage as Anthropic counts it: what comes from a cache stands beside `input_tokens`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_creation_input_tokens: Option<u64>,
}

impl WireUsage {
    fn usage(self) -> Usage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let cache_written = self.cache_creation_input_tokens.unwrap_or(0);
        let fresh = self.input_tokens.unwrap_or(0);
        Usage {
            input: fresh.saturating_add(cached).saturating_add(cache_written),
            output: self.output_tokens.unwrap_or(0),
            cached,
            cache_written,
            reasoning: 0,
        }
    }
}

/// What is read of an event to know what it is.
#[derive(Deserialize)]
struct Glance<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    usage: Option<WireUsage>,
    message: Option<StartGlance>,
    content_block: Option<BlockGlance>,
}

#[derive(Deserialize)]
struct StartGlance {
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct BlockGlance {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
}

fn seen(data: &[u8]) -> Seen {
    let Ok(event) = serde_json::from_slice::<Glance<'_>>(data) else {
        return Seen::OUTPUT;
    };
    let told = event.usage.or(event.message.and_then(|m| m.usage));
    let says_nothing = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let startup = match &*event.kind {
        "message_start" | "ping" => true,
        "content_block_start" => event.content_block.is_some_and(|block| {
            matches!(block.kind.as_str(), "text" | "thinking")
                && says_nothing(&block.text)
                && says_nothing(&block.thinking)
        }),
        _ => false,
    };
    Seen {
        output: !startup,
        complete: false,
        ends: event.kind == "message_stop",
        usage: told.map(WireUsage::usage),
        usage_only: false,
    }
}
