//! Walks the members of a JSON object and tells where each stands in the text, without copying.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::EditError;

/// A member's name, as far as anybody cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
pub(super) enum Field {
    Model,
    Stream,
    StreamOptions,
    IncludeUsage,
    Fallbacks,
    AnthropicVersion,
    #[serde(other)]
    Other,
}

/// One member.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) field: Field,
    /// Its value as text.
    pub(super) raw: &'a RawValue,
    /// Where the value stands.
    pub(super) value: Range<usize>,
    /// Where the member before ends (its comma not included), or the place behind the opening brace.
    pub(super) after: usize,
}

/// The walk itself.
pub(super) struct Members<'a, F> {
    text: &'a [u8],
    each: F,
}

impl<'a, F: FnMut(Member<'a>)> Members<'a, F> {
    /// Calls `each` for every member in order. Returns where the last one ends: new members go there.
    pub(super) fn visit(text: &'a [u8], each: F) -> Result<usize, EditError> {
        let opening = text.iter().position(|b| !b.is_ascii_whitespace());
        if opening
            .is_some_and(|at| matches!(text[at], b'[' | b'"' | b'0'..=b'9' | b't' | b'f' | b'n'))
        {
            return Err(EditError::NotAnObject);
        }
        let wrong = |error: serde_json::Error| EditError::NotJson(error.to_string());
        let mut json = serde_json::Deserializer::from_slice(text);
        let end = Self { text, each }.deserialize(&mut json).map_err(wrong)?;
        json.end().map_err(wrong)?;
        Ok(end)
    }
}

impl<'de, F: FnMut(Member<'de>)> DeserializeSeed<'de> for Members<'de, F> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<usize, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Member<'de>)> Visitor<'de> for Members<'de, F> {
    type Value = usize;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<usize, M::Error> {
        let brace = self.text.iter().position(|b| *b == b'{').unwrap_or(0);
        let mut after = brace + 1;
        while let Some(field) = map.next_key()? {
            let raw: &'de RawValue = map.next_value()?;
            // Raw values borrow from `text`, so the distance of the addresses is the place in it.
            let start = raw.get().as_ptr().addr() - self.text.as_ptr().addr();
            let value = start..start + raw.get().len();
            let end = value.end;
            (self.each)(Member {
                field,
                raw,
                value,
                after,
            });
            after = end;
        }
        Ok(after)
    }
}
