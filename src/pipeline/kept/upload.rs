//! Uploads in pieces, as Google has them: the answer to the first request is an address for the others, and who
//! knows that may use it, without a credential. SDKs send none there.
//!
//! So the provider's address stays here, and the client gets one of the gateway's, in which the rest is sealed:
//! what the provider wants to see again, who began, until when. The seal's key is drawn from the account's own,
//! so that every node which could serve the upload can open it, with no state of its own, and an address ends
//! with the key that it was made for.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use holdline_core::ids::ProviderId;
use holdline_core::time::WallMs;

use super::super::failed::Failed;
use super::super::{Pipeline, caller};
use super::asked::{Asked, Query};
use crate::api::error::ApiError;
use crate::config::governance::VirtualKey;
use crate::config::{Catalog, Key};
use crate::protocols::kept::Collection;
use crate::providers::percent_encoded;
use crate::server::Peer;

/// Where a provider says that the pieces go.
pub(super) const ADDRESS: HeaderName = HeaderName::from_static("x-goog-upload-url");

const COMMAND: HeaderName = HeaderName::from_static("x-goog-upload-command");

/// How long an upload may take from its begin.
const LIFE_MS: u64 = 24 * 60 * 60 * 1000;

/// The longest query of a provider's that is passed on, and the longest seal that is opened.
const MAX_QUERY: usize = 2048;
const MAX_SEALED: usize = 4096;

const NONCE_BYTES: usize = 24;

/// What of a session only the gateway knows.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Begun {
    /// What the provider wants to see again.
    query: String,
    /// The virtual key that began it, by its id.
    caller: Option<String>,
    /// When it ends.
    until_ms: u64,
}

/// A session that goes on.
#[derive(Debug)]
pub(super) struct Session {
    begun: Begun,
    pub(super) key: Arc<Key>,
}

/// How a client reaches this path: the address that it is given begins like it.
#[derive(Debug)]
pub(super) struct Door(String);

impl Door {
    /// By the client's own words for the host. Where a proxy in front has TLS, it says so.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        let headers = request.headers();
        let named = headers.get(HOST).and_then(|host| host.to_str().ok());
        let named = named.and_then(|host| host.parse::<Authority>().ok());
        let host = request.uri().authority().cloned().or(named)?;
        let peer = request.extensions().get::<Peer>();
        let proxied = headers.get("x-forwarded-proto");
        let is_secure = peer.is_some_and(|peer| peer.has_tls)
            || proxied.is_some_and(|scheme| scheme.as_bytes().eq_ignore_ascii_case(b"https"));
        let scheme = if is_secure { "https" } else { "http" };
        // A login there is the client's own business.
        let host = host.as_str().rsplit('@').next()?;
        Some(Self(format!("{scheme}://{host}{}", request.uri().path())))
    }

    /// Its address without what stands at the end of the path.
    pub(super) fn before(&self, behind: &str) -> Option<&str> {
        self.0.strip_suffix(behind)
    }
}

impl Session {
    /// The one that the query names, if it is one that a node of this cluster began.
    pub(super) fn find(catalog: &Catalog, asked: &Query, now: WallMs) -> Option<Self> {
        let (sealed, key_id) = (asked.session.as_ref()?, asked.key_id.as_ref()?);
        let id = ProviderId::from(asked.provider.as_deref()?);
        let keys = &catalog.providers.get(&id)?.keys;
        let is_meant = |key: &&Arc<Key>| key.spec.enabled && key.spec.id.as_str() == key_id;
        let key = Arc::clone(keys.iter().find(is_meant)?);
        let begun = Seal::of(&id, &key)?.open(sealed)?;
        (now.0 < begun.until_ms).then_some(Self { begun, key })
    }

    /// Who goes on: whoever shows a credential, else who began.
    pub(super) fn caller(
        &self,
        pipeline: &Pipeline,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<VirtualKey>>, ApiError> {
        let Some(id) = &self.begun.caller else {
            return pipeline.caller(headers);
        };
        if caller::shown(headers).is_some() {
            return pipeline.caller(headers);
        }
        let (keys, now) = (
            &pipeline.node.config.virtual_keys,
            pipeline.node.clock.wall(),
        );
        caller::identified(id, keys, now).map(Some)
    }

    /// What goes up in the place of the client's query.
    pub(super) fn query(&self) -> String {
        self.begun.query.clone()
    }
}

/// Refuses what cannot be carried on: a session of nobody's, and one whose account nothing could be sealed with.
pub(super) fn check(
    asked: &Query,
    is_session: bool,
    headers: &HeaderMap,
    has_key: bool,
) -> Result<(), ApiError> {
    let refused = |message| Err(ApiError::caller(StatusCode::BAD_REQUEST, message));
    if asked.session.is_some() && !is_session {
        return refused(
            "the upload's address is none that this gateway gave, or it has ended: begin the upload again",
        );
    }
    let command = headers.get(COMMAND).map(HeaderValue::as_bytes);
    let begins = command.is_some_and(|command| command.starts_with(b"start"));
    if command.is_some() && !begins && !is_session {
        return refused(
            "the pieces of an upload go to the address that its begin was answered with",
        );
    }
    if begins && !has_key {
        return refused(
            "an upload in pieces needs a key that the provider has here: send the file as a whole, or without a key of your own",
        );
    }
    Ok(())
}

/// The address that the client gets in the place of the provider's, where the answer has one.
pub(super) fn address(
    asked: &Asked,
    key: Option<&Key>,
    answered: &HeaderMap,
    now: WallMs,
) -> Result<Option<HeaderValue>, Failed> {
    let given = answered.get(&ADDRESS);
    let (Collection::GoogleUploads, Some(given), Some(key)) = (asked.kept.collection, given, key)
    else {
        return Ok(None);
    };
    if asked.goes_on {
        return Ok(None);
    }
    let unfit =
        || Failed::broken("the address for the file's pieces cannot be passed on".to_owned());
    let query = given.to_str().ok().and_then(query_of).ok_or_else(unfit)?;
    let begun = Begun {
        query,
        caller: asked.caller.as_ref().map(|caller| caller.id.clone()),
        until_ms: now.0.saturating_add(LIFE_MS),
    };
    let provider = &asked.provider.id;
    let seal = Seal::of(provider, key).ok_or_else(unfit)?;
    let door = asked.door.as_ref().ok_or_else(unfit)?;
    let sealed = seal.close(&begun);
    if sealed.len() > MAX_SEALED {
        return Err(unfit());
    }
    let text = format!(
        "{}?provider={}&key_id={}&session={sealed}",
        door.0,
        percent_encoded(provider.as_str()),
        percent_encoded(key.spec.id.as_str()),
    );
    HeaderValue::try_from(text).map(Some).map_err(|_| unfit())
}

/// What the provider wants to see again. Where its address leads besides, nobody goes: pieces go where the
/// begin went. A key that it repeats is not needed there.
fn query_of(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    let pairs = uri.query()?.split('&');
    let kept: Vec<&str> = pairs.filter(|pair| !pair.starts_with("key=")).collect();
    let query = kept.join("&");
    (!query.is_empty() && query.len() <= MAX_QUERY).then_some(query)
}

/// Closes and opens sessions of one account.
struct Seal {
    cipher: XChaCha20Poly1305,
    account: String,
}

impl Seal {
    /// None where the key has no value that nobody else knows.
    fn of(provider: &ProviderId, key: &Key) -> Option<Self> {
        let value = key.value.expose().as_bytes();
        if value.is_empty() {
            return None;
        }
        let mut drawn = [0; 32];
        Hkdf::<Sha256>::new(Some(b"holdline"), value)
            .expand(b"uploads v1", &mut drawn)
            .expect("32 bytes are within what HKDF-SHA256 gives");
        Some(Self {
            cipher: XChaCha20Poly1305::new(&drawn.into()),
            account: format!("{}\n{}", provider.as_str(), key.spec.id.as_str()),
        })
    }

    fn close(&self, begun: &Begun) -> String {
        let plain = serde_json::to_vec(begun).expect("texts and a number are JSON");
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload {
            msg: &plain,
            aad: self.account.as_bytes(),
        };
        let sealed = self
            .cipher
            .encrypt(XNonce::from_slice(&nonce), payload)
            .expect("only bodies over 256 GiB cannot be sealed");
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
    }

    fn open(&self, sealed: &str) -> Option<Begun> {
        if sealed.len() > MAX_SEALED {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, rest) = sealed.split_at_checked(NONCE_BYTES)?;
        let payload = Payload {
            msg: rest,
            aad: self.account.as_bytes(),
        };
        let plain = self
            .cipher
            .decrypt(XNonce::from_slice(nonce), payload)
            .ok()?;
        serde_json::from_slice(&plain).ok()
    }
}

#[cfg(test)]
mod tests;
