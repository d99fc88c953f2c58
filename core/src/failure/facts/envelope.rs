//! The shapes in which providers wrap an error, and what each implies where the status is a 200.

use serde_json_borrow::{ObjectAsVec as Object, Value};

/// How deep an error may be wrapped in another error's message.
const MAX_NESTING: u8 = 2;

/// An error without its wrapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) kind: Option<String>,
    pub(super) code: Option<String>,
    pub(super) message: String,
    pub(super) param: Option<String>,
    pub(super) reasons: Vec<String>,
    pub(super) retry_info: Vec<String>,
    /// A status that the body states.
    pub(super) status: Option<u16>,
}

impl Envelope {
    /// Text that is no JSON.
    pub(super) fn text(message: String) -> Self {
        Self {
            message,
            ..Self::default()
        }
    }

    pub(super) fn read(json: &Value<'_>) -> Self {
        Self::read_nested(json, 0)
    }

    fn read_nested(json: &Value<'_>, depth: u8) -> Self {
        let outer = match json {
            Value::Str(text) => Self::text(text.to_string()),
            // A list holds one error; where it holds more, they are of one kind.
            Value::Array(items) => match items.first() {
                Some(first) if first.is_object() => return Self::read_nested(first, depth),
                Some(_) | None => Self::default(),
            },
            Value::Object(fields) => Self::object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::default(),
        };
        if depth >= MAX_NESTING {
            return outer;
        }
        match Self::inner(json, &outer.message, depth + 1) {
            Some(inner) => outer.replaced_by(inner),
            None => outer,
        }
    }

    /// An error that is wrapped in `metadata.raw`, or as JSON text in the message.
    fn inner(json: &Value<'_>, message: &str, depth: u8) -> Option<Self> {
        let within = |text: &str| {
            let is_json = text.trim_start().starts_with(['{', '[']);
            let inner = is_json.then(|| serde_json::from_str(text).ok()).flatten()?;
            Some(Self::read_nested(&inner, depth))
        };
        let error = field(json, "error").unwrap_or(json);
        let raw = field(error, "metadata").and_then(|metadata| field(metadata, "raw"));
        match raw {
            Some(Value::Str(raw)) => within(raw).or_else(|| within(message)),
            Some(raw @ Value::Object(_)) => Some(Self::read_nested(raw, depth)),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
                within(message)
            }
        }
    }

    fn object(top: &Object<'_>) -> Self {
        let mut out = Self::fields(unwrapped(top));
        let listed = ["error", "errors"];
        let text = listed
            .iter()
            .find_map(|name| top.get(name).and_then(only_text));
        if let Some(text) = text {
            out = out.titled(text);
        }
        let detail = top.get("detail").map(detail_text);
        if out.message.is_empty() {
            out.message = detail.unwrap_or_default();
        }
        // What stands beside the error counts where the error itself says nothing.
        let beside = Self::fields(top);
        out.kind = out.kind.or(beside.kind);
        out.code = out.code.or(beside.code);
        out.param = out.param.or(beside.param);
        if out.retry_info.is_empty() {
            out.retry_info = beside.retry_info;
        }
        if out.reasons.is_empty() {
            out.reasons = beside.reasons;
        }
        out.status = out.status.or(beside.status);
        if out.message.is_empty() {
            out.message = beside.message;
        }
        out
    }

    /// With the text that stands for the error: a name such as `invalid_grant`, or words.
    fn titled(mut self, title: &str) -> Self {
        let is_word = is_present(title) && !title.contains(char::is_whitespace);
        let is_name = is_word && (title.contains('_') || !self.message.is_empty());
        if self.message.is_empty() {
            title.clone_into(&mut self.message);
        } else if !is_name {
            self.message = format!("{title}: {}", self.message);
        }
        if is_name && self.kind.is_none() {
            self.kind = Some(title.to_owned());
        }
        self
    }

    /// The fields of one object.
    fn fields(object: &Object<'_>) -> Self {
        let mut out = Self {
            kind: kind_of(object),
            message: text_of(object, &MESSAGES),
            param: object.get("param").and_then(param_text),
            ..Self::default()
        };
        for name in ["code", "Code", "status_code", "statusCode", "status"] {
            let Some(value) = object.get(name) else {
                continue;
            };
            match number_of(value) {
                Some(number) => out.status = out.status.or(as_status(number)),
                None if matches!(name, "code" | "Code") => out.code = present(value),
                None => {}
            }
        }
        if out.kind.is_none() {
            out.kind = out.code.clone().filter(|code| code.ends_with("Exception"));
        }
        let metadata = object.get("metadata");
        if ["flagged_input", "reasons"].iter().any(|name| {
            metadata
                .and_then(|m| field(m, name))
                .is_some_and(|v| !v.is_null())
        }) {
            out.reasons.push(FLAGGED_INPUT.to_owned());
        }
        if let Some(details) = object.get("details").and_then(Value::as_array) {
            for detail in details {
                out.reasons
                    .extend(field(detail, "reason").and_then(present));
                out.retry_info.extend(retry_delay(detail));
            }
        }
        out
    }

    /// The inner error's words, with what only the outer one knows.
    fn replaced_by(self, inner: Self) -> Self {
        if inner == Self::default() {
            return self;
        }
        Self {
            kind: inner.kind.or(self.kind),
            code: inner.code.or(self.code),
            message: if inner.message.is_empty() {
                self.message
            } else {
                inner.message
            },
            param: inner.param.or(self.param),
            reasons: [self.reasons, inner.reasons].concat(),
            retry_info: [self.retry_info, inner.retry_info].concat(),
            status: self.status.or(inner.status),
        }
    }

    /// The status of an error that came inside a 200 and states none.
    pub(super) fn implied_status(&self) -> u16 {
        let named = [self.code.as_deref(), self.kind.as_deref()];
        named
            .into_iter()
            .flatten()
            .find_map(name_status)
            .unwrap_or(500)
    }
}

/// Where an error's words stand.
const MESSAGES: [&str; 9] = [
    "message",
    "Message",
    "msg",
    "error_msg",
    "error_message",
    "errorMessage",
    "error_description",
    "faultstring",
    "detail",
];

/// The reason of an error that says which words of the request a moderation objects to.
pub(in crate::failure) const FLAGGED_INPUT: &str = "flagged_input";

/// Whether a JSON value that came with a 200 is an error.
pub(super) fn is_error(json: &Value<'_>) -> bool {
    match json {
        Value::Array(items) => items.first().is_some_and(is_error),
        Value::Object(top) => {
            let reported = |value: Option<&Value<'_>>| match value {
                Some(Value::Object(fields)) => !fields.is_empty(),
                Some(Value::Str(text)) => !text.is_empty(),
                Some(Value::Array(items)) => !items.is_empty(),
                Some(Value::Bool(is_error)) => *is_error,
                Some(Value::Number(_) | Value::Null) | None => false,
            };
            let marked = |name: &str| top.get(name).and_then(Value::as_str) == Some("error");
            let failed = top
                .get("response")
                .is_some_and(|response| reported(field(response, "error")));
            let of_choice = first_choice(top).is_some_and(|choice| reported(choice.get("error")));
            reported(top.get("error")) || failed || of_choice || marked("type") || marked("object")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Str(_) => false,
    }
}

/// `AccessDeniedException:http://…` and `com.amazon#AccessDeniedException` are the plain name.
pub(super) fn exception_name(text: &str) -> Option<String> {
    let named = text.split(':').next().unwrap_or(text);
    let parts = || {
        named
            .split('#')
            .map(str::trim)
            .filter(|part| !part.is_empty())
    };
    let name = parts()
        .find(|part| part.ends_with("Exception"))
        .or_else(|| parts().next_back())?;
    Some(name.to_owned())
}

/// The exception's name in an AWS event stream begins in lower case. A plain "error" is no name.
pub(super) fn exception_class(member: &str) -> Option<String> {
    if member == "error" {
        return None;
    }
    let mut letters = member.chars();
    let first = letters.next()?;
    Some(first.to_ascii_uppercase().to_string() + letters.as_str())
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// The status of an exception in an AWS event stream.
pub(super) fn exception_status(member: &str) -> Option<u16> {
    const SUFFIX: &str = "Exception";
    const TABLE: [(&str, u16); 9] = [
        ("throttling", 429),
        ("internalServer", 500),
        ("serviceUnavailable", 503),
        ("modelNotReady", 503),
        ("modelStreamError", 503),
        ("modelTimeout", 504),
        ("validation", 400),
        ("accessDenied", 403),
        ("resourceNotFound", 404),
    ];
    TABLE
        .iter()
        .find(|(name, _)| member.strip_suffix(SUFFIX).unwrap_or(member) == *name)
        .map(|(_, status)| *status)
}

fn name_status(name: &str) -> Option<u16> {
    Some(match name {
        "overloaded_error" => 529,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "too_many_requests"
        | "insufficient_quota"
        | "RESOURCE_EXHAUSTED" => 429,
        "api_error" | "server_error" | "INTERNAL" => 500,
        "service_unavailable_error" | "server_is_overloaded" | "UNAVAILABLE" => 503,
        "timeout_error" | "DEADLINE_EXCEEDED" => 504,
        "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => 401,
        "billing_error" => 402,
        "permission_error" | "unsupported_country_region_territory" | "PERMISSION_DENIED" => 403,
        "not_found_error" | "model_not_found" | "NOT_FOUND" => 404,
        "invalid_request_error"
        | "context_length_exceeded"
        | "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION" => 400,
        "request_too_large" => 413,
        _ => return exception_status(&lower_first(name)),
    })
}

/// The object that carries the error's fields.
fn unwrapped<'v, 'b>(top: &'v Object<'b>) -> &'v Object<'b> {
    let mut here = top;
    for _ in 0..3 {
        let listed = ["error", "Error", "errors"];
        let single = ["Output", "response", "detail", "fault"];
        let object = |name: &&str| here.get(name).and_then(Value::as_object);
        let next = listed
            .iter()
            .find_map(|name| here.get(name).and_then(object_of))
            .or_else(|| single.iter().find_map(object))
            .or_else(|| first_choice(here)?.get("error")?.as_object());
        match next {
            Some(inner) => here = inner,
            None => break,
        }
    }
    here
}

/// The first of a completion's choices: an error of its own may stand in it.
fn first_choice<'v, 'b>(top: &'v Object<'b>) -> Option<&'v Object<'b>> {
    top.get("choices").and_then(object_of)
}

/// An object, or the first one of a list.
fn object_of<'v, 'b>(value: &'v Value<'b>) -> Option<&'v Object<'b>> {
    match value {
        Value::Object(object) => Some(object),
        Value::Array(items) => items.first().and_then(Value::as_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Str(_) => None,
    }
}

/// A text, or the first one of a list.
fn only_text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value {
        Value::Str(text) => Some(text),
        Value::Array(items) => items.first().and_then(Value::as_str),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// A field of a value that may be no object.
fn field<'v, 'b>(value: &'v Value<'b>, name: &str) -> Option<&'v Value<'b>> {
    value.as_object().and_then(|object| object.get(name))
}

/// Google's status name before the type, AWS's `__type` before both.
fn kind_of(object: &Object<'_>) -> Option<String> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    if let Some(aws) = text("__type").and_then(exception_name) {
        return Some(aws);
    }
    let is_google = |status: &str| {
        let name = |b: u8| b.is_ascii_uppercase() || b == b'_';
        !status.is_empty() && status.bytes().all(name)
    };
    // "error" only marks the object as one.
    let named = |kind: &&str| is_present(kind) && *kind != "error";
    let google = text("status").filter(|status| is_google(status));
    google
        .or_else(|| text("type").filter(named))
        .or_else(|| text("error_type").filter(named))
        .map(str::to_owned)
}

fn text_of(object: &Object<'_>, names: &[&str]) -> String {
    names
        .iter()
        .find_map(|name| match object.get(name) {
            Some(Value::Str(text)) => (!text.is_empty()).then(|| text.to_string()),
            Some(Value::Object(inner)) => inner.get("detail").map(detail_text),
            Some(list @ Value::Array(_)) if *name == "detail" => Some(detail_text(list)),
            Some(_) | None => None,
        })
        .unwrap_or_default()
}

/// FastAPI's `detail`: text, or a list of what is wrong.
fn detail_text(detail: &Value<'_>) -> String {
    match detail {
        Value::Str(text) => text.to_string(),
        Value::Array(items) => items
            .iter()
            .filter_map(|item| field(item, "msg").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("; "),
        Value::Object(fields) => text_of(fields, &["message", "msg"]),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn param_text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Str(text) => is_present(text).then(|| text.to_string()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

fn present(value: &Value<'_>) -> Option<String> {
    let text = value.as_str()?;
    is_present(text).then(|| text.to_owned())
}

fn is_present(text: &str) -> bool {
    !matches!(text, "" | "None" | "null")
}

fn number_of(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::Str(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn as_status(number: u64) -> Option<u16> {
    let status = u16::try_from(number).ok()?;
    (400..600).contains(&status).then_some(status)
}

fn retry_delay(detail: &Value<'_>) -> Option<String> {
    let kind = field(detail, "@type").and_then(Value::as_str)?;
    if !kind.ends_with("google.rpc.RetryInfo") {
        return None;
    }
    field(detail, "retryDelay")
        .and_then(Value::as_str)
        .map(str::to_owned)
}
