//! The samples of the table of pairs, from which inputs grow.

use serde_json::Value;

use crate::protocols::Protocol;

fn fixture(protocol: Protocol) -> Value {
    let text = match protocol {
        Protocol::Messages => include_str!("../../tests/fixtures/pairs/messages.json"),
        Protocol::Responses => include_str!("../../tests/fixtures/pairs/responses.json"),
        Protocol::Generate => include_str!("../../tests/fixtures/pairs/generate.json"),
        Protocol::Converse => include_str!("../../tests/fixtures/pairs/converse.json"),
        Protocol::Cohere => include_str!("../../tests/fixtures/pairs/cohere.json"),
        _ => include_str!("../../tests/fixtures/pairs/chat.json"),
    };
    serde_json::from_str(text).expect("it is JSON")
}

fn with(base: &Value, more: &Value) -> String {
    let mut whole = base.clone();
    for (name, value) in more.as_object().expect("a feature is an object") {
        if name != "on" {
            whole[name] = value.clone();
        }
    }
    whole.to_string()
}

/// Requests with each feature.
pub fn requests(protocol: Protocol) -> Vec<String> {
    let all = fixture(protocol);
    let features = all["features"].as_object().expect("features");
    features
        .values()
        .map(|feature| with(&all["request"], feature))
        .collect()
}

/// Whole answers with each feature, and the same as streams: an event a line.
pub fn answers(protocol: Protocol) -> Vec<String> {
    let all = fixture(protocol);
    let answers = all["answers"].as_object().expect("answers");
    let whole = answers.values().map(|answer| with(&all["answer"], answer));
    let streams = all["streams"].as_object().expect("streams").values();
    let lines = streams.map(|stream| {
        let events = stream.as_array().expect("a list").iter();
        events.map(Value::to_string).collect::<Vec<_>>().join("\n")
    });
    whole.chain(lines).collect()
}
