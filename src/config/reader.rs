//! Reads JSON step by step, and remembers every mistake with its path instead of stopping at the first.
//!
//! The same reader takes config.json and the bodies of the admin API, so both know the same rules.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::secret::{Reference, Secret};

/// One thing that is wrong or ignored, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// JSON path, empty for the whole document.
    pub path: String,
    /// What is wrong and what would be right. Never a secret.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            out.write_str(&self.message)
        } else {
            write!(out, "{}: {}", self.path, self.message)
        }
    }
}

/// Looks up an environment variable.
pub type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Collects what is found while reading one document.
pub struct Reader<'e> {
    env: Env<'e>,
    errors: RefCell<Vec<Finding>>,
    warnings: RefCell<Vec<Finding>>,
}

impl<'e> Reader<'e> {
    /// Nothing found yet.
    #[must_use]
    pub fn new(env: Env<'e>) -> Self {
        Self {
            env,
            errors: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    /// A mistake.
    pub fn error(&self, path: impl Into<String>, message: impl Into<String>) {
        self.errors.borrow_mut().push(Finding {
            path: path.into(),
            message: message.into(),
        });
    }

    /// Something that is ignored, or probably not meant.
    pub fn warn(&self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.borrow_mut().push(Finding {
            path: path.into(),
            message: message.into(),
        });
    }

    /// Whether anything is wrong so far.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        !self.errors.borrow().is_empty()
    }

    /// An environment variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name)
    }

    /// Everything found: errors, then warnings.
    #[must_use]
    pub fn finish(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.errors.into_inner(), self.warnings.into_inner())
    }

    /// The value as an object; an error where it is something else.
    pub fn object<'r, 'v>(&'r self, path: &str, value: &'v Value) -> Option<Object<'r, 'v>> {
        let Some(map) = value.as_object() else {
            self.error(path, format!("must be an object, not {}", kind(value)));
            return None;
        };
        Some(Object {
            reader: self,
            map,
            path: path.to_owned(),
            known: RefCell::default(),
        })
    }

    /// A secret: text, `env.NAME`, or Bifrost's object form. An error where it cannot be resolved.
    pub fn secret(&self, path: &str, value: &Value) -> Option<Secret> {
        match Reference::read(value) {
            Ok(Reference::Plain(text)) if text.is_empty() => {
                self.error(
                    path,
                    "is empty: give the secret, or a reference \"env.NAME\"",
                );
                None
            }
            Ok(Reference::Plain(text)) => Some(Secret::from(text)),
            Ok(Reference::Env(name)) => match (self.env)(&name) {
                Some(text) if !text.is_empty() => Some(Secret::from(text)),
                Some(_) | None => {
                    self.error(
                        path,
                        format!("the environment variable {name} is not set or empty: set it before the node starts"),
                    );
                    None
                }
            },
            Err(message) => {
                self.error(path, message);
                None
            }
        }
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reader")
            .field("errors", &self.errors)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

/// One JSON object. Every field that is asked for counts as known; [`Object::finish`] warns of the rest.
pub struct Object<'r, 'v> {
    /// Where mistakes go.
    pub reader: &'r Reader<'r>,
    map: &'v Map<String, Value>,
    path: String,
    known: RefCell<Vec<&'static str>>,
}

impl fmt::Debug for Object<'_, '_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Object")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<'r, 'v> Object<'r, 'v> {
    /// The path of a field.
    #[must_use]
    pub fn at(&self, field: &str) -> String {
        join(&self.path, field)
    }

    /// The object's own path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A mistake in a field.
    pub fn error(&self, field: &str, message: impl Into<String>) {
        self.reader.error(self.at(field), message);
    }

    /// A field that is probably not meant so.
    pub fn warn(&self, field: &str, message: impl Into<String>) {
        self.reader.warn(self.at(field), message);
    }

    /// The field, unless it is absent or null.
    pub fn get(&self, field: &'static str) -> Option<&'v Value> {
        self.known.borrow_mut().push(field);
        self.map.get(field).filter(|value| !value.is_null())
    }

    /// A field of a type; an error where it has another. Text that stands where a scalar should is
    /// repeated, text in place of a list is not: it may be a secret.
    fn typed<T>(
        &self,
        field: &'static str,
        wanted: &str,
        read: impl Fn(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(field)?;
        let found = read(value);
        if found.is_none() {
            let got = if wanted.starts_with("a list") {
                kind(value).to_owned()
            } else {
                shown(value)
            };
            self.error(field, format!("must be {wanted}, not {got}"));
        }
        found
    }

    /// Text.
    pub fn text(&self, field: &'static str) -> Option<&'v str> {
        self.typed(field, "text", Value::as_str)
    }

    /// True or false.
    pub fn bool(&self, field: &'static str) -> Option<bool> {
        self.typed(field, "true or false", Value::as_bool)
    }

    /// A whole number within bounds.
    pub fn integer(&self, field: &'static str, within: RangeInclusive<u64>) -> Option<u64> {
        let wanted = if *within.end() == u64::MAX {
            format!("a whole number from {}", within.start())
        } else {
            format!("a whole number from {} to {}", within.start(), within.end())
        };
        self.typed(field, &wanted, |value| {
            value.as_u64().filter(|number| within.contains(number))
        })
    }

    /// A whole number that fits 32 bits.
    pub fn small(&self, field: &'static str, within: RangeInclusive<u32>) -> Option<u32> {
        let wide = u64::from(*within.start())..=u64::from(*within.end());
        self.integer(field, wide)
            .and_then(|number| u32::try_from(number).ok())
    }

    /// A number from 0 to `most` in whole thousandths, rounded.
    pub fn permille(&self, field: &'static str, most: u32) -> Option<u32> {
        let wanted = format!("a number from 0 to {most}");
        self.typed(field, &wanted, |value| {
            let number = value.as_f64()?;
            (0.0..=f64::from(most))
                .contains(&number)
                .then(|| thousandths(number))
        })
    }

    /// A port.
    pub fn port(&self, field: &'static str) -> Option<u16> {
        self.integer(field, 0..=65_535)
            .and_then(|number| u16::try_from(number).ok())
    }

    /// A length of time in milliseconds: a whole number of `unit_ms`, or a Go duration (`"1m30s"`).
    pub fn duration_ms(&self, field: &'static str, unit_ms: u64) -> Option<u64> {
        let unit = if unit_ms == 1 {
            "milliseconds"
        } else {
            "seconds"
        };
        let wanted = format!("a whole number of {unit} above 0 or a duration such as \"500ms\"");
        self.typed(field, &wanted, |value| {
            value
                .as_u64()
                .and_then(|number| number.checked_mul(unit_ms))
                .or_else(|| value.as_str().and_then(go_duration_ms))
                .filter(|ms| (1..=MAX_DURATION_MS).contains(ms))
        })
    }

    /// A list of texts without duplicates.
    pub fn texts(&self, field: &'static str) -> Option<Vec<String>> {
        let texts: Vec<String> = self.typed(field, "a list of texts", |value| {
            let items = value.as_array()?.iter();
            items.map(|item| item.as_str().map(str::to_owned)).collect()
        })?;
        for (n, text) in texts.iter().enumerate() {
            if texts[..n].contains(text) {
                let path = format!("{}[{n}]", self.at(field));
                self.reader
                    .error(path, format!("{text:?} stands twice in the list"));
            }
        }
        Some(texts)
    }

    /// An object.
    pub fn object(&self, field: &'static str) -> Option<Object<'r, 'v>> {
        let value = self.get(field)?;
        self.reader.object(&self.at(field), value)
    }

    /// A list, each item with its path.
    pub fn items(&self, field: &'static str) -> Option<Vec<(String, &'v Value)>> {
        let items = self.typed(field, "a list", Value::as_array)?;
        let path = self.at(field);
        Some(
            items
                .iter()
                .enumerate()
                .map(|(n, item)| (format!("{path}[{n}]"), item))
                .collect(),
        )
    }

    /// A secret.
    pub fn secret(&self, field: &'static str) -> Option<Secret> {
        let value = self.get(field)?;
        self.reader.secret(&self.at(field), value)
    }

    /// Every field with its path: for maps whose keys are names.
    pub fn entries(&self) -> impl Iterator<Item = (&'v str, String, &'v Value)> {
        self.map
            .iter()
            .map(|(name, value)| (name.as_str(), self.at(name), value))
    }

    /// Fields that are understood and need nothing done.
    pub fn accept(&self, fields: &[&'static str]) {
        self.known.borrow_mut().extend_from_slice(fields);
    }

    /// Fields of Bifrost's that this version does not act on: accepted with a warning.
    pub fn without_effect(&self, fields: &[&'static str]) {
        for field in fields {
            if self.get(field).is_some_and(|value| !is_nothing(value)) {
                self.warn(field, "accepted, but this version does not act on it");
            }
        }
    }

    /// Ends reading: warns of every field that nobody asked for.
    pub fn finish(self) {
        self.warn_unknown();
    }

    /// Warns of every field that nobody asked for so far.
    pub fn warn_unknown(&self) {
        let known = self.known.borrow();
        for field in self.map.keys() {
            if !known.iter().any(|name| name == field) {
                self.warn(field, "unknown field, ignored: check its spelling");
            }
        }
    }
}

/// `false`, and what is empty, ask for nothing.
fn is_nothing(value: &Value) -> bool {
    let empty_list = value.as_array().is_some_and(Vec::is_empty);
    let empty_object = value.as_object().is_some_and(Map::is_empty);
    value.as_bool() == Some(false) || empty_list || empty_object
}

/// A day: no wait or timeout is meant to be longer.
const MAX_DURATION_MS: u64 = 86_400_000;

/// What kind of JSON value it is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Scalars as they stand (short texts only), others by kind.
fn shown(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) | Value::Null => value.to_string(),
        Value::String(text) if text.len() <= 40 => value.to_string(),
        Value::String(_) | Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
    }
}

/// `a.b`, or `a["b c"]` where the name needs quoting.
fn join(path: &str, field: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '$';
    if field.is_empty() || !field.chars().all(plain) {
        format!("{path}[{field:?}]")
    } else if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

/// Go's duration text in whole milliseconds: `300ms`, `1.5s`, `1h2m3s`.
pub(crate) fn go_duration_ms(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total_ms = 0.0;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_len);
        let unit_len = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_len);
        let unit_ms = match unit {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        total_ms += number.parse::<f64>().ok()? * unit_ms;
        rest = next;
    }
    whole(total_ms)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within 0 and a day"
)]
fn whole(ms: f64) -> Option<u64> {
    (1.0..=86_400_000.0)
        .contains(&ms)
        .then_some(ms.round() as u64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within 0 and a few thousand"
)]
fn thousandths(number: f64) -> u32 {
    (number * 1_000.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read_as_milliseconds() {
        assert_eq!(go_duration_ms("600ms"), Some(600));
        assert_eq!(go_duration_ms("2s"), Some(2_000));
        assert_eq!(go_duration_ms("1m1.5s"), Some(61_500));
        for wrong in ["", "soon", "5", "s", "1.2.3s", "-1s", "10d"] {
            assert_eq!(go_duration_ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn paths_quote_names_that_are_no_words() {
        assert_eq!(join("", "providers"), "providers");
        assert_eq!(join("providers", "mock-eu"), "providers.mock-eu");
        assert_eq!(join("providers", "a.b"), "providers[\"a.b\"]");
    }
}
