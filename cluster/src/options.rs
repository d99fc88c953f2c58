//! How a node takes part in its cluster.

use std::net::SocketAddr;
use std::time::Duration;

use holdline_core::ids::{NodeId, Region};
use tokio::sync::watch;

/// One node's part in the cluster. Times are real, never scaled, unless said otherwise.
#[derive(Clone)]
pub struct Options {
    /// Unique in the cluster.
    pub node_id: NodeId,
    /// Its region: one raft group each.
    pub region: Region,
    /// Associated data of every seal: nodes of another cluster cannot talk to this one.
    pub cluster_id: String,
    /// This life of the node: greater than any before it. Kept by the store.
    pub generation: u64,
    /// Random, drawn once per data folder: a node that lost its disk is a new raft node.
    pub raft_id: u64,
    /// UDP.
    pub gossip_bind: SocketAddr,
    /// TCP.
    pub rpc_bind: SocketAddr,
    /// The host that peers dial, with the bound ports.
    pub advertise_host: String,
    /// Shown to operators: where this node serves HTTP.
    pub http_address: String,
    /// Gossip addresses `host:port` of some peers, resolved again while nobody answers.
    pub seeds: Vec<String>,
    /// Authenticates and encrypts gossip and RPC. Without one only loopback may be bound.
    pub secret: Option<String>,
    /// Still accepted while a new secret rolls out.
    pub previous_secrets: Vec<String>,
    /// Shown to operators.
    pub version: String,
    /// How often the regional leader saves the whole table, already divided by the time scale; follows
    /// the settings.
    pub snapshot_interval: watch::Receiver<Duration>,
    /// How many times faster than the wall clock the waits of holds pass.
    pub time_scale: f64,
    /// Both, unless the one or the other is to be measured alone.
    pub spread: Spread,
}

/// The ways a record travels. Switching one off is for tests and benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Records are sent to every node at once.
    pub push: bool,
    /// Records are published in gossip. Membership always is.
    pub gossip: bool,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            push: true,
            gossip: true,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options")
            .field("node_id", &self.node_id)
            .field("region", &self.region)
            .field("gossip_bind", &self.gossip_bind)
            .field("rpc_bind", &self.rpc_bind)
            .finish_non_exhaustive()
    }
}
