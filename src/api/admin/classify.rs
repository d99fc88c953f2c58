//! `POST /api/classify`: what a provider's answer would do on this node. Asking holds nothing.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::{Admin, Answer, body};
use crate::pipeline::explain::{Recorded, explain};

const FIELDS: [&str; 6] = [
    "provider",
    "status",
    "headers",
    "body",
    "model",
    "stream_event",
];

pub(super) async fn classify(State(admin): State<Admin>, bytes: Bytes) -> Answer {
    let answer = recorded(&body::object(&bytes)?)?;
    let now = admin.node.clock.wall();
    let explanation = explain(&admin.node.config.classifier, &answer, now);
    Ok(Json(explanation).into_response())
}

fn recorded(fields: &Map<String, Value>) -> Result<Recorded, Refusal> {
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(Refusal::bad(format!(
            "unknown field {name:?}: the body has {}",
            FIELDS.join(", ")
        )));
    }
    let there = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let provider = body::text(fields, "provider")?
        .ok_or_else(|| Refusal::bad("provider is missing: whose answer is it?"))?;
    let stream_event = match there("stream_event") {
        None => false,
        Some(value) => value
            .as_bool()
            .ok_or_else(|| Refusal::bad("stream_event must be true or false"))?,
    };
    let status = match there("status") {
        None if stream_event => 200,
        None => return Err(Refusal::bad("status is missing: the answer's HTTP status")),
        Some(value) => value
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (100..=999).contains(status))
            .ok_or_else(|| Refusal::bad("status must be a whole number from 100 to 999"))?,
    };
    let body = match there("body") {
        None => Vec::new(),
        Some(Value::String(text)) => text.clone().into_bytes(),
        Some(json) => json.to_string().into_bytes(),
    };
    Ok(Recorded {
        provider: provider.to_owned(),
        status,
        headers: headers(there("headers"))?,
        body,
        model: body::text(fields, "model")?.map(str::to_owned),
        stream_event,
    })
}

fn headers(value: Option<&Value>) -> Result<BTreeMap<String, String>, Refusal> {
    let wrong = || Refusal::bad("headers must be an object of texts");
    let Some(value) = value else {
        return Ok(BTreeMap::new());
    };
    let fields = value.as_object().ok_or_else(wrong)?;
    let texts = fields.iter().map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return Err(wrong());
            }
        };
        Ok((name.to_ascii_lowercase(), text))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<Recorded, String> {
        recorded(body.as_object().unwrap()).map_err(|refusal| refusal.message)
    }

    #[test]
    fn a_body_is_text_or_json() {
        for body in [json!("{\"a\":1}"), json!({"a": 1})] {
            let answer = json!({"provider": "p", "status": 429, "headers": {"Retry-After": 7}, "body": body});
            let answer = read(&answer).unwrap();
            assert_eq!(answer.body, b"{\"a\":1}");
            assert_eq!(answer.headers["retry-after"], "7");
        }
        let event = read(&json!({"provider": "p", "stream_event": true})).unwrap();
        assert_eq!((event.status, event.body.len()), (200, 0));
    }

    #[test]
    fn mistakes_are_told() {
        for (body, word) in [
            (json!({"status": 429}), "provider"),
            (json!({"provider": "p"}), "status"),
            (json!({"provider": "p", "status": 99}), "100 to 999"),
            (
                json!({"provider": "p", "status": 400, "headers": []}),
                "headers",
            ),
            (
                json!({"provider": "p", "status": 400, "stream_event": 1}),
                "stream_event",
            ),
            (json!({"provider": "p", "status": 400, "bdoy": ""}), "bdoy"),
        ] {
            let told = read(&body).unwrap_err();
            assert!(told.contains(word), "{body}: {told}");
        }
    }
}
