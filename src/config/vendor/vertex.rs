//! `vertex_key_config`.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::reader::Object;
use super::{Vendor, VertexKey};
use crate::providers::aws::is_region;
use crate::providers::google::Identity;

/// Reads the block; a key without one could be asked nothing.
pub(super) fn read(key: &Object<'_, '_>, resolved: &Map<String, Value>) -> Vendor {
    let Some(block) = key.object("vertex_key_config") else {
        if key.get("vertex_key_config").is_none() {
            let message = "is missing: give project_id and region";
            key.error("vertex_key_config", message);
        }
        return Vendor::None;
    };
    let fields = &resolved["vertex_key_config"];
    let given = |name: &str| fields.get(name).filter(|value| says_something(value));
    let project_id = required(
        &block,
        given("project_id"),
        "project_id",
        is_project,
        "my-project-123",
    );
    let region = required(
        &block,
        given("region"),
        "region",
        is_region,
        "us-central1 or global",
    );
    let project_number = given("project_number").and_then(|value| {
        let number = number(value);
        if number.is_none() && !is_unresolved(value) {
            block.error("project_number", "must be a number: digits only");
        }
        number
    });
    let credentials = given("auth_credentials").filter(|value| !is_unresolved(value));
    let credentials = credentials.and_then(Value::as_str).and_then(|text| {
        let read = Identity::read(text);
        read.map_err(|error| block.error("auth_credentials", error.to_string()))
            .ok()
    });
    let single_region = block.bool("force_single_region").unwrap_or(false);
    block.accept(&["project_id", "project_number", "region", "auth_credentials"]);
    block.finish();
    Vendor::Vertex(VertexKey {
        project_id,
        project_number,
        region,
        single_region,
        credentials: credentials.map(Arc::new),
    })
}

fn required(
    block: &Object<'_, '_>,
    value: Option<&Value>,
    name: &str,
    fits: impl Fn(&str) -> bool,
    such_as: &str,
) -> String {
    let text = value.and_then(Value::as_str).map(str::trim);
    match (value, text) {
        (None, _) => block.error(name, format!("is missing: give one, such as {such_as}")),
        (Some(value), _) if is_unresolved(value) => {}
        (Some(_), Some(text)) if fits(text) => {}
        (Some(_), _) => block.error(name, format!("cannot be one: write it as {such_as}")),
    }
    text.unwrap_or_default().to_owned()
}

fn says_something(value: &Value) -> bool {
    !value.is_null() && value != ""
}

/// A reference that leads nowhere: that has been told.
fn is_unresolved(value: &Value) -> bool {
    value.is_object() || value.as_str().is_some_and(|text| text.starts_with("env."))
}

/// Whether text can be the id of a project, and so stand in a path. Old ones begin with a domain:
/// `example.com:project`.
pub(super) fn is_project(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:".contains(&b);
    (1..=128).contains(&text.len())
        && text.bytes().all(allowed)
        && text.bytes().any(|b| b.is_ascii_alphanumeric())
}

/// Digits, as a number or as text.
pub(super) fn number(value: &Value) -> Option<String> {
    let text = match value.as_str() {
        Some(text) => text.trim().to_owned(),
        None => value.as_u64()?.to_string(),
    };
    let fits = (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fits.then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;
    use crate::providers::google::tests::ACCOUNT;

    fn config(key: Value) -> String {
        let mut key = key;
        key["name"] = json!("k");
        key["models"] = json!(["*"]);
        json!({"providers": {"vertex": {"keys": [key]}}}).to_string()
    }

    fn errors(key: Value) -> String {
        let env = |name: &str| (name == "GOOGLE").then(|| "{\"type\": \"none\"}".to_owned());
        Config::parse(&config(key), &env).unwrap_err().to_string()
    }

    #[test]
    fn a_key_needs_its_project_and_region_and_nothing_else() {
        let least = json!({"vertex_key_config": {"project_id": "p-1", "region": "global"}});
        assert!(Config::parse(&config(least), &|_| None).is_ok());
        let all = json!({"value": "", "vertex_key_config": {"project_id": "env.P", "region": "us-central1",
            "project_number": 12, "auth_credentials": "env.GOOGLE", "force_single_region": true}});
        let env = |name: &str| match name {
            "P" => Some("example.com:p-1".to_owned()),
            "GOOGLE" => Some(ACCOUNT.to_owned()),
            _ => None,
        };
        let loaded = Config::parse(&config(all), &env).unwrap();
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        let empty = json!({"vertex_key_config": {"project_id": "p", "region": "eu", "auth_credentials": ""}});
        assert!(Config::parse(&config(empty), &|_| None).is_ok());
    }

    #[test]
    fn credentials_may_stand_there_as_they_are() {
        let file: Value = serde_json::from_str(ACCOUNT).unwrap();
        let key = |credentials: Value| {
            config(
                json!({"vertex_key_config": {"project_id": "p", "region": "eu", "auth_credentials": credentials}}),
            )
        };
        let read = |credentials: Value| {
            let loaded = Config::parse(&key(credentials), &|_| None).unwrap();
            loaded.config.providers.values().next().unwrap().keys[0]
                .vendor
                .clone()
        };
        assert_eq!(read(file.clone()), read(json!(file.to_string())));
        let with_mistake = key(json!({"type": "service_account", "client_id": "TOPSECRET"}));
        let told = Config::parse(&with_mistake, &|_| None)
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("auth_credentials: has no `private_key`"),
            "{told}"
        );
        assert!(!told.contains("TOPSECRET"), "{told}");
    }

    #[test]
    fn mistakes_name_their_field_and_repeat_no_secret() {
        const AT: &str = "providers.vertex.keys[0].vertex_key_config";
        let block = |more: Value| {
            let mut block = json!({"project_id": "p", "region": "us-central1"});
            let fields = block.as_object_mut().unwrap();
            fields.extend(more.as_object().unwrap().clone());
            json!({"vertex_key_config": block})
        };
        for (key, expected) in [
            (json!({"value": "k"}), AT.to_owned()),
            (
                block(json!({"project_id": null})),
                format!("{AT}.project_id: is missing"),
            ),
            (
                block(json!({"project_id": "a/b"})),
                format!("{AT}.project_id: cannot be one"),
            ),
            (
                block(json!({"project_id": 7})),
                format!("{AT}.project_id: cannot be one"),
            ),
            (
                block(json!({"region": ""})),
                format!("{AT}.region: is missing"),
            ),
            (
                block(json!({"region": "evil.example/"})),
                format!("{AT}.region: cannot be one"),
            ),
            (
                block(json!({"project_number": "twelve"})),
                format!("{AT}.project_number"),
            ),
            (
                block(json!({"force_single_region": "x"})),
                format!("{AT}.force_single_region"),
            ),
            (
                block(json!({"auth_credentials": "TOPSECRET"})),
                format!("{AT}.auth_credentials: is not the JSON"),
            ),
            (
                block(json!({"auth_credentials": "env.GOOGLE"})),
                format!("{AT}.auth_credentials: is of a `type`"),
            ),
            (
                block(json!({"auth_credentials": "env.NOWHERE"})),
                format!("{AT}.auth_credentials: the environment variable NOWHERE"),
            ),
        ] {
            let told = errors(key);
            assert!(told.contains(&expected), "{told}");
            assert!(!told.contains("TOPSECRET"), "{told}");
        }
    }
}
