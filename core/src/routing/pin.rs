//! Keys that a caller pinned.

use super::view::{KeyView, ProviderView};
use crate::ids::{KeyId, ModelId};

/// The key a caller asked for, on the first provider of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// By id (`x-bf-api-key-id`).
    Id(KeyId),
    /// By name (`x-bf-api-key`).
    Name(String),
}

impl Pin {
    /// What the caller sent.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Id(id) => id.as_str(),
            Self::Name(name) => name,
        }
    }

    /// The header it came in.
    #[must_use]
    pub const fn header(&self) -> &'static str {
        match self {
            Self::Id(_) => "x-bf-api-key-id",
            Self::Name(_) => "x-bf-api-key",
        }
    }

    /// The pinned key, if this provider has it and it may serve the model.
    #[must_use]
    pub fn find<'a>(&self, provider: &'a ProviderView, model: &'a ModelId) -> Option<&'a KeyView> {
        provider.serving(model).find(|key| match self {
            Self::Id(id) => key.spec.id == *id,
            Self::Name(name) => key.spec.name == *name,
        })
    }
}
