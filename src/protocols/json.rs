//! JSON as the conversions need it: values kept as text, objects read with their path, so that every
//! mistake names its field and nothing that was not looked at goes unnoticed.
//!
//! A client's request is read by [`read_request`]: what no reader took of any of its objects is told, a
//! member that stands twice is refused. Providers' answers are read more leniently by [`read_answer`].

mod count;
mod read;

use std::fmt;

use memchr::memmem::Finder;
use serde::de::{Deserialize, Deserializer};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

pub(in crate::protocols) use count::count;
pub use read::{Member, Object, read_answer, read_request};

/// Brackets that may be open at once, in a body or in JSON that stands as text inside of one.
pub const MAX_DEPTH: usize = 128;

/// One JSON value as text: numbers, escapes and the order of members are those of its author. It cannot
/// be read inside a tagged enum or a flattened struct, which serde reads through values.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Reads text that must be one JSON value, not nested too deeply.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if is_too_deep(text.as_bytes()) {
            return None;
        }
        let raw: Box<RawValue> = serde_json::from_str(text).ok()?;
        Some(Self(raw))
    }

    /// `{}`.
    #[must_use]
    pub fn empty_object() -> Self {
        Self::parse("{}").expect("it is JSON")
    }

    /// A value written as text.
    #[must_use]
    pub fn of(value: &impl Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        Self(raw.expect("strings, numbers and maps with text keys can be written"))
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(json).map(Self)
    }
}

/// A field that is not what its protocol says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {message}")]
pub struct Malformed {
    /// As its author counts: `messages[2].content[0].type`.
    pub path: String,
    /// What it must be: follows the path in a sentence.
    pub message: String,
}

impl Malformed {
    /// Of the field at this path.
    #[must_use]
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

/// Whether more brackets than allowed are open anywhere. Counting all of them is enough for most bodies.
#[must_use]
pub fn is_too_deep(json: &[u8]) -> bool {
    let opening = |b: &&u8| matches!(b, b'[' | b'{');
    if json.iter().filter(opening).count() <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Whether a member of this quoted name stands anywhere with another value than `null`.
#[must_use]
pub fn holds_more_than_null(data: &[u8], name: &Finder<'_>) -> bool {
    name.find_iter(data).any(|at| {
        let rest = &data[at + name.needle().len()..];
        let value = rest
            .iter()
            .position(|b| !b.is_ascii_whitespace() && *b != b':')
            .map_or(rest, |from| &rest[from..]);
        !value.starts_with(b"null")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text() {
        let json = Json::parse(r#"{"b":1.10,"a":12345678901234567890123}"#).unwrap();
        #[derive(Serialize)]
        struct Out<'a> {
            x: &'a Json,
        }
        let text = serde_json::to_string(&Out { x: &json }).unwrap();
        assert_eq!(text, r#"{"x":{"b":1.10,"a":12345678901234567890123}}"#);
    }
}
