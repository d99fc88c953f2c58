//! The one shape of every refusal, in Bifrost's field names.

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_with::skip_serializing_none;

use holdline_core::failure::FailureClass;
use holdline_core::ids::{ModelId, ProviderId};

use crate::protocols::Protocol;
use crate::server::Body;

/// What a caller is told when a request is not served.
#[derive(Clone, Debug, Serialize)]
pub struct ApiError {
    /// The gateway itself is at fault, neither the caller nor a provider.
    pub is_bifrost_error: bool,
    /// The HTTP status.
    pub status_code: u16,
    /// What happened, in the words of whoever refused.
    pub error: ErrorBody,
    /// Around it.
    pub extra_fields: Box<ErrorExtra>,
}

/// `error`, as OpenAI's clients read it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ErrorBody {
    /// The provider's type, or ours.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The provider's code, or ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// For people. Of a provider's: scrubbed of secrets.
    pub message: String,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// What the provider says beside it, scrubbed too: for clients of its own protocol only.
    #[serde(skip)]
    pub details: Option<Box<serde_json::Value>>,
}

/// `extra_fields` of an error.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
pub struct ErrorExtra {
    /// The closed set of kinds, for programs.
    pub error_type: &'static str,
    /// Who refused, where it was a provider.
    pub provider: Option<String>,
    /// As the caller named it.
    pub original_model_requested: Option<String>,
    /// As the provider was asked for it.
    pub resolved_model_used: Option<String>,
    /// `chat_completion`, `chat_completion_stream`, `embedding` …
    pub request_type: Option<&'static str>,
    /// What it means.
    pub failure_class: Option<FailureClass>,
    /// How long the provider asks to be left alone, within 1 s..5 min.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds since the request arrived.
    pub latency: Option<u64>,
    /// Where it went.
    pub routing_info: Option<RoutingInfo>,
}

/// Where a request went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoutingInfo {
    /// The provider.
    pub provider: ProviderId,
    /// The model, before the key's aliases.
    pub model: ModelId,
    /// The key's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Another than the first provider of the chain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_fallback: bool,
}

impl ApiError {
    /// A refusal by the gateway for something that the caller can mend.
    #[must_use]
    pub fn caller(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(
            status,
            "invalid_request_error",
            "caller_invalid_request",
            message,
        )
    }

    /// Nothing is there.
    #[must_use]
    pub fn not_found(path: &str) -> Self {
        let shown: String = path.chars().take(200).collect();
        Self::caller(
            StatusCode::NOT_FOUND,
            format!(
                "there is nothing at {shown}: inference is served under /v1, e.g. POST /v1/chat/completions"
            ),
        )
    }

    /// The path exists, for another method.
    #[must_use]
    pub fn wrong_method(allowed: &str) -> Self {
        Self::caller(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("this path is served with {allowed}"),
        )
    }

    /// Any other.
    #[must_use]
    pub fn new(
        status: StatusCode,
        kind: &str,
        error_type: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            is_bifrost_error: false,
            status_code: status.as_u16(),
            error: ErrorBody {
                kind: Some(kind.to_owned()),
                message: message.into(),
                ..ErrorBody::default()
            },
            extra_fields: Box::new(ErrorExtra {
                error_type,
                ..ErrorExtra::default()
            }),
        }
    }

    /// As JSON text.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it holds only strings and numbers")
    }

    /// As an answer in the gateway's own shape, which OpenAI's clients read.
    #[must_use]
    pub fn into_response(self) -> Response<Body> {
        self.into_response_in(Protocol::Chat)
    }

    /// As an answer for clients of this protocol. A stated wait also stands in `Retry-After` where they
    /// look for it.
    #[must_use]
    pub fn into_response_in(self, protocol: Protocol) -> Response<Body> {
        let mut response = Response::new(Body::from(protocol.spoken().error(&self)));
        *response.status_mut() =
            StatusCode::from_u16(self.status_code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let waits = matches!(self.status_code, 429 | 503);
        if let Some(wait_ms) = self.extra_fields.retry_after_ms.filter(|_| waits) {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1_000)));
        }
        response
    }
}

/// The closed set that programs switch on.
#[must_use]
pub const fn error_type(class: FailureClass, status: u16) -> &'static str {
    match class {
        FailureClass::Credential => "provider_auth_failed",
        FailureClass::Quota => "provider_billing",
        FailureClass::ModelAccess | FailureClass::ModelGone => "caller_model_not_available",
        FailureClass::RateLimit => "provider_rate_limited",
        FailureClass::Transient => match status {
            502 => "provider_connection_failed",
            503 | 529 => "provider_overloaded",
            _ => "provider_server_error",
        },
        FailureClass::CallerFault => "caller_invalid_request",
        FailureClass::Timeout => "provider_timeout",
        FailureClass::Cancelled => "caller_cancelled",
        FailureClass::RegionBlocked | FailureClass::Unknown => "_OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_refusal() {
        let mut error = ApiError::caller(StatusCode::BAD_REQUEST, "no `model`");
        error.error.code = Some("missing".to_owned());
        let json = String::from_utf8(error.to_json()).unwrap();
        assert_eq!(
            json,
            r#"{"is_bifrost_error":false,"status_code":400,"error":{"type":"invalid_request_error","code":"missing","message":"no `model`"},"extra_fields":{"error_type":"caller_invalid_request"}}"#
        );
    }

    #[test]
    fn retry_after_is_rounded_up_and_only_where_clients_look() {
        let answered = |status: StatusCode| {
            let mut error = ApiError::new(status, "x", "_OTHER", "x");
            error.extra_fields.retry_after_ms = Some(1_001);
            let response = error.into_response();
            response
                .headers()
                .get(RETRY_AFTER)
                .map(|v| v.to_str().unwrap().to_owned())
        };
        assert_eq!(
            answered(StatusCode::TOO_MANY_REQUESTS).as_deref(),
            Some("2")
        );
        assert_eq!(answered(StatusCode::BAD_REQUEST), None);
    }
}
