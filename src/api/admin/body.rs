//! Request bodies of the admin API: JSON objects, or a refusal that says what was expected.

use serde_json::{Map, Value};

use super::refusal::Refusal;

/// The body as an object. An empty body is an empty object.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the body is not JSON: {error}")))?;
    if let Value::Object(object) = value {
        Ok(object)
    } else {
        Err(Refusal::bad("the body must be a JSON object"))
    }
}

/// A field that is text, if it is there.
pub(super) fn text<'b>(
    body: &'b Map<String, Value>,
    field: &str,
) -> Result<Option<&'b str>, Refusal> {
    match body.get(field).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some("") => Err(Refusal::bad(format!("{field} must not be empty"))),
            Some(text) => Ok(Some(text)),
            None => Err(Refusal::bad(format!("{field} must be text"))),
        },
    }
}
