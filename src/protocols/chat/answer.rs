//! Whole answers of chat completions.

use serde::Serialize;
use serde_with::skip_serializing_none;

use super::request::{parts, thoughts, tool_call};
use super::seen::WireUsage;
use super::write::{CalledFunction, WireCall};
use crate::protocols::json::Object;
use crate::protocols::talk::{Answer, Part, Stop, Thought, Usage};
use crate::protocols::{Malformed, Shown};

/// Reads a provider's answer: its first choice, nobody asked for more.
pub(super) fn read(body: &[u8]) -> Result<Answer, Malformed> {
    Answer::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Answer, Malformed> {
    // Labels of the answer, not parts of it.
    top.skip(&["object", "created", "service_tier", "system_fingerprint"]);
    let choices = top.need("choices")?;
    let first = choices.items()?.into_iter().next();
    let first = first.ok_or_else(|| choices.wrong("has no choice"))?;
    let mut choice = first.object()?;
    let mut message = choice.need("message")?.object()?;
    choice.skip(&["index"]);
    message.skip(&["role"]);

    let mut found = thoughts(&mut message)?;
    if let Some(content) = message.take("content") {
        let said = parts(&content)?.into_iter();
        found.extend(said.filter(|part| *part != Part::Text(String::new())));
    }
    let refusal = message.text("refusal")?.filter(|text| !text.is_empty());
    let refused = refusal.is_some();
    found.extend(refusal.map(Part::Text));
    let mut calls = false;
    let reason = choice.text("finish_reason")?.unwrap_or_default();
    if let Some(all) = message.take("tool_calls") {
        let is_cut = stop(&reason, false) == Stop::Length;
        for call in all.items()? {
            calls = true;
            found.extend(Answer::call(&call, is_cut, tool_call(&call))?);
        }
    }
    let usage: Option<WireUsage> = top.read("usage", "an object of counts")?;
    Ok(Answer {
        id: top.text("id")?.unwrap_or_default(),
        model: top.text("model")?.unwrap_or_default(),
        parts: found,
        stop: if refused {
            Stop::Filtered
        } else {
            stop(&reason, calls)
        },
        usage: usage.map(WireUsage::usage).unwrap_or_default(),
        unplaced: Vec::new(),
    })
}

/// What a `finish_reason` means; several providers say `stop` where tools are called.
pub(super) fn stop(finish_reason: &str, calls_tools: bool) -> Stop {
    match finish_reason {
        "length" | "max_tokens" | "model_length" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter" => Stop::Filtered,
        _ if calls_tools => Stop::ToolCalls,
        _ => Stop::End,
    }
}

pub(super) const fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Sequence(_) | Stop::Paused => "stop",
        Stop::Length => "length",
        Stop::ToolCalls => "tool_calls",
        Stop::Filtered => "content_filter",
    }
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: UsageOut,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<String>,
    refusal: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Detail<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

/// Reasoning with its seal, so that a client can hand it back.
#[skip_serializing_none]
#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum Detail<'a> {
    #[serde(rename = "reasoning.text")]
    Text {
        index: usize,
        text: Option<&'a str>,
        signature: Option<&'a str>,
    },
    #[serde(rename = "reasoning.encrypted")]
    Encrypted { index: usize, data: &'a str },
}

/// `usage` as clients read it.
#[derive(Serialize)]
pub(super) struct UsageOut {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.total(),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached,
            },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning,
            },
        }
    }
}

/// Writes an answer for a client.
pub(super) fn write(answer: &Answer, shown: &Shown) -> Vec<u8> {
    let mut message = Message {
        role: "assistant",
        content: None,
        refusal: None,
        reasoning_content: None,
        reasoning_details: Vec::new(),
        tool_calls: Vec::new(),
    };
    for part in &answer.parts {
        match part {
            Part::Text(text) => message.content.get_or_insert_default().push_str(text),
            Part::Thought(thought) => {
                if !thought.text.is_empty() {
                    let all = message.reasoning_content.get_or_insert_default();
                    all.push_str(&thought.text);
                }
                let index = message.reasoning_details.len();
                message.reasoning_details.push(detail(index, thought));
            }
            Part::ToolCall(call) => message.tool_calls.push(WireCall {
                id: &call.id,
                kind: "function",
                function: CalledFunction {
                    name: &call.name,
                    arguments: call.arguments.text(),
                },
            }),
            // Models say neither.
            Part::Media(_) | Part::ToolResult(_) => {}
        }
    }
    if message.tool_calls.is_empty() {
        message.content.get_or_insert_default();
    }
    let body = Body {
        id: shown.id_or(&answer.id),
        object: "chat.completion",
        created: shown.created,
        model: shown.model_or(&answer.model),
        choices: [Choice {
            index: 0,
            message,
            logprobs: None,
            finish_reason: finish_reason(&answer.stop),
        }],
        usage: answer.usage.into(),
    };
    serde_json::to_vec(&body).expect("strings and numbers can be written")
}

fn detail(index: usize, thought: &Thought) -> Detail<'_> {
    match &thought.redacted {
        Some(data) => Detail::Encrypted { index, data },
        None => Detail::Text {
            index,
            text: Some(&thought.text),
            signature: thought.signature.as_deref(),
        },
    }
}
