//! Streams of responses: read from providers.

use std::borrow::Cow;

use serde::Deserialize;

use super::answer::stop;
use super::read;
use super::seen::WireUsage;
use crate::protocols::json::Member;
use crate::protocols::talk::{Delta, MAX_CALLS};
use crate::protocols::{Event, Malformed, ReadStream};

#[derive(Deserialize)]
struct EventIn<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    summary_index: u64,
    delta: Option<String>,
    arguments: Option<String>,
    response: Option<ResponseIn>,
}

#[derive(Deserialize)]
struct ResponseIn {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    status: String,
    incomplete_details: Option<IncompleteIn>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct IncompleteIn {
    reason: Option<String>,
}

/// A call under way.
#[derive(Debug)]
struct Call {
    output_index: u64,
    has_arguments: bool,
}

/// Reads a provider's stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    started: bool,
    refused: bool,
    calls: Vec<Call>,
}

impl ReadStream for Reader {
    fn read(&mut self, event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        let read: EventIn<'_> = serde_json::from_slice(&event.data)
            .map_err(|e| Malformed::at("event", format!("cannot be read: {e}")))?;
        let piece = read.delta.filter(|delta| !delta.is_empty());
        match &*read.kind {
            "response.created" => {
                let response = read.response;
                let (id, model) = response.map(|r| (r.id, r.model)).unwrap_or_default();
                self.start(id, model, out);
            }
            "response.output_text.delta" => out.extend(piece.map(Delta::Text)),
            "response.refusal.delta" => {
                self.refused = true;
                out.extend(piece.map(Delta::Text));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                out.extend(piece.map(Delta::Thought));
            }
            "response.reasoning_summary_part.added" if read.summary_index > 0 => {
                out.push(Delta::Thought("\n\n".to_owned()));
            }
            "response.output_item.added" => self.item_added(event, read.output_index, out)?,
            "response.output_text.annotation.added" => {
                let path = "output[].content[].annotations".to_owned();
                out.push(Delta::Unplaced(path));
            }
            "response.function_call_arguments.delta" => {
                self.arguments(read.output_index, piece, out);
            }
            "response.function_call_arguments.done" => {
                let whole = read.arguments.filter(|text| !text.is_empty());
                if self
                    .call_at(read.output_index)
                    .is_some_and(|n| !self.calls[n].has_arguments)
                {
                    self.arguments(read.output_index, whole, out);
                }
            }
            "response.output_item.done" => item_done(event, out)?,
            "response.completed" | "response.incomplete" => {
                let Some(response) = read.response else {
                    return Ok(());
                };
                self.start(response.id, response.model, out);
                let reason = response.incomplete_details.and_then(|d| d.reason);
                let calls = !self.calls.is_empty();
                let stop = stop(&response.status, reason.as_deref(), self.refused, calls);
                out.push(Delta::Stop(stop));
                out.extend(response.usage.map(|u| Delta::Usage(u.usage())));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Reader {
    fn start(&mut self, id: String, model: String, out: &mut Vec<Delta>) {
        if !self.started {
            self.started = true;
            out.push(Delta::Start { id, model });
        }
    }

    fn call_at(&self, output_index: u64) -> Option<usize> {
        let mut calls = self.calls.iter();
        calls.rposition(|call| call.output_index == output_index)
    }

    fn item_added(
        &mut self,
        event: &Event,
        output_index: u64,
        out: &mut Vec<Delta>,
    ) -> Result<(), Malformed> {
        let mut item = Member::root(&event.data)?
            .object()?
            .need("item")?
            .object()?;
        if item.need("type")?.text()? != "function_call" {
            return Ok(());
        }
        let call = self.calls.len();
        if call == MAX_CALLS {
            let message = format!("has more than {MAX_CALLS} calls");
            return Err(Malformed::at("output", message));
        }
        self.calls.push(Call {
            output_index,
            has_arguments: false,
        });
        out.push(Delta::ToolCall {
            call,
            id: item.need("call_id")?.text()?,
            name: item.need("name")?.text()?,
        });
        let given = item.text("arguments")?.filter(|text| !text.is_empty());
        self.arguments(output_index, given, out);
        Ok(())
    }

    fn arguments(&mut self, output_index: u64, piece: Option<String>, out: &mut Vec<Delta>) {
        if let (Some(call), Some(json)) = (self.call_at(output_index), piece) {
            self.calls[call].has_arguments = true;
            out.push(Delta::Arguments { call, json });
        }
    }
}

/// The seal of reasoning comes with the whole item.
fn item_done(event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed> {
    let mut item = Member::root(&event.data)?
        .object()?
        .need("item")?
        .object()?;
    if item.need("type")?.text()? != "reasoning" {
        return Ok(());
    }
    let thought = read::thought(&mut item)?;
    out.extend(thought.signature.map(Delta::Signature));
    out.extend(thought.redacted.map(Delta::Redacted));
    Ok(())
}
