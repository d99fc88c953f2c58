//! What a node is told: flags, environment, config.json, and the edits saved through the API.
//!
//! [`mod@file`] reads config.json in Bifrost's shape with a [`reader`] that names every mistake by its JSON
//! path; [`catalog`] is the result that the data path uses: providers and keys with everything resolved.

pub mod adaptive;
pub mod builtin;
pub mod catalog;
pub mod custom;
pub mod defaults;
pub(crate) mod failure_rules;
pub mod file;
pub mod governance;
pub(crate) mod key;
pub(crate) mod network;
pub(crate) mod provider;
pub mod proxy;
pub mod reader;
pub mod secret;
pub mod sections;
pub mod vendor;

pub use adaptive::SettingsPatch;
pub use catalog::{Catalog, Key, Network, Provider, settings};
pub use file::{Config, ConfigErrors, Loaded};
pub use reader::Finding;
pub use secret::Secret;
pub use sections::{
    AdminAuth, AdminUser, ApiKey, ClientConfig, ClientRules, ClusterConfig, ServerTls,
};
