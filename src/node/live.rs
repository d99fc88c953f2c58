//! What one request reads: a routing view and the catalog that belongs to it, swapped as one.

use std::sync::Arc;

use holdline_core::holds::Subject;
use holdline_core::ids::{KeyId, ProviderId};
use holdline_core::routing::View;

use crate::config::{Catalog, Key, Provider};

/// An immutable piece of the node's state. A request that planned with one keeps it for its attempts'
/// secrets, so that an edit under way never pairs an old route with a new key.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Routing's part.
    pub view: View,
    /// Secrets, addresses, timeouts.
    pub catalog: Arc<Catalog>,
}

impl Live {
    /// A configured provider.
    #[must_use]
    pub fn provider(&self, id: &ProviderId) -> Option<&Arc<Provider>> {
        self.catalog.providers.get(id)
    }

    /// Whether this is about a key as it is configured at present.
    #[must_use]
    pub fn has(&self, subject: &Subject) -> bool {
        self.key(&subject.provider, &subject.key)
            .is_some_and(|key| key.spec.fingerprint == subject.fingerprint)
    }

    /// A configured key.
    #[must_use]
    pub fn key(&self, provider: &ProviderId, key: &KeyId) -> Option<&Arc<Key>> {
        self.provider(provider)?
            .keys
            .iter()
            .find(|k| k.spec.id == *key)
    }
}
