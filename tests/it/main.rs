//! Whole-node tests: a real node, real sockets, a provider that plays what the test says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bodies;
mod callers;
mod custom;
mod dialects;
mod hostile;
mod ids;
mod kept;
mod leaving;
mod limits;
mod listing;
mod proxies;
mod retries;
mod routing;
mod speaking;
mod streams;
mod support;
mod telling;
mod tls;
mod tpm;
mod uploads;
mod vertex;
