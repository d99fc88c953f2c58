//! Sessions of callers: which header names one, and what their requests teach the node's bindings.
//!
//! A request without a session, with a pin or with a key of its own neither follows nor binds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use holdline_core::failure::FailureClass;
use holdline_core::routing::Bound;
use holdline_core::routing::session::{SESSION_TTL_MS, SessionKey, Sessions};
use holdline_core::time::Mono;
use holdline_core::walk::{Attempt, Failure};

use crate::api::error::ApiError;
use crate::config::reader::go_duration_ms;
use http::StatusCode;

/// Headers that name a session, the gateway's own first: coding tools send theirs by themselves.
static ID_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-bf-session-id"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session-id"),
];

static AFFINITY_HEADER: HeaderName = HeaderName::from_static("x-bf-session-affinity");
static TTL_HEADER: HeaderName = HeaderName::from_static("x-bf-session-ttl");

/// Headers that tell callers apart, in this order.
static CREDENTIALS: [HeaderName; 5] = [
    HeaderName::from_static("x-bf-vk"),
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// Longest session id in bytes.
const MAX_ID: usize = 255;

/// Longest time that a caller may ask for.
const MAX_TTL_MS: u64 = 24 * 3_600_000;

/// The bindings of this node, behind a mutex that is held for a look-up or a change.
#[derive(Debug, Default)]
pub(super) struct Store(Mutex<Sessions>);

/// The session that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    key: SessionKey,
    ttl_ms: u64,
}

/// The session of a request under way.
#[derive(Debug)]
pub(super) struct Session {
    store: Arc<Store>,
    named: Named,
    /// The binding that the request was planned with.
    pub(super) followed: Option<Bound>,
}

impl Store {
    /// Looks up where the session is served.
    pub(super) fn follow(self: &Arc<Self>, named: Named, now: Mono) -> Session {
        Session {
            store: Arc::clone(self),
            named,
            followed: self.lock().find(named.key, now),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        // Bindings are advice: a half-made change of another request is worth no panic here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// An attempt ended: what served is where the session stays, what failed is left. A caller's own
    /// mistake, deadline or leaving says nothing about either.
    pub(super) fn ended(&self, attempt: &Attempt, failure: Option<&Failure>, now: Mono) {
        let Some(failure) = failure else {
            let bound = Bound {
                provider: attempt.provider.clone(),
                model: attempt.model.clone(),
                key: attempt.key.as_ref().map(|key| key.id.clone()),
            };
            let Named { key, ttl_ms } = self.named;
            self.store.lock().bind(key, bound, ttl_ms, now);
            return;
        };
        let own = matches!(
            failure.class,
            FailureClass::CallerFault | FailureClass::Cancelled
        );
        if let Some(followed) = &self.followed
            && !own
            && !failure.callers_deadline
            && followed.provider == attempt.provider
            && followed.model == attempt.model
        {
            self.store.lock().forget(self.named.key, followed);
        }
    }
}

/// The session that a request for this model names, if it names one and wants it to count.
pub(super) fn named(headers: &HeaderMap, model: &str) -> Result<Option<Named>, ApiError> {
    if !wanted(headers)? {
        return Ok(None);
    }
    let Some(id) = id(headers)? else {
        return Ok(None);
    };
    let credential = CREDENTIALS.iter().find_map(|name| headers.get(name));
    let key = SessionKey::of(credential.map(|value| value.as_bytes()), id, model);
    let ttl_ms = ttl_ms(headers)?;
    Ok(Some(Named { key, ttl_ms }))
}

fn id(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    for name in &ID_HEADERS {
        let Some(value) = headers.get(name) else {
            continue;
        };
        let text = value.to_str().ok().map(str::trim);
        match text.filter(|id| (1..=MAX_ID).contains(&id.len())) {
            Some(id) => return Ok(Some(id)),
            // What other tools put into their headers is their business.
            None if *name != ID_HEADERS[0] => {}
            None => return Err(bad(name, "must be plain text of 1 to 255 bytes")),
        }
    }
    Ok(None)
}

fn wanted(headers: &HeaderMap) -> Result<bool, ApiError> {
    let Some(value) = headers.get(&AFFINITY_HEADER) else {
        return Ok(true);
    };
    let text = value
        .to_str()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match text.as_str() {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(bad(&AFFINITY_HEADER, "must be on or off")),
    }
}

fn ttl_ms(headers: &HeaderMap) -> Result<u64, ApiError> {
    let Some(value) = headers.get(&TTL_HEADER) else {
        return Ok(SESSION_TTL_MS);
    };
    let text = value.to_str().unwrap_or_default().trim();
    let seconds = text.parse::<u64>().ok().map(|s| s.saturating_mul(1_000));
    let ttl_ms = seconds.or_else(|| go_duration_ms(text));
    ttl_ms
        .filter(|ms| (1..=MAX_TTL_MS).contains(ms))
        .ok_or_else(|| {
            bad(
                &TTL_HEADER,
                "must be seconds or a duration such as \"30m\", at most 24 h",
            )
        })
}

fn bad(header: &HeaderName, what: &str) -> ApiError {
    ApiError::caller(StatusCode::BAD_REQUEST, format!("{header} {what}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdline_core::ids::ProviderId;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        pairs.collect()
    }

    fn told(pairs: &[(&'static str, &str)]) -> Option<Named> {
        named(&headers(pairs), "gpt-4o").unwrap()
    }

    #[test]
    fn a_session_is_named_by_the_first_header_that_has_one() {
        let own = told(&[("x-bf-session-id", "s"), ("session-id", "other")]);
        assert!(own.is_some());
        assert_eq!(own, told(&[("x-claude-code-session-id", "s")]));
        assert_eq!(own, told(&[("session-id", " s ")]));
        assert_eq!(told(&[]), None);
        let long = "x".repeat(256);
        assert_eq!(told(&[("session-id", &long)]), None);
        let error = named(&headers(&[("x-bf-session-id", &long)]), "m").unwrap_err();
        assert!(error.error.message.starts_with("x-bf-session-id must"));
    }

    #[test]
    fn callers_with_other_credentials_have_other_sessions() {
        let with = |pair| told(&[("x-bf-session-id", "s"), pair]);
        let sessions = [
            told(&[("x-bf-session-id", "s")]),
            with(("authorization", "Bearer a")),
            with(("authorization", "Bearer b")),
            with(("x-bf-vk", "sk-bf-a")),
        ];
        for (at, session) in sessions.iter().enumerate() {
            assert!(!sessions[..at].contains(session));
        }
    }

    #[test]
    fn a_caller_may_switch_sessions_off_and_say_how_long_they_last() {
        let with = |pair| named(&headers(&[("x-bf-session-id", "s"), pair]), "m");
        assert!(with(("x-bf-session-affinity", "Off")).unwrap().is_none());
        assert!(with(("x-bf-session-affinity", "1")).unwrap().is_some());
        assert!(with(("x-bf-session-affinity", "maybe")).is_err());
        let ttl = |text| with(("x-bf-session-ttl", text)).map(|s| s.unwrap().ttl_ms);
        assert_eq!(ttl("90").unwrap(), 90_000);
        assert_eq!(ttl("30m").unwrap(), 1_800_000);
        for wrong in ["0", "25h", "soon", "-1", "99999999999999999999"] {
            assert!(ttl(wrong).is_err(), "{wrong}");
        }
        assert_eq!(told(&[("session-id", "s")]).unwrap().ttl_ms, 3_600_000);
    }

    fn attempt(provider: &str) -> Attempt {
        Attempt {
            number: 0,
            fallback_index: 0,
            provider: ProviderId::from(provider),
            model: "gpt-4o".into(),
            key: None,
            direct_key: false,
            token: None,
            check: None,
            skipped: 0,
        }
    }

    fn failed(class: FailureClass) -> Failure {
        Failure {
            class,
            status: 500,
            label: String::new(),
            retry_after_ms: None,
            callers_deadline: false,
        }
    }

    #[test]
    fn served_requests_bind_and_failures_after_following_delete() {
        let store = Arc::new(Store::default());
        let session = told(&[("session-id", "s")]).unwrap();
        let now = Mono(1);
        let fresh = store.follow(session, now);
        assert_eq!(fresh.followed, None);
        fresh.ended(
            &attempt("alpha"),
            Some(&failed(FailureClass::Transient)),
            now,
        );
        fresh.ended(&attempt("beta"), None, now);
        let follow = || store.follow(session, now);
        let at = |session: &Session| session.followed.clone().map(|b| b.provider.to_string());
        assert_eq!(at(&follow()).as_deref(), Some("beta"));
        for left in [FailureClass::Cancelled, FailureClass::CallerFault] {
            follow().ended(&attempt("beta"), Some(&failed(left)), now);
        }
        let late = Failure {
            callers_deadline: true,
            ..failed(FailureClass::Timeout)
        };
        follow().ended(&attempt("beta"), Some(&late), now);
        follow().ended(&attempt("alpha"), Some(&failed(FailureClass::Timeout)), now);
        assert_eq!(
            at(&follow()).as_deref(),
            Some("beta"),
            "it serves as before"
        );
        follow().ended(
            &attempt("beta"),
            Some(&failed(FailureClass::RateLimit)),
            now,
        );
        assert_eq!(at(&follow()), None);
    }
}
