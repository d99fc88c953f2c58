//! Bedrock's Converse and ConverseStream: one protocol for the models of every vendor there. The model
//! stands in the path; streams are AWS event streams, whose events are told apart by their headers.

mod answer;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use bytes::BytesMut;
use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::json::count;
use super::talk::{Answer, Aspect, Field, Request, Usage};
use super::{
    Edits, Event, Malformed, ReadStream, Seen, Shown, Spoken, To, Unsupported, WriteStream,
    Written, event_stream,
};
use crate::api::error::ApiError;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Converse;

impl Spoken for Converse {
    fn edits(&self) -> Edits {
        Edits {
            model: false,
            stream: false,
            ask_for_usage: false,
            form: false,
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        #[derive(Deserialize)]
        struct Body {
            usage: Option<WireUsage>,
        }
        let body: Body = serde_json::from_slice(answer).ok()?;
        body.usage.map(WireUsage::usage)
    }

    fn seen(&self, event: &Event, committed: bool) -> Seen {
        seen(event, committed)
    }

    fn stream_type(&self) -> &'static str {
        event_stream::CONTENT_TYPE
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        let told = Told {
            kind: class(exception(error.status_code)),
            message: &error.error.message,
        };
        serde_json::to_vec(&told).expect("strings can be written")
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        stream::write_exception(exception(error.status_code), &self.error(error), out);
    }

    fn name_of(&self, field: Field) -> &'static str {
        match field {
            Field::Turns | Field::Media => "messages",
            Field::Thoughts => "messages[].content[].reasoningContent",
            Field::Seals => "messages[].content[].reasoningContent.reasoningText.signature",
            Field::ToolErrors => "messages[].content[].toolResult.status",
            Field::MediaName => "messages[].content[].document.name",
            Field::Strict => "toolConfig.tools[].toolSpec.strict",
            Field::FormatName => "outputConfig.textFormat.structure.jsonSchema.name",
            Field::FormatDescription => "outputConfig.textFormat.structure.jsonSchema.description",
            Field::Tools => "toolConfig.tools",
            Field::ToolChoice | Field::ParallelToolCalls => "toolConfig.toolChoice",
            Field::MaxTokens => "inferenceConfig.maxTokens",
            Field::Temperature => "inferenceConfig.temperature",
            Field::TopP => "inferenceConfig.topP",
            Field::Stop => "inferenceConfig.stopSequences",
            Field::Format => "outputConfig.textFormat",
            Field::TopK
            | Field::Seed
            | Field::FrequencyPenalty
            | Field::PresencePenalty
            | Field::Reasoning
            | Field::User => "additionalModelRequestFields",
        }
    }

    fn omits(&self) -> &'static [Aspect] {
        &[Aspect::StopText, Aspect::Pause, Aspect::ReasoningTokens]
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

    fn write_answer(&self, answer: &Answer, _shown: &Shown) -> Vec<u8> {
        answer::write(answer)
    }

    fn stream_reader(&self) -> Option<Box<dyn ReadStream>> {
        Some(Box::<stream::Reader>::default())
    }

    fn stream_writer(&self, _shown: Shown) -> Option<Box<dyn WriteStream>> {
        Some(Box::<stream::Writer>::default())
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "__type")]
    kind: String,
    message: &'a str,
}

/// The exceptions that clients of Bedrock know, by the status that each stands for.
#[must_use]
pub fn exception(status: u16) -> &'static str {
    match status {
        401 | 403 => "accessDeniedException",
        404 => "resourceNotFoundException",
        402 | 429 => "throttlingException",
        408 | 504 => "modelTimeoutException",
        503 | 529 => "serviceUnavailableException",
        500.. => "internalServerException",
        _ => "validationException",
    }
}

/// The name outside streams, where it begins in upper case.
fn class(member: &str) -> String {
    let (first, rest) = member.split_at(1);
    first.to_ascii_uppercase() + rest
}

/// Usage as Bedrock counts it: what comes from a cache stands beside `inputTokens`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireUsage {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_write_input_tokens: Option<u64>,
}

impl WireUsage {
    fn usage(self) -> Usage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let cache_written = self.cache_write_input_tokens.unwrap_or(0);
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

fn seen(event: &Event, committed: bool) -> Seen {
    match event.kind() {
        "messageStart" | "contentBlockStop" if !committed => Seen::default(),
        // Of blocks only those that call a tool say something at their start.
        "contentBlockStart" if !committed => Seen {
            output: memmem::find(&event.data, b"\"toolUse\"").is_some(),
            ..Seen::default()
        },
        "contentBlockDelta" if !committed && stream::says_nothing(&event.data) => Seen::default(),
        // Only usage follows, and it may be lost.
        "messageStop" => Seen {
            complete: true,
            ..Seen::OUTPUT
        },
        "metadata" => Seen {
            ends: true,
            usage: Converse.usage(&event.data),
            ..Seen::OUTPUT
        },
        _ => Seen::OUTPUT,
    }
}
