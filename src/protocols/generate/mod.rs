//! Google's generateContent, as Gemini and Vertex speak it, and its embeddings.
//!
//! The path has the model and says whether the answer is streamed. Names are read in camel case and in
//! snake case, as Google reads them, and written in camel case. A stream has no end mark: it is whole
//! when a candidate has its `finishReason`.

mod answer;
mod embed;
mod parts;
mod read;
mod schema;
mod stream;
#[cfg(test)]
mod tests;
mod wire;
mod write;

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Value, json};

pub use embed::Embed;

use super::talk::{Answer, Aspect, Field, Request, Usage};
use super::{
    Edits, Event, Malformed, ReadStream, Seen, Shown, Spoken, To, Unsupported, WriteStream,
    Written, write_event,
};
use crate::api::error::ApiError;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Generate;

impl Spoken for Generate {
    fn edits(&self) -> Edits {
        Edits::default()
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        wire::usage(answer)
    }

    fn seen(&self, event: &Event, committed: bool) -> Seen {
        wire::seen(&event.data, committed)
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        told(error)
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &told(error), out);
    }

    fn name_of(&self, field: Field) -> &'static str {
        match field {
            Field::Turns | Field::Media => "contents",
            Field::Thoughts => "contents[].parts[].thought",
            Field::Seals => "contents[].parts[].thoughtSignature",
            Field::ToolErrors => "contents[].parts[].functionResponse.response.error",
            Field::MediaName => "contents[].parts[].inlineData.displayName",
            Field::Strict => "tools",
            Field::Tools => "tools",
            Field::ToolChoice | Field::ParallelToolCalls => "toolConfig.functionCallingConfig",
            Field::MaxTokens => "generationConfig.maxOutputTokens",
            Field::Temperature => "generationConfig.temperature",
            Field::TopP => "generationConfig.topP",
            Field::TopK => "generationConfig.topK",
            Field::Seed => "generationConfig.seed",
            Field::FrequencyPenalty => "generationConfig.frequencyPenalty",
            Field::PresencePenalty => "generationConfig.presencePenalty",
            Field::Stop => "generationConfig.stopSequences",
            Field::Format | Field::FormatName | Field::FormatDescription => {
                "generationConfig.responseSchema"
            }
            Field::Reasoning => "generationConfig.thinkingConfig",
            Field::User => "labels",
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
        Some(Box::new(stream::Writer::new(shown)))
    }
}

#[derive(Serialize)]
struct Told<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    code: u16,
    message: &'a str,
    status: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Value>,
}

/// Google's own, which are a list, or what tells of the wait.
fn details(error: &ApiError) -> Vec<Value> {
    if let Some(Value::Array(given)) = error.error.details.as_deref() {
        return given.clone();
    }
    let wait_ms = error.extra_fields.retry_after_ms;
    let told = wait_ms.map(|ms| {
        let delay = format!("{}s", ms.div_ceil(1_000));
        json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    });
    told.into_iter().collect()
}

/// A refusal as Google's clients read it.
fn told(error: &ApiError) -> Vec<u8> {
    let told = Told {
        error: Inner {
            code: error.status_code,
            message: &error.error.message,
            status: status(error),
            details: details(error),
        },
    };
    serde_json::to_vec(&told).expect("strings and numbers can be written")
}

/// The names of Google's canonical codes, with the HTTP status that each stands for.
const STATUSES: [(&str, u16); 16] = [
    ("INVALID_ARGUMENT", 400),
    ("FAILED_PRECONDITION", 400),
    ("OUT_OF_RANGE", 400),
    ("UNAUTHENTICATED", 401),
    ("PERMISSION_DENIED", 403),
    ("NOT_FOUND", 404),
    ("ABORTED", 409),
    ("ALREADY_EXISTS", 409),
    ("RESOURCE_EXHAUSTED", 429),
    ("CANCELLED", 499),
    ("INTERNAL", 500),
    ("DATA_LOSS", 500),
    ("UNKNOWN", 500),
    ("UNIMPLEMENTED", 501),
    ("UNAVAILABLE", 503),
    ("DEADLINE_EXCEEDED", 504),
];

/// The provider's own name if Google has it for this status, else the usual one.
fn status(error: &ApiError) -> &'static str {
    let of_status = STATUSES
        .iter()
        .filter(|(_, http)| *http == error.status_code);
    let given = error.error.kind.as_deref();
    let mut known = of_status.clone();
    let own = known.find(|(name, _)| Some(*name) == given);
    let found = own.or_else(|| of_status.clone().next());
    match found {
        Some((name, _)) => name,
        None if error.status_code >= 500 => "UNAVAILABLE",
        None => "INVALID_ARGUMENT",
    }
}
