//! Streams of chat completions.

use bytes::BytesMut;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::DONE;
use super::answer::{Detail, UsageOut, finish_reason, stop};
use super::seen::WireUsage;
use crate::protocols::talk::{Delta, MAX_CALLS, Stop, Usage};
use crate::protocols::{Event, Malformed, ReadStream, Shown, WriteStream, write_event};

#[derive(Deserialize)]
struct Chunk<'a> {
    id: Option<String>,
    model: Option<String>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<WireUsage>,
    /// As Perplexity has it.
    citations: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Piece<'a>>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    reasoning_content: Option<String>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    reasoning_details: Option<Vec<DetailIn>>,
    refusal: Option<String>,
    annotations: Option<IgnoredAny>,
    tool_calls: Option<Vec<CallPiece<'a>>>,
}

#[derive(Deserialize)]
struct DetailIn {
    signature: Option<String>,
    data: Option<String>,
}

#[derive(Deserialize)]
struct CallPiece<'a> {
    index: Option<u64>,
    id: Option<String>,
    #[serde(borrow, default)]
    function: Option<FunctionPiece<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FunctionPiece<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// As Mistral has it: a list of parts in place of a string.
#[derive(Deserialize)]
struct ContentPart {
    text: Option<String>,
    thinking: Option<Vec<ThinkingPart>>,
}

#[derive(Deserialize)]
struct ThinkingPart {
    text: Option<String>,
}

/// Reads a provider's stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    started: bool,
    refused: bool,
    /// Index and id of each call, as the provider gave them.
    calls: Vec<(u64, String)>,
}

impl ReadStream for Reader {
    fn read(&mut self, event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        if event.data == DONE {
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(&event.data)
            .map_err(|e| Malformed::at("chunk", format!("cannot be read: {e}")))?;
        let usage = chunk.usage.map(WireUsage::usage);
        let choice = chunk.choices.unwrap_or_default().into_iter().next();
        if choice.is_none() && usage.is_none() {
            return Ok(());
        }
        if !self.started {
            self.started = true;
            out.push(Delta::Start {
                id: chunk.id.unwrap_or_default(),
                model: chunk.model.unwrap_or_default(),
            });
        }
        if let Some(choice) = choice {
            if let Some(piece) = choice.delta {
                self.piece(piece, out)?;
            }
            if let Some(reason) = choice.finish_reason {
                out.push(Delta::Stop(if self.refused {
                    Stop::Filtered
                } else {
                    stop(&reason, !self.calls.is_empty())
                }));
            }
        }
        if chunk.citations.is_some() {
            out.push(Delta::Unplaced("citations".to_owned()));
        }
        out.extend(usage.map(Delta::Usage));
        Ok(())
    }
}

impl Reader {
    fn piece(&mut self, piece: Piece<'_>, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        let plain = piece.reasoning.and_then(text_of);
        let thought = piece.reasoning_content.or(plain);
        out.extend(thought.filter(|t| !t.is_empty()).map(Delta::Thought));
        for detail in piece.reasoning_details.unwrap_or_default() {
            out.extend(detail.signature.map(Delta::Signature));
            out.extend(detail.data.map(Delta::Redacted));
        }
        if let Some(content) = piece.content {
            self::content(content, out);
        }
        if let Some(refusal) = piece.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            out.push(Delta::Text(refusal));
        }
        if piece.annotations.is_some() {
            let path = "choices[].delta.annotations".to_owned();
            out.push(Delta::Unplaced(path));
        }
        for call in piece.tool_calls.unwrap_or_default() {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: CallPiece<'_>, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        let function = piece.function.unwrap_or_default();
        let id = piece.id.unwrap_or_default();
        let known = match piece.index {
            Some(index) => self.calls.iter().rposition(|(i, _)| *i == index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|(_, known)| *known == id),
        };
        // Some count every call as the first one: then only the id tells them apart.
        let known = known.filter(|n| id.is_empty() || self.calls[*n].1 == id);
        let call = match known {
            Some(call) => call,
            None => {
                let call = self.calls.len();
                if call == MAX_CALLS {
                    let message = format!("are more than {MAX_CALLS}");
                    return Err(Malformed::at("tool_calls", message));
                }
                let index = piece.index.unwrap_or(call as u64);
                self.calls.push((index, id.clone()));
                let name = function.name.unwrap_or_default();
                let id = if id.is_empty() {
                    format!("call_{call}")
                } else {
                    id
                };
                out.push(Delta::ToolCall { call, id, name });
                call
            }
        };
        let json = function.arguments.map(|raw| match text_of(raw) {
            Some(text) => text,
            None if raw.get() == "null" => String::new(),
            None => raw.get().to_owned(),
        });
        if let Some(json) = json.filter(|json| !json.is_empty()) {
            out.push(Delta::Arguments { call, json });
        }
        Ok(())
    }
}

fn text_of(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn content(raw: &RawValue, out: &mut Vec<Delta>) {
    if let Some(text) = text_of(raw) {
        out.extend((!text.is_empty()).then_some(Delta::Text(text)));
        return;
    }
    let parts: Vec<ContentPart> = serde_json::from_str(raw.get()).unwrap_or_default();
    for part in parts {
        for thinking in part.thinking.unwrap_or_default() {
            out.extend(thinking.text.map(Delta::Thought));
        }
        out.extend(part.text.map(Delta::Text));
    }
}

#[skip_serializing_none]
#[derive(Serialize)]
struct ChunkOut<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [ChoiceOut<'a>],
    usage: Option<UsageOut>,
    extra_fields: Option<&'a RawValue>,
}

#[derive(Default, Serialize)]
struct ChoiceOut<'a> {
    index: u32,
    delta: PieceOut<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[skip_serializing_none]
#[derive(Default, Serialize)]
struct PieceOut<'a> {
    role: Option<&'static str>,
    content: Option<&'a str>,
    reasoning_content: Option<&'a str>,
    reasoning_details: Option<[Detail<'a>; 1]>,
    tool_calls: Option<[CallOut<'a>; 1]>,
}

#[derive(Serialize)]
struct CallOut<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: FunctionOut<'a>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

/// Writes a client's stream.
#[derive(Debug)]
pub(super) struct Writer {
    shown: Shown,
    id: String,
    model: String,
    /// The last call, while it has no arguments.
    bare: Option<usize>,
    stop: Stop,
    usage: Usage,
}

impl Writer {
    pub(super) fn new(shown: Shown) -> Self {
        Self {
            shown,
            id: String::new(),
            model: String::new(),
            bare: None,
            stop: Stop::End,
            usage: Usage::default(),
        }
    }

    fn chunk(
        &self,
        choices: &[ChoiceOut<'_>],
        usage: Option<UsageOut>,
        extra_fields: Option<&[u8]>,
        out: &mut BytesMut,
    ) {
        let extra = extra_fields.and_then(|json| serde_json::from_slice(json).ok());
        let chunk = ChunkOut {
            id: self.shown.id_or(&self.id),
            object: "chat.completion.chunk",
            created: self.shown.created,
            model: self.shown.model_or(&self.model),
            choices,
            usage,
            extra_fields: extra,
        };
        let data = serde_json::to_vec(&chunk).expect("strings and numbers can be written");
        write_event(None, &data, out);
    }

    fn arguments(&self, call: usize, json: &str, out: &mut BytesMut) {
        let function = FunctionOut {
            name: None,
            arguments: json,
        };
        let call = CallOut {
            index: call,
            id: None,
            kind: None,
            function,
        };
        let piece = PieceOut {
            tool_calls: Some([call]),
            ..PieceOut::default()
        };
        self.piece(piece, out);
    }

    /// A call that never got arguments has none: clients read the text as JSON.
    fn finish_bare_call(&mut self, out: &mut BytesMut) {
        if let Some(call) = self.bare.take() {
            self.arguments(call, "{}", out);
        }
    }

    fn piece(&self, delta: PieceOut<'_>, out: &mut BytesMut) {
        let choice = ChoiceOut {
            delta,
            ..ChoiceOut::default()
        };
        self.chunk(&[choice], None, None, out);
    }
}

impl WriteStream for Writer {
    fn write(&mut self, delta: Delta, out: &mut BytesMut) {
        let mut piece = PieceOut::default();
        match &delta {
            Delta::Arguments { call, .. } if self.bare == Some(*call) => self.bare = None,
            Delta::ToolCall { .. } | Delta::Text(_) | Delta::Arguments { .. } => {
                self.finish_bare_call(out);
            }
            Delta::Start { .. }
            | Delta::Thought(_)
            | Delta::Signature(_)
            | Delta::Redacted(_)
            | Delta::Unplaced(_)
            | Delta::Stop(_)
            | Delta::Usage(_) => {}
        }
        match &delta {
            Delta::Start { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                piece.role = Some("assistant");
                piece.content = Some("");
            }
            Delta::Text(text) => piece.content = Some(text),
            Delta::Thought(text) => piece.reasoning_content = Some(text),
            Delta::Signature(signature) => {
                piece.reasoning_details = Some([Detail::Text {
                    index: 0,
                    text: None,
                    signature: Some(signature),
                }]);
            }
            Delta::Redacted(data) => {
                piece.reasoning_details = Some([Detail::Encrypted { index: 0, data }]);
            }
            Delta::ToolCall { call, id, name } => {
                self.bare = Some(*call);
                piece.tool_calls = Some([CallOut {
                    index: *call,
                    id: Some(id),
                    kind: Some("function"),
                    function: FunctionOut {
                        name: Some(name),
                        arguments: "",
                    },
                }]);
            }
            Delta::Arguments { call, json } => {
                self.arguments(*call, json, out);
                return;
            }
            Delta::Unplaced(_) => return,
            Delta::Stop(stop) => {
                self.stop.clone_from(stop);
                return;
            }
            Delta::Usage(usage) => {
                self.usage.merge(*usage);
                return;
            }
        }
        self.piece(piece, out);
    }

    fn end(&mut self, extra_fields: Option<&[u8]>, out: &mut BytesMut) {
        self.finish_bare_call(out);
        let last = ChoiceOut {
            finish_reason: Some(finish_reason(&self.stop)),
            ..ChoiceOut::default()
        };
        self.chunk(&[last], None, extra_fields, out);
        if self.shown.include_usage {
            self.chunk(&[], Some(self.usage.into()), extra_fields, out);
        }
        write_event(None, DONE.as_bytes(), out);
    }
}
