//! Logging in and out.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::response::IntoResponse;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue};
use serde_json::json;

use super::{Admin, Answer, body, now_seconds};
use crate::api::admin::refusal::Refusal;
use crate::api::auth::{COOKIE_NAME, SESSION_SECONDS};
use crate::server::Peer;

/// `POST /api/session/login`.
pub(super) async fn login(
    State(admin): State<Admin>,
    peer: Option<Extension<Peer>>,
    bytes: Bytes,
) -> Answer {
    let fields = body::object(&bytes)?;
    let field = |name| {
        let text = body::text(&fields, name)?;
        text.ok_or_else(|| Refusal::bad(format!("{name} is missing")))
    };
    let (name, password) = (field("username")?, field("password")?);
    let peer = peer.map(|Extension(peer)| peer.address.ip());
    let token = admin.auth.login(name, password, peer, now_seconds())?;
    let cookie = format!(
        "{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS}"
    );
    let answer = json!({"message": "Login successful", "token": token});
    Ok(with_cookie(Json(answer).into_response(), &cookie))
}

/// `POST /api/session/logout`.
pub(super) async fn logout(State(admin): State<Admin>, headers: HeaderMap) -> Answer {
    admin.auth.logout(&headers, now_seconds())?;
    let cookie = format!("{COOKIE_NAME}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    let answer = json!({"message": "Logout successful"});
    Ok(with_cookie(Json(answer).into_response(), &cookie))
}

/// `GET /api/session/is-auth-enabled`.
pub(super) async fn is_auth_enabled(State(admin): State<Admin>, headers: HeaderMap) -> Answer {
    let answer = json!({
        "is_auth_enabled": admin.auth.is_enabled(),
        "has_valid_token": admin.auth.has_session(&headers, now_seconds()),
    });
    Ok(Json(answer).into_response())
}

fn with_cookie(mut response: axum::response::Response, cookie: &str) -> axum::response::Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
