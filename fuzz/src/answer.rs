//! A provider's answer, whole and as a stream, written for every client.

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::protocols::event_stream::EventStreamReader;
use crate::protocols::sse::SseReader;
use crate::protocols::talk::{Delta, Order};
use crate::protocols::{Event, Protocol, Shown};
use crate::{TALK, assert_json};

fn shown() -> Shown {
    Shown {
        id: "request-1".to_owned(),
        model: "model-1".to_owned(),
        created: 1_700_000_000,
        include_usage: true,
        text_tools: Vec::new(),
    }
}

/// What must hold of an input as a provider's answer. Each line of it is a whole answer, and all lines
/// are the events of a stream.
pub fn check(from: Protocol, input: &[u8]) {
    for line in input.split(|byte| *byte == b'\n').take(4) {
        whole(from, line);
    }
    streamed(from, input);
}

/// A whole answer is broken, or becomes an answer for each client that its protocol's readers know.
fn whole(from: Protocol, body: &[u8]) {
    let _ = from.spoken().usage(body);
    let Ok(answer) = from.spoken().read_answer(body) else {
        return;
    };
    for client in TALK {
        let written = client.spoken().write_answer(&answer, &shown());
        assert_json(&written);
        assert!(written.len() <= 32 * body.len() + 8_192);
        let again = client.spoken().read_answer(&written);
        let text = String::from_utf8_lossy(&written);
        assert!(again.is_ok(), "{client:?}: {again:?}: {text}");
    }
}

/// The events of an input. Those of AWS have their name in the frame: here it is the only member.
fn events(from: Protocol, input: &[u8]) -> Vec<Event> {
    let lines = input.split(|byte| *byte == b'\n').take(64);
    let event = |line: &[u8]| {
        let value: Option<Value> = serde_json::from_slice(line).ok();
        let mut data = Bytes::copy_from_slice(line);
        let mut name = None;
        if let Some(Value::Object(object)) = value {
            if from == Protocol::Converse {
                if let Some((kind, inner)) = object.iter().next() {
                    name = Some(Bytes::copy_from_slice(kind.as_bytes()));
                    data = inner.to_string().into();
                }
            } else if let Some(Value::String(kind)) = object.get("type") {
                name = Some(Bytes::copy_from_slice(kind.as_bytes()));
            }
        }
        Event {
            data,
            name,
            ..Event::default()
        }
    };
    lines.map(event).collect()
}

/// What a stream says, however it is cut.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    text: String,
    calls: Vec<(String, String)>,
}

impl Said {
    fn of(deltas: &[Delta]) -> Self {
        let mut said = Self::default();
        for delta in deltas {
            match delta {
                Delta::Text(text) => said.text.push_str(text),
                Delta::ToolCall { id, name, .. } => said.calls.push((id.clone(), name.clone())),
                Delta::Arguments { .. }
                | Delta::Start { .. }
                | Delta::Thought(_)
                | Delta::Signature(_)
                | Delta::Redacted(_)
                | Delta::Unplaced(_)
                | Delta::Stop(_)
                | Delta::Usage(_) => {}
            }
        }
        said
    }
}

/// A stream is broken, or becomes events for each client that its protocol's readers know, which say the
/// same.
fn streamed(from: Protocol, input: &[u8]) {
    let events = events(from, input);
    let mut reader = from.spoken().stream_reader().expect("it converts");
    let (mut order, mut read, mut deltas) = (Order::default(), Vec::new(), Vec::new());
    for (n, event) in events.iter().enumerate() {
        let _ = from.spoken().seen(event, n % 2 == 0);
        let result = reader.read(event, &mut read);
        for delta in read.drain(..) {
            order.admit(delta, |delta| deltas.push(delta));
        }
        if result.is_err() {
            break;
        }
    }
    if deltas.is_empty() {
        return;
    }
    let said = Said::of(&deltas);
    for client in TALK {
        let mut writer = client.spoken().stream_writer(shown()).expect("it converts");
        let mut out = BytesMut::new();
        for delta in &deltas {
            writer.write(delta.clone(), &mut out);
        }
        writer.end(None, &mut out);
        assert!(out.len() <= 2_048 * deltas.len() + 32 * input.len() + 8_192);
        let again = read_back(client, &out);
        assert_eq!(Said::of(&again), said, "{client:?}");
    }
}

fn read_back(client: Protocol, out: &[u8]) -> Vec<Delta> {
    let mut events = Vec::new();
    if client == Protocol::Converse {
        let mut reader = EventStreamReader::default();
        reader.push(out);
        while let Some(event) = reader.next_event().expect("what is written can be read") {
            events.push(event);
        }
    } else {
        let mut reader = SseReader::default();
        reader.push(out);
        while let Some(event) = reader.next_event().expect("what is written can be read") {
            events.push(event);
        }
        assert!(reader.last().is_none(), "the last event is whole");
    }
    let mut reader = client.spoken().stream_reader().expect("it converts");
    let (mut order, mut read, mut deltas) = (Order::default(), Vec::new(), Vec::new());
    for event in &events {
        if event.data != "[DONE]" {
            assert_json(&event.data);
        }
        reader
            .read(event, &mut read)
            .expect("what is written can be read");
        for delta in read.drain(..) {
            order.admit(delta, |delta| deltas.push(delta));
        }
    }
    deltas
}
