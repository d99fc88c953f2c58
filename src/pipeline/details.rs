//! What a provider's error says beside its message, for SDKs that act on it: `error.details`, an object at
//! Anthropic, a list at Google. Scrubbed like every other word of a provider.

use holdline_core::failure::words::scrub;
use serde::Deserialize;
use serde_json::Value;

/// Longer details are left out: they are none that a program reads.
const MAX_BYTES: usize = 8 << 10;

/// The details in an error's JSON.
pub(super) fn read(body: &[u8], secrets: &[&str]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Told {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        details: Value,
    }
    if body.len() > MAX_BYTES {
        return None;
    }
    let told: Told = serde_json::from_slice(body).ok()?;
    let mut details = told.error.details;
    let told = details.is_object() || details.is_array();
    told.then(|| {
        clean(&mut details, secrets);
        details
    })
}

/// The depth is that of parsed JSON, which is limited.
fn clean(value: &mut Value, secrets: &[&str]) {
    match value {
        Value::String(text) => *text = scrub(text, secrets),
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, secrets)),
        Value::Object(members) => {
            let all = std::mem::take(members).into_iter();
            *members = all
                .map(|(name, mut value)| {
                    clean(&mut value, secrets);
                    (scrub(&name, secrets), value)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn details_are_read_without_secrets() {
        let body = json!({"error": {"message": "no", "details": [
            {"@type": "x", "sk-mine": ["for sk-mine", 1, null]}, "plain"]}});
        let read = read(body.to_string().as_bytes(), &["sk-mine"]).unwrap();
        let text = read.to_string();
        assert!(!text.contains("sk-mine"), "{text}");
        assert_eq!(read[0]["@type"], "x");
        assert_eq!(read[1], "plain");
    }

    #[test]
    fn what_is_no_detail_is_left_out() {
        let long = json!({"error": {"details": {"x": "y".repeat(MAX_BYTES)}}}).to_string();
        for body in [
            "",
            "[]",
            "{}",
            r#"{"error":"x"}"#,
            r#"{"error":{"details":"x"}}"#,
            r#"{"error":{"details":null}}"#,
            &long,
        ] {
            assert_eq!(read(body.as_bytes(), &[]), None, "{body}");
        }
    }
}
