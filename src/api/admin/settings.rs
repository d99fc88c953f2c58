//! The nine adaptive settings, under their path and its older name.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use holdline_core::routing::Settings;
use http::HeaderValue;
use http::header::{HeaderName, LINK};
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::{Admin, Answer, body};
use crate::config::adaptive;
use crate::config::catalog::SETTINGS_DOCUMENT;
use crate::config::reader::Reader;

/// `GET /api/adaptive-routing/config`.
pub(super) async fn show(State(admin): State<Admin>) -> Answer {
    Ok(Json(adaptive::shown(&admin.node.settings())).into_response())
}

/// `PUT /api/adaptive-routing/config`: replaces all nine.
pub(super) async fn replace(State(admin): State<Admin>, bytes: Bytes) -> Answer {
    let config = &admin.node.config;
    if config.file_wins && config.adaptive.settings.is_some() {
        return Err(Refusal::conflict(
            "the settings come from config.json (source_of_truth): change them there",
        ));
    }
    let (settings, warnings) = read(&bytes, &admin.node.settings())?;
    let mut shown = adaptive::shown(&settings);
    let document = (SETTINGS_DOCUMENT.to_owned(), Some(shown.to_string()));
    admin.save(vec![document]).await?;
    shown["warnings"] = json!(warnings);
    Ok(Json(shown).into_response())
}

/// The settings that a body stands for, and what the caller may not have meant.
fn read(bytes: &[u8], before: &Settings) -> Result<(Settings, Vec<String>), Refusal> {
    if bytes.trim_ascii().is_empty() {
        return Err(Refusal::bad(
            "the body is missing: it replaces all settings, and {} would turn every switch off; send what GET answers, with your changes",
        ));
    }
    let body = Value::Object(body::object(bytes)?);
    let reader = Reader::new(&|_| None);
    let settings = adaptive::replacement(&reader, &body);
    let (errors, warnings) = reader.finish();
    let settings = settings
        .filter(|_| errors.is_empty())
        .ok_or_else(|| Refusal::of(&errors))?;
    let mut told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    told.extend(adaptive::switched_off(before, &settings, &body));
    Ok((settings, told))
}

/// `GET /api/load-balancer-config`.
pub(super) async fn show_deprecated(admin: State<Admin>) -> Answer {
    Ok(deprecated(show(admin).await?))
}

/// `PUT /api/load-balancer-config`.
pub(super) async fn replace_deprecated(admin: State<Admin>, bytes: Bytes) -> Answer {
    Ok(deprecated(replace(admin, bytes).await?))
}

fn deprecated(mut response: axum::response::Response) -> axum::response::Response {
    let headers = response.headers_mut();
    headers.insert(
        HeaderName::from_static("deprecation"),
        HeaderValue::from_static("true"),
    );
    let successor =
        HeaderValue::from_static("</api/adaptive-routing/config>; rel=\"successor-version\"");
    headers.insert(LINK, successor);
    response
}
