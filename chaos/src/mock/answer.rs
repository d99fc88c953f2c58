//! What a served call gets: a whole completion, or the same as a stream of chunks.

use bytes::Bytes;
use serde_json::{Value, json};

/// The models every mock provider lists.
pub(super) const MODELS: [&str; 3] = ["gpt-4o", "gpt-4o-mini", "mock-small"];

const WORDS: [&str; 4] = ["Hello", " from", " the", " mock."];
const CREATED: u64 = 1_700_000_000;

/// A whole chat completion.
pub(super) fn completion(id: u64, model: &str) -> Value {
    json!({
        "id": format!("chatcmpl-mock-{id}"),
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": WORDS.concat() },
            "finish_reason": "stop",
        }],
        "usage": usage(),
    })
}

/// The events of a streamed completion, `[DONE]` included; usage last if it was asked for.
pub(super) fn events(id: u64, model: &str, with_usage: bool) -> Vec<Bytes> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": format!("chatcmpl-mock-{id}"),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": model,
            "choices": choices,
        });
        if with_usage {
            chunk["usage"] = usage;
        }
        event(&chunk.to_string())
    };
    let delta = |delta: Value, finish: Value| json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);

    let mut events = vec![chunk(
        delta(json!({ "role": "assistant", "content": "" }), Value::Null),
        Value::Null,
    )];
    for word in WORDS {
        events.push(chunk(
            delta(json!({ "content": word }), Value::Null),
            Value::Null,
        ));
    }
    events.push(chunk(delta(json!({}), json!("stop")), Value::Null));
    if with_usage {
        events.push(chunk(json!([]), usage()));
    }
    events.push(event("[DONE]"));
    events
}

/// The list of models.
pub(super) fn models(provider: &str) -> Value {
    let rows = MODELS
        .map(|id| json!({ "id": id, "object": "model", "created": CREATED, "owned_by": provider }));
    json!({ "object": "list", "data": rows })
}

fn event(data: &str) -> Bytes {
    format!("data: {data}\n\n").into()
}

fn usage() -> Value {
    json!({ "prompt_tokens": 3, "completion_tokens": WORDS.len(), "total_tokens": 3 + WORDS.len() })
}
