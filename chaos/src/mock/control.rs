//! The calls with which a person or a test steers the mock and looks at what it counted.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::fault::Fault;
use super::record::Record;

/// Most calls in one listing: the newest.
const LISTED_CALLS: usize = 1_000;

/// Answers `/mock/…`; `segments` are those behind `mock`.
pub(super) fn answer(
    record: &Record,
    method: &Method,
    segments: &[&str],
    query: &str,
) -> (StatusCode, Value) {
    match (method, segments) {
        (&Method::GET, ["keys"]) => (
            StatusCode::OK,
            json!({ "now_ms": record.now_ms(), "keys": record.keys() }),
        ),
        (&Method::GET, ["calls"]) => calls(record, query),
        (&Method::POST, ["keys", key, verb]) => set(record, key, verb, query),
        _ => problem(
            StatusCode::NOT_FOUND,
            "there are GET /mock/keys, GET /mock/calls and POST /mock/keys/KEY/{revoke,quota,limit,deny,break,restore}",
        ),
    }
}

fn set(record: &Record, key: &str, verb: &str, query: &str) -> (StatusCode, Value) {
    let retry_after_s = match parameter(query, "retry_after").map(str::parse::<u64>) {
        Some(Err(_)) => {
            return problem(
                StatusCode::BAD_REQUEST,
                "retry_after is a number of seconds",
            );
        }
        Some(Ok(seconds)) => Some(seconds),
        None => None,
    };
    let fault = Fault::from_verb(verb, retry_after_s);
    if fault.is_none() && verb != "restore" {
        return problem(
            StatusCode::NOT_FOUND,
            "a key can be told to revoke, quota, limit, deny, break or restore",
        );
    }
    if !record.set_fault(key, fault) {
        return problem(StatusCode::INSUFFICIENT_STORAGE, "too many keys");
    }
    (
        StatusCode::OK,
        json!({ "key": key, "fault": fault, "now_ms": record.now_ms() }),
    )
}

fn calls(record: &Record, query: &str) -> (StatusCode, Value) {
    let since_ms = match parameter(query, "since_ms").map(str::parse::<u64>) {
        Some(Err(_)) => {
            return problem(
                StatusCode::BAD_REQUEST,
                "since_ms is a number of milliseconds",
            );
        }
        Some(Ok(ms)) => ms,
        None => 0,
    };
    let mut calls = record.calls(parameter(query, "key"), since_ms);
    let count = calls.len();
    calls.drain(..count.saturating_sub(LISTED_CALLS));
    (
        StatusCode::OK,
        json!({ "now_ms": record.now_ms(), "count": count, "calls": calls }),
    )
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(n, _)| *n == name)
        .map(|(_, value)| value)
}

pub(super) fn problem(status: StatusCode, message: &str) -> (StatusCode, Value) {
    (
        status,
        json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": null } }),
    )
}
