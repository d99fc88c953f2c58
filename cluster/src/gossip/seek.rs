//! Looks seeds up by name, again and again: the first time may be too early, and addresses change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::node::Node;

/// While nobody is there.
const ALONE: Duration = Duration::from_secs(1);

/// While somebody is: heals a cluster that fell apart and forgot itself.
const IN_COMPANY: Duration = Duration::from_secs(30);

/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;

/// Seeds that need no lookup.
pub(crate) fn numeric(seeds: &[String]) -> Vec<String> {
    let numeric = |seed: &&String| seed.parse::<SocketAddr>().is_ok();
    seeds.iter().filter(numeric).cloned().collect()
}

/// Sends the addresses of named seeds until it is aborted.
pub(crate) async fn run(node: Arc<Node>, found: mpsc::Sender<SocketAddr>) {
    let named = |seed: &&String| seed.parse::<SocketAddr>().is_err();
    let named: Vec<String> = node.options.seeds.iter().filter(named).cloned().collect();
    if named.is_empty() {
        return;
    }
    let mut unknown_before = false;
    loop {
        let mut unknown = None;
        for seed in &named {
            match tokio::net::lookup_host(seed).await {
                Ok(addresses) => {
                    for address in addresses.take(MAX_ADDRESSES) {
                        if found.send(address).await.is_err() {
                            return;
                        }
                    }
                }
                Err(error) => unknown = Some((seed, error)),
            }
        }
        if let Some((seed, error)) = unknown.as_ref().filter(|_| !unknown_before) {
            tracing::warn!(seed, %error, "cannot look up a seed");
        }
        unknown_before = unknown.is_some();
        let alone = node.roster().alive().next().is_none();
        tokio::time::sleep(if alone { ALONE } else { IN_COMPANY }).await;
    }
}
