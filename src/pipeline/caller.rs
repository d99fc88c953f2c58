//! Who asks, by the credential it shows.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, StatusCode};

use holdline_core::time::WallMs;

use crate::api::error::ApiError;
use crate::config::governance::{VirtualKey, VirtualKeys, is_virtual};

/// Ours.
static OWN_HEADER: HeaderName = HeaderName::from_static("x-bf-vk");

/// Where the providers' SDKs put a key, beside `Authorization: Bearer`.
static KEY_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// The virtual key that the caller shows; an error where it shows one that does not count, or shows none
/// where one `is_required`.
pub(crate) fn identify(
    headers: &HeaderMap,
    keys: &VirtualKeys,
    is_required: bool,
    now: WallMs,
) -> Result<Option<Arc<VirtualKey>>, ApiError> {
    let Some(value) = shown(headers) else {
        return if is_required {
            Err(refusal(
                StatusCode::UNAUTHORIZED,
                "virtual_key_required",
                "a virtual key is required: send it as Authorization: Bearer, x-api-key, x-goog-api-key, api-key or x-bf-vk",
            ))
        } else {
            Ok(None)
        };
    };
    let Some(key) = keys.find(value) else {
        return Err(refusal(
            StatusCode::UNAUTHORIZED,
            "virtual_key_not_found",
            "virtual key not found: no virtual key has the value that was sent",
        ));
    };
    counting(key, now).map(Some)
}

/// The virtual key by its id, for callers who showed it before and have a proof of that; an error where it does
/// not count any more.
pub(super) fn identified(
    id: &str,
    keys: &VirtualKeys,
    now: WallMs,
) -> Result<Arc<VirtualKey>, ApiError> {
    let gone = || {
        let message = "virtual key not found: the one that this was begun with is gone";
        refusal(StatusCode::UNAUTHORIZED, "virtual_key_not_found", message)
    };
    counting(keys.with_id(id).ok_or_else(gone)?, now)
}

fn counting(key: &Arc<VirtualKey>, now: WallMs) -> Result<Arc<VirtualKey>, ApiError> {
    match key.blocked(now) {
        Some(why) => {
            let message = format!("the virtual key {:?} {why}", key.name);
            Err(refusal(StatusCode::FORBIDDEN, "access_blocked", message))
        }
        None => Ok(Arc::clone(key)),
    }
}

/// `x-bf-vk` takes any value; the headers of the providers' SDKs only what is recognisably ours, because
/// they may carry a provider's key as well.
pub(super) fn shown(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &HeaderName| {
        let text = headers.get(name)?.to_str().ok()?.trim();
        (!text.is_empty()).then_some(text)
    };
    if let Some(value) = text(&OWN_HEADER) {
        return Some(value);
    }
    let mut candidates = bearer(headers)
        .into_iter()
        .chain(KEY_HEADERS.iter().filter_map(text));
    candidates.find(|value| is_virtual(value))
}

/// The token of `Authorization: Bearer`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refusal(status: StatusCode, kind: &str, message: impl Into<String>) -> ApiError {
    ApiError::new(status, kind, "policy_access_denied", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::config::Config;

    use super::*;

    const NOW: WallMs = WallMs(1_800_000_000_000);

    fn keys() -> VirtualKeys {
        let config = json!({"governance": {"virtual_keys": [
            {"id": "v1", "name": "team", "value": "sk-bf-Team"},
            {"id": "v2", "name": "off", "value": "sk-bf-off", "is_active": false, "expires_at": "2020-01-01T00:00:00Z"},
            {"id": "v3", "name": "past", "value": "sk-bf-past", "expires_at": "2020-01-01T00:00:00Z"},
            {"id": "v4", "name": "plain", "value": "plain"},
        ]}});
        let loaded = Config::parse(&config.to_string(), &|_| None).unwrap();
        loaded.config.virtual_keys
    }

    fn ask(header: &str, value: &str, is_required: bool) -> Result<Option<String>, (u16, String)> {
        let mut headers = HeaderMap::new();
        if !header.is_empty() {
            let name = HeaderName::try_from(header).unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        identify(&headers, &keys(), is_required, NOW)
            .map(|key| key.map(|k| k.id.clone()))
            .map_err(|e| (e.status_code, e.error.message))
    }

    #[test]
    fn a_key_is_taken_from_each_header() {
        for (header, value) in [
            ("authorization", "bearer sk-bf-Team"),
            ("x-api-key", "sk-bf-Team"),
            ("x-goog-api-key", "sk-bf-Team"),
            ("api-key", "sk-bf-Team"),
            ("x-bf-vk", "sk-bf-Team"),
        ] {
            assert_eq!(
                ask(header, value, true),
                Ok(Some("v1".to_owned())),
                "{header}"
            );
        }
        assert_eq!(ask("x-bf-vk", "plain", true), Ok(Some("v4".to_owned())));
    }

    #[test]
    fn what_counts_for_nothing_is_refused_without_being_repeated() {
        for (header, value, status) in [
            ("x-api-key", "sk-bf-team", 401),
            ("x-bf-vk", "nobody-4711", 401),
            ("x-bf-vk", "sk-bf-off", 403),
            ("api-key", "SK-BF-nobody-4711", 401),
            ("authorization", "Bearer sk-bf-past", 403),
        ] {
            for is_required in [false, true] {
                let (found, message) = ask(header, value, is_required).unwrap_err();
                assert_eq!(found, status, "{header} {value}");
                assert!(
                    !message.contains(value.trim_start_matches("Bearer ")),
                    "{message}"
                );
            }
        }
        let (_, message) = ask("x-bf-vk", "sk-bf-off", true).unwrap_err();
        assert!(
            message.contains("inactive"),
            "inactive is said first: {message}"
        );
    }

    #[test]
    fn a_key_is_asked_for_only_where_one_is_required() {
        for (header, value) in [
            ("", ""),
            ("authorization", "Bearer sk-of-a-provider"),
            ("authorization", "Basic c2stYmYtVGVhbQ=="),
            ("x-api-key", "plain"),
            ("x-bf-vk", ""),
        ] {
            assert_eq!(ask(header, value, false), Ok(None), "{header}");
            assert_eq!(ask(header, value, true).unwrap_err().0, 401, "{header}");
        }
    }
}
