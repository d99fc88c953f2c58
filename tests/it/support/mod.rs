//! What whole-node tests share: a provider, a node, a client.

pub(crate) mod client;
pub(crate) mod mock;
pub(crate) mod node;

pub(crate) use client::{Answer, events};
pub(crate) use mock::{Mock, Play};
pub(crate) use node::{TestNode, key, provider};

use std::time::{Duration, Instant};

/// Asks until it is so; panics after ten seconds.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "waited in vain for {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A chat body for this model.
pub(crate) fn chat(model: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#)
}

/// The same, streamed.
pub(crate) fn stream(model: &str) -> String {
    format!(r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"hi"}}]}}"#)
}
