//! What a recorded answer of a provider would do: for operators, who write rules and wonder about holds.
//!
//! The same readers and the same classifier as for a request in the air; nothing is held by asking.

use std::collections::BTreeMap;

use holdline_core::failure::class::Retry;
use holdline_core::failure::{
    Classifier, Facts, FailureClass, Headers, Scope, stated_wait_ms, words,
};
use holdline_core::holds::ladder;
use holdline_core::time::WallMs;
use serde::Serialize;

use super::failed::error_facts;
use crate::protocols::sse::{Event, SseReader, without_comments};

/// An answer as somebody recorded it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// Whose.
    pub provider: String,
    /// The HTTP status.
    pub status: u16,
    /// By name in lower case; `:exception-type` of an AWS event-stream message counts too.
    pub headers: BTreeMap<String, String>,
    /// Raw.
    pub body: Vec<u8>,
    /// Which model was asked for.
    pub model: Option<String>,
    /// The body is one event or a whole event stream, however its status.
    pub stream_event: bool,
}

/// What it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Explanation {
    /// None where the answer is no error.
    pub failure_class: Option<FailureClass>,
    /// The rule that decided.
    pub rule: String,
    /// How much of the key is held: `key`, `model` or `none`.
    pub scope: &'static str,
    /// The hold of a key that was not held before.
    pub holds: Option<Hold>,
    /// What the request does next.
    pub retry: &'static str,
    /// The wait that the provider stated, within 1 s..5 min.
    pub retry_after_ms: Option<u64>,
    /// The provider's words, scrubbed.
    pub message: String,
}

/// A hold that would be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hold {
    /// `key` or `model`.
    pub what: &'static str,
    /// Which, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Until the first check, without jitter.
    pub wait_ms: u64,
    /// `ladder` or `provider`.
    pub wait_source: &'static str,
}

impl Recorded {
    fn facts(&self) -> Option<Facts> {
        let header = |name: &str| self.headers.get(name).map(String::as_str);
        let headers = Headers {
            content_type: header("content-type"),
            retry_after: header("retry-after"),
            retry_after_ms: header("retry-after-ms"),
            amzn_error_type: header("x-amzn-errortype"),
            exception_type: header(":exception-type"),
        };
        if !self.stream_event && !(200..300).contains(&self.status) {
            let facts = Facts::from_answer(&self.provider, self.status, headers, &self.body);
            return Some(facts);
        }
        let told = |event: &Event| match headers.exception_type {
            Some(_) => Facts::from_event(&self.provider, headers, &event.data),
            None => error_facts(&self.provider, headers, event),
        };
        // The last error counts: some are announced by an event that does not say yet what it is.
        events(&self.body).iter().filter_map(told).next_back()
    }
}

/// The events of a stream; a body that is no event stream is one.
fn events(body: &[u8]) -> Vec<Event> {
    let mut reader = SseReader::default();
    reader.push(body);
    // What was recorded of a stream need not end with its blank line.
    reader.push(b"\n\n");
    let mut found = Vec::new();
    while let Ok(Some(event)) = reader.next_event() {
        found.push(event);
    }
    if found.is_empty() {
        found.push(Event {
            data: without_comments(body).into(),
            ..Event::default()
        });
    }
    found
}

/// Says what an answer means. `now` is the wall clock, for HTTP dates.
pub(crate) fn explain(classifier: &Classifier, answer: &Recorded, now: WallMs) -> Explanation {
    let Some(facts) = answer.facts() else {
        return Explanation {
            failure_class: None,
            rule: "no_error".to_owned(),
            scope: "none",
            holds: None,
            retry: "none",
            retry_after_ms: None,
            message: String::new(),
        };
    };
    let verdict = classifier.classify(&facts);
    let stated_ms = stated_wait_ms(&facts, now);
    let holds = verdict.holds.map(|reason| {
        let wait = ladder::wait(reason, 0, stated_ms);
        let of_model = reason.scope() == Scope::Model;
        Hold {
            what: if of_model { "model" } else { "key" },
            model: answer.model.clone().filter(|_| of_model),
            wait_ms: wait.ms,
            wait_source: if wait.stated { "provider" } else { "ladder" },
        }
    });
    Explanation {
        failure_class: Some(verdict.class),
        rule: verdict.rule.to_string(),
        scope: holds.as_ref().map_or("none", |hold| hold.what),
        holds,
        retry: match verdict.class.retry() {
            Retry::NextKeyGranted => "next_key_granted",
            Retry::NextKeyCharged => "next_key_charged",
            Retry::SameKey => "same_key",
            Retry::None => "none",
        },
        retry_after_ms: stated_ms,
        message: words(&facts, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(answer: &Recorded) -> Explanation {
        explain(&Classifier::default(), answer, WallMs(0))
    }

    fn answer(status: u16, body: &str) -> Recorded {
        Recorded {
            provider: "openai".to_owned(),
            status,
            body: body.as_bytes().to_vec(),
            model: Some("gpt-4o".to_owned()),
            ..Recorded::default()
        }
    }

    #[test]
    fn a_refusal_says_what_would_be_held_and_for_how_long() {
        let mut limited = answer(429, r#"{"error":{"message":"slow down sk-abcdefgh1234"}}"#);
        limited
            .headers
            .insert("retry-after".to_owned(), "2".to_owned());
        let hold = Hold {
            what: "model",
            model: Some("gpt-4o".to_owned()),
            wait_ms: 10_000,
            wait_source: "provider",
        };
        let expected = Explanation {
            failure_class: Some(FailureClass::RateLimit),
            rule: "rate_limit".to_owned(),
            scope: "model",
            holds: Some(hold),
            retry: "next_key_charged",
            retry_after_ms: Some(2_000),
            message: "slow down [redacted]".to_owned(),
        };
        assert_eq!(explained(&limited), expected);
        let key = explained(&answer(401, "")).holds.unwrap();
        assert_eq!(
            (key.what, key.wait_ms, key.wait_source),
            ("key", 30_000, "ladder")
        );
        assert_eq!(explained(&answer(500, "")).holds, None);
    }

    #[test]
    fn events_are_read_as_a_stream_brings_them() {
        let streams = [
            "data: {\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n",
            ": hello\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\"}}",
            "data: {\"choices\":[]}\n\ndata: {\"error\":{\"code\":429}}\n\n",
            ": hello\n{\"error\":\n{\"code\":429}}\n",
            "event: error\ndata: {\"code\":429,\"message\":\"x\"}\n\n",
        ];
        for stream in streams {
            let class = explained(&answer(200, stream)).failure_class;
            assert_eq!(class, Some(FailureClass::RateLimit), "{stream}");
        }
        let served = explained(&answer(200, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n"));
        assert_eq!(
            (served.failure_class, served.rule.as_str()),
            (None, "no_error")
        );
    }
}
