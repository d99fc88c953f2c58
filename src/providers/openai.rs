//! OpenAI's chat completions, as most providers speak it.

use http::Uri;
use http::uri::PathAndQuery;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How a stream says that it is complete.
pub const DONE: &str = "[DONE]";

/// Where calls go: `path` behind the base URL. A base URL that ends in `/v1` has that part of the path.
///
/// # Errors
/// When the base URL has no host.
pub fn endpoint(base: &Uri, path: &str) -> Result<Uri, http::Error> {
    let root = base.path().trim_end_matches('/');
    let bare = root
        .strip_suffix("/v1")
        .filter(|_| path.starts_with("/v1/"));
    let mut target = format!("{}{path}", bare.unwrap_or(root));
    if let Some(query) = base.query() {
        target.push('?');
        target.push_str(query);
    }
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target)?);
    Uri::from_parts(parts).map_err(Into::into)
}

/// Tokens, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default)]
pub struct Usage {
    /// In.
    pub prompt_tokens: u64,
    /// Out.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
}

/// What one event's data is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Model output, or anything not known to be mere startup.
    pub output: bool,
    /// Some choice has its `finish_reason`.
    pub finished: bool,
    /// It carries the usage.
    pub usage: Option<Usage>,
    /// It has no choices: nothing but the usage.
    pub usage_only: bool,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

impl Seen {
    /// Reads one chunk. What cannot be read counts as output: it is the client's to judge.
    #[must_use]
    pub fn read(data: &[u8]) -> Self {
        let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
            return Self {
                output: true,
                ..Self::default()
            };
        };
        let usage: Option<Usage> = chunk.usage.and_then(|u| serde_json::from_str(u.get()).ok());
        let Some(choices) = chunk.choices else {
            return Self {
                output: true,
                usage,
                ..Self::default()
            };
        };
        let finished = choices.iter().any(|c| c.finish_reason.is_some());
        Self {
            output: finished || choices.iter().any(Choice::says_something),
            finished,
            usage,
            usage_only: choices.is_empty() && usage.is_some(),
        }
    }

    /// Reads a chunk only where it may hold more than output: most chunks do not.
    #[must_use]
    pub fn glance(data: &[u8]) -> Self {
        if holds_more_than_null(data, b"\"usage\"")
            || holds_more_than_null(data, b"\"finish_reason\"")
        {
            return Self::read(data);
        }
        Self {
            output: true,
            ..Self::default()
        }
    }
}

impl Choice<'_> {
    fn says_something(&self) -> bool {
        let spoken = |raw: &&RawValue| !is_empty(raw.get());
        self.text.as_ref().is_some_and(spoken) || self.delta.is_some_and(delta_says_something)
    }
}

/// A delta with anything but its role and empty values.
fn delta_says_something(delta: &RawValue) -> bool {
    let Ok(members) = serde_json::from_str::<serde_json::Map<_, _>>(delta.get()) else {
        return !is_empty(delta.get());
    };
    members
        .iter()
        .any(|(name, value)| name != "role" && !is_empty(&value.to_string()))
}

fn is_empty(json: &str) -> bool {
    matches!(json, "null" | "\"\"" | "[]" | "{}")
}

/// Whether a member of this quoted name stands anywhere with another value than `null`.
fn holds_more_than_null(data: &[u8], name: &[u8]) -> bool {
    memmem::find_iter(data, name).any(|at| {
        let rest = &data[at + name.len()..];
        let value = rest
            .iter()
            .position(|b| !b.is_ascii_whitespace() && *b != b':')
            .map_or(rest, |from| &rest[from..]);
        !value.starts_with(b"null")
    })
}

/// Whether an event may tell of an error: only then is it read as one.
#[must_use]
pub fn may_be_error(data: &[u8]) -> bool {
    holds_more_than_null(data, b"\"error\"") || memmem::find(data, b"\"error\",").is_some()
}

/// The usage of a whole answer.
#[must_use]
pub fn usage(body: &[u8]) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Answer {
        usage: Option<Usage>,
    }
    serde_json::from_slice::<Answer>(body).ok()?.usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_not_doubled() {
        let at = |base: &str, path: &str| {
            let uri = endpoint(&base.parse().unwrap(), path).unwrap();
            uri.to_string()
        };
        const CHAT: &str = "/v1/chat/completions";
        for (base, expected) in [
            (
                "https://api.openai.com",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "https://api.openai.com/v1/",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "http://[::1]:81/at/one",
                "http://[::1]:81/at/one/v1/chat/completions",
            ),
            ("http://h/x?k=1", "http://h/x/v1/chat/completions?k=1"),
        ] {
            assert_eq!(at(base, CHAT), expected);
        }
        assert_eq!(
            at("http://h/paas/v4", "/chat/completions"),
            "http://h/paas/v4/chat/completions"
        );
    }

    #[test]
    fn startup_is_told_from_output() {
        let startup = [
            r#"{"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}"#,
        ];
        for chunk in startup {
            assert_eq!(Seen::read(chunk.as_bytes()), Seen::default(), "{chunk}");
        }
        let output = [
            r#"{"choices":[{"delta":{"content":"x"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"x"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"refusal":"x"}}]}"#,
            r#"{"object":"x.new","payload":1}"#,
            r#"{"choices":[{"text":"x"}]}"#,
            "{\"broken",
        ];
        for chunk in output {
            let seen = Seen::read(chunk.as_bytes());
            assert!(seen.output && !seen.finished, "{chunk}");
        }
        let end = Seen::read(br#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#);
        assert!(end.output && end.finished);
    }

    #[test]
    fn a_glance_finds_usage_and_the_end() {
        let usage = Usage {
            prompt_tokens: 5,
            completion_tokens: 7,
            total_tokens: 12,
        };
        let text =
            br#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}"#;
        let seen = Seen::glance(text);
        assert_eq!((seen.usage, seen.usage_only), (Some(usage), true));
        let seen =
            Seen::glance(br#"{"choices":[{"delta":{},"finish_reason": "stop"}],"usage":null}"#);
        assert!(seen.finished && seen.usage.is_none() && !seen.usage_only);
        let quiet = Seen::glance(
            br#"{"choices":[{"delta":{"content":"\"usage\":{}"},"finish_reason":null}],"usage": null}"#,
        );
        assert_eq!(
            quiet,
            Seen {
                output: true,
                ..Seen::default()
            }
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
