//! Generators of what is said, for the round trips of every protocol.

use proptest::prelude::*;

use super::json::Json;
use super::talk::{
    Media, MediaKind, Part, Request, Role, Source, Tool, ToolCall, ToolChoice, ToolResult, Turn,
};

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
