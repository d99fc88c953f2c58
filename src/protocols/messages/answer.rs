//! Whole answers of messages.

use serde::{Deserialize, Serialize};

use super::WireUsage;
use crate::protocols::json::{Json, Object};
use crate::protocols::talk::{Answer, Part, Stop, Thought, ToolCall, Usage};
use crate::protocols::{Malformed, Shown};

/// The usage of an answer, or of a token count.
pub(super) fn usage(body: &[u8]) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Body {
        usage: Option<WireUsage>,
    }
    let body: Body = serde_json::from_slice(body).ok()?;
    body.usage.map(WireUsage::usage)
}

/// Reads a provider's answer. Blocks of tools that the provider runs itself are not asked for, so there
/// are none.
pub(super) fn read(body: &[u8]) -> Result<Answer, Malformed> {
    Answer::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Answer, Malformed> {
    top.skip(&["type", "role"]);
    let mut found = Vec::new();
    for item in top.need("content")?.items()? {
        let mut block = item.object()?;
        match block.need("type")?.text()?.as_str() {
            "text" => found.push(Part::Text(block.need("text")?.text()?)),
            "thinking" => found.push(Part::Thought(Thought {
                text: block.need("thinking")?.text()?,
                signature: block.text("signature")?.filter(|seal| !seal.is_empty()),
                redacted: None,
            })),
            "redacted_thinking" => found.push(Part::Thought(Thought {
                redacted: Some(block.need("data")?.text()?),
                ..Thought::default()
            })),
            "tool_use" => found.push(Part::ToolCall(ToolCall {
                id: block.need("id")?.text()?,
                name: block.need("name")?.text()?,
                arguments: match block.take("input") {
                    Some(input) => input.json_object()?,
                    None => Json::empty_object(),
                },
            })),
            _ => {}
        }
    }
    let reason = top.text("stop_reason")?.unwrap_or_default();
    let usage: Option<WireUsage> = top.read("usage", "an object of counts")?;
    Ok(Answer {
        id: top.text("id")?.unwrap_or_default(),
        model: top.text("model")?.unwrap_or_default(),
        parts: found,
        stop: stop(&reason, top.text("stop_sequence")?),
        usage: usage.map(WireUsage::usage).unwrap_or_default(),
        unplaced: Vec::new(),
    })
}

pub(super) fn stop(reason: &str, sequence: Option<String>) -> Stop {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "stop_sequence" => Stop::Sequence(sequence),
        "tool_use" => Stop::ToolCalls,
        "pause_turn" => Stop::Paused,
        "refusal" => Stop::Filtered,
        _ => Stop::End,
    }
}

/// `stop_reason` and `stop_sequence`.
pub(super) fn stop_reason(stop: &Stop) -> (&'static str, Option<&str>) {
    match stop {
        Stop::End => ("end_turn", None),
        // Not every provider tells which one.
        Stop::Sequence(sequence) => ("stop_sequence", sequence.as_deref()),
        Stop::Length => ("max_tokens", None),
        Stop::ToolCalls => ("tool_use", None),
        Stop::Filtered => ("refusal", None),
        Stop::Paused => ("pause_turn", None),
    }
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<BlockOut<'a>>,
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
    usage: UsageOut,
}

/// A block as clients read it; also what a stream starts one with.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum BlockOut<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Json,
    },
}

/// `usage` as clients read it.
#[derive(Serialize)]
pub(super) struct UsageOut {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage
                .input
                .saturating_sub(usage.cached)
                .saturating_sub(usage.cache_written),
            output_tokens: usage.output,
            cache_creation_input_tokens: usage.cache_written,
            cache_read_input_tokens: usage.cached,
        }
    }
}

/// Writes an answer for a client.
pub(super) fn write(answer: &Answer, shown: &Shown) -> Vec<u8> {
    let content = answer.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(BlockOut::Text { text }),
        Part::Thought(thought) => Some(match &thought.redacted {
            Some(data) => BlockOut::RedactedThinking { data },
            None => BlockOut::Thinking {
                thinking: &thought.text,
                signature: thought.signature.as_deref().unwrap_or_default(),
            },
        }),
        Part::ToolCall(call) => Some(BlockOut::ToolUse {
            id: &call.id,
            name: &call.name,
            input: &call.arguments,
        }),
        // Models say neither.
        Part::Media(_) | Part::ToolResult(_) => None,
    });
    let (stop_reason, stop_sequence) = stop_reason(&answer.stop);
    let body = Body {
        id: shown.id_or(&answer.id),
        kind: "message",
        role: "assistant",
        model: shown.model_or(&answer.model),
        content: content.collect(),
        stop_reason,
        stop_sequence,
        usage: answer.usage.into(),
    };
    serde_json::to_vec(&body).expect("strings, numbers and JSON can be written")
}
