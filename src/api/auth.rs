//! Who may use the admin API: logins, session tokens, API keys with scopes; without a login, loopback.
//!
//! Session tokens are signed with a key derived from the admin's password, so every node of a fleet
//! with the same login accepts them and none keeps a list. Secrets are compared in constant time.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use argon2::Argon2;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::admin::refusal::Refusal;
use crate::config::{AdminAuth, AdminUser};

/// The cookie that a login sets.
pub const COOKIE_NAME: &str = "holdline_session";
/// How long a session lasts, in seconds.
pub const SESSION_SECONDS: u64 = 12 * 3_600;
/// Wrong credentials from one address within [`WINDOW`]; further ones are not looked at.
const MAX_FAILURES: u32 = 30;
const WINDOW: Duration = Duration::from_secs(10);
/// Addresses that are counted at once.
const MAX_ADDRESSES: usize = 1_024;
/// Sessions that were ended before they ran out, remembered here.
const MAX_ENDED: usize = 10_000;

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// `AdaptiveRouter` …
    pub resource: &'static str,
    /// `View`, `Create`, `Update` or `Delete`.
    pub operation: &'static str,
}

/// Decides who may call.
pub struct Auth {
    admin: Option<AdminAuth>,
    /// Without a login, only loopback may call.
    beyond_loopback: bool,
    signing: OnceLock<[u8; 32]>,
    failures: Mutex<HashMap<IpAddr, (Instant, u32)>>,
    ended: Mutex<BTreeSet<(u64, String)>>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Auth")
            .field("login", &self.admin.is_some())
            .finish_non_exhaustive()
    }
}

impl Auth {
    /// `bound` is where the node listens.
    #[must_use]
    pub fn new(admin: Option<AdminAuth>, bound: IpAddr) -> Self {
        Self {
            admin,
            beyond_loopback: !bound.is_loopback(),
            signing: OnceLock::new(),
            failures: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    /// Whether there is a login.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.admin.is_some()
    }

    /// Lets a call pass, or says why not. `now` is seconds since the epoch.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        needs: Permission,
        now: u64,
    ) -> Result<(), Refusal> {
        let Some(admin) = &self.admin else {
            let near = peer.is_some_and(|ip| ip.to_canonical().is_loopback());
            return if near || !self.beyond_loopback {
                Ok(())
            } else {
                Err(Refusal::new(StatusCode::FORBIDDEN, NOT_LOOPBACK))
            };
        };
        self.refuse_guessing(peer)?;
        if let Some(user) = &admin.user
            && (self.is_basic(user, headers) || self.session(headers, now).is_some())
        {
            return Ok(());
        }
        let bearer = bearer(headers).unwrap_or_default();
        let mut found = None;
        for key in &admin.api_keys {
            if same(key.value.expose(), bearer) {
                found = Some(key);
            }
        }
        let Some(key) = found else {
            self.count_failure(peer, headers);
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, NEEDS_LOGIN));
        };
        let Permission {
            resource,
            operation,
        } = needs;
        if key
            .scopes
            .iter()
            .any(|scope| scope.permits(resource, operation))
        {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!(
                "the API key {:?} lacks the scope {resource}:{operation}",
                key.name
            ),
        ))
    }

    /// Begins a session. Returns its token.
    pub(crate) fn login(
        &self,
        name: &str,
        password: &str,
        peer: Option<IpAddr>,
        now: u64,
    ) -> Result<String, Refusal> {
        let user = self.user()?;
        self.refuse_guessing(peer)?;
        if !(same(&user.name, name) & same(user.password.expose(), password)) {
            self.fail(peer);
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "wrong username or password",
            ));
        }
        let expires = now.saturating_add(SESSION_SECONDS);
        let nonce: [u8; 12] = rand::random();
        let head = format!("{expires}.{}", URL_SAFE_NO_PAD.encode(nonce));
        let tag = URL_SAFE_NO_PAD.encode(self.sign(user, &head).finalize().into_bytes());
        Ok(format!("{head}.{tag}"))
    }

    /// Ends the session of these headers, on this node.
    pub(crate) fn logout(&self, headers: &HeaderMap, now: u64) -> Result<(), Refusal> {
        self.user()?;
        let Some(session) = self.session(headers, now) else {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "there is no session to end",
            ));
        };
        let mut ended = lock(&self.ended);
        while ended.first().is_some_and(|(expires, _)| *expires <= now) || ended.len() >= MAX_ENDED
        {
            ended.pop_first();
        }
        ended.insert(session);
        Ok(())
    }

    /// Whether the headers carry a session that has not ended.
    #[must_use]
    pub fn has_session(&self, headers: &HeaderMap, now: u64) -> bool {
        self.session(headers, now).is_some()
    }

    fn user(&self) -> Result<&AdminUser, Refusal> {
        let user = self.admin.as_ref().and_then(|admin| admin.user.as_ref());
        user.ok_or_else(|| Refusal::new(StatusCode::FORBIDDEN, NO_LOGIN))
    }

    fn is_basic(&self, user: &AdminUser, headers: &HeaderMap) -> bool {
        let Some(encoded) = credentials(headers, "basic") else {
            return false;
        };
        let decoded = STANDARD.decode(encoded).unwrap_or_default();
        let text = String::from_utf8(decoded).unwrap_or_default();
        let (name, password) = text.split_once(':').unwrap_or_default();
        same(&user.name, name) & same(user.password.expose(), password)
    }

    /// Expiry and token of a valid session, from Bearer or cookie.
    fn session(&self, headers: &HeaderMap, now: u64) -> Option<(u64, String)> {
        let user = self.admin.as_ref()?.user.as_ref()?;
        let token = bearer(headers).or_else(|| cookie(headers))?;
        let (head, tag) = token.rsplit_once('.')?;
        let expires: u64 = head.split_once('.')?.0.parse().ok()?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        self.sign(user, head).verify_slice(&tag).ok()?;
        let session = (expires, token.to_owned());
        (now < expires && !lock(&self.ended).contains(&session)).then_some(session)
    }

    fn sign(&self, user: &AdminUser, head: &str) -> Hmac<Sha256> {
        let key = self.signing.get_or_init(|| session_key(user));
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(head.as_bytes());
        mac
    }

    /// Not even right credentials are looked at after too many wrong ones.
    fn refuse_guessing(&self, peer: Option<IpAddr>) -> Result<(), Refusal> {
        let failures = lock(&self.failures);
        let guesses = peer.and_then(|ip| failures.get(&ip));
        match guesses {
            Some((since, count)) if since.elapsed() < WINDOW && *count >= MAX_FAILURES => {
                Err(Refusal::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too many wrong logins: wait 10 s",
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A call without any credentials is no guess.
    fn count_failure(&self, peer: Option<IpAddr>, headers: &HeaderMap) {
        if headers.contains_key(AUTHORIZATION) {
            self.fail(peer);
        }
    }

    fn fail(&self, peer: Option<IpAddr>) {
        let Some(ip) = peer else {
            return;
        };
        let mut failures = lock(&self.failures);
        if failures.len() >= MAX_ADDRESSES {
            failures.retain(|_, (since, _)| since.elapsed() < WINDOW);
        }
        if failures.len() >= MAX_ADDRESSES {
            failures.clear();
        }
        let (since, count) = failures.entry(ip).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
    }
}

const NEEDS_LOGIN: &str =
    "the admin API needs a login: send Basic credentials, a session token or an API key";
const NO_LOGIN: &str = "there is no login: set auth_config.admin_username and admin_password";
const NOT_LOOPBACK: &str = "without a login the admin API answers loopback callers only: set auth_config.admin_username and admin_password, or bind 127.0.0.1";

/// Slow on purpose: a leaked token is no help in guessing the password. The salt is fixed so that all
/// nodes derive the same key.
fn session_key(user: &AdminUser) -> [u8; 32] {
    let salt = Sha256::digest(format!("holdline session v1 {}", user.name));
    let mut key = [0; 32];
    let password = user.password.expose().as_bytes();
    Argon2::default()
        .hash_password_into(password, &salt, &mut key)
        .expect("the salt's length is right and passwords have no limit that matters");
    key
}

/// Compares without telling by its duration how much is equal; hashing hides the lengths too.
fn same(a: &str, b: &str) -> bool {
    Sha256::digest(a).ct_eq(&Sha256::digest(b)).into()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    credentials(headers, "bearer")
}

fn credentials<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h str> {
    let (scheme, rest) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case(wanted).then(|| rest.trim())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE_NAME).then_some(value))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
