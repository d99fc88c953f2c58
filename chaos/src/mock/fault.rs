//! The ways in which a provider turns a key down, in OpenAI's words.

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

/// What a key gets instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The key is no key any more: 401.
    Revoked,
    /// The account has no money left: 429.
    Quota,
    /// Too many requests: 429, with the wait in seconds if the provider states one.
    Limited {
        /// Value of `retry-after`.
        retry_after_s: Option<u64>,
    },
    /// The key may not use the model: 404.
    Denied,
    /// The provider's own failure: 500.
    Broken,
}

/// A refusal ready to be sent.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) retry_after_s: Option<u64>,
    pub(super) body: Value,
}

impl Fault {
    /// The fault that a control call names, `verb` as in `/mock/keys/KEY/verb`.
    pub(super) fn from_verb(verb: &str, retry_after_s: Option<u64>) -> Option<Self> {
        match verb {
            "revoke" => Some(Self::Revoked),
            "quota" => Some(Self::Quota),
            "limit" => Some(Self::Limited { retry_after_s }),
            "deny" => Some(Self::Denied),
            "break" => Some(Self::Broken),
            _ => None,
        }
    }

    /// What to answer. Like OpenAI, the 401 shows the key's first and last letters only.
    pub(super) fn refusal(self, key: &str, model: &str) -> Refusal {
        let (status, kind, code, message) = match self {
            Self::Revoked => (
                StatusCode::UNAUTHORIZED,
                "invalid_request_error",
                json!("invalid_api_key"),
                format!(
                    "Incorrect API key provided: {}. You can find your API key at https://platform.openai.com/account/api-keys.",
                    redacted(key)
                ),
            ),
            Self::Quota => (
                StatusCode::TOO_MANY_REQUESTS,
                "insufficient_quota",
                json!("insufficient_quota"),
                "You exceeded your current quota, please check your plan and billing details."
                    .to_owned(),
            ),
            Self::Limited { .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                "requests",
                json!("rate_limit_exceeded"),
                format!(
                    "Rate limit reached for {model} on requests per min (RPM): Limit 3, Used 3, Requested 1."
                ),
            ),
            Self::Denied => (
                StatusCode::NOT_FOUND,
                "invalid_request_error",
                json!("model_not_found"),
                format!("The model `{model}` does not exist or you do not have access to it."),
            ),
            Self::Broken => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "server_error",
                Value::Null,
                "The server had an error while processing your request. Sorry about that!"
                    .to_owned(),
            ),
        };
        let retry_after_s = if let Self::Limited { retry_after_s } = self {
            retry_after_s
        } else {
            None
        };
        let error = json!({ "message": message, "type": kind, "param": null, "code": code });
        Refusal {
            status,
            retry_after_s,
            body: json!({ "error": error }),
        }
    }
}

fn redacted(key: &str) -> String {
    let letters: Vec<char> = key.chars().collect();
    match letters.as_slice() {
        [a, b, c, .., x, y] if letters.len() > 8 => format!("{a}{b}{c}****{x}{y}"),
        _ => "****".to_owned(),
    }
}
