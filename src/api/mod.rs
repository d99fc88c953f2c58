//! HTTP handlers, thin: parse, call, answer. Every path stands once in [`paths`].

pub mod admin;
pub mod auth;
mod cors;
pub mod error;
pub mod gateway;
pub mod health;
pub mod kept;
pub mod metrics;
pub mod models;
pub mod paths;
pub mod routes;

pub use admin::router;
pub use gateway::Gateway;
