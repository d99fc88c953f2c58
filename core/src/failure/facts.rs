//! What is read from a provider's answer before it is classified.
//!
//! Providers agree on no envelope. [`Facts`] is what all of them come down to: a status, a type, a
//! code, a message, whether a request field is named, reasons, and a stated wait. Reading never
//! fails and never panics: what cannot be read is absent.

pub(super) mod envelope;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde_json_borrow::Value;

use envelope::Envelope;

use crate::halves;

/// The most of a body that is read.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The headers that say something about a failure. Absent ones are `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// `content-type`.
    pub content_type: Option<&'a str>,
    /// `retry-after`: seconds or an HTTP date.
    pub retry_after: Option<&'a str>,
    /// `retry-after-ms`: milliseconds.
    pub retry_after_ms: Option<&'a str>,
    /// `x-amzn-errortype`.
    pub amzn_error_type: Option<&'a str>,
    /// `:exception-type` of an AWS event-stream message.
    pub exception_type: Option<&'a str>,
}

/// What kind of body there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// Empty, or HTML, which is never read.
    None,
    /// Text that is no JSON: its phrases count, but it is no provider's error body.
    Text,
    /// JSON.
    Json,
}

/// What is known of a failure. Debug output leaves out what the provider said: it may repeat secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Facts {
    /// Whose answer.
    pub provider: String,
    /// The HTTP status; for an error inside a 200, what its code or type stands for.
    pub status: u16,
    /// The provider's type, Google's status name, AWS's exception name.
    pub kind: Option<String>,
    /// The provider's code, unless it is a number.
    pub code: Option<String>,
    /// The provider's words. May repeat secrets: see [`super::words()`].
    pub message: String,
    /// The request field that is at fault, where one is named.
    pub param: Option<String>,
    /// Google's `ErrorInfo` reasons.
    pub reasons: Vec<String>,
    /// What kind of body there was.
    pub body: BodyKind,
    /// Waits the answer states, in the order in which they count, unparsed.
    pub(super) waits: Waits,
}

/// The sources of a stated wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// `google.rpc.RetryInfo.retryDelay`, each.
    pub(super) retry_info: Vec<String>,
    /// `retry-after-ms`.
    pub(super) retry_after_ms: Option<String>,
    /// `retry-after`.
    pub(super) retry_after: Option<String>,
}

impl fmt::Debug for Facts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Facts")
            .field("provider", &self.provider)
            .field("status", &self.status)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

impl Facts {
    /// Reads an answer with an error status.
    #[must_use]
    pub fn from_answer(provider: &str, status: u16, headers: Headers<'_>, body: &[u8]) -> Self {
        let text = text_of(body);
        let text = trimmed(&text);
        let (kind, envelope) = if text.is_empty() {
            (BodyKind::None, Envelope::default())
        } else if let Some(json) = json_in(text) {
            (BodyKind::Json, Envelope::read(&json))
        } else if is_html(text, headers.content_type) {
            (BodyKind::None, Envelope::default())
        } else {
            (BodyKind::Text, Envelope::text(text.to_owned()))
        };
        Self::assemble(provider, status, headers, kind, envelope)
    }

    /// Reads one event of a stream that began with a 2xx, or the JSON body of a 2xx. `None` where it
    /// is no error.
    #[must_use]
    pub fn from_event(provider: &str, headers: Headers<'_>, data: &[u8]) -> Option<Self> {
        let text = text_of(data);
        let text = trimmed(&text);
        let json = serde_json::from_str::<Value<'_>>(text);
        let envelope = match (json, headers.exception_type) {
            (Ok(json), Some(_)) => Envelope::read(&json),
            (Ok(json), None) if envelope::is_error(&json) => Envelope::read(&json),
            // The header says that it is one, whatever the payload is.
            (Err(_), Some(_)) => Envelope::text(text.to_owned()),
            (Ok(_) | Err(_), None) => return None,
        };
        let status = envelope
            .status
            .or_else(|| headers.exception_type.and_then(envelope::exception_status))
            .unwrap_or_else(|| envelope.implied_status());
        Some(Self::assemble(
            provider,
            status,
            headers,
            BodyKind::Json,
            envelope,
        ))
    }

    /// The message in lower case, for phrases.
    pub(super) fn lower_message(&self) -> String {
        self.message.to_ascii_lowercase()
    }

    fn assemble(
        provider: &str,
        status: u16,
        headers: Headers<'_>,
        body: BodyKind,
        envelope: Envelope,
    ) -> Self {
        let own = |text: &str| text.trim().to_owned();
        Self {
            provider: provider.to_owned(),
            status,
            kind: envelope
                .kind
                .or_else(|| headers.amzn_error_type.and_then(envelope::exception_name))
                .or_else(|| headers.exception_type.and_then(envelope::exception_class)),
            code: envelope.code,
            message: envelope.message,
            param: envelope.param,
            reasons: envelope.reasons,
            body,
            waits: Waits {
                retry_info: envelope.retry_info,
                retry_after_ms: headers.retry_after_ms.map(own),
                retry_after: headers.retry_after.map(own),
            },
        }
    }
}

/// The part of a body that is read.
fn read_part(body: &[u8]) -> &[u8] {
    &body[..body.len().min(MAX_BODY_BYTES)]
}

/// Providers that cut their words, or a caller's, cut characters too.
fn text_of(body: &[u8]) -> Cow<'_, str> {
    let part = read_part(body);
    match halves::mended(part) {
        Some(mended) => Cow::Owned(String::from_utf8_lossy(&mended).into_owned()),
        None => String::from_utf8_lossy(part),
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_start_matches('\u{feff}').trim()
}

/// The error of a body: JSON, JSON with something behind it, or the events of a stream that was
/// refused.
fn json_in(text: &str) -> Option<Value<'_>> {
    if let Ok(json) = serde_json::from_str(text) {
        return Some(json);
    }
    if text.starts_with(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        return values.next()?.ok();
    }
    if !["data:", "event:", ":"]
        .iter()
        .any(|begin| text.starts_with(begin))
    {
        return None;
    }
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    events
        .filter_map(|data| serde_json::from_str(data).ok())
        .rfind(envelope::is_error)
}

fn is_html(text: &str, content_type: Option<&str>) -> bool {
    const TAGS: [&str; 6] = ["<!doctype", "<html", "<head", "<body", "<title", "<h1"];
    const SHORTEST_PAGE: usize = 20;
    if content_type.is_some_and(|kind| kind.to_ascii_lowercase().contains("html")) {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    text.len() >= SHORTEST_PAGE && TAGS.iter().any(|tag| lower.contains(tag))
}
