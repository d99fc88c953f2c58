//! Whole answers of Cohere's chat.

use serde::Serialize;

use super::WireUsage;
use super::read::{content, tool_calls};
use super::write::{Call, WirePart, call, is_plan};
use crate::protocols::json::Object;
use crate::protocols::talk::{Answer, Part, Stop, Thought, Usage};
use crate::protocols::{Malformed, Shown};

/// Reads a provider's answer.
pub(super) fn read(body: &[u8]) -> Result<Answer, Malformed> {
    Answer::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Answer, Malformed> {
    let mut message = top.need("message")?.object()?;
    message.skip(&["role"]);
    let mut found = Vec::new();
    // What the model means to do with tools stands before what it says.
    if let Some(plan) = message.text("tool_plan")?.filter(|plan| !plan.is_empty()) {
        found.push(Part::Thought(Thought {
            text: plan,
            ..Thought::default()
        }));
    }
    if let Some(member) = message.take("content") {
        found.extend(content(&member)?);
    }
    let stop = stop(&top.text("finish_reason")?.unwrap_or_default())?;
    found.extend(tool_calls(&mut message, stop == Stop::Length)?);
    let usage: Option<WireUsage> = top.read("usage", "an object of counts")?;
    Ok(Answer {
        id: top.text("id")?.unwrap_or_default(),
        model: String::new(),
        parts: found,
        stop,
        usage: usage.map(WireUsage::usage).unwrap_or_default(),
        unplaced: Vec::new(),
    })
}

/// Why an answer ends; two of the reasons are failures.
pub(super) fn stop(reason: &str) -> Result<Stop, Malformed> {
    match reason {
        "MAX_TOKENS" => Ok(Stop::Length),
        // Which one is not told.
        "STOP_SEQUENCE" => Ok(Stop::Sequence(None)),
        "TOOL_CALL" => Ok(Stop::ToolCalls),
        "ERROR_TOXIC" => Ok(Stop::Filtered),
        "ERROR" | "TIMEOUT" => {
            let message = format!("is {reason}: the model broke off");
            Err(Malformed::at("finish_reason", message))
        }
        _ => Ok(Stop::End),
    }
}

pub(super) const fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Paused => "COMPLETE",
        Stop::Sequence(_) => "STOP_SEQUENCE",
        Stop::Length => "MAX_TOKENS",
        Stop::ToolCalls => "TOOL_CALL",
        Stop::Filtered => "ERROR_TOXIC",
    }
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    finish_reason: &'static str,
    message: Message<'a>,
    usage: UsageOut,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_plan: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    content: Vec<WirePart<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

/// `usage` as clients read it.
#[derive(Serialize)]
pub(super) struct UsageOut {
    billed_units: Counts,
    tokens: Counts,
    cached_tokens: u64,
}

#[derive(Clone, Copy, Serialize)]
struct Counts {
    input_tokens: u64,
    output_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        let counts = Counts {
            input_tokens: usage.input,
            output_tokens: usage.output,
        };
        Self {
            billed_units: counts,
            tokens: counts,
            cached_tokens: usage.cached,
        }
    }
}

/// Writes an answer for a client.
pub(super) fn write(answer: &Answer, shown: &Shown) -> Vec<u8> {
    let mut message = Message {
        role: "assistant",
        tool_plan: None,
        content: Vec::new(),
        tool_calls: Vec::new(),
    };
    let plans = is_plan(&answer.parts);
    for part in &answer.parts {
        match part {
            Part::Text(text) => message.content.push(WirePart::Text { text }),
            Part::Thought(thought) if thought.text.is_empty() => {}
            Part::Thought(thought) if plans => message.tool_plan = Some(&thought.text),
            Part::Thought(thought) => message.content.push(WirePart::Thinking {
                thinking: &thought.text,
            }),
            Part::ToolCall(made) => message.tool_calls.push(call(made)),
            // Models say neither.
            Part::Media(_) | Part::ToolResult(_) => {}
        }
    }
    let body = Body {
        id: shown.id_or(&answer.id),
        finish_reason: finish_reason(&answer.stop),
        message,
        usage: answer.usage.into(),
    };
    serde_json::to_vec(&body).expect("strings and numbers can be written")
}
