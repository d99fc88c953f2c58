//! Streams of generateContent.

use bytes::BytesMut;

use super::answer::{Body, Candidate, read_piece};
use super::parts::{PartOut, Sealed, call_part, text_part};
use super::wire::{finish_reason, stop};
use crate::protocols::json::Json;
use crate::protocols::talk::{Delta, MAX_CALLS, Part, Stop, Thought, Usage};
use crate::protocols::{Event, Malformed, ReadStream, Shown, WriteStream, write_event};

/// Reads a provider's stream. Calls come whole.
#[derive(Debug, Default)]
pub(super) struct Reader {
    started: bool,
    stopped: bool,
    calls: usize,
    /// The answer's text is under way.
    in_text: bool,
}

impl ReadStream for Reader {
    fn read(&mut self, event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        let piece = read_piece(&event.data, self.calls)?;
        if !self.started {
            self.started = true;
            out.push(Delta::Start {
                id: piece.id,
                model: piece.model,
            });
        }
        // A seal beside a later piece of text comes behind it: before it, it would cut the text in two.
        let mut late = None;
        for part in piece.parts {
            let is_seal = match &part {
                Part::Thought(thought) => thought.text.is_empty() && thought.signature.is_some(),
                Part::Text(_) | Part::Media(_) | Part::ToolCall(_) | Part::ToolResult(_) => false,
            };
            if is_seal && self.in_text && late.is_none() {
                late = Some(part);
                continue;
            }
            if !matches!(part, Part::Text(_))
                && let Some(seal) = late.take()
            {
                self.part(seal, out)?;
            }
            self.part(part, out)?;
        }
        out.extend(piece.unplaced.into_iter().map(Delta::Unplaced));
        if let Some(seal) = late {
            self.part(seal, out)?;
        }
        let stop = match piece.reason {
            Some(reason) => Some(stop(&reason, self.calls > 0)),
            None => piece.blocked.then_some(Stop::Filtered),
        };
        if let Some(stop) = stop.filter(|_| !self.stopped) {
            self.stopped = true;
            out.push(Delta::Stop(stop));
        }
        out.extend(piece.usage.map(Delta::Usage));
        Ok(())
    }
}

impl Reader {
    fn part(&mut self, part: Part, out: &mut Vec<Delta>) -> Result<(), Malformed> {
        self.in_text = matches!(part, Part::Text(_));
        match part {
            Part::Text(text) => out.push(Delta::Text(text)),
            Part::Thought(thought) => {
                if !thought.text.is_empty() {
                    out.push(Delta::Thought(thought.text));
                }
                out.extend(thought.signature.map(Delta::Signature));
                out.extend(thought.redacted.map(Delta::Redacted));
            }
            Part::ToolCall(made) => {
                let call = self.calls;
                if call == MAX_CALLS {
                    let message = format!("has more than {MAX_CALLS} calls");
                    return Err(Malformed::at("candidates", message));
                }
                self.calls += 1;
                out.push(Delta::ToolCall {
                    call,
                    id: made.id,
                    name: made.name,
                });
                if made.arguments != Json::empty_object() {
                    let json = made.arguments.text().to_owned();
                    out.push(Delta::Arguments { call, json });
                }
            }
            // Models say neither.
            Part::Media(_) | Part::ToolResult(_) => {}
        }
        Ok(())
    }
}

/// A call whose arguments may not be whole yet.
#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// Writes a client's stream. Calls wait until they are whole.
#[derive(Debug)]
pub(super) struct Writer {
    shown: Shown,
    id: String,
    model: String,
    /// Of the thought before, until something comes of it.
    seal: Option<String>,
    /// Calls that have not been written.
    calls: Vec<Call>,
    /// Calls that have.
    written: usize,
    stop: Stop,
    usage: Usage,
}

impl Writer {
    pub(super) fn new(shown: Shown) -> Self {
        Self {
            shown,
            id: String::new(),
            model: String::new(),
            seal: None,
            calls: Vec::new(),
            written: 0,
            stop: Stop::End,
            usage: Usage::default(),
        }
    }

    fn event(&self, parts: Vec<PartOut<'_>>, stop: Option<&Stop>, out: &mut BytesMut) {
        let body = Body {
            candidates: [Candidate::of(parts, stop.map(finish_reason))],
            usage_metadata: stop.map(|_| self.usage.into()),
            model_version: self.shown.model_or(&self.model),
            response_id: self.shown.id_or(&self.id),
        };
        let data = serde_json::to_vec(&body).expect("strings, numbers and JSON can be written");
        write_event(None, &data, out);
    }

    fn text(&mut self, text: &str, out: &mut BytesMut) {
        self.write_calls(out);
        let mut parts = Sealed::with(self.seal.take());
        parts.push(text_part(text));
        self.event(parts.finish(), None, out);
    }

    fn thought(&mut self, text: String, out: &mut BytesMut) {
        self.write_calls(out);
        let thought = Thought::sealed(text, None);
        let mut parts = Sealed::with(self.seal.take());
        parts.think(&thought);
        self.event(parts.finish(), None, out);
    }

    /// A second seal in a row stands alone.
    fn seal(&mut self, seal: String, out: &mut BytesMut) {
        self.write_calls(out);
        if let Some(before) = self.seal.take() {
            self.event(Sealed::with(Some(before)).finish(), None, out);
        }
        self.seal = Some(seal);
    }

    /// The calls so far, in one event.
    fn write_calls(&mut self, out: &mut BytesMut) {
        if self.calls.is_empty() {
            return;
        }
        let calls = std::mem::take(&mut self.calls);
        self.written += calls.len();
        let arguments: Vec<Json> = calls.iter().map(Call::arguments).collect();
        let mut parts = Sealed::with(self.seal.take());
        for (call, arguments) in calls.iter().zip(&arguments) {
            parts.push(call_part(Some(&call.id), &call.name, arguments));
        }
        self.event(parts.finish(), None, out);
    }
}

impl Call {
    /// An object in every case: text that is none stands in one.
    fn arguments(&self) -> Json {
        if self.arguments.trim().is_empty() {
            return Json::empty_object();
        }
        let json = Json::parse(self.arguments.trim()).filter(Json::is_object);
        json.unwrap_or_else(|| {
            Json::of(
                &[("arguments", &self.arguments)]
                    .into_iter()
                    .collect::<std::collections::BTreeMap<_, _>>(),
            )
        })
    }
}

impl WriteStream for Writer {
    fn write(&mut self, delta: Delta, out: &mut BytesMut) {
        match delta {
            Delta::Start { id, model } => {
                self.id = id;
                self.model = model;
            }
            Delta::Text(text) => self.text(&text, out),
            Delta::Thought(text) => self.thought(text, out),
            Delta::Signature(seal) => self.seal(seal, out),
            Delta::Redacted(data) => {
                let thought = Thought {
                    redacted: Some(data),
                    ..Thought::default()
                };
                self.seal(thought.seal().unwrap_or_default().into_owned(), out);
            }
            Delta::ToolCall { id, name, .. } => self.calls.push(Call {
                id,
                name,
                arguments: String::new(),
            }),
            Delta::Arguments { call, json } => {
                let place = call.checked_sub(self.written);
                if let Some(call) = place.and_then(|place| self.calls.get_mut(place)) {
                    call.arguments.push_str(&json);
                }
            }
            Delta::Stop(stop) => self.stop = stop,
            Delta::Usage(usage) => self.usage.merge(usage),
            Delta::Unplaced(_) => {}
        }
    }

    fn end(&mut self, _extra_fields: Option<&[u8]>, out: &mut BytesMut) {
        self.write_calls(out);
        let mut last = Sealed::with(self.seal.take());
        last.push(text_part(""));
        self.event(last.finish(), Some(&self.stop), out);
    }
}
