//! Schemas: Google has two kinds of them.
//!
//! The older fields (`parameters`, `responseSchema`) take a part of OpenAPI's and refuse every keyword
//! that they do not know; the newer ones (`parametersJsonSchema`, `responseJsonSchema`) take JSON schema.
//! A schema that fits goes into the older field, which every model and endpoint knows, any other into the
//! newer: nothing is taken out of it.

use serde_json::{Map, Value};

use crate::protocols::json::Json;

/// Where a schema belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// It says nothing: left out.
    Nowhere,
    /// `parameters`, `responseSchema`.
    OpenApi(&'a Json),
    /// `parametersJsonSchema`, `responseJsonSchema`.
    JsonSchema(&'a Json),
}

/// Keywords of the older kind.
const KEYWORDS: [&str; 22] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "minimum",
    "maximum",
];

/// Formats that the older kind does not refuse.
const FORMATS: [&str; 6] = ["enum", "date-time", "int32", "int64", "float", "double"];

/// Finds the place of a schema.
pub(super) fn place(schema: &Json) -> Place<'_> {
    let value: Value = serde_json::from_str(schema.text()).unwrap_or(Value::Null);
    let Value::Object(object) = &value else {
        return Place::JsonSchema(schema);
    };
    // An object without properties is refused there, and says no more than no schema.
    let only_its_type =
        |name: &String| name == "type" || name == "properties" || name == "required";
    let has_properties = object.get("properties").is_some_and(is_filled);
    let is_object = object
        .get("type")
        .is_none_or(|kind| kind == "object" || kind == "OBJECT");
    if is_object && !has_properties && object.keys().all(only_its_type) {
        return Place::Nowhere;
    }
    if fits(&value) {
        Place::OpenApi(schema)
    } else {
        Place::JsonSchema(schema)
    }
}

fn is_filled(value: &Value) -> bool {
    value.as_object().is_some_and(|object| !object.is_empty())
}

/// Whether a schema, with all in it, is of the older kind.
fn fits(value: &Value) -> bool {
    let Value::Object(schema) = value else {
        return false;
    };
    let Some(kind) = schema.get("type") else {
        return schema.contains_key("anyOf") && members_fit(schema);
    };
    let empty_object = kind == "object" && !schema.get("properties").is_some_and(is_filled);
    let array_of_anything = kind == "array" && !schema.contains_key("items");
    kind.is_string() && !empty_object && !array_of_anything && members_fit(schema)
}

fn members_fit(schema: &Map<String, Value>) -> bool {
    schema.iter().all(|(name, value)| match name.as_str() {
        "properties" => value.as_object().is_some_and(|all| all.values().all(fits)),
        "items" => fits(value),
        "anyOf" => value.as_array().is_some_and(|all| all.iter().all(fits)),
        "enum" => value
            .as_array()
            .is_some_and(|all| all.iter().all(Value::is_string)),
        "format" => value
            .as_str()
            .is_some_and(|format| FORMATS.contains(&format)),
        name => KEYWORDS.contains(&name),
    })
}

/// A schema of the older kind as JSON schema: types in small letters, `nullable` as a type, counts as
/// numbers.
pub(super) fn json_schema(schema: &Json) -> Json {
    let Ok(mut value) = serde_json::from_str(schema.text()) else {
        return schema.clone();
    };
    if mend(&mut value) {
        Json::of(&value)
    } else {
        schema.clone()
    }
}

/// Whether something had to be changed.
fn mend(value: &mut Value) -> bool {
    let Value::Object(schema) = value else {
        return false;
    };
    let mut changed = schema.shift_remove("propertyOrdering").is_some();
    if let Some(Value::String(kind)) = schema.get_mut("type")
        && kind.bytes().any(|b| b.is_ascii_uppercase())
    {
        kind.make_ascii_lowercase();
        changed = true;
    }
    if let Some(nullable) = schema.shift_remove("nullable") {
        changed = true;
        if nullable == true
            && let Some(kind) = schema.get_mut("type").filter(|kind| kind.is_string())
        {
            *kind = Value::Array(vec![kind.take(), Value::from("null")]);
        }
    }
    for name in [
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
    ] {
        let text = schema.get(name).and_then(Value::as_str);
        if let Some(number) = text.and_then(|text| text.parse::<u64>().ok()) {
            schema.insert(name.to_owned(), number.into());
            changed = true;
        }
    }
    for (name, value) in schema.iter_mut() {
        changed |= match (name.as_str(), value) {
            ("properties" | "$defs" | "defs", Value::Object(all)) => mend_all(all.values_mut()),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                mend_all(all.iter_mut())
            }
            ("items" | "additionalProperties", value) => mend(value),
            _ => false,
        };
    }
    changed
}

/// Mends each, also behind one that had to be changed.
fn mend_all<'a>(all: impl Iterator<Item = &'a mut Value>) -> bool {
    all.fold(false, |changed, value| mend(value) | changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn what_the_older_kind_knows_goes_there() {
        for text in [
            r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#,
            r#"{"type":"OBJECT","properties":{"a":{"type":"array","items":{"type":"integer","format":"int32"}}}}"#,
            r#"{"anyOf":[{"type":"string","enum":["a"]},{"type":"number","minimum":1}]}"#,
        ] {
            let schema = json(text);
            assert_eq!(place(&schema), Place::OpenApi(&schema), "{text}");
        }
        for text in [
            r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#,
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}"##,
            r#"{"type":"object","properties":{"a":{"type":["string","null"]}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"string","format":"uri"}}}"#,
            r#"{"type":"object","properties":{"a":{"enum":[1,2]}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"object"}}}"#,
            r#"{"type":"object","properties":{"a":{}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"integer","exclusiveMinimum":0}}}"#,
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            "true",
        ] {
            let schema = json(text);
            assert_eq!(place(&schema), Place::JsonSchema(&schema), "{text}");
        }
        for text in [
            "{}",
            r#"{"type":"object"}"#,
            r#"{"type":"object","properties":{}}"#,
        ] {
            assert_eq!(place(&json(text)), Place::Nowhere, "{text}");
        }
    }

    #[test]
    fn the_older_kind_becomes_json_schema() {
        let old = json(
            r#"{"type":"OBJECT","propertyOrdering":["a"],"properties":{"a":{"type":"STRING","nullable":true},
            "b":{"type":"ARRAY","minItems":"2","items":{"type":"NUMBER"}},"type":{"type":"BOOLEAN","nullable":false}}}"#,
        );
        assert_eq!(
            json_schema(&old).text(),
            r#"{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"array","minItems":2,"items":{"type":"number"}},"type":{"type":"boolean"}}}"#
        );
        let new = json(r#"{"type": "object",  "properties": {"a": {"maximum": 1.10}}}"#);
        assert_eq!(json_schema(&new), new);
    }
}
