//! What the events and answers of chat completions are, read as cheaply as it can be done.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::DONE;
use crate::protocols::Seen;
use crate::protocols::json::{count, holds_more_than_null};
use crate::protocols::talk::Usage;

/// `usage` as OpenAI writes it. Counts that are absent or no numbers are 0.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    #[serde(deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    completion_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    #[serde(deserialize_with = "count")]
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    /// In the words of `talk`.
    pub(super) fn usage(self) -> Usage {
        let input = self.prompt_tokens.unwrap_or(0);
        // Embeddings have no completion; some providers leave one of the two to be worked out.
        let rest = self.total_tokens.unwrap_or(0).saturating_sub(input);
        Usage {
            input,
            output: self.completion_tokens.unwrap_or(rest),
            cached: self
                .prompt_tokens_details
                .and_then(|d| d.cached_tokens)
                .unwrap_or(0),
            cache_written: 0,
            reasoning: self
                .completion_tokens_details
                .and_then(|d| d.reasoning_tokens)
                .unwrap_or(0),
        }
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

/// Reads one chunk. What cannot be read counts as output: it is the client's to judge.
pub(in crate::protocols) fn read(data: &[u8]) -> Seen {
    if data == DONE.as_bytes() {
        return Seen {
            ends: true,
            ..Seen::OUTPUT
        };
    }
    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
        return Seen::OUTPUT;
    };
    let usage: Option<WireUsage> = chunk.usage.and_then(|u| serde_json::from_str(u.get()).ok());
    let usage = usage.map(WireUsage::usage);
    let choices = match (chunk.choices, usage) {
        (Some(choices), _) => choices,
        // Some leave the empty list out.
        (None, Some(_)) => Vec::new(),
        (None, None) => return Seen::OUTPUT,
    };
    let complete = choices.iter().any(|c| c.finish_reason.is_some());
    Seen {
        output: complete || choices.iter().any(Choice::says_something),
        complete,
        ends: false,
        usage,
        usage_only: choices.is_empty() && usage.is_some(),
    }
}

/// Reads a chunk only where it may hold more than output: most chunks do not.
pub(in crate::protocols) fn glance(data: &[u8]) -> Seen {
    static USAGE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"usage\""));
    static END: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"finish_reason\""));
    if data == DONE.as_bytes()
        || holds_more_than_null(data, &USAGE)
        || holds_more_than_null(data, &END)
    {
        return read(data);
    }
    Seen::OUTPUT
}

impl Choice<'_> {
    fn says_something(&self) -> bool {
        let spoken = |raw: &&RawValue| !is_empty(raw.get());
        self.text.as_ref().is_some_and(spoken) || self.delta.is_some_and(delta_says_something)
    }
}

/// A delta with anything but its role and empty values.
fn delta_says_something(delta: &RawValue) -> bool {
    let Ok(members) = serde_json::from_str::<serde_json::Map<_, _>>(delta.get()) else {
        return !is_empty(delta.get());
    };
    members
        .iter()
        .any(|(name, value)| name != "role" && !is_empty(&value.to_string()))
}

fn is_empty(json: &str) -> bool {
    matches!(json, "null" | "\"\"" | "[]" | "{}")
}

/// The usage of a whole answer.
pub(in crate::protocols) fn usage(body: &[u8]) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Answer {
        usage: Option<WireUsage>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    answer.usage.map(WireUsage::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_is_told_from_output() {
        let startup = [
            r#"{"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}"#,
        ];
        for chunk in startup {
            assert_eq!(read(chunk.as_bytes()), Seen::default(), "{chunk}");
        }
        let output = [
            r#"{"choices":[{"delta":{"content":"x"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"x"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"refusal":"x"}}]}"#,
            r#"{"object":"x.new","payload":1}"#,
            r#"{"choices":[{"text":"x"}]}"#,
            "{\"broken",
        ];
        for chunk in output {
            let seen = read(chunk.as_bytes());
            assert!(seen.output && !seen.complete, "{chunk}");
        }
        let end = read(br#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#);
        assert!(end.output && end.complete && !end.ends);
        assert!(read(b"[DONE]").ends && glance(b"[DONE]").ends);
    }

    #[test]
    fn a_glance_finds_usage_and_the_end() {
        let usage = Usage {
            input: 5,
            output: 7,
            cached: 3,
            reasoning: 2,
            cache_written: 0,
        };
        let text = br#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12,
            "prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}}"#;
        let seen = glance(text);
        assert_eq!((seen.usage, seen.usage_only), (Some(usage), true));
        for text in [
            r#"{"id":"c","usage":{"prompt_tokens":5}}"#,
            r#"{"choices":null,"usage":{"prompt_tokens":5}}"#,
        ] {
            let seen = glance(text.as_bytes());
            assert!(seen.usage_only && !seen.output, "{text}");
        }
        let seen = glance(br#"{"choices":[{"delta":{},"finish_reason": "stop"}],"usage":null}"#);
        assert!(seen.complete && seen.usage.is_none() && !seen.usage_only);
        let quiet = glance(
            br#"{"choices":[{"delta":{"content":"\"usage\":{}"},"finish_reason":null}],"usage": null}"#,
        );
        assert_eq!(quiet, Seen::OUTPUT);
    }
}
