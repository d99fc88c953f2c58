//! Streams of Cohere's chat.

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use super::WireUsage;
use super::answer::{UsageOut, finish_reason, stop};
use crate::protocols::talk::{Delta, MAX_CALLS, Stop, Usage};
use crate::protocols::{Event, Malformed, ReadStream, Shown, WriteStream, write_event};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum EventIn {
    MessageStart {
        #[serde(default)]
        id: Option<String>,
    },
    ContentStart {
        #[serde(default)]
        delta: DeltaIn<Content>,
    },
    ContentDelta {
        #[serde(default)]
        delta: DeltaIn<Content>,
    },
    ToolPlanDelta {
        #[serde(default)]
        delta: DeltaIn<Plan>,
    },
    ToolCallStart {
        #[serde(default)]
        index: Option<u64>,
        delta: DeltaIn<Calls>,
    },
    ToolCallDelta {
        #[serde(default)]
        index: Option<u64>,
        delta: DeltaIn<Calls>,
    },
    CitationStart,
    MessageEnd {
        #[serde(default)]
        delta: EndIn,
    },
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeltaIn<T: Default> {
    message: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content {
    content: Piece,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece {
    text: Option<String>,
    thinking: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Plan {
    tool_plan: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Calls {
    tool_calls: CallIn,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallIn {
    id: Option<String>,
    function: FunctionIn,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FunctionIn {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndIn {
    finish_reason: Option<String>,
    error: Option<String>,
    usage: Option<WireUsage>,
}

/// Reads a provider's stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The index of each call, in order.
    calls: Vec<Option<u64>>,
}

impl ReadStream for Reader {
    fn read(&mut self, event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        if !event.data.trim_ascii_start().starts_with(b"{") {
            return Ok(());
        }
        let event: EventIn = serde_json::from_slice(&event.data)
            .map_err(|e| Malformed::at("event", format!("cannot be read: {e}")))?;
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        match event {
            EventIn::MessageStart { id } => out.push(Delta::Start {
                id: id.unwrap_or_default(),
                model: String::new(),
            }),
            EventIn::ContentStart { delta } | EventIn::ContentDelta { delta } => {
                let piece = delta.message.content;
                out.extend(some(piece.thinking).map(Delta::Thought));
                out.extend(some(piece.text).map(Delta::Text));
            }
            EventIn::ToolPlanDelta { delta } => {
                out.extend(some(Some(delta.message.tool_plan)).map(Delta::Thought));
            }
            EventIn::ToolCallStart { index, delta } => {
                let call = self.calls.len();
                if call == MAX_CALLS {
                    let message = format!("are more than {MAX_CALLS}");
                    return Err(Malformed::at("tool_calls", message));
                }
                self.calls.push(index);
                let CallIn { id, function } = delta.message.tool_calls;
                let id = some(id).unwrap_or_else(|| format!("call_{call}"));
                let name = function.name.unwrap_or_default();
                out.push(Delta::ToolCall { call, id, name });
                let json = some(function.arguments);
                out.extend(json.map(|json| Delta::Arguments { call, json }));
            }
            EventIn::ToolCallDelta { index, delta } => {
                let call = self.calls.iter().rposition(|i| *i == index);
                let json = some(delta.message.tool_calls.function.arguments);
                let piece = call.zip(json);
                out.extend(piece.map(|(call, json)| Delta::Arguments { call, json }));
            }
            EventIn::MessageEnd { delta } => {
                if let Some(words) = some(delta.error) {
                    let message = format!("tells of an error: {words}");
                    return Err(Malformed::at("message-end", message));
                }
                out.push(Delta::Stop(stop(&delta.finish_reason.unwrap_or_default())?));
                out.extend(delta.usage.map(|u| Delta::Usage(u.usage())));
            }
            EventIn::CitationStart => {
                out.push(Delta::Unplaced("message.citations".to_owned()));
            }
            EventIn::Other => {}
        }
        Ok(())
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum EventOut<'a> {
    MessageStart {
        id: &'a str,
        delta: DeltaOut<RoleOut>,
    },
    ContentStart {
        index: usize,
        delta: DeltaOut<ContentOut<StartOut>>,
    },
    ContentDelta {
        index: usize,
        delta: DeltaOut<ContentOut<PieceOut<'a>>>,
    },
    ContentEnd {
        index: usize,
    },
    ToolCallStart {
        index: usize,
        delta: DeltaOut<CallsOut<CallOut<'a>>>,
    },
    ToolCallDelta {
        index: usize,
        delta: DeltaOut<CallsOut<ArgumentsOut<'a>>>,
    },
    ToolCallEnd {
        index: usize,
    },
    MessageEnd {
        delta: EndOut,
    },
}

#[derive(Serialize)]
struct DeltaOut<T> {
    message: T,
}

#[derive(Serialize)]
struct RoleOut {
    role: &'static str,
}

#[derive(Serialize)]
struct ContentOut<T> {
    content: T,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StartOut {
    Text { text: &'static str },
    Thinking { thinking: &'static str },
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum PieceOut<'a> {
    Text(&'a str),
    Thinking(&'a str),
}

#[derive(Serialize)]
struct CallsOut<T> {
    tool_calls: T,
}

#[derive(Serialize)]
struct CallOut<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut<'a>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    name: &'a str,
    arguments: &'static str,
}

#[derive(Serialize)]
struct ArgumentsOut<'a> {
    function: ArgumentsPiece<'a>,
}

#[derive(Serialize)]
struct ArgumentsPiece<'a> {
    arguments: &'a str,
}

#[derive(Serialize)]
struct EndOut {
    finish_reason: &'static str,
    usage: UsageOut,
}

impl EventOut<'_> {
    const fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message-start",
            Self::ContentStart { .. } => "content-start",
            Self::ContentDelta { .. } => "content-delta",
            Self::ContentEnd { .. } => "content-end",
            Self::ToolCallStart { .. } => "tool-call-start",
            Self::ToolCallDelta { .. } => "tool-call-delta",
            Self::ToolCallEnd { .. } => "tool-call-end",
            Self::MessageEnd { .. } => "message-end",
        }
    }

    fn write(&self, out: &mut BytesMut) {
        let data = serde_json::to_vec(self).expect("strings and numbers can be written");
        write_event(Some(self.name()), &data, out);
    }
}

/// What is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    Thought,
    ToolCall(usize),
}

/// Writes a client's stream.
#[derive(Debug)]
pub(super) struct Writer {
    shown: Shown,
    open: Open,
    /// Blocks of content begun so far.
    blocks: usize,
    stop: Stop,
    usage: Usage,
}

impl Writer {
    pub(super) fn new(shown: Shown) -> Self {
        Self {
            shown,
            open: Open::Nothing,
            blocks: 0,
            stop: Stop::End,
            usage: Usage::default(),
        }
    }

    fn close(&mut self, out: &mut BytesMut) {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            Open::Text | Open::Thought => {
                let index = self.blocks - 1;
                EventOut::ContentEnd { index }.write(out);
            }
            Open::ToolCall(index) => EventOut::ToolCallEnd { index }.write(out),
        }
    }

    /// Goes on with the open block, or begins one of this kind.
    fn go_on(&mut self, kind: Open, piece: PieceOut<'_>, out: &mut BytesMut) {
        if self.open != kind {
            self.close(out);
            let content = match &piece {
                PieceOut::Text(_) => StartOut::Text { text: "" },
                PieceOut::Thinking(_) => StartOut::Thinking { thinking: "" },
            };
            let message = ContentOut { content };
            EventOut::ContentStart {
                index: self.blocks,
                delta: DeltaOut { message },
            }
            .write(out);
            self.blocks += 1;
            self.open = kind;
        }
        let message = ContentOut { content: piece };
        EventOut::ContentDelta {
            index: self.blocks - 1,
            delta: DeltaOut { message },
        }
        .write(out);
    }
}

impl WriteStream for Writer {
    fn write(&mut self, delta: Delta, out: &mut BytesMut) {
        match delta {
            Delta::Start { id, .. } => EventOut::MessageStart {
                id: self.shown.id_or(&id),
                delta: DeltaOut {
                    message: RoleOut { role: "assistant" },
                },
            }
            .write(out),
            Delta::Text(text) => self.go_on(Open::Text, PieceOut::Text(&text), out),
            Delta::Thought(text) => self.go_on(Open::Thought, PieceOut::Thinking(&text), out),
            // Reasoning is never sealed here.
            Delta::Signature(_) | Delta::Redacted(_) => {}
            Delta::ToolCall { call, id, name } => {
                self.close(out);
                let function = FunctionOut {
                    name: &name,
                    arguments: "",
                };
                let tool_calls = CallOut {
                    id: &id,
                    kind: "function",
                    function,
                };
                let message = CallsOut { tool_calls };
                EventOut::ToolCallStart {
                    index: call,
                    delta: DeltaOut { message },
                }
                .write(out);
                self.open = Open::ToolCall(call);
            }
            Delta::Arguments { call, json } => {
                let function = ArgumentsPiece { arguments: &json };
                let message = CallsOut {
                    tool_calls: ArgumentsOut { function },
                };
                EventOut::ToolCallDelta {
                    index: call,
                    delta: DeltaOut { message },
                }
                .write(out);
            }
            Delta::Stop(stop) => self.stop = stop,
            Delta::Usage(usage) => self.usage.merge(usage),
            Delta::Unplaced(_) => {}
        }
    }

    fn end(&mut self, _extra_fields: Option<&[u8]>, out: &mut BytesMut) {
        self.close(out);
        let delta = EndOut {
            finish_reason: finish_reason(&self.stop),
            usage: self.usage.into(),
        };
        EventOut::MessageEnd { delta }.write(out);
    }
}
