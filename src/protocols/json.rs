//! JSON as the conversions need it: values kept as text, objects read with their path, so that every
//! mistake names its field and nothing that was not looked at goes unnoticed.

use std::fmt;

use memchr::memmem;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as text: numbers, escapes and the order of members are those of its author. It cannot
/// be read inside a tagged enum or a flattened struct, which serde reads through values.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Reads text that must be one JSON value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
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

/// A value with its path.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Where it stands.
    pub path: String,
    raw: &'a RawValue,
}

impl<'a> Member<'a> {
    /// A whole body.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn root(body: &'a [u8]) -> Result<Self, Malformed> {
        let raw = serde_json::from_slice(body);
        let raw = raw.map_err(|e| Malformed::at("body", format!("is not valid JSON: {e}")))?;
        Ok(Self {
            path: String::new(),
            raw,
        })
    }

    /// Its text.
    #[must_use]
    pub fn raw(&self) -> &'a str {
        self.raw.get()
    }

    /// Whether it is a string.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.raw().starts_with('"')
    }

    /// Whether it is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.raw().starts_with('[')
    }

    /// Kept as it is.
    #[must_use]
    pub fn json(&self) -> Json {
        Json(self.raw.to_owned())
    }

    /// As a type; `what` says in words what it must be.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read<T: DeserializeOwned>(&self, what: &str) -> Result<T, Malformed> {
        serde_json::from_str(self.raw()).map_err(|_| self.wrong(format!("must be {what}")))
    }

    /// A string.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self) -> Result<String, Malformed> {
        self.read("a string")
    }

    /// Its elements.
    ///
    /// # Errors
    /// When it is no list.
    pub fn items(&self) -> Result<Vec<Self>, Malformed> {
        let items: Vec<&'a RawValue> =
            serde_json::from_str(self.raw()).map_err(|_| self.wrong("must be a list"))?;
        let items = items.into_iter().enumerate();
        Ok(items
            .map(|(n, raw)| Self {
                path: format!("{}[{n}]", self.path),
                raw,
            })
            .collect())
    }

    /// Its members.
    ///
    /// # Errors
    /// When it is no object.
    pub fn object(&self) -> Result<Object<'a>, Malformed> {
        let Members(members) =
            serde_json::from_str(self.raw()).map_err(|_| self.wrong("must be an object"))?;
        Ok(Object {
            path: self.path.clone(),
            members,
        })
    }

    /// It is not what it should be.
    #[must_use]
    pub fn wrong(&self, message: impl Into<String>) -> Malformed {
        let path = if self.path.is_empty() {
            "body"
        } else {
            &self.path
        };
        Malformed::at(path, message)
    }
}

/// The members of an object, each taken out once. A name that stands twice counts with its last value;
/// `null` is as good as absent.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    path: String,
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Where it stands.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Takes a member out.
    pub fn take(&mut self, name: &str) -> Option<Member<'a>> {
        let mut found = None;
        self.members.retain(|(other, raw)| {
            if other == name {
                found = Some(*raw);
            }
            other != name
        });
        found.filter(|raw| raw.get() != "null").map(|raw| Member {
            path: self.at(name),
            raw,
        })
    }

    /// Takes a member out that must be there.
    ///
    /// # Errors
    /// When it is absent.
    pub fn need(&mut self, name: &str) -> Result<Member<'a>, Malformed> {
        let path = self.at(name);
        self.take(name)
            .ok_or_else(|| Malformed::at(path, "is missing"))
    }

    /// Takes a member out as a type.
    ///
    /// # Errors
    /// When it is there and something else than `what` says.
    pub fn read<T: DeserializeOwned>(
        &mut self,
        name: &str,
        what: &str,
    ) -> Result<Option<T>, Malformed> {
        self.take(name).map(|member| member.read(what)).transpose()
    }

    /// Takes a string out.
    ///
    /// # Errors
    /// When it is there and no string.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Malformed> {
        self.read(name, "a string")
    }

    /// The path of a member.
    #[must_use]
    pub fn at(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// The paths of what nobody took and that says anything.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let left = self.members.iter().filter(|(_, raw)| raw.get() != "null");
        left.map(|(name, _)| self.at(name)).collect()
    }
}

/// All members in order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        json.deserialize_map(All)
    }
}

/// Whether a member of this quoted name stands anywhere with another value than `null`.
#[must_use]
pub fn holds_more_than_null(data: &[u8], name: &[u8]) -> bool {
    memmem::find_iter(data, name).any(|at| {
        let rest = &data[at + name.len()..];
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
    fn mistakes_name_their_path_and_leftovers_are_seen() {
        let body = br#"{"a":[{"b":"x"},{"b":7}],"c":null,"d":1,"d":2,"e":3}"#;
        let mut object = Member::root(body).unwrap().object().unwrap();
        let items = object.need("a").unwrap().items().unwrap();
        let wrong = items[1].object().unwrap().text("b").unwrap_err();
        assert_eq!(wrong.to_string(), "`a[1].b` must be a string");
        assert!(object.take("c").is_none());
        assert_eq!(object.read("d", "a number").unwrap(), Some(2));
        assert_eq!(object.left(), ["e"]);
        assert_eq!(object.need("z").unwrap_err().to_string(), "`z` is missing");
    }

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
