//! Generators of what is said, for the round trips of every protocol.

use proptest::prelude::*;

use bytes::BytesMut;

use super::json::Json;
use super::sse::{Event, SseReader};
use super::talk::{
    Answer, Delta, Media, MediaKind, Order, Part, Request, Role, Source, Stop, Thought, Tool,
    ToolCall, ToolChoice, ToolResult, Turn, Usage,
};
use super::{Shown, Spoken};

/// Text that is not empty, with what JSON must escape.
pub(crate) fn text() -> impl Strategy<Value = String> {
    "[a-zA-Zäß世🦀\"\\\\\n ]{0,12}[a-z]"
}

fn id() -> impl Strategy<Value = String> {
    "[a-z]{1,8}_[0-9]{1,4}"
}

/// Arguments or a schema: an object whose numbers and order must survive.
pub(crate) fn object() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::empty_object()),
        text().prop_map(|text| {
            let text = serde_json::Value::from(text);
            let json = format!(r#"{{"z":{text},"a":1.10,"big":12345678901234567890}}"#);
            Json::parse(&json).unwrap()
        }),
    ]
}

/// An image, here or there.
pub(crate) fn image() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[A-Za-z0-9+/]{4,16}".prop_map(|data| Source::Base64 {
            media_type: "image/png".to_owned(),
            data,
        }),
        "[a-z]{1,9}".prop_map(|path| Source::Url(format!("https://example.com/{path}.png"))),
    ]
    .prop_map(|source| {
        Part::Media(Media {
            kind: MediaKind::Image,
            source,
            name: None,
        })
    })
}

/// What a user says: text and images.
fn said() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(prop_oneof![text().prop_map(Part::Text), image()], 1..4)
}

/// One exchange: the user asks, the model answers or calls tools, whose results follow.
fn exchange() -> impl Strategy<Value = Vec<Turn>> {
    let call = (id(), "[a-z_]{1,10}", object());
    let calls = prop::collection::vec((call, text()), 0..3);
    (said(), prop::option::of(text()), calls).prop_map(|(asked, answer, calls)| {
        let mut turns = vec![Turn {
            role: Role::User,
            parts: asked,
        }];
        let mut parts: Vec<Part> = answer.map(Part::Text).into_iter().collect();
        let mut results = Vec::new();
        for (n, ((id, name, arguments), text)) in calls.into_iter().enumerate() {
            let id = format!("{id}{n}");
            results.push(Part::ToolResult(ToolResult {
                call_id: id.clone(),
                parts: vec![Part::Text(text)],
                is_error: false,
            }));
            parts.push(Part::ToolCall(ToolCall {
                id,
                name,
                arguments,
            }));
        }
        if parts.is_empty() {
            parts.push(Part::Text("well".to_owned()));
        }
        turns.push(Turn {
            role: Role::Assistant,
            parts,
        });
        let results = (!results.is_empty()).then_some(Turn {
            role: Role::User,
            parts: results,
        });
        turns.extend(results);
        turns
    })
}

fn tool() -> impl Strategy<Value = Tool> {
    ("[a-z_]{1,10}", prop::option::of(text()), object()).prop_map(
        |(name, description, parameters)| Tool {
            name,
            description,
            parameters: Some(parameters),
            strict: None,
        },
    )
}

/// A request that every protocol which talks can say, turns alternating. Texts of neighbouring parts
/// stay apart; protocols that merge them compare merged.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    let choice = prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::Required),
        Just(ToolChoice::Named("tool".to_owned())),
    ];
    (
        prop::option::of(text()),
        prop::collection::vec(exchange(), 1..4),
        prop::collection::vec(tool(), 0..3),
        prop::option::of(choice),
        (1_u64..100_000, prop::option::of(0_u32..=10)),
        prop::collection::vec(text(), 0..3),
    )
        .prop_map(
            |(system, turns, tools, choice, (max_tokens, tenths), stop)| Request {
                system: system.into_iter().collect(),
                turns: turns.into_iter().flatten().collect(),
                tool_choice: choice.filter(|_| !tools.is_empty()),
                tools,
                max_tokens: Some(max_tokens),
                temperature: tenths.and_then(|t| serde_json::Number::from_f64(f64::from(t) / 10.0)),
                stop,
                ..Request::default()
            },
        )
}

/// An answer that every protocol can give: a sealed thought, a text, calls of tools.
pub(crate) fn answer() -> impl Strategy<Value = Answer> {
    let thought = (text(), "[A-Za-z0-9+/]{4,12}");
    let calls = prop::collection::vec(("[a-z_]{1,10}", object()), 0..3);
    let usage = (0_u64..9_999, 0_u64..9_999, 0_u64..100);
    (
        prop::option::of(thought),
        prop::option::of(text()),
        calls,
        usage,
    )
        .prop_map(|(thought, text, calls, (fresh, output, cached))| {
            let stop = match (calls.is_empty(), output % 3) {
                (false, _) => Stop::ToolCalls,
                (true, 0) => Stop::Length,
                (true, _) => Stop::End,
            };
            let mut parts: Vec<Part> = Vec::new();
            parts.extend(thought.map(|(text, signature)| {
                Part::Thought(Thought {
                    text,
                    signature: Some(signature),
                    redacted: None,
                })
            }));
            parts.extend(text.map(Part::Text));
            parts.extend(calls.into_iter().enumerate().map(|(n, (name, arguments))| {
                Part::ToolCall(ToolCall {
                    id: format!("call_{n}"),
                    name,
                    arguments,
                })
            }));
            if parts.is_empty() {
                parts.push(Part::Text("well".to_owned()));
            }
            Answer {
                id: "answer_1".to_owned(),
                model: "model-1".to_owned(),
                parts,
                stop,
                usage: Usage {
                    input: fresh + cached,
                    output,
                    cached,
                    ..Usage::default()
                },
                unplaced: Vec::new(),
            }
        })
}

/// The answer as it is streamed, in pieces of at most `piece` characters.
pub(crate) fn pieces(answer: &Answer, piece: usize) -> Vec<Delta> {
    let cut = |text: &str| -> Vec<String> {
        let all: Vec<char> = text.chars().collect();
        all.chunks(piece.max(1))
            .map(|c| c.iter().collect())
            .collect()
    };
    let mut out = vec![Delta::Start {
        id: answer.id.clone(),
        model: answer.model.clone(),
    }];
    let mut calls = 0;
    for part in &answer.parts {
        match part {
            Part::Text(text) => out.extend(cut(text).into_iter().map(Delta::Text)),
            Part::Thought(thought) => {
                out.extend(cut(&thought.text).into_iter().map(Delta::Thought));
                out.extend(thought.signature.clone().map(Delta::Signature));
                out.extend(thought.redacted.clone().map(Delta::Redacted));
            }
            Part::ToolCall(call) => {
                out.push(Delta::ToolCall {
                    call: calls,
                    id: call.id.clone(),
                    name: call.name.clone(),
                });
                let json = cut(call.arguments.text()).into_iter();
                out.extend(json.map(|json| Delta::Arguments { call: calls, json }));
                calls += 1;
            }
            Part::Media(_) | Part::ToolResult(_) => {}
        }
    }
    out.push(Delta::Stop(answer.stop.clone()));
    out.push(Delta::Usage(answer.usage));
    out
}

/// What a client shows at the end of a stream.
pub(crate) fn gathered(deltas: Vec<Delta>) -> Answer {
    let mut answer = Answer::default();
    let mut arguments: Vec<String> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Start { id, model } => (answer.id, answer.model) = (id, model),
            Delta::Text(text) => match answer.parts.last_mut() {
                Some(Part::Text(all)) => all.push_str(&text),
                _ => answer.parts.push(Part::Text(text)),
            },
            Delta::Thought(text) => match answer.parts.last_mut() {
                Some(Part::Thought(thought)) if thought.signature.is_none() => {
                    thought.text.push_str(&text);
                }
                _ => answer.parts.push(Part::Thought(Thought {
                    text,
                    ..Thought::default()
                })),
            },
            Delta::Signature(signature) => match answer.parts.last_mut() {
                Some(Part::Thought(thought)) => thought.signature = Some(signature),
                _ => answer.parts.push(Part::Thought(Thought {
                    signature: Some(signature),
                    ..Thought::default()
                })),
            },
            Delta::Redacted(data) => answer.parts.push(Part::Thought(Thought {
                redacted: Some(data),
                ..Thought::default()
            })),
            Delta::ToolCall { call, id, name } => {
                assert_eq!(call, arguments.len(), "calls are numbered from 0");
                arguments.push(String::new());
                answer.parts.push(Part::ToolCall(ToolCall {
                    id,
                    name,
                    arguments: Json::empty_object(),
                }));
            }
            Delta::Arguments { call, json } => arguments[call].push_str(&json),
            Delta::Stop(stop) => answer.stop = stop,
            Delta::Usage(usage) => answer.usage.merge(usage),
            Delta::Unplaced(path) => answer.unplaced.push(path),
        }
    }
    let calls = answer.parts.iter_mut().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        Part::Text(_) | Part::Media(_) | Part::Thought(_) | Part::ToolResult(_) => None,
    });
    for (call, json) in calls.zip(arguments) {
        if !json.is_empty() {
            call.arguments = Json::parse(&json).expect("the pieces make JSON");
        }
    }
    answer
}

/// What tests show clients.
pub(crate) fn shown() -> Shown {
    Shown {
        id: "request-1".to_owned(),
        model: "shown-model".to_owned(),
        created: 1_700_000_000,
        include_usage: true,
        text_tools: Vec::new(),
    }
}

/// The bytes that a client gets.
pub(crate) fn written(spoken: &dyn Spoken, deltas: Vec<Delta>) -> BytesMut {
    let mut writer = spoken.stream_writer(shown()).expect("it converts");
    let mut out = BytesMut::new();
    for delta in deltas {
        writer.write(delta, &mut out);
    }
    writer.end(None, &mut out);
    out
}

/// Events of a provider as deltas, each as the gateway takes it: what it says of itself must fit too.
pub(crate) fn read(spoken: &dyn Spoken, events: &[Event]) -> Vec<Delta> {
    let mut reader = spoken.stream_reader().expect("it converts");
    let (mut order, mut read, mut deltas) = (Order::default(), Vec::new(), Vec::new());
    for (n, event) in events.iter().enumerate() {
        reader.read(event, &mut read).expect("it can be read");
        for delta in read.drain(..) {
            order.admit(delta, |delta| deltas.push(delta));
        }
        let ends = spoken.seen(event, true).ends;
        assert!(!ends || n + 1 == events.len(), "nothing follows the end");
    }
    deltas
}

/// Events that stand one after another in text.
pub(crate) fn events(text: &[u8]) -> Vec<Event> {
    let mut reader = SseReader::default();
    reader.push(text);
    std::iter::from_fn(|| reader.next_event().expect("none is too long")).collect()
}

/// JSON for a snapshot.
pub(crate) fn pretty(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).expect("it is JSON");
    serde_json::to_string_pretty(&value).expect("it is JSON")
}
