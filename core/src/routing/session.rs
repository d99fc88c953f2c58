//! Which provider and key serve a session: what keeps a conversation where its prompt is cached.
//!
//! A binding is written by a served request and read by the next of the same session. It only puts what
//! routing offers anyway in another order: a provider or key that is held, failing or gone is left, and
//! so is one that fails a request which followed the binding.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::ids::{KeyId, ModelId, ProviderId};
use crate::time::Mono;

/// How long a binding lasts after its last use, where the caller does not say.
pub const SESSION_TTL_MS: u64 = 3_600_000;

/// The most bindings a node keeps, some 200 bytes each. Beyond it the one used longest ago goes.
pub const MAX_SESSIONS: usize = 50_000;

/// A session of a caller that asks for a model: a hash, nothing of it can be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey([u8; 16]);

impl SessionKey {
    /// `credential` is what the caller shows (a virtual key, a token), if anything; `model` as it is
    /// asked for, with its provider where one is named.
    #[must_use]
    pub fn of(credential: Option<&[u8]>, session: &str, model: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update([u8::from(credential.is_some())]);
        for part in [
            credential.unwrap_or_default(),
            session.as_bytes(),
            model.as_bytes(),
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut first = [0; 16];
        first.copy_from_slice(&hash.finalize()[..16]);
        Self(first)
    }
}

/// Where a session is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// At which provider.
    pub provider: ProviderId,
    /// The model as that provider's keys name it.
    pub model: ModelId,
    /// With which key; none for providers without keys.
    pub key: Option<KeyId>,
}

/// The bindings of a node.
#[derive(Debug)]
pub struct Sessions {
    bindings: BTreeMap<SessionKey, Binding>,
    /// By the number of their last use: the first is the one to drop.
    by_use: BTreeMap<u64, SessionKey>,
    uses: u64,
    capacity: usize,
}

#[derive(Debug)]
struct Binding {
    bound: Bound,
    ttl_ms: u64,
    until: Mono,
    used: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::with_capacity(MAX_SESSIONS)
    }
}

impl Sessions {
    /// For at most so many bindings.
    #[must_use]
    pub const fn with_capacity(capacity: usize) -> Self {
        Self {
            bindings: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            capacity,
        }
    }

    /// Where the session is served, if it is known. Asking is a use: it lasts for its time from now on.
    pub fn find(&mut self, key: SessionKey, now: Mono) -> Option<Bound> {
        if self.bindings.get(&key)?.until <= now {
            self.remove(key);
            return None;
        }
        self.uses += 1;
        let binding = self.bindings.get_mut(&key)?;
        self.by_use.remove(&binding.used);
        self.by_use.insert(self.uses, key);
        binding.used = self.uses;
        binding.until = now.plus_ms(binding.ttl_ms);
        Some(binding.bound.clone())
    }

    /// The session was served there.
    pub fn bind(&mut self, key: SessionKey, bound: Bound, ttl_ms: u64, now: Mono) {
        self.remove(key);
        if self.bindings.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.bindings.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        let binding = Binding {
            bound,
            ttl_ms,
            until: now.plus_ms(ttl_ms),
            used: self.uses,
        };
        self.bindings.insert(key, binding);
    }

    /// A request that followed the binding failed: it is forgotten, unless another request has bound the
    /// session elsewhere since.
    pub fn forget(&mut self, key: SessionKey, followed: &Bound) {
        if self
            .bindings
            .get(&key)
            .is_some_and(|binding| binding.bound == *followed)
        {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: SessionKey) {
        if let Some(binding) = self.bindings.remove(&key) {
            self.by_use.remove(&binding.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(key: &str) -> Bound {
        Bound {
            provider: ProviderId::from("p"),
            model: ModelId::from("m"),
            key: Some(KeyId::from(key)),
        }
    }

    fn session(name: &str) -> SessionKey {
        SessionKey::of(None, name, "m")
    }

    #[test]
    fn a_session_is_told_apart_by_caller_name_and_model() {
        let keys = [
            SessionKey::of(None, "s", "m"),
            SessionKey::of(Some(b""), "s", "m"),
            SessionKey::of(Some(b"vk"), "s", "m"),
            SessionKey::of(Some(b"vk"), "s", "p/m"),
            SessionKey::of(Some(b"vks"), "", "m"),
            SessionKey::of(Some(b"vk"), "sm", ""),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key));
        }
        assert_eq!(keys[2], SessionKey::of(Some(b"vk"), "s", "m"));
    }

    #[test]
    fn a_binding_lasts_for_its_time_from_its_last_use() {
        let mut sessions = Sessions::default();
        sessions.bind(session("a"), bound("k"), 100, Mono(0));
        assert_eq!(sessions.find(session("a"), Mono(99)), Some(bound("k")));
        assert_eq!(sessions.find(session("a"), Mono(198)), Some(bound("k")));
        assert_eq!(sessions.find(session("a"), Mono(298)), None);
        assert_eq!(sessions.find(session("a"), Mono(0)), None, "it is gone");
    }

    #[test]
    fn the_binding_used_longest_ago_makes_room() {
        let mut sessions = Sessions::with_capacity(2);
        sessions.bind(session("a"), bound("a"), 100, Mono(0));
        sessions.bind(session("b"), bound("b"), 100, Mono(0));
        assert!(sessions.find(session("a"), Mono(1)).is_some());
        sessions.bind(session("c"), bound("c"), 100, Mono(1));
        assert_eq!(sessions.find(session("b"), Mono(1)), None);
        assert!(sessions.find(session("a"), Mono(1)).is_some());
        assert!(sessions.find(session("c"), Mono(1)).is_some());
        for n in 0..100 {
            sessions.bind(session(&n.to_string()), bound("x"), 100, Mono(2));
            sessions.bind(session("c"), bound("y"), 100, Mono(2));
        }
        assert_eq!((sessions.bindings.len(), sessions.by_use.len()), (2, 2));
    }

    #[test]
    fn only_the_binding_that_was_followed_is_forgotten() {
        let mut sessions = Sessions::default();
        sessions.bind(session("a"), bound("new"), 100, Mono(0));
        sessions.forget(session("a"), &bound("old"));
        assert!(sessions.find(session("a"), Mono(1)).is_some());
        sessions.forget(session("a"), &bound("new"));
        assert_eq!(sessions.find(session("a"), Mono(1)), None);
        assert!(sessions.by_use.is_empty());
    }
}
