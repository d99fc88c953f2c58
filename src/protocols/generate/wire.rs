//! What answers and events of generateContent have in common: usage, reasons, and what an event is.

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::protocols::Seen;
use crate::protocols::json::count;
use crate::protocols::talk::{Stop, Usage};

/// `usageMetadata` as providers write it. Counts that are absent are 0.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(
    clippy::struct_field_names,
    reason = "the protocol's own names, ending in TokenCount"
)]
pub(super) struct UsageIn {
    #[serde(deserialize_with = "count")]
    prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    candidates_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    thoughts_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    cached_content_token_count: Option<u64>,
}

impl UsageIn {
    /// In the words of `talk`: thoughts stand beside candidates.
    pub(super) fn usage(self) -> Usage {
        let prompt = self.prompt_token_count.unwrap_or(0);
        let thoughts = self.thoughts_token_count.unwrap_or(0);
        let of_tools = self.tool_use_prompt_token_count.unwrap_or(0);
        let candidates = self.candidates_token_count.unwrap_or(0);
        Usage {
            input: prompt.saturating_add(of_tools),
            output: candidates.saturating_add(thoughts),
            cached: self.cached_content_token_count.unwrap_or(0),
            cache_written: 0,
            reasoning: thoughts,
        }
    }
}

/// `usageMetadata` as clients read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_field_names,
    reason = "the protocol's own names, ending in TokenCount"
)]
pub(super) struct UsageOut {
    prompt_token_count: u64,
    candidates_token_count: u64,
    total_token_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thoughts_token_count: Option<u64>,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        let some = |count: u64| (count > 0).then_some(count);
        Self {
            prompt_token_count: usage.input,
            candidates_token_count: usage.output.saturating_sub(usage.reasoning),
            total_token_count: usage.total(),
            cached_content_token_count: some(usage.cached),
            thoughts_token_count: some(usage.reasoning),
        }
    }
}

/// The usage of a whole answer, or of a token count.
pub(super) fn usage(body: &[u8]) -> Option<Usage> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        usage_metadata: Option<UsageIn>,
    }
    let body: Body = serde_json::from_slice(body).ok()?;
    body.usage_metadata.map(UsageIn::usage)
}

/// What a `finishReason` means.
pub(super) fn stop(finish_reason: &str, calls_tools: bool) -> Stop {
    match finish_reason {
        "MAX_TOKENS" => Stop::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Stop::Filtered,
        _ if calls_tools => Stop::ToolCalls,
        _ => Stop::End,
    }
}

pub(super) const fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Sequence(_) | Stop::ToolCalls | Stop::Paused => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Filtered => "SAFETY",
    }
}

/// What an event tells besides output.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Glance {
    candidates: Option<Vec<CandidateGlance>>,
    prompt_feedback: Option<FeedbackGlance>,
    usage_metadata: Option<UsageIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CandidateGlance {
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FeedbackGlance {
    block_reason: Option<String>,
}

/// What an event is. Of a committed stream only its end and its usage are of interest.
pub(super) fn seen(data: &[u8], committed: bool) -> Seen {
    let told = |name: &[u8]| memmem::find(data, name).is_some();
    if committed && !told(b"\"finishReason\"") && !told(b"\"usageMetadata\"") {
        return Seen::OUTPUT;
    }
    let Ok(glance) = serde_json::from_slice::<Glance>(data) else {
        return Seen::OUTPUT;
    };
    let mut candidates = glance.candidates.iter().flatten();
    let finished = candidates.any(|candidate| candidate.finish_reason.is_some());
    let blocked = glance
        .prompt_feedback
        .is_some_and(|f| f.block_reason.is_some());
    let known = glance.candidates.is_some() || glance.usage_metadata.is_some();
    let complete = finished || blocked;
    Seen {
        output: complete || committed || !known || says_something(data),
        complete,
        ends: false,
        usage: glance.usage_metadata.map(UsageIn::usage),
        usage_only: false,
    }
}

/// Whether a part holds anything but an empty text.
fn says_something(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Body {
        candidates: Option<Vec<Candidate>>,
    }
    #[derive(Deserialize)]
    struct Candidate {
        content: Option<Content>,
    }
    #[derive(Deserialize)]
    struct Content {
        parts: Option<Vec<Map<String, Value>>>,
    }
    let Ok(body) = serde_json::from_slice::<Body>(data) else {
        return true;
    };
    let candidates = body.candidates.into_iter().flatten();
    let mut parts = candidates
        .filter_map(|candidate| candidate.content?.parts)
        .flatten();
    let is_empty = |value: &Value| matches!(value, Value::Null | Value::Bool(_)) || value == "";
    parts.any(|part| !part.values().all(is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_is_told_from_output() {
        for startup in [
            r#"{"usageMetadata":{"promptTokenCount":5},"modelVersion":"g"}"#,
            r#"{"candidates":[]}"#,
            r#"{"candidates":[{"index":0}]}"#,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":""}]}}]}"#,
        ] {
            assert!(!seen(startup.as_bytes(), false).output, "{startup}");
            assert!(seen(startup.as_bytes(), true).output, "{startup}");
        }
        for output in [
            r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"newThing":{}}]}}]}"#,
            r#"{"something":"else"}"#,
            "{\"broken",
        ] {
            let seen = seen(output.as_bytes(), false);
            assert!(seen.output && !seen.complete && !seen.ends, "{output}");
        }
    }

    #[test]
    fn a_reason_makes_a_stream_whole() {
        let last =
            br#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,
            "candidatesTokenCount":4,"thoughtsTokenCount":3,"cachedContentTokenCount":2}}"#;
        for committed in [false, true] {
            let seen = seen(last, committed);
            assert!(seen.output && seen.complete && !seen.ends);
            let usage = seen.usage.unwrap();
            assert_eq!((usage.input, usage.output), (5, 7));
            assert_eq!((usage.cached, usage.reasoning), (2, 3));
        }
        let blocked = br#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{}}"#;
        assert!(seen(blocked, false).complete && seen(blocked, false).output);
        assert!(seen(br#"{"promptFeedback":{"blockReason":"OTHER"}}"#, false).complete);
    }
}
