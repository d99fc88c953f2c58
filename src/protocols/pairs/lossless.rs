//! Nothing is lost in silence, whatever a request is put together of: several features at once, each
//! free text of its own, and members that nobody knows, anywhere.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value};

use super::sample::{Samples, Side};
use super::{PROVIDERS, samples};
use crate::protocols::{To, dropped};

/// Members whose text is the client's own, so that it can be any.
const FREE: [&str; 24] = [
    "content",
    "data",
    "description",
    "displayName",
    "encrypted_content",
    "error",
    "filename",
    "fileUri",
    "instructions",
    "output",
    "prompt_cache_key",
    "reasoning_content",
    "redactedContent",
    "refusal",
    "signature",
    "stop",
    "stop_sequences",
    "stopSequences",
    "system",
    "team",
    "text",
    "thinking",
    "thoughtSignature",
    "user",
];

/// Names that a protocol has for parts of the same: who is told of one knows of the other.
const SAME: [(&str, &str); 7] = [
    (
        "messages[].reasoning_content",
        "messages[].reasoning_details[]",
    ),
    ("messages[].content[].thinking", "messages[].content[].data"),
    (
        "messages[].content[].thinking",
        "messages[].content[].signature",
    ),
    ("contents[].parts[].thought", "contents[].parts[].text"),
    (
        "contents[].parts[].thought",
        "contents[].parts[].thoughtSignature",
    ),
    (
        "messages[].content[].is_error",
        "messages[].content[].content",
    ),
    ("input[].summary", "input[].encrypted_content"),
];

/// A piece of a request that can be told from all others.
#[derive(Debug)]
struct Mark {
    path: String,
    text: String,
}

/// Puts features together: conversations and lists of tools replace each other, all else is merged.
fn merge(into: &mut Value, more: &Value) {
    for (name, value) in more.as_object().expect("an object") {
        match (into.get_mut(name), value) {
            (Some(Value::Object(_)), Value::Object(_)) if name != "on" => {
                merge(&mut into[name], value);
            }
            _ if name == "on" => {}
            _ => into[name] = value.clone(),
        }
    }
}

fn build(samples: &Samples, chosen: &[Index], unknown: &[Index]) -> (Value, Vec<Mark>) {
    let features = samples.features(Side::Request);
    let mut body = samples.base(Side::Request).clone();
    for index in chosen {
        let feature = features[index.index(features.len())];
        let (with, _) = samples.pair(Side::Request, feature).expect("it has it");
        merge(&mut body, &with);
    }
    for (n, index) in unknown.iter().enumerate() {
        let mut objects = count(&body);
        objects = index.index(objects.max(1));
        insert(&mut body, &mut objects, n);
    }
    let mut marks = Vec::new();
    mark("", "", &mut body, &mut marks);
    (body, marks)
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(object) => 1 + object.values().map(count).sum::<usize>(),
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Puts a member that no protocol knows into the object of this number.
fn insert(value: &mut Value, number: &mut usize, n: usize) -> bool {
    match value {
        Value::Object(object) => {
            if *number == 0 {
                object.insert(format!("unknown_{n}"), Value::from("team"));
                return true;
            }
            *number -= 1;
            object.values_mut().any(|value| insert(value, number, n))
        }
        Value::Array(list) => list.iter_mut().any(|value| insert(value, number, n)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Makes each free text one of its own.
fn mark(path: &str, name: &str, value: &mut Value, marks: &mut Vec<Mark>) {
    match value {
        Value::Object(object) => members(path, object, marks),
        Value::Array(list) => {
            for value in list {
                mark(&format!("{path}[]"), name, value, marks);
            }
        }
        Value::String(text) => {
            let is_free = FREE.contains(&name) || name.starts_with("unknown_");
            if is_free && !text.starts_with("data:") {
                *text = format!("mark{}end", marks.len());
                marks.push(Mark {
                    path: path.to_owned(),
                    text: text.clone(),
                });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn members(path: &str, object: &mut Map<String, Value>, marks: &mut Vec<Mark>) {
    for (name, value) in object {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        mark(&path, name, value, marks);
    }
}

fn is_told(path: &str, told: &BTreeSet<String>) -> bool {
    let is_of = |path: &str, name: &str| path.starts_with(name) || name.starts_with(path);
    told.iter().any(|name| {
        let mut same = SAME.iter().filter(|(one, _)| one == name);
        is_of(path, name) || same.any(|(_, other)| is_of(path, other))
    })
}

proptest! {
    #[test]
    fn every_field_arrives_is_told_or_is_refused(
        protocol in 0_usize..6,
        chosen in prop::collection::vec(any::<Index>(), 0..5),
        unknown in prop::collection::vec(any::<Index>(), 0..3),
    ) {
        let all = samples();
        let client = &all[protocol];
        let (body, marks) = build(client, &chosen, &unknown);
        let spoken = client.protocol.spoken();
        let Ok(request) = spoken.read_request(body.to_string().as_bytes()) else {
            return Ok(());
        };
        for to in PROVIDERS.iter().filter(|to| to.protocol != client.protocol) {
            let aim = To { model: to.model, stream: false, provider: to.like };
            let Ok(written) = to.protocol.spoken().write_request(&request, aim) else {
                continue;
            };
            let arrived = String::from_utf8_lossy(&written.body);
            let told = dropped::of_request(spoken, &request, &written);
            let told: BTreeSet<String> = told.into_iter().collect();
            for mark in &marks {
                prop_assert!(
                    arrived.contains(&mark.text) || is_told(&mark.path, &told),
                    "{:?} -> {}: `{}` is lost; told: {told:?}; sent: {body}; arrived: {arrived}",
                    client.protocol, to.title, mark.path
                );
            }
        }
    }
}

/// The test above is worth something only while most of what it builds converts.
#[test]
fn most_samples_convert() {
    for client in &samples() {
        let features = client.features(Side::Request);
        let reads = features.iter().filter(|feature| {
            let (with, _) = client.pair(Side::Request, feature).unwrap();
            let body = with.to_string();
            client
                .protocol
                .spoken()
                .read_request(body.as_bytes())
                .is_ok()
        });
        assert!(
            reads.count() * 4 > features.len() * 3,
            "{:?}",
            client.protocol
        );
    }
}
