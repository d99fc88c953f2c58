//! Samples of what each protocol can say, in its own words: written by hand from the vendors'
//! documentation, not by the conversions that they judge.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::protocols::{Event, Protocol};

/// All samples of one protocol.
pub(super) struct Samples {
    pub(super) protocol: Protocol,
    all: Value,
}

/// Which of its halves a feature belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Answer,
}

impl Side {
    const fn base(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Answer => "answer",
        }
    }

    const fn features(self) -> &'static str {
        match self {
            Self::Request => "features",
            Self::Answer => "answers",
        }
    }
}

impl Samples {
    pub(super) fn of(protocol: Protocol, text: &str) -> Self {
        let all = serde_json::from_str(text).expect("samples are JSON");
        Self { protocol, all }
    }

    /// The features that this protocol can say.
    pub(super) fn features(&self, side: Side) -> Vec<&str> {
        let features = self.all[side.features()].as_object();
        features
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect()
    }

    /// Without any feature.
    pub(super) fn base(&self, side: Side) -> &Value {
        &self.all[side.base()]
    }

    /// With a feature, and what it stands on: without it. None where the protocol cannot say it.
    pub(super) fn pair(&self, side: Side, feature: &str) -> Option<(Value, Value)> {
        let found = self.all[side.features()].get(feature)?.as_object()?;
        let without = match found.get("on").and_then(Value::as_str) {
            Some(other) => self.pair(side, other)?.0,
            None => self.base(side).clone(),
        };
        let mut with = without.clone();
        for (name, value) in found.iter().filter(|(name, _)| *name != "on") {
            with[name] = value.clone();
        }
        Some((with, without))
    }

    /// The feature that another one stands on.
    pub(super) fn stands_on(&self, side: Side, feature: &str) -> Option<&str> {
        self.all[side.features()].get(feature)?.get("on")?.as_str()
    }

    /// The events of an answer with a feature, or of one without any.
    pub(super) fn stream(&self, feature: Option<&str>) -> Vec<Event> {
        let events = match feature {
            Some(feature) => &self.all["streams"][feature],
            None => &self.all["stream"],
        };
        let events = events.as_array().expect("a list of events").iter();
        events.map(|event| self.event(event)).collect()
    }

    /// The name of an AWS event stands in its frame: here it is the only member.
    fn event(&self, event: &Value) -> Event {
        let object = event.as_object().expect("an object");
        let (name, data) = match object.iter().next() {
            Some((name, data)) if self.protocol == Protocol::Converse => (name.clone(), data),
            _ => {
                let kind = object.get("type").and_then(Value::as_str);
                (kind.unwrap_or_default().to_owned(), event)
            }
        };
        Event {
            data: data.to_string().into(),
            name: Some(Bytes::from(name)).filter(|name| !name.is_empty()),
            ..Event::default()
        }
    }
}

/// A value with the path where it stands, places in lists left out.
pub(super) type Leaf = (String, String);

/// Names that the gateway makes up from places.
const MADE_UP: [&str; 1] = ["output[].id"];

/// All values of a body. Arguments and schemas that stand as text are compared as what they mean.
pub(super) fn leaves(body: &Value) -> BTreeSet<Leaf> {
    let mut out = BTreeSet::new();
    collect("", body, &mut out);
    out.retain(|(path, _)| !MADE_UP.contains(&path.as_str()));
    out
}

fn collect(path: &str, value: &Value, out: &mut BTreeSet<Leaf>) {
    match value {
        Value::Object(object) => members(path, object, out),
        Value::Array(list) => {
            for value in list {
                collect(&format!("{path}[]"), value, out);
            }
            if list.is_empty() {
                out.insert((path.to_owned(), "[]".to_owned()));
            }
        }
        Value::String(text) => {
            let inner = text
                .starts_with('{')
                .then(|| serde_json::from_str(text).ok());
            let inner: Option<Value> = inner.flatten();
            let text = inner.map_or_else(|| value.to_string(), |inner| inner.to_string());
            out.insert((path.to_owned(), text));
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => {
            out.insert((path.to_owned(), value.to_string()));
        }
    }
}

fn members(path: &str, object: &Map<String, Value>, out: &mut BTreeSet<Leaf>) {
    if object.is_empty() {
        out.insert((path.to_owned(), "{}".to_owned()));
    }
    for (name, value) in object {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        collect(&path, value, out);
    }
}
