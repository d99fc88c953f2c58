//! Keys and sealing: everything that leaves a node is encrypted and authenticated with one of them.
//!
//! Every purpose has a key of its own, drawn from the cluster secret by HKDF-SHA256; the cipher is
//! XChaCha20-Poly1305 with the cluster id as associated data. Who knows the secret is a member, who does
//! not can neither read nor write nor replay. There is no forward secrecy: who learns the secret later
//! can read what was recorded.

pub(crate) mod window;

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use sha2::Sha256;

/// Stands in for a secret where only loopback is bound, so that there is one code path. It is public:
/// it keeps nothing from anybody on the same host.
const LOOPBACK_SECRET: &str = "holdline: loopback only, no secret";

const SALT: &[u8] = b"holdline cluster v1";
const GOSSIP: &[u8] = b"gossip datagrams";
const RPC: &[u8] = b"rpc sessions";
const FROM_CALLER: &[u8] = b"caller to answerer";
const FROM_ANSWERER: &[u8] = b"answerer to caller";

/// Bytes that sealing adds, the nonce not counted.
pub(crate) const TAG_BYTES: usize = 16;

/// Of XChaCha20-Poly1305.
pub(crate) const NONCE_BYTES: usize = 24;

/// What each side of a connection draws, so that no session can be played twice.
pub(crate) type Challenge = [u8; 32];

/// The keys of every secret this node accepts, the one it prefers first.
pub(crate) struct Keyring {
    secrets: Vec<SecretKeys>,
    cluster_id: Arc<[u8]>,
}

struct SecretKeys {
    gossip: Seal,
    rpc: [u8; 32],
}

impl Keyring {
    /// From the secret (or none, on loopback) and those that are still accepted.
    pub(crate) fn new(secret: Option<&str>, previous: &[String], cluster_id: &str) -> Self {
        let cluster_id: Arc<[u8]> = cluster_id.as_bytes().into();
        let secrets = std::iter::once(secret.unwrap_or(LOOPBACK_SECRET))
            .chain(previous.iter().map(String::as_str))
            .map(|secret| SecretKeys {
                gossip: Seal::new(&derive(SALT, secret.as_bytes(), GOSSIP), &cluster_id),
                rpc: derive(SALT, secret.as_bytes(), RPC),
            })
            .collect();
        Self {
            secrets,
            cluster_id,
        }
    }

    /// How many secrets are accepted.
    pub(crate) fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Seals gossip with the secret of this number, in order of preference.
    pub(crate) fn gossip(&self, number: usize) -> &Seal {
        &self.secrets[number % self.secrets.len()].gossip
    }

    /// Opens gossip with whichever secret fits, and says which.
    pub(crate) fn open_gossip(
        &self,
        nonce: &[u8; NONCE_BYTES],
        sealed: &[u8],
    ) -> Option<(usize, Vec<u8>)> {
        self.secrets
            .iter()
            .enumerate()
            .find_map(|(number, keys)| Some((number, keys.gossip.open(nonce, sealed)?)))
    }

    /// The keys of one connection: what the caller sends, and what the answerer sends.
    pub(crate) fn session(
        &self,
        number: usize,
        caller: &Challenge,
        answerer: &Challenge,
    ) -> (Seal, Seal) {
        let key = &self.secrets[number % self.secrets.len()].rpc;
        let salt = [caller.as_slice(), answerer.as_slice()].concat();
        (
            Seal::new(&derive(&salt, key, FROM_CALLER), &self.cluster_id),
            Seal::new(&derive(&salt, key, FROM_ANSWERER), &self.cluster_id),
        )
    }
}

/// One key, bound to the cluster.
pub(crate) struct Seal {
    cipher: XChaCha20Poly1305,
    cluster_id: Arc<[u8]>,
}

impl Seal {
    fn new(key: &[u8; 32], cluster_id: &Arc<[u8]>) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(key.into()),
            cluster_id: Arc::clone(cluster_id),
        }
    }

    /// Encrypts and authenticates. A nonce must never be used twice with the same key.
    pub(crate) fn seal(&self, nonce: &[u8; NONCE_BYTES], plain: &[u8]) -> Vec<u8> {
        let payload = Payload {
            msg: plain,
            aad: &self.cluster_id,
        };
        self.cipher
            .encrypt(XNonce::from_slice(nonce), payload)
            .expect("the cipher takes up to 256 GB")
    }

    /// The plain bytes, if they were sealed with this key, nonce and cluster id and not touched since.
    pub(crate) fn open(&self, nonce: &[u8; NONCE_BYTES], sealed: &[u8]) -> Option<Vec<u8>> {
        let payload = Payload {
            msg: sealed,
            aad: &self.cluster_id,
        };
        self.cipher.decrypt(XNonce::from_slice(nonce), payload).ok()
    }
}

fn derive(salt: &[u8], input: &[u8], purpose: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(Some(salt), input)
        .expand(purpose, &mut key)
        .expect("32 bytes are within what HKDF-SHA256 gives");
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];

    fn ring(secret: &str, previous: &[&str], cluster: &str) -> Keyring {
        let previous: Vec<String> = previous.iter().map(|&s| s.to_owned()).collect();
        Keyring::new(Some(secret), &previous, cluster)
    }

    #[test]
    fn opens_only_what_was_sealed_so() {
        let keys = ring("s", &[], "c");
        let sealed = keys.gossip(0).seal(&NONCE, b"hello");
        assert_eq!(
            keys.open_gossip(&NONCE, &sealed),
            Some((0, b"hello".to_vec()))
        );
        for at in 0..sealed.len() {
            let mut bent = sealed.clone();
            bent[at] ^= 1;
            assert_eq!(keys.open_gossip(&NONCE, &bent), None, "byte {at} was bent");
            assert_eq!(keys.open_gossip(&NONCE, &sealed[..at]), None, "cut at {at}");
        }
        assert_eq!(keys.open_gossip(&[8; NONCE_BYTES], &sealed), None);
    }

    #[test]
    fn another_secret_or_cluster_cannot_read() {
        let sealed = ring("s", &[], "c").gossip(0).seal(&NONCE, b"hello");
        assert_eq!(ring("t", &[], "c").open_gossip(&NONCE, &sealed), None);
        assert_eq!(ring("s", &[], "d").open_gossip(&NONCE, &sealed), None);
        assert_eq!(
            Keyring::new(None, &[], "c").open_gossip(&NONCE, &sealed),
            None
        );
    }

    #[test]
    fn a_previous_secret_is_still_accepted() {
        let sealed = ring("old", &[], "c").gossip(0).seal(&NONCE, b"hello");
        let rolling = ring("new", &["old"], "c");
        assert_eq!(
            rolling.open_gossip(&NONCE, &sealed),
            Some((1, b"hello".to_vec()))
        );
    }

    #[test]
    fn sessions_differ_by_challenge_and_direction() {
        let keys = ring("s", &[], "c");
        let (caller, answerer) = keys.session(0, &[1; 32], &[2; 32]);
        let sealed = caller.seal(&NONCE, b"hello");
        assert!(answerer.open(&NONCE, &sealed).is_none(), "reflected");
        let (again, _) = keys.session(0, &[1; 32], &[2; 32]);
        assert!(again.open(&NONCE, &sealed).is_some());
        let (other, _) = keys.session(0, &[1; 32], &[3; 32]);
        assert!(other.open(&NONCE, &sealed).is_none(), "replayed");
    }
}
