//! Streams of responses: written for clients.

use bytes::BytesMut;
use serde::Serialize;
use serde_with::skip_serializing_none;

use super::item::{
    Body, Item, ItemOut, PartOut, ResponseOut, SummaryOut, Whole, response_id, status,
};
use super::text_tool;
use crate::protocols::talk::{Delta, Stop, Thought, Usage};
use crate::protocols::{Shown, WriteStream, write_event};

/// An event about an item or a piece of one. Absent members do not belong to its type.
#[skip_serializing_none]
#[derive(Default, Serialize)]
struct Piece<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    item_id: Option<&'a str>,
    output_index: usize,
    content_index: Option<u32>,
    summary_index: Option<u32>,
    item: Option<ItemOut<'a>>,
    part: Option<AnyPart<'a>>,
    delta: Option<&'a str>,
    text: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a str>,
    input: Option<&'a str>,
    logprobs: Option<[(); 0]>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyPart<'a> {
    Content(PartOut<'a>),
    Summary(SummaryOut<'a>),
}

/// Writes a client's stream. Messages and reasoning end where something else begins; calls stay open to
/// the end, for their arguments may come in turns.
#[derive(Debug)]
pub(super) struct Writer {
    shown: Shown,
    id: String,
    model: String,
    /// Events so far.
    sequence: u64,
    items: Vec<Item>,
    /// The message or reasoning under way: always the last item.
    is_open: bool,
    /// The item of each call.
    calls: Vec<usize>,
    stop: Stop,
    usage: Usage,
}

impl Writer {
    pub(super) fn new(shown: Shown) -> Self {
        Self {
            id: response_id(&shown, ""),
            model: shown.model.clone(),
            shown,
            sequence: 0,
            items: Vec::new(),
            is_open: false,
            calls: Vec::new(),
            stop: Stop::End,
            usage: Usage::default(),
        }
    }

    /// An event about the whole response.
    fn whole(&mut self, kind: &'static str, ended: bool, extra: Option<&[u8]>, out: &mut BytesMut) {
        let end = ended.then_some((&self.stop, self.usage));
        let created = self.shown.created;
        let event = Whole {
            kind,
            sequence_number: self.sequence,
            response: ResponseOut::new(&self.id, &self.model, created, &self.items, end),
            extra_fields: extra.and_then(|json| serde_json::from_slice(json).ok()),
        };
        let data = serde_json::to_vec(&event).expect("strings, numbers and JSON can be written");
        write_event(Some(kind), &data, out);
        self.sequence += 1;
    }

    /// Begins an item and announces it.
    fn begin(&mut self, body: Body, out: &mut BytesMut) {
        self.close(out);
        let place = self.items.len();
        let item = Item::new(&self.id, place, body);
        let mut events = Events::of(&item, place, self.sequence);
        events.added(out);
        self.sequence = events.sequence;
        self.items.push(item);
    }

    /// Goes on with the text or the reasoning under way, or begins one.
    fn go_on(&mut self, is_text: bool, more: &str, out: &mut BytesMut) {
        if more.is_empty() {
            return;
        }
        let last = self.items.last().filter(|_| self.is_open);
        let fits = last.is_some_and(|item| matches!(item.body, Body::Message(_)) == is_text);
        if !fits {
            let body = if is_text {
                Body::Message(String::new())
            } else {
                Body::Reasoning {
                    text: String::new(),
                    seal: None,
                }
            };
            self.begin(body, out);
            self.is_open = true;
        }
        let place = self.items.len() - 1;
        let item = &mut self.items[place];
        let is_first = match &mut item.body {
            Body::Message(text) | Body::Reasoning { text, .. } => {
                let is_first = text.is_empty();
                text.push_str(more);
                is_first
            }
            Body::Call { .. } | Body::TextCall { .. } => false,
        };
        let mut events = Events::of(item, place, self.sequence);
        if is_first {
            events.part_added(out);
        }
        events.delta(more, out);
        self.sequence = events.sequence;
    }

    /// Ends the text or the reasoning under way.
    fn close(&mut self, out: &mut BytesMut) {
        if self.is_open {
            self.is_open = false;
            self.finish(self.items.len() - 1, out);
        }
    }

    fn finish(&mut self, place: usize, out: &mut BytesMut) {
        let item = &mut self.items[place];
        item.is_done = true;
        let mut events = Events::of(item, place, self.sequence);
        events.done(out);
        self.sequence = events.sequence;
    }

    /// Puts a seal on the reasoning under way, or on reasoning of which nothing is shown.
    fn seal(&mut self, sealed: String, out: &mut BytesMut) {
        let last = self.items.last_mut().filter(|_| self.is_open);
        if let Some(Body::Reasoning { seal, .. }) = last.map(|item| &mut item.body) {
            *seal = Some(sealed);
            self.close(out);
            return;
        }
        let body = Body::Reasoning {
            text: String::new(),
            seal: Some(sealed),
        };
        self.begin(body, out);
        self.finish(self.items.len() - 1, out);
    }

    fn arguments(&mut self, call: usize, json: &str, out: &mut BytesMut) {
        let Some(place) = self.calls.get(call).copied() else {
            return;
        };
        let item = &mut self.items[place];
        match &mut item.body {
            Body::Call { arguments, .. } => arguments.push_str(json),
            // Its text is told when all of it can be read.
            Body::TextCall { arguments, .. } => return arguments.push_str(json),
            Body::Message(_) | Body::Reasoning { .. } => {}
        }
        let mut events = Events::of(item, place, self.sequence);
        events.delta(json, out);
        self.sequence = events.sequence;
    }
}

impl WriteStream for Writer {
    fn write(&mut self, delta: Delta, out: &mut BytesMut) {
        match delta {
            Delta::Start { id, model } => {
                self.id = response_id(&self.shown, &id);
                self.shown.model_or(&model).clone_into(&mut self.model);
                self.whole("response.created", false, None, out);
                self.whole("response.in_progress", false, None, out);
            }
            Delta::Text(text) => self.go_on(true, &text, out),
            Delta::Thought(text) => self.go_on(false, &text, out),
            Delta::Signature(signature) => self.seal(signature, out),
            Delta::Redacted(data) => {
                self.close(out);
                let thought = Thought {
                    redacted: Some(data),
                    ..Thought::default()
                };
                self.seal(thought.seal().unwrap_or_default().into_owned(), out);
            }
            Delta::ToolCall { id, name, .. } => {
                let body = Body::call(&self.shown, id, name, String::new());
                self.begin(body, out);
                self.calls.push(self.items.len() - 1);
            }
            Delta::Arguments { call, json } => self.arguments(call, &json, out),
            Delta::Stop(stop) => self.stop = stop,
            Delta::Usage(usage) => self.usage.merge(usage),
            Delta::Unplaced(_) => {}
        }
    }

    fn end(&mut self, extra_fields: Option<&[u8]>, out: &mut BytesMut) {
        self.close(out);
        for call in 0..self.calls.len() {
            let place = self.calls[call];
            let is_bare = matches!(&self.items[place].body,
                Body::Call { arguments, .. } if arguments.is_empty());
            if is_bare {
                self.arguments(call, "{}", out);
            }
            self.finish(place, out);
        }
        let (status, _) = status(&self.stop);
        let kind = if status == "completed" {
            "response.completed"
        } else {
            "response.incomplete"
        };
        self.whole(kind, true, extra_fields, out);
    }

    fn events(&self) -> u64 {
        self.sequence
    }
}

/// Writes the events of one item.
struct Events<'a> {
    item: &'a Item,
    place: usize,
    sequence: u64,
}

impl<'a> Events<'a> {
    const fn of(item: &'a Item, place: usize, sequence: u64) -> Self {
        Self {
            item,
            place,
            sequence,
        }
    }

    fn write(&mut self, piece: Piece<'_>, out: &mut BytesMut) {
        let piece = Piece {
            sequence_number: self.sequence,
            output_index: self.place,
            ..piece
        };
        let data = serde_json::to_vec(&piece).expect("strings and numbers can be written");
        write_event(Some(piece.kind), &data, out);
        self.sequence += 1;
    }

    /// About a piece of the item, at the index that its kind has.
    fn piece(&mut self, kind: &'static str, piece: Piece<'_>, out: &mut BytesMut) {
        let (content_index, summary_index) = match self.item.body {
            Body::Message(_) => (Some(0), None),
            Body::Reasoning { .. } => (None, Some(0)),
            Body::Call { .. } | Body::TextCall { .. } => (None, None),
        };
        let item_id = Some(self.item.id.as_str());
        self.write(
            Piece {
                kind,
                item_id,
                content_index,
                summary_index,
                ..piece
            },
            out,
        );
    }

    fn added(&mut self, out: &mut BytesMut) {
        let piece = Piece {
            kind: "response.output_item.added",
            item: Some(self.item.out()),
            ..Piece::default()
        };
        self.write(piece, out);
    }

    /// An empty part, before the first piece of it.
    fn part_added(&mut self, out: &mut BytesMut) {
        let (kind, part) = match self.item.body {
            Body::Message(_) => (
                "response.content_part.added",
                AnyPart::Content(PartOut::of("")),
            ),
            Body::Reasoning { .. } => (
                "response.reasoning_summary_part.added",
                AnyPart::Summary(SummaryOut::SummaryText { text: "" }),
            ),
            Body::Call { .. } | Body::TextCall { .. } => return,
        };
        let piece = Piece {
            part: Some(part),
            ..Piece::default()
        };
        self.piece(kind, piece, out);
    }

    fn delta(&mut self, more: &str, out: &mut BytesMut) {
        let is_text = matches!(self.item.body, Body::Message(_));
        let kind = match self.item.body {
            Body::Message(_) => "response.output_text.delta",
            Body::Reasoning { .. } => "response.reasoning_summary_text.delta",
            Body::Call { .. } => "response.function_call_arguments.delta",
            Body::TextCall { .. } => "response.custom_tool_call_input.delta",
        };
        let piece = Piece {
            delta: Some(more),
            logprobs: is_text.then_some([]),
            ..Piece::default()
        };
        self.piece(kind, piece, out);
    }

    /// What is whole: the text, its part, the item.
    fn done(&mut self, out: &mut BytesMut) {
        let item = self.item;
        match &item.body {
            Body::Message(text) => {
                let whole = Piece {
                    text: Some(text),
                    logprobs: Some([]),
                    ..Piece::default()
                };
                self.piece("response.output_text.done", whole, out);
                let part = Piece {
                    part: Some(AnyPart::Content(PartOut::of(text))),
                    ..Piece::default()
                };
                self.piece("response.content_part.done", part, out);
            }
            Body::Reasoning { text, .. } if text.is_empty() => {}
            Body::Reasoning { text, .. } => {
                let whole = Piece {
                    text: Some(text),
                    ..Piece::default()
                };
                self.piece("response.reasoning_summary_text.done", whole, out);
                let part = Piece {
                    part: Some(AnyPart::Summary(SummaryOut::SummaryText { text })),
                    ..Piece::default()
                };
                self.piece("response.reasoning_summary_part.done", part, out);
            }
            Body::Call {
                name, arguments, ..
            } => {
                let whole = Piece {
                    name: Some(name),
                    arguments: Some(arguments),
                    ..Piece::default()
                };
                self.piece("response.function_call_arguments.done", whole, out);
            }
            Body::TextCall { arguments, .. } => {
                let input = text_tool::input(arguments);
                self.delta(&input, out);
                let whole = Piece {
                    input: Some(&input),
                    ..Piece::default()
                };
                self.piece("response.custom_tool_call_input.done", whole, out);
            }
        }
        let piece = Piece {
            kind: "response.output_item.done",
            item: Some(item.out()),
            ..Piece::default()
        };
        self.write(piece, out);
    }
}
