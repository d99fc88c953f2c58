//! Cohere's chat, version 2.

mod answer;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use std::borrow::Cow;

use bytes::BytesMut;
use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::talk::{Answer, Aspect, Field, Request, Usage};
use super::{
    Edits, Event, Malformed, ReadStream, Seen, Shown, Spoken, To, Unsupported, WriteStream,
    Written, write_event,
};
use crate::api::error::ApiError;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Cohere;

impl Spoken for Cohere {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            stream: true,
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
        // Deltas, nearly all of a stream, are known without being read.
        if committed && memmem::find(&event.data, b"\"message-end\"").is_none() {
            return Seen::OUTPUT;
        }
        seen(&event.data)
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        let told = Told {
            message: &error.error.message,
        };
        serde_json::to_vec(&told).expect("strings can be written")
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(Some("error"), &self.error(error), out);
    }

    fn name_of(&self, field: Field) -> &'static str {
        match field {
            Field::Turns | Field::Media | Field::MediaName | Field::Seals | Field::ToolErrors => {
                "messages"
            }
            Field::Thoughts => "messages[].content[].thinking",
            Field::Strict => "strict_tools",
            Field::Tools => "tools",
            Field::ToolChoice | Field::ParallelToolCalls => "tool_choice",
            Field::MaxTokens => "max_tokens",
            Field::Temperature => "temperature",
            Field::TopP => "p",
            Field::TopK => "k",
            Field::Seed => "seed",
            Field::FrequencyPenalty => "frequency_penalty",
            Field::PresencePenalty => "presence_penalty",
            Field::Stop => "stop_sequences",
            Field::Format | Field::FormatName | Field::FormatDescription => "response_format",
            Field::Reasoning => "thinking",
            Field::User => "body",
        }
    }

    fn omits(&self) -> &'static [Aspect] {
        &[
            Aspect::Seals,
            Aspect::Hidden,
            Aspect::StopText,
            Aspect::Pause,
            Aspect::CacheWritten,
            Aspect::ReasoningTokens,
        ]
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
    message: &'a str,
}

/// Usage as Cohere tells it: what is billed, and what the model really read and wrote.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    billed_units: Option<Tokens>,
    tokens: Option<Tokens>,
    cached_tokens: Option<f64>,
}

/// Counts are written as decimals.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
}

impl WireUsage {
    fn usage(self) -> Usage {
        let tokens = self.tokens.or(self.billed_units).unwrap_or_default();
        Usage {
            input: count(tokens.input_tokens),
            output: count(tokens.output_tokens),
            cached: count(self.cached_tokens),
            ..Usage::default()
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of floats saturates, and no count is negative or fractional"
)]
fn count(number: Option<f64>) -> u64 {
    number.unwrap_or(0.0).round() as u64
}

/// What is read of an event to know what it is.
#[derive(Deserialize)]
struct Glance<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    delta: DeltaGlance,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeltaGlance {
    message: MessageGlance,
    usage: Option<WireUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageGlance {
    content: ContentGlance,
}

/// A block that begins; in the start of a message it is an empty list.
#[derive(Deserialize)]
#[serde(untagged)]
enum ContentGlance {
    Block {
        text: Option<String>,
        thinking: Option<String>,
    },
    Other(serde::de::IgnoredAny),
}

impl Default for ContentGlance {
    fn default() -> Self {
        Self::Other(serde::de::IgnoredAny)
    }
}

impl ContentGlance {
    fn says_nothing(&self) -> bool {
        match self {
            Self::Block { text, thinking } => [text, thinking]
                .into_iter()
                .all(|text| text.as_deref().is_none_or(str::is_empty)),
            Self::Other(_) => true,
        }
    }
}

fn seen(data: &[u8]) -> Seen {
    let Ok(event) = serde_json::from_slice::<Glance<'_>>(data) else {
        return Seen::OUTPUT;
    };
    let startup = match &*event.kind {
        "message-start" | "debug" => true,
        "content-start" | "content-delta" => event.delta.message.content.says_nothing(),
        _ => false,
    };
    Seen {
        output: !startup,
        ends: event.kind == "message-end",
        usage: event.delta.usage.map(WireUsage::usage),
        ..Seen::default()
    }
}
