//! HTTP handlers, thin: parse, call, answer. Every path stands once in [`paths`].

pub mod health;
pub mod paths;
