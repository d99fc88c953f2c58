//! A failed attempt: what it was, what it means for holds and for the walk, what the client is told.

use std::error::Error;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::HeaderMap;
use hyper_util::client::legacy;
use memchr::memmem::Finder;

use holdline_core::failure::{
    self, Classifier, Facts, FailureClass, Headers, Reason, stated_wait_ms,
};
use holdline_core::health::{Ended, Reach};
use holdline_core::holds::{Answer, Refusal};
use holdline_core::ids::ProviderId;
use holdline_core::time::WallMs;
use holdline_core::tpm::Limits;
use holdline_core::walk::Failure;

use super::allowed;
use super::answer_headers;
use super::course::{Course, Flight};
use super::details;
use super::tokens::Proof;
use super::upstream::Forbidden;
use crate::api::error::ErrorBody;
use crate::config::{Key, Provider, Secret};
use crate::node::{Clock, Node};
use crate::protocols::json::holds_more_than_null;
use crate::protocols::{Event, Operation, Protocol};

/// Whose clock ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// Ours, for the provider: what the trail calls it.
    Provider(&'static str),
    /// The caller's own.
    Caller,
}

/// A failed attempt.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    /// For the walk.
    pub(super) failure: Failure,
    /// For holds.
    pub(super) answer: Box<Answer>,
    /// For the client: scrubbed.
    pub(super) error: Box<ErrorBody>,
    /// Of the provider, for the client.
    pub(super) headers: Box<HeaderMap>,
    /// A token limit is used up, for so many milliseconds.
    pub(super) dry_ms: Option<u64>,
    /// How far it got.
    reach: Reach,
}

/// Judges what a provider says, and knows what must not come back in its words.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    provider: ProviderId,
    /// The key's value, or the caller's own key.
    pub(super) secret: Option<Secret>,
    /// What else may not come back: the key's other secrets, those of configured headers, tokens.
    others: Vec<Secret>,
    /// Those of the stream under way: a wait that stands there counts for an error in its events.
    stream_headers: HeaderMap,
    classifier: Arc<Classifier>,
    pub(super) clock: Clock,
}

impl Judge {
    pub(super) fn of(course: &Course, flight: &Flight) -> Self {
        let mut judge = Self::of_key(&course.node, &flight.provider, flight.key.as_deref());
        if flight.attempt.direct_key {
            judge.secret.clone_from(&course.inbound.direct_key);
        }
        judge
    }

    /// Of calls with one key.
    pub(super) fn of_key(node: &Node, provider: &Provider, key: Option<&Key>) -> Self {
        let of_key = key.into_iter().flat_map(|key| key.vendor.secrets());
        let of_headers = &provider.network.header_secrets;
        Self {
            provider: provider.id.clone(),
            secret: key.map(|k| k.value.clone()),
            others: of_key.chain(of_headers).cloned().collect(),
            stream_headers: HeaderMap::new(),
            classifier: Arc::clone(&node.config.classifier),
            clock: node.clock.clone(),
        }
    }

    /// This was sent too.
    pub(super) fn also_sent(&mut self, proof: &Proof) {
        match proof {
            Proof::Token(token) => self.others.push(token.clone()),
            Proof::Aws(keys) => self.others.extend(keys.secrets().cloned()),
        }
    }

    /// Everything that may not come back.
    pub(super) fn sent(&self) -> impl Iterator<Item = &str> {
        let all = self.secret.iter().chain(&self.others);
        all.map(Secret::expose).filter(|text| !text.is_empty())
    }

    /// An answer with an error status.
    pub(super) fn answer(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failed {
        let facts = Facts::from_answer(self.provider.as_str(), status, read_headers(headers), body);
        self.judge(&facts, headers).with_details(self, body)
    }

    /// The error in an event of a stream or in the body of a 200, if it is one.
    pub(super) fn error_in(&self, headers: &HeaderMap, data: &[u8]) -> Option<Failed> {
        if !may_be_error(data) {
            return None;
        }
        let facts = Facts::from_event(self.provider.as_str(), read_headers(headers), data)?;
        Some(self.judge(&facts, headers).with_details(self, data))
    }

    /// The failure that an event tells of, if it does.
    pub(super) fn error_event(&self, event: &Event) -> Option<Failed> {
        let headers = read_headers(&self.stream_headers);
        let facts = error_facts(self.provider.as_str(), headers, event)?;
        Some(
            self.judge(&facts, &self.stream_headers)
                .with_details(self, &event.data),
        )
    }

    /// The same judge for the events of a stream with these headers.
    pub(super) fn of_stream(mut self, headers: &HeaderMap) -> Self {
        const OF_USE: [&str; 2] = ["retry-after", "retry-after-ms"];
        for name in OF_USE {
            if let Some(value) = headers.get(name) {
                self.stream_headers.insert(name, value.clone());
            }
        }
        self
    }

    /// The error in an event, if it is one.
    pub(super) fn error_in_stream(&self, data: &[u8]) -> Option<Failed> {
        self.error_in(&self.stream_headers, data)
    }

    fn judge(&self, facts: &Facts, headers: &HeaderMap) -> Failed {
        let verdict = self.classifier.classify(facts);
        let sent: Vec<&str> = self.sent().collect();
        let words = failure::words(facts, &sent);
        let stated_ms = stated_wait_ms(facts, self.clock.wall());
        let limits = limits_in(headers, self.clock.wall());
        let dry_ms = (verdict.holds == Some(Reason::RateLimit))
            .then(|| limits.refusal_ms(facts, stated_ms))
            .flatten();
        let answer = match verdict.holds {
            Some(reason) => Answer::Refused(Refusal {
                reason,
                stated_ms,
                words: words.clone(),
                status: facts.status,
            }),
            None if verdict.class == FailureClass::CallerFault => Answer::CallerFault,
            None => Answer::Inconclusive,
        };
        let clean = |text: &Option<String>| {
            let scrubbed = text.as_deref().map(|t| failure::words::scrub(t, &sent));
            scrubbed.filter(|t| !t.is_empty())
        };
        let message = if words.is_empty() {
            format!(
                "the provider answered with status {} and no words",
                facts.status
            )
        } else {
            words
        };
        Failed {
            failure: Failure {
                class: verdict.class,
                status: facts.status,
                label: failure::label(verdict.class, Some(facts)),
                retry_after_ms: stated_ms,
                callers_deadline: false,
            },
            answer: Box::new(answer),
            error: Box::new(ErrorBody {
                kind: clean(&facts.kind),
                code: clean(&facts.code),
                message,
                param: clean(&facts.param),
                details: None,
            }),
            headers: Box::new(answer_headers::of(headers, self)),
            dry_ms,
            reach: Reach::Connected,
        }
    }
}

/// What an event says of a failure, if it tells of one.
pub(super) fn error_facts(provider: &str, headers: Headers<'_>, event: &Event) -> Option<Facts> {
    if !event.exception {
        let marked = may_be_error(&event.data)
            .then(|| Facts::from_event(provider, headers, &event.data))
            .flatten();
        // Some only name an event so, and say nothing in it that marks an error.
        if marked.is_some() || !event.is_named_error() {
            return marked;
        }
    }
    let headers = Headers {
        exception_type: Some(event.kind()),
        ..headers
    };
    Facts::from_event(provider, headers, &event.data)
}

/// What an answer's headers say of token limits.
pub(super) fn limits_in(headers: &HeaderMap, now: WallMs) -> Limits {
    if !headers.keys().any(|name| Limits::may_tell(name.as_str())) {
        return Limits::default();
    }
    Limits::read(|name| headers.get(name).and_then(|v| v.to_str().ok()), now)
}

/// Whether data may tell of an error: only then is it read as one. It stands there as the name of a member
/// that is not `null`, or as a value.
fn may_be_error(data: &[u8]) -> bool {
    static ERROR: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"error\""));
    holds_more_than_null(data, &ERROR)
}

fn read_headers(headers: &HeaderMap) -> Headers<'_> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    Headers {
        content_type: text("content-type"),
        retry_after: text("retry-after"),
        retry_after_ms: text("retry-after-ms"),
        amzn_error_type: text("x-amzn-errortype"),
        exception_type: None,
    }
}

impl Failed {
    fn with_details(mut self, judge: &Judge, body: &[u8]) -> Self {
        let sent: Vec<&str> = judge.sent().collect();
        self.error.details = details::read(body, &sent).map(Box::new);
        self
    }

    /// What it says of the key's health. What lies with the caller says nothing: so also a prompt that the
    /// provider's moderation refused, which has a class that holds but does not hold.
    pub(super) const fn ended(&self) -> Ended {
        let class = self.failure.class;
        let of_the_caller = matches!(class, FailureClass::CallerFault | FailureClass::Cancelled)
            || self.failure.callers_deadline
            || matches!(*self.answer, Answer::Cancelled)
            || (class.reason().is_some() && !matches!(*self.answer, Answer::Refused(_)));
        if of_the_caller {
            Ended::Nothing
        } else {
            Ended::Failed(self.reach)
        }
    }

    /// A limit ran out.
    pub(super) fn late(late: Late, limit: Duration) -> Self {
        let (label, message) = match late {
            Late::Provider("ttft_timeout") => (
                "ttft_timeout",
                "the provider sent no output within `ttft_timeout_in_seconds`".to_owned(),
            ),
            Late::Provider("stream_idle_timeout") => (
                "stream_idle_timeout",
                format!(
                    "the provider's stream was silent for {} (`stream_idle_timeout_in_seconds`)",
                    in_words(limit)
                ),
            ),
            Late::Provider(label) => (
                label,
                format!(
                    "the provider did not answer within {} (`default_request_timeout_in_seconds`)",
                    in_words(limit)
                ),
            ),
            Late::Caller => (
                "request_timed_out",
                "the request's own limit, x-bf-request-timeout-ms, ran out".to_owned(),
            ),
        };
        let answer = match late {
            Late::Provider(_) => Answer::Inconclusive,
            Late::Caller => Answer::Cancelled,
        };
        let mut failed = Self::ours(FailureClass::Timeout, 504, label, answer, message);
        failed.failure.callers_deadline = late == Late::Caller;
        failed.reach = Reach::Silent;
        failed
    }

    /// No connection, or one that broke before an answer.
    pub(super) fn transport(error: &legacy::Error) -> Self {
        if let Some(forbidden) = Forbidden::among(error) {
            return Self::misconfigured(&forbidden.to_string());
        }
        let message = if error.is_connect() {
            format!("the provider cannot be reached: {}", innermost(error))
        } else {
            format!(
                "the provider broke the connection off: {}",
                innermost(error)
            )
        };
        let mut failed = Self::broken(message);
        if error.is_connect() {
            failed.reach = Reach::NotConnected;
        }
        failed
    }

    /// Whether nothing was sent, because nobody was there.
    pub(super) fn reached_nobody(&self) -> bool {
        self.reach == Reach::NotConnected
    }

    /// A client's body stands still: whoever of the two sides it is.
    pub(super) fn stuck(limit: Duration) -> Self {
        let message = format!(
            "nothing of the request's body moved for {}: send it faster, or raise `default_request_timeout_in_seconds`",
            in_words(limit)
        );
        let (class, answer) = (FailureClass::Timeout, Answer::Inconclusive);
        Self::ours(class, 408, "request_timed_out", answer, message)
    }

    /// The caller left.
    pub(super) fn cancelled() -> Self {
        Self::ours(
            FailureClass::Cancelled,
            499,
            "",
            Answer::Cancelled,
            String::new(),
        )
    }

    /// An answer that broke or cannot be read.
    pub(super) fn broken(message: String) -> Self {
        Self::ours(
            FailureClass::Transient,
            502,
            "network_error",
            Answer::Inconclusive,
            message,
        )
    }

    /// The configuration does not let the call be made: nothing is learnt of the key.
    pub(super) fn misconfigured(message: &str) -> Self {
        let message = format!("the provider cannot be called: {message}");
        Self::ours(
            FailureClass::Unknown,
            502,
            "not_callable",
            Answer::Cancelled,
            message,
        )
    }

    /// Neither the client's protocol nor one that it converts to is spoken with the provider.
    pub(super) fn not_spoken(provider: &str, protocol: Protocol, operation: Operation) -> Self {
        let words = protocol.words();
        let message = match operation {
            Operation::Answer => format!(
                "the provider \"{provider}\" is not asked in {words}, nor in anything it converts to"
            ),
            Operation::CountTokens => format!(
                "the provider \"{provider}\" has no token counter for {words}: counting is never converted"
            ),
        };
        Self::ours(
            FailureClass::Unknown,
            501,
            "not_spoken",
            Answer::Cancelled,
            message,
        )
    }

    /// The provider takes no such requests: its configuration says so.
    pub(super) fn not_taken(provider: &str, kind: &str) -> Self {
        let mut failed = Self::ours(
            FailureClass::Unknown,
            400,
            allowed::CODE,
            Answer::Cancelled,
            allowed::told_of(provider, kind),
        );
        failed.error.kind = Some("invalid_request_error".to_owned());
        failed.error.code = Some(allowed::CODE.to_owned());
        failed
    }

    /// The request says what the provider's protocol cannot: nothing was sent.
    pub(super) fn unconvertible(param: &str, message: &str) -> Self {
        let mut failed = Self::ours(
            FailureClass::CallerFault,
            400,
            "invalid_request_error",
            Answer::Cancelled,
            message.to_owned(),
        );
        failed.error.param = Some(param.to_owned());
        failed
    }

    fn ours(
        class: FailureClass,
        status: u16,
        label: &str,
        answer: Answer,
        message: String,
    ) -> Self {
        Self {
            failure: Failure {
                class,
                status,
                label: label.to_owned(),
                retry_after_ms: None,
                callers_deadline: false,
            },
            answer: Box::new(answer),
            error: Box::new(ErrorBody {
                kind: Some(label.to_owned()),
                message,
                ..ErrorBody::default()
            }),
            headers: Box::default(),
            dry_ms: None,
            reach: Reach::Connected,
        }
    }
}

/// Whole seconds as such, anything finer in milliseconds.
fn in_words(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}

/// The cause below all wrappers: those of libraries say nothing, and some print addresses.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_named_an_error_is_one() {
        let told = |name: &str, data: &str| {
            let event = Event {
                data: data.to_owned().into(),
                name: Some(name.to_owned().into()),
                ..Event::default()
            };
            error_facts("p", Headers::default(), &event).map(|facts| facts.status)
        };
        assert_eq!(told("error", r#"{"code":429,"message":"x"}"#), Some(429));
        assert_eq!(told("error", "something broke"), Some(500));
        assert_eq!(told("message", r#"{"code":429,"message":"x"}"#), None);
        assert_eq!(told("message", r#"{"error":{"code":429}}"#), Some(429));
    }

    #[test]
    fn limits_are_told_as_long_as_they_are() {
        let told = |ms| in_words(Duration::from_millis(ms));
        assert_eq!(
            [told(2_000), told(1_500), told(200)],
            ["2 s", "1500 ms", "200 ms"]
        );
    }

    #[test]
    fn errors_are_looked_for() {
        assert!(may_be_error(br#"{"error":{"message":"x"}}"#));
        assert!(may_be_error(br#"{"type":"error","message":"x"}"#));
        assert!(!may_be_error(br#"{"choices":[],"error":null}"#));
        assert!(!may_be_error(
            br#"{"choices":[{"delta":{"content":"\"error\""}}]}"#
        ));
    }
}
