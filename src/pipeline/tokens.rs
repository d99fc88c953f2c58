//! Tokens that stand for keys: granted once, kept until shortly before they expire, asked for by one
//! request at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Version};
use http_body_util::{BodyExt, Full, Limited};
use serde::Deserialize;
use tokio::sync::OnceCell;

use holdline_core::ids::Fingerprint;

use super::failed::{Failed, Judge};
use super::upstream::Upstream;
use crate::config::Secret;
use crate::providers::{Call, Grant};

/// The largest answer to a grant.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A token is not used when it expires within this time.
const MARGIN: Duration = Duration::from_secs(60);

/// Used where the answer states none.
const USUAL_LIFE: Duration = Duration::from_secs(30 * 60);

/// Keys whose tokens are kept: beyond them those that expired are thrown out, then all.
const MAX_TOKENS: usize = 10_000;

/// All tokens of a node.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    by_key: Mutex<HashMap<Fingerprint, Arc<OnceCell<Token>>>>,
}

#[derive(Clone, Debug)]
struct Token {
    secret: Secret,
    expires: Instant,
}

impl Token {
    fn is_fresh(&self) -> bool {
        self.expires > Instant::now() + MARGIN
    }
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    expires_in: Option<Seconds>,
}

/// A number, or its text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(u64),
    Text(String),
}

impl Tokens {
    /// The token of the call's key. Requests that need the same one wait for the first.
    pub(super) async fn of(
        &self,
        call: &Call<'_>,
        grant: Grant,
        judge: &Judge,
        upstream: &Upstream,
    ) -> Result<Secret, Failed> {
        let Some(key) = call.key else {
            return Err(Failed::misconfigured("a token needs a key"));
        };
        let cell = self.cell(key.spec.fingerprint);
        let token = cell
            .get_or_try_init(|| ask(call, grant, judge, upstream))
            .await?;
        Ok(token.secret.clone())
    }

    /// The cell in which the key's token is, or will be.
    fn cell(&self, key: Fingerprint) -> Arc<OnceCell<Token>> {
        let mut all = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = |cell: &OnceCell<Token>| cell.get().is_none_or(Token::is_fresh);
        if all.len() >= MAX_TOKENS {
            all.retain(|_, cell| usable(cell));
        }
        if all.len() >= MAX_TOKENS {
            all.clear();
        }
        let cell = all.entry(key).or_default();
        if !usable(cell) {
            *cell = Arc::default();
        }
        Arc::clone(cell)
    }
}

async fn ask(
    call: &Call<'_>,
    grant: Grant,
    judge: &Judge,
    upstream: &Upstream,
) -> Result<Token, Failed> {
    let mut request = Request::new(Full::new(Bytes::from(grant.form)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = grant.uri;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, form);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let answer = upstream.send(&call.provider.network, request).await;
    let (head, body) = answer.map_err(|e| Failed::transport(&e))?.into_parts();
    let read = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    let body = read.map_err(|_| broken())?.to_bytes();
    if !head.status.is_success() {
        // Whatever is wrong with the request for a token is wrong with the key's credentials.
        let status = match head.status.as_u16() {
            400..=404 => 401,
            other => other,
        };
        return Err(judge.answer(status, &head.headers, &body));
    }
    let answer: Answer = serde_json::from_slice(&body).map_err(|_| broken())?;
    let life = match answer.expires_in {
        Some(Seconds::Number(seconds)) => Some(seconds),
        Some(Seconds::Text(text)) => text.parse().ok(),
        None => None,
    };
    let life = life.map_or(USUAL_LIFE, |seconds| {
        Duration::from_secs(seconds.min(24 * 3_600))
    });
    Ok(Token {
        secret: Secret::from(answer.access_token),
        expires: Instant::now() + life,
    })
}

fn broken() -> Failed {
    Failed::broken("the answer to the request for a token cannot be read".to_owned())
}
