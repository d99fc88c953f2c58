//! What the events and answers of responses are, read as cheaply as it can be done.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocols::json::count;
use crate::protocols::talk::Usage;
use crate::protocols::{Event, Seen};

/// `usage` of a response. Counts that are absent or no numbers are 0.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    #[serde(deserialize_with = "count")]
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    /// In the words of `talk`.
    pub(super) fn usage(self) -> Usage {
        let cached = self.input_tokens_details.and_then(|d| d.cached_tokens);
        let reasoning = self.output_tokens_details.and_then(|d| d.reasoning_tokens);
        Usage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            cached: cached.unwrap_or(0),
            cache_written: 0,
            reasoning: reasoning.unwrap_or(0),
        }
    }
}

/// The usage of a whole answer, or of a token count.
pub(super) fn usage(body: &[u8]) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Answer {
        usage: Option<WireUsage>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    answer.usage.map(WireUsage::usage)
}

#[derive(Deserialize)]
struct Glance<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    response: Option<ResponseGlance>,
    #[serde(borrow)]
    item: Option<ItemGlance<'a>>,
    #[serde(borrow)]
    part: Option<PartGlance<'a>>,
}

#[derive(Deserialize)]
struct ResponseGlance {
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct ItemGlance<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PartGlance<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    refusal: Option<Cow<'a, str>>,
}

/// What an event is. Of a committed stream only its end is of interest.
pub(super) fn seen(event: &Event, committed: bool) -> Seen {
    // Deltas, nearly all of a stream, are known by their name.
    if committed && event.kind().ends_with(".delta") {
        return Seen::OUTPUT;
    }
    let Ok(glance) = serde_json::from_slice::<Glance<'_>>(&event.data) else {
        return Seen::OUTPUT;
    };
    let ends = matches!(
        &*glance.kind,
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled"
    );
    let usage = glance.response.as_ref().and_then(|r| r.usage);
    Seen {
        output: !glance.is_startup(),
        complete: ends,
        ends,
        usage: usage.map(WireUsage::usage),
        usage_only: false,
    }
}

impl Glance<'_> {
    fn is_startup(&self) -> bool {
        match &*self.kind {
            "response.created"
            | "response.in_progress"
            | "response.queued"
            | "ping"
            | "keepalive" => true,
            "response.output_item.added" => self.item.as_ref().is_some_and(ItemGlance::is_empty),
            "response.content_part.added" => self.part.as_ref().is_some_and(PartGlance::is_empty),
            _ => false,
        }
    }
}

impl ItemGlance<'_> {
    /// A message or a thought of which nothing is said yet. Other items are activity by themselves.
    fn is_empty(&self) -> bool {
        let nothing = |list: Option<&RawValue>| {
            list.is_none_or(|list| matches!(list.get().trim(), "[]" | "null"))
        };
        matches!(self.kind.as_deref(), Some("message" | "reasoning"))
            && nothing(self.content)
            && nothing(self.summary)
    }
}

impl PartGlance<'_> {
    fn is_empty(&self) -> bool {
        let nothing = |text: &Option<Cow<'_, str>>| text.as_deref().is_none_or(str::is_empty);
        nothing(&self.text) && nothing(&self.refusal)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn look(data: &str) -> Seen {
        let event = Event {
            data: Bytes::copy_from_slice(data.as_bytes()),
            ..Event::default()
        };
        assert_eq!(seen(&event, true).ends, seen(&event, false).ends);
        seen(&event, false)
    }

    #[test]
    fn startup_is_told_from_output() {
        for startup in [
            r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","usage":null}}"#,
            r#"{"type":"response.in_progress","response":{"id":"r","output":[]}}"#,
            r#"{"type":"response.queued","response":{}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
            r#"{"type":"response.output_item.added","item":{"type":"reasoning","summary":[]}}"#,
            r#"{"type":"response.content_part.added","part":{"type":"output_text","text":""}}"#,
        ] {
            assert_eq!(look(startup), Seen::default(), "{startup}");
        }
        for output in [
            r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}"#,
            r#"{"type":"response.output_item.added","item":{"type":"web_search_call"}}"#,
            r#"{"type":"response.output_item.added","item":{"type":"message","content":[1]}}"#,
            r#"{"type":"response.content_part.added","part":{"type":"refusal","refusal":"n"}}"#,
            r#"{"type":"response.output_text.delta","delta":"x"}"#,
            r#"{"type":"response.new_thing"}"#,
            "{\"broken",
        ] {
            assert_eq!(look(output), Seen::OUTPUT, "{output}");
        }
    }

    #[test]
    fn the_end_has_the_usage() {
        let seen = look(
            r#"{"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":7,
            "input_tokens_details":{"cached_tokens":3},"output_tokens_details":{"reasoning_tokens":2}}}}"#,
        );
        assert!(seen.ends && seen.complete && seen.output);
        let usage = seen.usage.unwrap();
        assert_eq!((usage.input, usage.output), (5, 7));
        assert_eq!((usage.cached, usage.reasoning), (3, 2));
        assert!(look(r#"{"type":"response.incomplete","response":{}}"#).ends);
    }
}
