//! Streams of messages.

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use super::WireUsage;
use super::answer::{BlockOut, UsageOut, stop, stop_reason};
use crate::protocols::json::Json;
use crate::protocols::talk::{Delta, MAX_CALLS, Stop, Usage};
use crate::protocols::{Event, Malformed, ReadStream, Shown, WriteStream, write_event};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum EventIn {
    MessageStart {
        message: MessageIn,
    },
    ContentBlockStart {
        index: u64,
        content_block: BlockIn,
    },
    ContentBlockDelta {
        index: u64,
        delta: DeltaIn,
    },
    MessageDelta {
        delta: EndIn,
        usage: Option<WireUsage>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageIn {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockIn {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        // Not as text: a tagged enum is read through values.
        input: Option<serde_json::Map<String, serde_json::Value>>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::enum_variant_names,
    reason = "the protocol's own names, ending in _delta"
)]
enum DeltaIn {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    CitationsDelta,
    #[serde(other)]
    OtherDelta,
}

#[derive(Deserialize)]
struct EndIn {
    stop_reason: Option<String>,
    stop_sequence: Option<String>,
}

/// Reads a provider's stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The index of each block that calls a tool, in order.
    calls: Vec<u64>,
}

impl ReadStream for Reader {
    fn read(&mut self, event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        let event: EventIn = serde_json::from_slice(&event.data)
            .map_err(|e| Malformed::at("event", format!("cannot be read: {e}")))?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        match event {
            EventIn::MessageStart { message } => {
                out.push(Delta::Start {
                    id: message.id,
                    model: message.model,
                });
                out.extend(message.usage.map(|u| Delta::Usage(u.usage())));
            }
            EventIn::ContentBlockStart {
                index,
                content_block,
            } => match content_block {
                BlockIn::Text { text } => out.extend(some(text).map(Delta::Text)),
                BlockIn::Thinking { thinking } => out.extend(some(thinking).map(Delta::Thought)),
                BlockIn::RedactedThinking { data } => out.push(Delta::Redacted(data)),
                BlockIn::ToolUse { id, name, input } => {
                    let call = self.calls.len();
                    if call == MAX_CALLS {
                        let message = format!("has more than {MAX_CALLS} calls");
                        return Err(Malformed::at("content", message));
                    }
                    self.calls.push(index);
                    out.push(Delta::ToolCall { call, id, name });
                    let given = input.filter(|input| !input.is_empty());
                    out.extend(given.map(|input| Delta::Arguments {
                        call,
                        json: Json::of(&input).text().to_owned(),
                    }));
                }
                BlockIn::Other => {}
            },
            EventIn::ContentBlockDelta { index, delta } => match delta {
                DeltaIn::TextDelta { text } => out.extend(some(text).map(Delta::Text)),
                DeltaIn::ThinkingDelta { thinking } => {
                    out.extend(some(thinking).map(Delta::Thought));
                }
                DeltaIn::SignatureDelta { signature } => out.push(Delta::Signature(signature)),
                DeltaIn::InputJsonDelta { partial_json } => {
                    let call = self.calls.iter().rposition(|i| *i == index);
                    let piece = call.zip(some(partial_json));
                    out.extend(piece.map(|(call, json)| Delta::Arguments { call, json }));
                }
                DeltaIn::CitationsDelta => {
                    out.push(Delta::Unplaced("content[].citations".to_owned()));
                }
                DeltaIn::OtherDelta => {}
            },
            EventIn::MessageDelta { delta, usage } => {
                if let Some(reason) = delta.stop_reason {
                    out.push(Delta::Stop(stop(&reason, delta.stop_sequence)));
                }
                out.extend(usage.map(|u| Delta::Usage(u.usage())));
            }
            EventIn::Other => {}
        }
        Ok(())
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum EventOut<'a> {
    MessageStart {
        message: MessageOut<'a>,
    },
    ContentBlockStart {
        index: usize,
        content_block: BlockOut<'a>,
    },
    ContentBlockDelta {
        index: usize,
        delta: DeltaOut<'a>,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: EndOut<'a>,
        usage: UsageOut,
    },
    MessageStop,
}

#[derive(Serialize)]
struct MessageOut<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: [(); 0],
    stop_reason: Option<()>,
    stop_sequence: Option<()>,
    usage: UsageOut,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::enum_variant_names,
    reason = "the protocol's own names, ending in _delta"
)]
enum DeltaOut<'a> {
    TextDelta { text: &'a str },
    ThinkingDelta { thinking: &'a str },
    SignatureDelta { signature: &'a str },
    InputJsonDelta { partial_json: &'a str },
}

#[derive(Serialize)]
struct EndOut<'a> {
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
}

impl EventOut<'_> {
    const fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
        }
    }

    fn write(&self, out: &mut BytesMut) {
        let data = serde_json::to_vec(self).expect("strings, numbers and JSON can be written");
        write_event(Some(self.name()), &data, out);
    }
}

/// What the open block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    Thought,
    ToolCall,
}

/// Writes a client's stream.
#[derive(Debug)]
pub(super) struct Writer {
    shown: Shown,
    open: Open,
    /// Blocks begun so far.
    blocks: usize,
    /// The block of each call.
    calls: Vec<usize>,
    stop: Stop,
    usage: Usage,
}

impl Writer {
    pub(super) fn new(shown: Shown) -> Self {
        Self {
            shown,
            open: Open::Nothing,
            blocks: 0,
            calls: Vec::new(),
            stop: Stop::End,
            usage: Usage::default(),
        }
    }

    fn close(&mut self, out: &mut BytesMut) {
        if self.open != Open::Nothing {
            let index = self.blocks - 1;
            EventOut::ContentBlockStop { index }.write(out);
            self.open = Open::Nothing;
        }
    }

    fn begin(&mut self, kind: Open, content_block: BlockOut<'_>, out: &mut BytesMut) {
        self.close(out);
        let index = self.blocks;
        EventOut::ContentBlockStart {
            index,
            content_block,
        }
        .write(out);
        self.blocks += 1;
        self.open = kind;
    }

    /// Goes on with the open block, or begins one of this kind.
    fn go_on(&mut self, kind: Open, delta: DeltaOut<'_>, out: &mut BytesMut) {
        if self.open != kind {
            let block = if kind == Open::Text {
                BlockOut::Text { text: "" }
            } else {
                BlockOut::Thinking {
                    thinking: "",
                    signature: "",
                }
            };
            self.begin(kind, block, out);
        }
        let index = self.blocks - 1;
        EventOut::ContentBlockDelta { index, delta }.write(out);
    }
}

impl WriteStream for Writer {
    fn write(&mut self, delta: Delta, out: &mut BytesMut) {
        match delta {
            Delta::Start { id, model } => {
                let message = MessageOut {
                    id: self.shown.id_or(&id),
                    kind: "message",
                    role: "assistant",
                    model: self.shown.model_or(&model),
                    content: [],
                    stop_reason: None,
                    stop_sequence: None,
                    usage: self.usage.into(),
                };
                EventOut::MessageStart { message }.write(out);
            }
            Delta::Text(text) => self.go_on(Open::Text, DeltaOut::TextDelta { text: &text }, out),
            Delta::Thought(text) => {
                let delta = DeltaOut::ThinkingDelta { thinking: &text };
                self.go_on(Open::Thought, delta, out);
            }
            Delta::Signature(signature) => {
                let signature = &signature;
                self.go_on(Open::Thought, DeltaOut::SignatureDelta { signature }, out);
                // The next thought has a seal of its own.
                self.close(out);
            }
            Delta::Redacted(data) => {
                let block = BlockOut::RedactedThinking { data: &data };
                self.begin(Open::Thought, block, out);
                self.close(out);
            }
            Delta::ToolCall { id, name, .. } => {
                self.calls.push(self.blocks);
                let block = BlockOut::ToolUse {
                    id: &id,
                    name: &name,
                    input: &Json::empty_object(),
                };
                self.begin(Open::ToolCall, block, out);
            }
            Delta::Arguments { call, json } => {
                // Calls may be written in turns: clients go by the index.
                if let Some(index) = self.calls.get(call).copied() {
                    let delta = DeltaOut::InputJsonDelta {
                        partial_json: &json,
                    };
                    EventOut::ContentBlockDelta { index, delta }.write(out);
                }
            }
            Delta::Stop(stop) => self.stop = stop,
            Delta::Usage(usage) => self.usage.merge(usage),
            Delta::Unplaced(_) => {}
        }
    }

    fn end(&mut self, _extra_fields: Option<&[u8]>, out: &mut BytesMut) {
        self.close(out);
        let (stop_reason, stop_sequence) = stop_reason(&self.stop);
        let delta = EndOut {
            stop_reason,
            stop_sequence,
        };
        EventOut::MessageDelta {
            delta,
            usage: self.usage.into(),
        }
        .write(out);
        EventOut::MessageStop.write(out);
    }
}
