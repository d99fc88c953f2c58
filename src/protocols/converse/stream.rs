//! Streams of Converse: each event's name stands in the header of its frame.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::BytesMut;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::WireUsage;
use super::answer::{UsageOut, stop, stop_reason};
use crate::protocols::talk::{Delta, MAX_CALLS, Stop, Usage};
use crate::protocols::{Event, Malformed, ReadStream, WriteStream};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart {
    content_block_index: u64,
    start: Option<StartIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartIn {
    tool_use: Option<ToolUseIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUseIn {
    tool_use_id: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta {
    #[serde(default)]
    content_block_index: u64,
    #[serde(default)]
    delta: DeltaIn,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeltaIn {
    text: Option<String>,
    tool_use: Option<InputPiece>,
    reasoning_content: Option<ReasoningPiece>,
    citation: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputPiece {
    input: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReasoningPiece {
    text: Option<String>,
    signature: Option<String>,
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    #[serde(default)]
    stop_reason: String,
}

#[derive(Deserialize)]
struct Metadata {
    usage: Option<WireUsage>,
}

/// Whether a delta is an empty text.
pub(super) fn says_nothing(data: &[u8]) -> bool {
    let Ok(BlockDelta { delta, .. }) = serde_json::from_slice(data) else {
        return false;
    };
    let empty = delta.text.as_deref().is_some_and(str::is_empty);
    empty && delta.tool_use.is_none() && delta.reasoning_content.is_none()
}

/// Reads a provider's stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    started: bool,
    /// The index of each block that calls a tool, in order.
    calls: Vec<u64>,
}

impl ReadStream for Reader {
    fn read(&mut self, event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        if !self.started {
            self.started = true;
            out.push(Delta::Start {
                id: String::new(),
                model: String::new(),
            });
        }
        match event.kind() {
            "contentBlockStart" => {
                let block: BlockStart = parse(event)?;
                if let Some(tool) = block.start.and_then(|start| start.tool_use) {
                    let call = self.calls.len();
                    if call == MAX_CALLS {
                        let message = format!("has more than {MAX_CALLS} calls");
                        return Err(Malformed::at("content", message));
                    }
                    self.calls.push(block.content_block_index);
                    out.push(Delta::ToolCall {
                        call,
                        id: tool.tool_use_id,
                        name: tool.name,
                    });
                }
            }
            "contentBlockDelta" => self.delta(parse(event)?, out),
            "messageStop" => {
                let end: End = parse(event)?;
                out.push(Delta::Stop(stop(&end.stop_reason)));
            }
            "metadata" => {
                let metadata: Metadata = parse(event)?;
                out.extend(metadata.usage.map(|u| Delta::Usage(u.usage())));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Reader {
    fn delta(&self, block: BlockDelta, out: &mut Vec<Delta>) {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        out.extend(some(block.delta.text).map(Delta::Text));
        if let Some(reasoning) = block.delta.reasoning_content {
            out.extend(some(reasoning.text).map(Delta::Thought));
            out.extend(some(reasoning.signature).map(Delta::Signature));
            out.extend(some(reasoning.redacted_content).map(Delta::Redacted));
        }
        if block.delta.citation.is_some() {
            let path = "output.message.content[].citationsContent.citations".to_owned();
            out.push(Delta::Unplaced(path));
        }
        let index = block.content_block_index;
        let call = self.calls.iter().rposition(|i| *i == index);
        let piece = call.zip(some(block.delta.tool_use.map(|piece| piece.input)));
        out.extend(piece.map(|(call, json)| Delta::Arguments { call, json }));
    }
}

fn parse<'a, T: Deserialize<'a>>(event: &'a Event) -> Result<T, Malformed> {
    serde_json::from_slice(&event.data)
        .map_err(|e| Malformed::at(event.kind(), format!("cannot be read: {e}")))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockOut<T> {
    content_block_index: usize,
    #[serde(flatten)]
    rest: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Rest<'a> {
    Start(StartOut<'a>),
    Delta(DeltaOut<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum StartOut<'a> {
    #[serde(rename_all = "camelCase")]
    ToolUse { tool_use_id: &'a str, name: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum DeltaOut<'a> {
    Text(&'a str),
    ToolUse { input: &'a str },
    ReasoningContent(PieceOut<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum PieceOut<'a> {
    Text(&'a str),
    Signature(&'a str),
    RedactedContent(&'a str),
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct RoleOut {
    role: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StopOut {
    stop_reason: &'static str,
}

#[derive(Serialize)]
struct MetadataOut {
    usage: UsageOut,
}

/// What the open block holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    Text,
    Thought,
    ToolCall,
}

/// Writes a client's stream.
#[derive(Debug, Default)]
pub(super) struct Writer {
    open: Open,
    /// Blocks begun so far.
    blocks: usize,
    /// The block of each call.
    calls: Vec<usize>,
    stop: Stop,
    usage: Usage,
}

impl Writer {
    fn close(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.open) != Open::Nothing {
            self.block("contentBlockStop", self.blocks - 1, Nothing {}, out);
        }
    }

    fn block(&self, name: &'static str, index: usize, rest: impl Serialize, out: &mut BytesMut) {
        let block = BlockOut {
            content_block_index: index,
            rest,
        };
        write_event(name, &block, out);
    }

    /// Goes on with the open block, or begins one of this kind. Blocks of text begin unannounced.
    fn go_on(&mut self, kind: Open, delta: DeltaOut<'_>, out: &mut BytesMut) {
        if self.open != kind {
            self.close(out);
            self.blocks += 1;
            self.open = kind;
        }
        self.block(
            "contentBlockDelta",
            self.blocks - 1,
            Rest::Delta(delta),
            out,
        );
    }
}

impl WriteStream for Writer {
    fn write(&mut self, delta: Delta, out: &mut BytesMut) {
        let reasoning = DeltaOut::ReasoningContent;
        match delta {
            Delta::Start { .. } => write_event("messageStart", &RoleOut { role: "assistant" }, out),
            Delta::Text(text) => self.go_on(Open::Text, DeltaOut::Text(&text), out),
            Delta::Thought(text) => {
                self.go_on(Open::Thought, reasoning(PieceOut::Text(&text)), out);
            }
            Delta::Signature(seal) => {
                self.go_on(Open::Thought, reasoning(PieceOut::Signature(&seal)), out);
                // The next thought has a seal of its own.
                self.close(out);
            }
            Delta::Redacted(data) => {
                self.close(out);
                let piece = reasoning(PieceOut::RedactedContent(&data));
                self.go_on(Open::Thought, piece, out);
                self.close(out);
            }
            Delta::ToolCall { id, name, .. } => {
                self.close(out);
                self.calls.push(self.blocks);
                let start = StartOut::ToolUse {
                    tool_use_id: &id,
                    name: &name,
                };
                self.block("contentBlockStart", self.blocks, Rest::Start(start), out);
                self.blocks += 1;
                self.open = Open::ToolCall;
            }
            Delta::Arguments { call, json } => {
                // Calls may be written in turns: clients go by the index.
                if let Some(index) = self.calls.get(call).copied() {
                    let delta = DeltaOut::ToolUse { input: &json };
                    self.block("contentBlockDelta", index, Rest::Delta(delta), out);
                }
            }
            Delta::Stop(stop) => self.stop = stop,
            Delta::Usage(usage) => self.usage.merge(usage),
            Delta::Unplaced(_) => {}
        }
    }

    fn end(&mut self, _extra_fields: Option<&[u8]>, out: &mut BytesMut) {
        self.close(out);
        let stop_reason = stop_reason(&self.stop);
        write_event("messageStop", &StopOut { stop_reason }, out);
        let usage = self.usage.into();
        write_event("metadata", &MetadataOut { usage }, out);
    }
}

fn write_event(name: &'static str, data: &impl Serialize, out: &mut BytesMut) {
    let data = serde_json::to_vec(data).expect("strings and numbers can be written");
    write_frame(
        [(":message-type", "event"), (":event-type", name)],
        data,
        out,
    );
}

/// Writes a refusal as the last event of a stream.
pub(super) fn write_exception(name: &'static str, data: &[u8], out: &mut BytesMut) {
    let headers = [(":message-type", "exception"), (":exception-type", name)];
    write_frame(headers, data.to_vec(), out);
}

fn write_frame(headers: [(&'static str, &'static str); 2], data: Vec<u8>, out: &mut BytesMut) {
    let mut message = Message::new(data);
    for (name, value) in headers
        .into_iter()
        .chain([(":content-type", "application/json")])
    {
        message = message.add_header(Header::new(name, HeaderValue::String(value.into())));
    }
    write_message_to(&message, out).expect("short headers and a payload below 4 GB fit a frame");
}
