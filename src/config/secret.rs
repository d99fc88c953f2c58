//! Secrets: text that must never be shown, the references that stand for it, and its redacted form.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

/// Text that must never be shown. Debug prints a mark instead; there is no Display.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The text itself: for the wire to the provider, sealed RPC and the encrypted store only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<secret>")
    }
}

/// Where a secret's text comes from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Reference {
    /// It stands there.
    Plain(String),
    /// In this environment variable.
    Env(String),
}

impl Reference {
    /// Reads text, `env.NAME`, or Bifrost's object forms `{value, env_var, from_env}` and
    /// `{value, ref, type}`. The error says what to write instead, and repeats nothing.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        if let Some(text) = value.as_str() {
            return Self::parse(text);
        }
        let Some(object) = value.as_object() else {
            return Err("must be text, \"env.NAME\" or an object with `value`".to_owned());
        };
        let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let by_env = object.get("from_env").and_then(Value::as_bool) == Some(true);
        if by_env || text("type") == "env" {
            let name = if by_env { text("env_var") } else { text("ref") };
            return Self::parse(&format!(
                "env.{}",
                name.strip_prefix("env.").unwrap_or(name)
            ));
        }
        if text("type") == "vault" {
            return Err(NO_VAULT.to_owned());
        }
        Self::parse(text("value"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("env.") {
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err("\"env.\" must be followed by the name of a variable".to_owned());
            }
            return Ok(Self::Env(name.to_owned()));
        }
        if text.starts_with("vault.") {
            return Err(NO_VAULT.to_owned());
        }
        Ok(Self::Plain(text.to_owned()))
    }

    /// The form that the admin API answers: the value masked, a reference by its name.
    pub(crate) fn redacted(&self) -> Value {
        match self {
            Self::Plain(text) => json!({"value": mask(text), "env_var": "", "from_env": false}),
            Self::Env(name) => json!({"value": MASK, "env_var": name, "from_env": true}),
        }
    }
}

const NO_VAULT: &str = "vault references are not supported: use a reference \"env.NAME\"";

/// How every masked secret starts.
pub(crate) const MASK: &str = "********";

/// The last four characters of a long secret tell keys apart; a short one shows nothing.
pub(crate) fn mask(text: &str) -> String {
    let tail = text.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
    if text.chars().count() >= 20 {
        format!("{MASK}{}", &text[tail..])
    } else {
        MASK.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_form_is_read() {
        let env = |value| Reference::read(&value).ok() == Some(Reference::Env("A".to_owned()));
        assert!(env(json!("env.A")));
        assert!(env(json!({"value": "x", "env_var": "A", "from_env": true})));
        assert!(env(
            json!({"value": "", "env_var": "env.A", "from_env": true})
        ));
        assert!(env(json!({"value": "", "ref": "A", "type": "env"})));
        assert!(Reference::read(&json!({"value": "k"})) == Ok(Reference::Plain("k".to_owned())));
        assert!(Reference::read(&json!("vault.a#b")).is_err());
        assert!(Reference::read(&json!(7)).is_err());
    }

    #[test]
    fn a_masked_secret_shows_four_characters_at_most() {
        assert_eq!(mask("sk-k-a"), MASK);
        assert_eq!(mask("sk-0123456789abcdefWXYZ"), "********WXYZ");
        assert_eq!(mask(&"é".repeat(30)), format!("{MASK}éééé"));
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", Secret::from("sk-1".to_owned())), "<secret>");
    }
}
