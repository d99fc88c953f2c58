//! Whole answers of responses.

use std::borrow::Cow;

use super::item::{Body, Item, ResponseOut, response_id};
use super::read::{arguments_of, thought};
use super::seen::WireUsage;
use crate::protocols::json::Object;
use crate::protocols::talk::{Answer, Part, Stop, ToolCall, Usage};
use crate::protocols::{Malformed, Shown};

/// What names the answer, or repeats the request.
const LABELS: [&str; 25] = [
    "background",
    "billing",
    "completed_at",
    "created_at",
    "error",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "object",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Reads a provider's answer. Items of tools that the provider runs itself are not asked for, so there
/// are none.
pub(super) fn read(body: &[u8]) -> Result<Answer, Malformed> {
    Answer::read(body, members)
}

fn members(top: &mut Object<'_>) -> Result<Answer, Malformed> {
    top.skip(&LABELS);
    let status = top.text("status")?.unwrap_or_default();
    let mut found = Vec::new();
    let mut refused = false;
    for place in top.need("output")?.items()? {
        let mut item = place.object()?;
        item.skip(&["id", "status", "role"]);
        match item.need("type")?.text()?.as_str() {
            "message" => refused |= message(&mut item, &mut found)?,
            "reasoning" => found.push(Part::Thought(thought(&mut item)?)),
            "function_call" => {
                let is_cut = status == "incomplete";
                found.extend(Answer::call(&place, is_cut, call(&mut item))?);
            }
            _ => {}
        }
    }
    let reason = match top.take("incomplete_details") {
        Some(details) => details.object()?.text("reason")?,
        None => None,
    };
    let calls = found.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let usage: Option<WireUsage> = top.read("usage", "an object of counts")?;
    Ok(Answer {
        id: top.text("id")?.unwrap_or_default(),
        model: top.text("model")?.unwrap_or_default(),
        parts: found,
        stop: stop(&status, reason.as_deref(), refused, calls),
        usage: usage.map(WireUsage::usage).unwrap_or_default(),
        unplaced: Vec::new(),
    })
}

fn call(item: &mut Object<'_>) -> Result<ToolCall, Malformed> {
    Ok(ToolCall {
        id: item.need("call_id")?.text()?,
        name: item.need("name")?.text()?,
        arguments: arguments_of(&item.need("arguments")?)?,
    })
}

/// Adds what a message says; true where the model refused.
fn message(item: &mut Object<'_>, found: &mut Vec<Part>) -> Result<bool, Malformed> {
    let mut refused = false;
    for part in item.need("content")?.items()? {
        let mut part = part.object()?;
        part.skip_empty(&["annotations", "logprobs"]);
        match part.need("type")?.text()?.as_str() {
            "output_text" => found.push(Part::Text(part.need("text")?.text()?)),
            "refusal" => {
                refused = true;
                found.push(Part::Text(part.need("refusal")?.text()?));
            }
            _ => {}
        }
    }
    Ok(refused)
}

/// Why a response ended.
pub(super) fn stop(status: &str, reason: Option<&str>, refused: bool, calls: bool) -> Stop {
    match (status, reason) {
        ("incomplete", Some("content_filter")) => Stop::Filtered,
        ("incomplete", _) => Stop::Length,
        _ if refused => Stop::Filtered,
        _ if calls => Stop::ToolCalls,
        _ => Stop::End,
    }
}

/// Writes an answer for a client.
pub(super) fn write(answer: &Answer, shown: &Shown) -> Vec<u8> {
    let id = response_id(shown, &answer.id);
    let mut items: Vec<Item> = Vec::new();
    for part in &answer.parts {
        let body = match part {
            Part::Text(text) => {
                if let Some(Body::Message(said)) = items.last_mut().map(|item| &mut item.body) {
                    said.push_str(text);
                    continue;
                }
                Body::Message(text.clone())
            }
            Part::Thought(thought) => Body::Reasoning {
                text: thought.text.clone(),
                seal: thought.seal().map(Cow::into_owned),
            },
            Part::ToolCall(call) => Body::call(
                shown,
                call.id.clone(),
                call.name.clone(),
                call.arguments.text().to_owned(),
            ),
            // Models say neither.
            Part::Media(_) | Part::ToolResult(_) => continue,
        };
        let item = Item::new(&id, items.len(), body);
        items.push(Item {
            is_done: true,
            ..item
        });
    }
    let model = shown.model_or(&answer.model);
    let end: Option<(&Stop, Usage)> = Some((&answer.stop, answer.usage));
    let response = ResponseOut::new(&id, model, shown.created, &items, end);
    serde_json::to_vec(&response).expect("strings and numbers can be written")
}
