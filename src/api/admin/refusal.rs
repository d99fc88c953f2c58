//! Refusals of the admin API, in the one error shape.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::config::Finding;
use crate::store::StoreError;

/// Why a call was not carried out, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// Everything that is wrong with a body, each with its path.
    pub(crate) fn of(findings: &[Finding]) -> Self {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Self::bad(lines.join("; "))
    }
}

impl From<StoreError> for Refusal {
    /// The store is broken, so nothing was changed.
    fn from(error: StoreError) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("nothing was changed: {error}"),
        )
    }
}

impl From<tokio::task::JoinError> for Refusal {
    fn from(error: tokio::task::JoinError) -> Self {
        tracing::error!(%error, "an admin call failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the call failed: see the node's log",
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({
            "is_bifrost_error": false,
            "status_code": self.status.as_u16(),
            "error": {"message": self.message},
            "extra_fields": {},
        });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UNAUTHORIZED {
            let basic = HeaderValue::from_static("Basic realm=\"holdline\"");
            headers.insert(WWW_AUTHENTICATE, basic);
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        response
    }
}
