//! Whole nodes in one process, over real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod documents;
mod joining;
mod lone;
mod membership;
mod outsiders;
mod signals;
mod spreading;
mod support;
