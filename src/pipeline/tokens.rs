//! Tokens and keys of AWS that stand for keys: granted once, kept until shortly before they expire,
//! renewed ahead of time beside the requests that use them. One grant of a key is under way at a time.

mod aws;
mod cache;
mod google;
#[cfg(test)]
mod stand;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use serde::Deserialize;

use holdline_core::ids::Fingerprint;
use holdline_core::time::WallMs;

use super::failed::{Failed, Judge};
use super::upstream::Upstream;
use crate::config::{Network, Secret};
use crate::node::Clock;
use crate::providers::aws::AwsKeys;
use crate::providers::{Adapter, Call, Credential, Form, Grant, NotCallable};

use cache::{Answered, Cache};

/// The largest answer to a grant.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Used where the answer states none.
const USUAL_LIFE: Duration = Duration::from_secs(30 * 60);

/// Nothing is believed to live longer.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// Metadata are at hand or nowhere.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);

/// All tokens of a node.
#[derive(Debug)]
pub(super) struct Tokens {
    cache: Cache,
    upstream: Arc<Upstream>,
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
#[derive(Clone, Debug)]
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

/// What the search for a token works with.
#[derive(Clone, Copy)]
struct World<'a> {
    upstream: &'a Upstream,
    network: &'a Network,
    env: Env<'a>,
    now: WallMs,
}

/// Reads variables of the environment.
type Env<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

impl World<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|text| !text.is_empty())
    }
}

impl Tokens {
    /// None yet; they are asked for with these connections.
    pub(super) fn new(upstream: Arc<Upstream>) -> Self {
        Self {
            cache: Cache::default(),
            upstream,
        }
    }

    /// The key's token was refused.
    pub(super) fn forget(&self, key: Fingerprint) {
        self.cache.forget(key);
    }

    /// Puts into a request what proves its call: what is granted for it, else the judge's secret. Nothing is
    /// granted where that is the caller's own key.
    pub(super) async fn prove(
        &self,
        adapter: &dyn Adapter,
        call: &Call<'_>,
        is_callers: bool,
        judge: &mut Judge,
        request: &mut Request<Bytes>,
    ) -> Result<(), Failed> {
        let misconfigured = |error: NotCallable| Failed::misconfigured(&error.to_string());
        let now = judge.clock.wall();
        let grant = if is_callers {
            None
        } else {
            adapter.grant(call, now).map_err(misconfigured)?
        };
        let proof = match grant {
            Some(grant) => Some(self.of(call, grant, judge).await?),
            None => None,
        };
        if let Some(proof) = &proof {
            judge.also_sent(proof);
        }
        let credential = match (&proof, &judge.secret) {
            (Some(proof), _) => proof.credential(),
            (None, Some(secret)) => Credential::Secret(secret),
            (None, None) => Credential::None,
        };
        let signed = adapter.sign(call, credential, now, request);
        signed.map_err(misconfigured)
    }

    /// What proves a call with the call's key. Requests that need the same wait for the first.
    async fn of(&self, call: &Call<'_>, grant: Grant, judge: &Judge) -> Result<Proof, Failed> {
        let Some(key) = call.key else {
            return Err(Failed::misconfigured("a token needs a key"));
        };
        let ask = || {
            let network = call.provider.network.clone();
            ask(
                grant,
                network,
                Arc::clone(&self.upstream),
                judge.clock.clone(),
            )
        };
        let granted = self.cache.of(key.spec.fingerprint, Instant::now(), ask);
        let token = granted.await.map_err(|trouble| trouble.judged(judge))?;
        Ok(token.proof)
    }
}

/// Asks who grants. It may take as long as a request of the provider may.
async fn ask(grant: Grant, network: Network, upstream: Arc<Upstream>, clock: Clock) -> Answered {
    let world = World {
        upstream: &upstream,
        network: &network,
        env: &|name| std::env::var(name).ok(),
        now: clock.wall(),
    };
    let granted = async {
        match grant {
            Grant::Token(form) => token(form, world).await,
            Grant::Google(source) => google::token_of(source, world).await,
            Grant::Aws(source) => {
                let granted = aws::keys(source, world).await?;
                let life = granted.expires.map(|at| at.0.saturating_sub(world.now.0));
                let life = life.map(Duration::from_millis);
                Ok(Token::living(Proof::Aws(granted.keys), life))
            }
        }
    };
    let limit = network.request_timeout;
    let late = |_| {
        let message = format!(
            "who grants the key's token did not answer within {} s (`default_request_timeout_in_seconds`)",
            limit.as_secs()
        );
        Trouble::Failed(Box::new(Failed::broken(message)))
    };
    tokio::time::timeout(limit, granted).await.map_err(late)?
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

/// Posts a form, and reads the token that is granted.
async fn token(form: Form, world: World<'_>) -> Result<Token, Trouble> {
    let mut request = Request::new(Bytes::from(form.form));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = form.uri;
    let headers = request.headers_mut();
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, form);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    granted(send(world.upstream, world.network, request).await?)
}

/// The token in an answer.
fn granted((status, headers, body): Told) -> Result<Token, Trouble> {
    if !(200..300).contains(&status) {
        return Err(Trouble::Refused {
            status,
            headers: Box::new(headers),
            body,
        });
    }
    let answer = serde_json::from_slice(&body);
    let answer: Answer = answer.map_err(|_| Trouble::unreadable("who grants the token"))?;
    let life = match answer.expires_in {
        Some(Seconds::Number(seconds)) => Some(seconds),
        Some(Seconds::Text(text)) => text.parse().ok(),
        None => None,
    };
    let proof = Proof::Token(Secret::from(answer.access_token));
    Ok(Token::living(proof, life.map(Duration::from_secs)))
}

/// Status, headers and body of an answer.
type Told = (u16, HeaderMap, Bytes);

async fn send(
    upstream: &Upstream,
    network: &Network,
    mut request: Request<Bytes>,
) -> Result<Told, Trouble> {
    *request.version_mut() = Version::HTTP_11;
    let answer = upstream.send(network, request).await;
    read(answer).await
}

/// Asks the machine that the gateway runs on who it is. Where nobody answers, nobody will.
async fn ask_metadata(upstream: &Upstream, request: Request<Bytes>) -> Result<Told, Trouble> {
    let asked = async { read(upstream.metadata(request.map(Full::new)).await).await };
    let late = |_| Trouble::misconfigured("the machine's metadata do not answer");
    tokio::time::timeout(METADATA_TIMEOUT, asked)
        .await
        .map_err(late)?
}

/// Whether an address is one of this machine or one at which metadata are: only there may a request go
/// that carries what proves who the machine is, or brings it back.
fn is_metadata(uri: &Uri) -> bool {
    const V4: [Ipv4Addr; 3] = [
        Ipv4Addr::new(169, 254, 169, 254),
        Ipv4Addr::new(169, 254, 170, 2),
        Ipv4Addr::new(169, 254, 170, 23),
    ];
    const V6: [Ipv6Addr; 2] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    ];
    let host = uri.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let known = address.is_ok_and(|address| match address {
        IpAddr::V4(v4) => v4.is_loopback() || V4.contains(&v4),
        IpAddr::V6(v6) => v6.is_loopback() || V6.contains(&v6),
    });
    uri.scheme_str() == Some("http") && (known || host == "localhost")
}

async fn read_file(path: &str) -> Result<String, Trouble> {
    let read = tokio::fs::read_to_string(path).await;
    read.map_err(|error| Trouble::misconfigured(format!("{path:?} cannot be read: {error}")))
}

impl From<NotCallable> for Trouble {
    fn from(error: NotCallable) -> Self {
        Self::Failed(Box::new(Failed::misconfigured(&error.to_string())))
    }
}

async fn read(answer: Result<Response<Incoming>, legacy::Error>) -> Result<Told, Trouble> {
    let answer = answer.map_err(|e| Trouble::Failed(Box::new(Failed::transport(&e))))?;
    let (head, body) = answer.into_parts();
    let read = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    let body = read.map_err(|_| Trouble::unreadable("who grants the token"))?;
    Ok((head.status.as_u16(), head.headers, body.to_bytes()))
}
