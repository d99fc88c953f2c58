//! Keys that a caller pinned.

use crate::ids::KeyId;

/// The key a caller asked for, on the first provider of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// By id (`x-bf-api-key-id`).
    Id(KeyId),
    /// By name (`x-bf-api-key`).
    Name(String),
}
