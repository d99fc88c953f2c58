//! What a node is told: flags, environment, config.json, and the edits saved through the API.
//!
//! [`file`] reads config.json in Bifrost's shape, [`validate`] names every mistake by its JSON path,
//! [`catalog`] is the result that the data path uses: providers and keys with everything resolved.

pub mod catalog;

pub use catalog::{Catalog, ClientRules, Dialect, Key, Network, Provider, Secret};
