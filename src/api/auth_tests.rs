//! Tests of who may use the admin API.

use http::HeaderValue;

use super::*;
use crate::config::{ApiKey, Secret, sections::Scope};

const VIEW: Permission = Permission {
    resource: "AdaptiveRouter",
    operation: "View",
};
const UPDATE: Permission = Permission {
    resource: "AdaptiveRouter",
    operation: "Update",
};
const NOW: u64 = 1_800_000_000;

fn secret(text: &str) -> Secret {
    Secret::from(text.to_owned())
}

fn with_login(password: &str) -> Auth {
    let user = AdminUser {
        name: "root".to_owned(),
        password: secret(password),
    };
    let key = ApiKey {
        name: "ci".to_owned(),
        value: secret("bfst-1"),
        scopes: vec![Scope {
            resource: "AdaptiveRouter".to_owned(),
            operation: "View".to_owned(),
        }],
    };
    let admin = AdminAuth {
        user: Some(user),
        api_keys: vec![key],
    };
    Auth::new(Some(admin), [127, 0, 0, 1].into())
}

fn headers(name: http::HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
}

fn authorization(value: &str) -> HeaderMap {
    headers(AUTHORIZATION, value)
}

fn basic(name: &str, password: &str) -> HeaderMap {
    let encoded = STANDARD.encode(format!("{name}:{password}"));
    authorization(&format!("Basic {encoded}"))
}

/// The status of a check; 200 where it passes.
fn status(auth: &Auth, headers: &HeaderMap, needs: Permission, now: u64) -> u16 {
    let checked = auth.check(headers, None, needs, now);
    checked.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
}

#[test]
fn basic_credentials_pass_when_they_are_right() {
    let auth = with_login("correct horse");
    assert_eq!(
        status(&auth, &basic("root", "correct horse"), UPDATE, NOW),
        200
    );
    for wrong in [
        basic("root", "wrong"),
        basic("toor", "correct horse"),
        authorization("Basic ???"),
        authorization("Bearer correct horse"),
        HeaderMap::new(),
    ] {
        assert_eq!(status(&auth, &wrong, VIEW, NOW), 401, "{wrong:?}");
    }
}

#[test]
fn a_session_is_good_on_every_node_with_the_same_login_until_it_ends() {
    let (here, there) = (with_login("pw"), with_login("pw"));
    let token = here.login("root", "pw", None, NOW).unwrap();
    let bearer = authorization(&format!("Bearer {token}"));
    let cookie = headers(COOKIE, &format!("a=b; {COOKIE_NAME}={token}"));
    for sent in [&bearer, &cookie] {
        assert_eq!(status(&here, sent, UPDATE, NOW), 200);
        assert_eq!(status(&there, sent, UPDATE, NOW), 200);
        assert_eq!(status(&here, sent, VIEW, NOW + SESSION_SECONDS), 401);
        assert_eq!(status(&with_login("changed"), sent, VIEW, NOW), 401);
    }
    let longer = token.replacen(
        &(NOW + SESSION_SECONDS).to_string(),
        &(NOW * 2).to_string(),
        1,
    );
    assert_eq!(
        status(
            &here,
            &authorization(&format!("Bearer {longer}")),
            VIEW,
            NOW
        ),
        401
    );
    here.logout(&bearer, NOW).unwrap();
    assert_eq!(status(&here, &bearer, VIEW, NOW), 401);
}

#[test]
fn an_api_key_may_do_what_its_scopes_say() {
    let auth = with_login("pw");
    let key = authorization("Bearer bfst-1");
    assert_eq!(status(&auth, &key, VIEW, NOW), 200);
    let refusal = auth.check(&key, None, UPDATE, NOW).unwrap_err();
    assert_eq!(refusal.status, StatusCode::FORBIDDEN);
    assert!(refusal.message.contains("AdaptiveRouter:Update"));
}

#[test]
fn without_a_login_only_loopback_may_call_a_node_that_others_reach() {
    let open = Auth::new(None, [0, 0, 0, 0].into());
    let from = |ip: [u8; 4]| open.check(&HeaderMap::new(), Some(ip.into()), VIEW, NOW);
    assert_eq!(from([127, 0, 0, 1]), Ok(()));
    let refusal = from([10, 0, 0, 9]).unwrap_err();
    assert!(refusal.status == StatusCode::FORBIDDEN && refusal.message.contains("auth_config"));
    assert!(open.check(&HeaderMap::new(), None, VIEW, NOW).is_err());
    let near = Auth::new(None, [127, 0, 0, 1].into());
    assert_eq!(near.check(&HeaderMap::new(), None, VIEW, NOW), Ok(()));
}

#[test]
fn guessing_is_stopped_for_the_guesser_only() {
    let auth = with_login("pw");
    let (guesser, other) = (
        Some(IpAddr::from([10, 0, 0, 9])),
        Some(IpAddr::from([10, 0, 0, 8])),
    );
    for _ in 0..MAX_FAILURES {
        auth.login("root", "guess", guesser, NOW).unwrap_err();
    }
    let refusal = auth.login("root", "pw", guesser, NOW).unwrap_err();
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(
        auth.check(&basic("root", "pw"), guesser, VIEW, NOW)
            .is_err()
    );
    assert!(auth.login("root", "pw", other, NOW).is_ok());
}

#[test]
fn without_a_login_there_is_nothing_to_log_in_to() {
    let open = Auth::new(None, [127, 0, 0, 1].into());
    assert_eq!(
        open.login("a", "b", None, NOW).unwrap_err().status,
        StatusCode::FORBIDDEN
    );
}
