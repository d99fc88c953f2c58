//! Whole answers of Converse.

use serde::Serialize;

use super::WireUsage;
use crate::protocols::Malformed;
use crate::protocols::json::{Json, Member, Object};
use crate::protocols::talk::{Answer, Part, Stop, Thought, ToolCall, Usage};

/// Reads a provider's answer.
pub(super) fn read(body: &[u8]) -> Result<Answer, Malformed> {
    Answer::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Answer, Malformed> {
    top.skip(&["metrics"]);
    let mut message = top.need("output")?.object()?.need("message")?.object()?;
    message.skip(&["role"]);
    let mut found = Vec::new();
    for item in message.need("content")?.items()? {
        let mut block = item.object()?;
        if let Some(text) = block.text("text")? {
            found.push(Part::Text(text));
        } else if let Some(member) = block.take("toolUse") {
            found.push(Part::ToolCall(tool_call(&member)?));
        } else if let Some(member) = block.take("reasoningContent") {
            found.push(Part::Thought(thought(&mut member.object()?)?));
        } else if let Some(member) = block.take("citationsContent") {
            // The text itself stands beside what it cites.
            for piece in member.object()?.need("content")?.items()? {
                let text = piece.object()?.text("text")?;
                found.extend(text.map(Part::Text));
            }
        }
    }
    let reason = top.text("stopReason")?.unwrap_or_default();
    let usage: Option<WireUsage> = top.read("usage", "an object of counts")?;
    Ok(Answer {
        id: String::new(),
        model: String::new(),
        parts: found,
        stop: stop(&reason),
        usage: usage.map(WireUsage::usage).unwrap_or_default(),
        unplaced: Vec::new(),
    })
}

/// A call, as answers and requests have it.
pub(super) fn tool_call(member: &Member<'_>) -> Result<ToolCall, Malformed> {
    let mut call = member.object()?;
    Ok(ToolCall {
        id: call.need("toolUseId")?.text()?,
        name: call.need("name")?.text()?,
        arguments: match call.take("input") {
            Some(input) => input.json_object()?,
            None => Json::empty_object(),
        },
    })
}

/// Reasoning, as answers and requests have it.
pub(super) fn thought(reasoning: &mut Object<'_>) -> Result<Thought, Malformed> {
    let redacted = reasoning.text("redactedContent")?;
    let Some(member) = reasoning.take("reasoningText") else {
        return Ok(Thought {
            redacted,
            ..Thought::default()
        });
    };
    let mut text = member.object()?;
    Ok(Thought {
        text: text.text("text")?.unwrap_or_default(),
        signature: text.text("signature")?,
        redacted,
    })
}

pub(super) fn stop(reason: &str) -> Stop {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        // Which one is not told.
        "stop_sequence" => Stop::Sequence(None),
        "tool_use" => Stop::ToolCalls,
        "guardrail_intervened" | "content_filtered" => Stop::Filtered,
        _ => Stop::End,
    }
}

pub(super) const fn stop_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Paused => "end_turn",
        Stop::Sequence(_) => "stop_sequence",
        Stop::Length => "max_tokens",
        Stop::ToolCalls => "tool_use",
        Stop::Filtered => "content_filtered",
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    output: Output<'a>,
    stop_reason: &'static str,
    usage: UsageOut,
}

#[derive(Serialize)]
struct Output<'a> {
    message: Message<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<BlockOut<'a>>,
}

/// A block as models say it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BlockOut<'a> {
    Text(&'a str),
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: &'a str,
        name: &'a str,
        input: &'a Json,
    },
    ReasoningContent(ReasoningOut<'a>),
}

/// Reasoning, shown or not.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ReasoningOut<'a> {
    ReasoningText {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    RedactedContent(&'a str),
}

impl<'a> From<&'a Thought> for ReasoningOut<'a> {
    fn from(thought: &'a Thought) -> Self {
        match &thought.redacted {
            Some(data) => Self::RedactedContent(data),
            None => Self::ReasoningText {
                text: &thought.text,
                signature: thought.signature.as_deref(),
            },
        }
    }
}

/// `usage` as clients read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageOut {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    cache_read_input_tokens: u64,
    cache_write_input_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage
                .input
                .saturating_sub(usage.cached)
                .saturating_sub(usage.cache_written),
            output_tokens: usage.output,
            total_tokens: usage.total(),
            cache_read_input_tokens: usage.cached,
            cache_write_input_tokens: usage.cache_written,
        }
    }
}

/// Writes an answer for a client.
pub(super) fn write(answer: &Answer) -> Vec<u8> {
    let content = answer.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(BlockOut::Text(text)),
        Part::Thought(thought) => Some(BlockOut::ReasoningContent(thought.into())),
        Part::ToolCall(call) => Some(BlockOut::ToolUse {
            tool_use_id: &call.id,
            name: &call.name,
            input: &call.arguments,
        }),
        // Models say neither.
        Part::Media(_) | Part::ToolResult(_) => None,
    });
    let body = Body {
        output: Output {
            message: Message {
                role: "assistant",
                content: content.collect(),
            },
        },
        stop_reason: stop_reason(&answer.stop),
        usage: answer.usage.into(),
    };
    serde_json::to_vec(&body).expect("strings, numbers and JSON can be written")
}
