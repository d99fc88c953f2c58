//! Names of things, as types that cannot be mixed up.
//!
//! All are cheap to clone (one reference count) and travel as plain strings.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, out)
            }
        }
    };
}

name! {
    /// A configured provider: a built-in name (`openai`) or a custom one.
    ProviderId
}
name! {
    /// A provider key's stable id. Never its secret.
    KeyId
}
name! {
    /// A model as requests name it at a provider, without the provider's prefix and before a key's
    /// aliases: what holds, health and logs speak of.
    ModelId
}
name! {
    /// A node's id, unique in the cluster.
    NodeId
}
name! {
    /// A region label. One regional leader each.
    Region
}

/// Tells a key from what it was before an edit.
///
/// A 64-bit hash over what can change a provider's answer (value, aliases, vendor blocks, admin
/// revision), never over weight, names or network settings. An edited key is another subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Hashes the parts in order. Each part is length-prefixed, so `["ab","c"]` differs from `["a","bc"]`.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"holdline key fingerprint v1");
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Self(u64::from_be_bytes(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_depend_on_every_part_and_its_borders() {
        let base = Fingerprint::of(&[b"openai", b"sk-1"]);
        assert_eq!(base, Fingerprint::of(&[b"openai", b"sk-1"]));
        assert_ne!(base, Fingerprint::of(&[b"openais", b"k-1"]));
        assert_ne!(base, Fingerprint::of(&[b"openai", b"sk-2"]));
    }
}
