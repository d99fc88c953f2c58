//! Sealed calls between nodes over TCP: pushes, hand-overs, introductions, raft.

pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod message;
pub(crate) mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

/// A small question to a node that is there.
pub(crate) const BRIEF: Duration = Duration::from_secs(1);

/// Whole tables or many documents.
pub(crate) const BULKY: Duration = Duration::from_secs(10);
