//! Values with their paths: the bodies of clients and providers, read member by member.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::count::whole;
use super::{Json, MAX_DEPTH, Malformed, is_too_deep};

/// Elements of one list. No provider takes a conversation of more messages.
const MAX_ITEMS: usize = 100_000;

/// Members of one object that is read. Objects that pass as they are may have more.
const MAX_MEMBERS: usize = 1_000;

/// Paths that are told of what nobody took.
const MAX_UNTAKEN: usize = 1_000;

/// The paths of what no reader took.
#[derive(Debug, Default)]
struct Untaken {
    paths: RefCell<Vec<String>>,
    /// Members that stand twice are refused.
    strict: bool,
}

/// Reads a client's request, and tells the paths of what `read` took of none of its objects.
///
/// # Errors
/// When it is no JSON object, when a member of an object that is read stands twice, or what `read` says.
pub fn read_request<T>(
    body: &[u8],
    read: impl FnOnce(&mut Object<'_>) -> Result<T, Malformed>,
) -> Result<(T, Vec<String>), Malformed> {
    watched(body, true, read)
}

/// Reads a provider's answer, and tells the paths of what `read` took of none of its objects. Of members
/// that stand twice the last one counts.
///
/// # Errors
/// When it is no JSON object, or what `read` says.
pub fn read_answer<T>(
    body: &[u8],
    read: impl FnOnce(&mut Object<'_>) -> Result<T, Malformed>,
) -> Result<(T, Vec<String>), Malformed> {
    watched(body, false, read)
}

fn watched<T>(
    body: &[u8],
    strict: bool,
    read: impl FnOnce(&mut Object<'_>) -> Result<T, Malformed>,
) -> Result<(T, Vec<String>), Malformed> {
    let untaken = Untaken {
        strict,
        ..Untaken::default()
    };
    let found = {
        let root = Member {
            untaken: Some(&untaken),
            ..Member::root(body)?
        };
        read(&mut root.object()?)?
    };
    Ok((found, untaken.paths.into_inner()))
}

/// A value with its path.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Where it stands.
    pub path: String,
    raw: &'a RawValue,
    untaken: Option<&'a Untaken>,
}

impl<'a> Member<'a> {
    /// A whole body, of which nobody is told what is left.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn root(body: &'a [u8]) -> Result<Self, Malformed> {
        let raw = serde_json::from_slice(body);
        let raw = raw.map_err(|e| Malformed::at("body", format!("is not valid JSON: {e}")))?;
        Ok(Self {
            path: String::new(),
            raw,
            untaken: None,
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

    /// An object, kept as it is.
    ///
    /// # Errors
    /// When it is something else, or nested too deeply.
    pub fn json_object(&self) -> Result<Json, Malformed> {
        if !self.raw().starts_with('{') {
            return Err(self.wrong("must be an object"));
        }
        if is_too_deep(self.raw().as_bytes()) {
            return Err(self.wrong(format!("is nested more than {MAX_DEPTH} levels deep")));
        }
        Ok(self.json())
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
        if self.is_text() {
            let halved = "has half of a character: one \\u escape of a pair without the other";
            return serde_json::from_str(self.raw()).map_err(|_| self.wrong(halved));
        }
        self.read("a string")
    }

    /// JSON that stands as text in a string; `what` says in words which.
    ///
    /// # Errors
    /// When it is no string, no JSON, or nested too deeply.
    pub fn json_text(&self, what: &str) -> Result<Json, Malformed> {
        let text = self.text()?;
        if is_too_deep(text.as_bytes()) {
            return Err(self.wrong(format!("is nested more than {MAX_DEPTH} levels deep")));
        }
        Json::parse(&text).ok_or_else(|| self.wrong(format!("must be the text of {what}")))
    }

    /// A whole number, which some clients write as `5.0`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn count(&self) -> Result<u64, Malformed> {
        whole(self.raw()).ok_or_else(|| self.wrong("must be a whole number"))
    }

    /// A list of numbers, kept as it is.
    ///
    /// # Errors
    /// When it is something else.
    pub fn numbers(&self) -> Result<Json, Malformed> {
        let _: Vec<f64> = self.read("a list of numbers")?;
        Ok(self.json())
    }

    /// Its elements.
    ///
    /// # Errors
    /// When it is no list, or a longer one than any that is meant.
    pub fn items(&self) -> Result<Vec<Self>, Malformed> {
        if !self.is_list() {
            return Err(self.wrong("must be a list"));
        }
        let items: Items<'a> = serde_json::from_str(self.raw())
            .map_err(|_| self.wrong(format!("has more than {MAX_ITEMS} elements")))?;
        let items = items.0.into_iter().enumerate();
        Ok(items
            .map(|(n, raw)| Self {
                path: format!("{}[{n}]", self.path),
                raw,
                untaken: self.untaken,
            })
            .collect())
    }

    /// Its members.
    ///
    /// # Errors
    /// When it is no object, has more members than any that is meant, or, in a client's request, one
    /// of them twice.
    pub fn object(&self) -> Result<Object<'a>, Malformed> {
        if !self.raw().starts_with('{') {
            return Err(self.wrong("must be an object"));
        }
        let Members(members) = serde_json::from_str(self.raw()).map_err(|e| {
            // Not what `raw` was found to be: a name that is no text at all, or too many of them.
            let too_many = e.to_string().starts_with(TOO_MANY);
            self.wrong(if too_many {
                format!("has more than {MAX_MEMBERS} members")
            } else {
                "has a name that is no text".to_owned()
            })
        })?;
        let object = Object {
            path: self.path.clone(),
            members,
            untaken: self.untaken,
        };
        if self.untaken.is_some_and(|untaken| untaken.strict)
            && let Some(name) = object.twice()
        {
            let path = object.at(name);
            return Err(Malformed::at(path, "stands twice: send it once"));
        }
        Ok(object)
    }

    /// Its members, to look at: what is left is not told, for the value passes as a whole.
    ///
    /// # Errors
    /// Those of [`Member::object`].
    pub fn glimpse(&self) -> Result<Object<'a>, Malformed> {
        let unwatched = Self {
            untaken: None,
            ..self.clone()
        };
        unwatched.object()
    }

    /// Tells that it is not passed on, though it was taken.
    pub fn not_passed_on(&self) {
        if let Some(untaken) = self.untaken {
            let mut paths = untaken.paths.borrow_mut();
            if paths.len() < MAX_UNTAKEN {
                paths.push(self.path.clone());
            }
        }
    }

    /// It is something that can only stand elsewhere.
    #[must_use]
    pub fn misplaced(&self) -> Malformed {
        self.wrong("has a part that cannot stand in a message of this role")
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

/// The members of an object, each taken out once. Of a provider's that stand twice the last one counts;
/// `null` is as good as absent. What is never taken is told when this is dropped.
#[derive(Debug)]
pub struct Object<'a> {
    path: String,
    members: Vec<(String, &'a RawValue)>,
    untaken: Option<&'a Untaken>,
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        let Some(untaken) = self.untaken else {
            return;
        };
        let mut untaken = untaken.paths.borrow_mut();
        let room = MAX_UNTAKEN.saturating_sub(untaken.len());
        let left = self.members.iter().filter(|(_, raw)| raw.get() != "null");
        untaken.extend(left.take(room).map(|(name, _)| self.at(name)));
    }
}

impl<'a> Object<'a> {
    /// A name that stands more than once.
    fn twice(&self) -> Option<&str> {
        let mut seen = HashSet::with_capacity(self.members.len());
        let mut names = self.members.iter().map(|(name, _)| name.as_str());
        names.find(|name| !seen.insert(*name))
    }

    /// Where it stands.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a member is there and says anything.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let mut members = self.members.iter();
        members.any(|(other, raw)| other == name && raw.get() != "null")
    }

    /// Takes out what says nothing that must be passed on.
    pub fn skip(&mut self, names: &[&str]) {
        self.members
            .retain(|(name, _)| !names.contains(&name.as_str()));
    }

    /// Takes out lists that are empty.
    pub fn skip_empty(&mut self, names: &[&str]) {
        self.members
            .retain(|(name, raw)| !names.contains(&name.as_str()) || raw.get() != "[]");
    }

    /// The path of the first member that is left and says anything.
    #[must_use]
    pub fn first_left(&self) -> Option<String> {
        let mut members = self.members.iter();
        let first = members.find(|(_, raw)| raw.get() != "null")?;
        Some(self.at(&first.0))
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
            untaken: self.untaken,
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
        self.take(name).map(|member| member.text()).transpose()
    }

    /// Takes a whole number out.
    ///
    /// # Errors
    /// When it is there and something else.
    pub fn count(&mut self, name: &str) -> Result<Option<u64>, Malformed> {
        self.take(name).map(|member| member.count()).transpose()
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
}

/// How the error begins that stops reading an endless object.
const TOO_MANY: &str = "too many";

/// All elements in order.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Items<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    if items.len() == MAX_ITEMS {
                        return Err(S::Error::custom(TOO_MANY));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        json.deserialize_seq(All)
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
                    if members.len() == MAX_MEMBERS {
                        return Err(M::Error::custom(TOO_MANY));
                    }
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        json.deserialize_map(All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_their_path_and_leftovers_are_told() {
        let body = br#"{"a":[{"b":"x"},{"b":7,"x":{"y":1}}],"c":null,"d":1,"e":3,"f":null}"#;
        let read = read_request(body, |object| {
            let items = object.need("a")?.items()?;
            let wrong = items[1].object()?.text("b").unwrap_err();
            assert_eq!(wrong.to_string(), "`a[1].b` must be a string");
            assert!(object.take("c").is_none());
            assert_eq!(object.need("z").unwrap_err().to_string(), "`z` is missing");
            object.read("d", "a number")
        });
        let (read, mut left): (Option<u8>, _) = read.unwrap();
        left.sort_unstable();
        assert_eq!(read, Some(1));
        // Nobody looked into `a[0]`.
        assert_eq!(left, ["a[1].x", "e"]);
    }

    #[test]
    fn what_stands_twice_is_refused_of_clients_and_read_of_providers() {
        let body = br#"{"a":{"d":1,"c":0,"\u0064":2}}"#;
        let refused = read_request(body, |object| object.need("a")?.object().map(drop));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "`a.d` stands twice: send it once"
        );
        let mut top = Member::root(body).unwrap().object().unwrap();
        let mut object = top.need("a").unwrap().object().unwrap();
        assert_eq!(object.read("d", "a number").unwrap(), Some(2));
    }

    #[test]
    fn endless_lists_objects_and_depths_are_refused_by_name() {
        let list = format!("{{\"a\":[{}0]}}", "0,".repeat(MAX_ITEMS));
        let mut top = Member::root(list.as_bytes()).unwrap().object().unwrap();
        let wrong = top.need("a").unwrap().items().unwrap_err();
        assert_eq!(wrong.to_string(), "`a` has more than 100000 elements");
        let members: Vec<_> = (0..=MAX_MEMBERS).map(|n| format!("\"{n}\":0")).collect();
        let object = format!("{{{}}}", members.join(","));
        let wrong = Member::root(object.as_bytes())
            .unwrap()
            .object()
            .unwrap_err();
        assert_eq!(wrong.to_string(), "`body` has more than 1000 members");
        let deep = |levels: usize| {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let body = format!("{{\"a\":\"{text}\"}}");
            let mut top = Member::root(body.as_bytes()).unwrap().object().unwrap();
            top.need("a").unwrap().json_text("JSON").map(drop)
        };
        assert_eq!(deep(MAX_DEPTH), Ok(()));
        let wrong = deep(MAX_DEPTH + 1).unwrap_err();
        assert_eq!(wrong.to_string(), "`a` is nested more than 128 levels deep");
        let in_text = format!("\"{}\"", "[{".repeat(MAX_DEPTH));
        assert!(!is_too_deep(in_text.as_bytes()));
    }
}
