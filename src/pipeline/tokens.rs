//! Tokens and keys of AWS that stand for keys: granted once, kept until shortly before they expire, asked
//! for by one request at a time.

mod aws;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use serde::Deserialize;
use tokio::sync::OnceCell;

use holdline_core::ids::Fingerprint;

use super::failed::{Failed, Judge};
use super::upstream::Upstream;
use crate::config::{Network, Secret};
use crate::node::Clock;
use crate::providers::aws::AwsKeys;
use crate::providers::{Call, Credential, Form, Grant};

/// The largest answer to a grant.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A token is not used when it expires within this time.
const MARGIN: Duration = Duration::from_secs(60);

/// Used where the answer states none.
const USUAL_LIFE: Duration = Duration::from_secs(30 * 60);

/// Nothing is believed to live longer.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// Metadata are at hand or nowhere.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);

/// Keys whose tokens are kept: beyond them those that expired are thrown out, then all.
const MAX_TOKENS: usize = 10_000;

/// All tokens of a node.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    by_key: Mutex<HashMap<Fingerprint, Arc<OnceCell<Token>>>>,
}

#[derive(Clone, Debug)]
struct Token {
    proof: Proof,
    expires: Instant,
}

/// What was granted.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    Token(Secret),
    Aws(AwsKeys),
}

impl Proof {
    pub(super) fn credential(&self) -> Credential<'_> {
        match self {
            Self::Token(token) => Credential::Token(token),
            Self::Aws(keys) => Credential::Aws(keys),
        }
    }
}

/// Why nothing was granted.
#[derive(Debug)]
enum Trouble {
    /// Who grants refused.
    Refused {
        status: u16,
        headers: Box<HeaderMap>,
        body: Bytes,
    },
    Failed(Box<Failed>),
}

impl Trouble {
    fn misconfigured(message: impl AsRef<str>) -> Self {
        Self::Failed(Box::new(Failed::misconfigured(message.as_ref())))
    }

    fn unreadable(whose: &str) -> Self {
        let message = format!("the answer of {whose} cannot be read");
        Self::Failed(Box::new(Failed::broken(message)))
    }

    /// Whatever is wrong with a request for a token is wrong with the key's credentials.
    fn judged(self, judge: &Judge) -> Failed {
        match self {
            Self::Failed(failed) => *failed,
            Self::Refused {
                status,
                headers,
                body,
            } => {
                let status = match status {
                    400..=404 => 401,
                    other => other,
                };
                judge.answer(status, &headers, &body)
            }
        }
    }
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
    /// What proves a call with the call's key. Requests that need the same wait for the first.
    pub(super) async fn of(
        &self,
        call: &Call<'_>,
        grant: Grant,
        judge: &Judge,
        upstream: &Upstream,
        clock: Clock,
    ) -> Result<Proof, Failed> {
        let Some(key) = call.key else {
            return Err(Failed::misconfigured("a token needs a key"));
        };
        let cell = self.cell(key.spec.fingerprint);
        let network = &call.provider.network;
        let token = cell
            .get_or_try_init(|| ask(grant, network, upstream, clock))
            .await
            .map_err(|trouble| trouble.judged(judge))?;
        Ok(token.proof.clone())
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
    grant: Grant,
    network: &Network,
    upstream: &Upstream,
    clock: Clock,
) -> Result<Token, Trouble> {
    match grant {
        Grant::Token(form) => token(form, network, upstream).await,
        Grant::Aws(source) => {
            let now = clock.wall();
            let world = aws::World {
                upstream,
                network,
                env: &|name| std::env::var(name).ok(),
                now,
            };
            let granted = aws::keys(source, world).await?;
            let life = granted.expires.map(|at| at.0.saturating_sub(now.0));
            Ok(Token::living(
                Proof::Aws(granted.keys),
                life.map(Duration::from_millis),
            ))
        }
    }
}

impl Token {
    fn living(proof: Proof, life: Option<Duration>) -> Self {
        let life = life.unwrap_or(USUAL_LIFE).min(LONGEST_LIFE);
        Self {
            proof,
            expires: Instant::now() + life,
        }
    }
}

async fn token(form: Form, network: &Network, upstream: &Upstream) -> Result<Token, Trouble> {
    let mut request = Request::new(Bytes::from(form.form));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = form.uri;
    let headers = request.headers_mut();
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, form);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let (status, headers, body) = send(upstream, network, request).await?;
    if !(200..300).contains(&status) {
        return Err(Trouble::Refused {
            status,
            headers: Box::new(headers),
            body,
        });
    }
    let whose = "who grants the token";
    let answer = serde_json::from_slice(&body);
    let answer: Answer = answer.map_err(|_| Trouble::unreadable(whose))?;
    let life = match answer.expires_in {
        Some(Seconds::Number(seconds)) => Some(seconds),
        Some(Seconds::Text(text)) => text.parse().ok(),
        None => None,
    };
    let proof = Proof::Token(Secret::from(answer.access_token));
    Ok(Token::living(proof, life.map(Duration::from_secs)))
}

/// Status, headers and body of an answer.
type Answered = (u16, HeaderMap, Bytes);

async fn send(
    upstream: &Upstream,
    network: &Network,
    mut request: Request<Bytes>,
) -> Result<Answered, Trouble> {
    *request.version_mut() = Version::HTTP_11;
    let answer = upstream.send(network, request).await;
    read(answer).await
}

/// Asks the machine that the gateway runs on who it is. Where nobody answers, nobody will.
async fn ask_metadata(upstream: &Upstream, request: Request<Bytes>) -> Result<Answered, Trouble> {
    let asked = async { read(upstream.metadata(request.map(Full::new)).await).await };
    let late = |_| Trouble::misconfigured("the machine's metadata do not answer");
    tokio::time::timeout(METADATA_TIMEOUT, asked)
        .await
        .map_err(late)?
}

async fn read(answer: Result<Response<Incoming>, legacy::Error>) -> Result<Answered, Trouble> {
    let answer = answer.map_err(|e| Trouble::Failed(Box::new(Failed::transport(&e))))?;
    let (head, body) = answer.into_parts();
    let read = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    let body = read.map_err(|_| Trouble::unreadable("who grants the token"))?;
    Ok((head.status.as_u16(), head.headers, body.to_bytes()))
}
