//! Secrets in answers are masked, and a masked secret that comes back keeps what is stored.

use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::config::key::VENDOR_SECRETS;
use crate::config::secret::{MASK, Reference};

/// The value with every secret in its masked object form.
pub(super) fn masked(value: &Value) -> Value {
    let Some(object) = value.as_object() else {
        return value.clone();
    };
    let fields = object.iter().map(|(name, value)| {
        let shown = match name.as_str() {
            // Names of models, never secrets.
            "aliases" => value.clone(),
            "extra_headers" => masked_all(value),
            name if is_secret(name) => masked_secret(value),
            _ => masked(value),
        };
        (name.clone(), shown)
    });
    Value::Object(fields.collect())
}

/// The object that was sent, with every masked secret replaced by the stored one it stands for.
pub(super) fn restored(sent: &Value, stored: Option<&Value>, path: &str) -> Result<Value, Refusal> {
    let Some(object) = sent.as_object() else {
        return Ok(sent.clone());
    };
    let mut fields = Map::new();
    for (name, value) in object {
        let inner = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let stored = stored.and_then(|stored| stored.get(name));
        let field = if is_masked(value) {
            unmasked(value, stored, &inner)?
        } else if is_by_name(value) {
            value.clone()
        } else {
            restored(value, stored, &inner)?
        };
        fields.insert(name.clone(), field);
    }
    Ok(Value::Object(fields))
}

/// The stored secret, if this is its mask.
fn unmasked(sent: &Value, stored: Option<&Value>, path: &str) -> Result<Value, Refusal> {
    let same = |stored: &&Value| masked_secret(stored)["value"] == *mask_of(sent);
    stored.filter(same).cloned().ok_or_else(|| {
        let message = "is masked and not what is stored: send the secret itself";
        Refusal::bad(format!("{path} {message}"))
    })
}

fn is_secret(name: &str) -> bool {
    name == "value" || name == "password" || VENDOR_SECRETS.contains(&name)
}

fn masked_all(headers: &Value) -> Value {
    let headers = headers.as_object().into_iter().flatten();
    headers
        .map(|(name, value)| (name.clone(), masked_secret(value)))
        .collect()
}

/// What cannot be read as a secret is not shown at all.
fn masked_secret(value: &Value) -> Value {
    Reference::read(value).map_or(Value::Null, |reference| reference.redacted())
}

/// A masked text, or the object form of one.
fn is_masked(sent: &Value) -> bool {
    let masked = |text: &str| text.starts_with(MASK);
    !is_by_name(sent) && mask_of(sent).as_str().is_some_and(masked)
}

/// The object form of a reference: it needs no restoring.
fn is_by_name(sent: &Value) -> bool {
    sent["from_env"] == true || sent["type"] == "env"
}

fn mask_of(sent: &Value) -> &Value {
    if sent.is_object() {
        &sent["value"]
    } else {
        sent
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONG: &str = "sk-0123456789abcdefghij";

    fn stored() -> Value {
        json!({
            "name": "k", "value": LONG, "aliases": {"value": "gpt-4o"},
            "azure_key_config": {"endpoint": "https://e", "client_secret": "env.AZ"},
            "network_config": {"extra_headers": {"x-a": "token"}},
        })
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        insta::assert_json_snapshot!(masked(&stored()));
    }

    #[test]
    fn what_was_shown_can_be_sent_back() {
        let back = restored(&masked(&stored()), Some(&stored()), "").unwrap();
        assert_eq!(back["value"], LONG);
        assert_eq!(back["network_config"]["extra_headers"]["x-a"], "token");
        assert_eq!(back["azure_key_config"]["client_secret"]["env_var"], "AZ");
        assert_eq!(
            restored(&json!({"value": "********ghij"}), Some(&stored()), "").unwrap()["value"],
            LONG
        );
    }

    #[test]
    fn a_mask_of_something_else_is_refused() {
        for stored in [Some(stored()), None] {
            let sent = json!({"value": "********zzzz"});
            let refusal = restored(&sent, stored.as_ref(), "").unwrap_err();
            assert!(refusal.message.starts_with("value is masked"));
        }
    }
}
