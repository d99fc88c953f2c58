//! HTTP handlers, thin: parse, call, answer. Every path stands once in [`paths`].

pub mod admin;
pub mod auth;
pub mod error;
pub mod gateway;
pub mod health;
pub mod metrics;
pub mod models;
pub mod paths;

pub use gateway::Gateway;

use std::sync::Arc;

use crate::node::Node;

/// Everything but inference.
pub fn router(node: &Arc<Node>) -> axum::Router {
    health::router(Arc::clone(node)).merge(metrics::router(Arc::clone(node)))
}
