//! The cluster as this node sees it: the answer of `GET /api/cluster/status`.

use std::collections::BTreeMap;

use holdline_core::ids::{NodeId, Region};
use holdline_core::time::WallMs;

use crate::store::SnapshotInfo;

/// What one node knows of its cluster.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    /// This node.
    pub node_id: NodeId,
    /// Its region.
    pub region: Region,
    /// The leader (or acting leader) of each region that has a live one.
    pub leaders: BTreeMap<Region, NodeId>,
    /// Every live node has this node's table and documents.
    pub converged: bool,
    /// All known nodes, this one included, in order of id; one row per node id.
    pub nodes: Vec<Member>,
    /// The last snapshot of this region that reached this node's store.
    pub snapshot: Option<SnapshotInfo>,
    /// Where this node got its table from when it started.
    pub restored: Option<Restored>,
}

/// One node.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its id.
    pub node_id: NodeId,
    /// Its region.
    pub region: Region,
    /// Alive or not.
    pub state: MemberState,
    /// Leads its region.
    pub is_leader: bool,
    /// Leads without an election, because the region has no quorum.
    pub acting: bool,
    /// Of Holdline.
    pub version: String,
    /// Since it started.
    pub uptime_seconds: u64,
    /// Inference and admin.
    pub http_address: String,
    /// UDP.
    pub gossip_address: String,
    /// TCP.
    pub rpc_address: String,
    /// Of its table.
    pub digest: u128,
    /// Held subjects it shows.
    pub held: usize,
    /// How this node reaches it; none for itself.
    pub link: Option<Link>,
}

/// Whether a node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Heard of lately.
    Alive,
    /// Silent for less than 5 s.
    Suspect,
    /// Silent for longer.
    Dead,
    /// It said goodbye.
    Left,
}

/// How well another node is reached from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Since its gossip was last heard, in milliseconds.
    pub gossip_seen_ms: u64,
    /// Its RPC port.
    pub rpc: RpcLink,
    /// Records pushed and not acknowledged.
    pub unacknowledged: usize,
}

/// The state of an RPC link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcLink {
    /// Answers.
    Ok,
    /// Nobody answers.
    Unreachable,
    /// Somebody answers who does not know the secret, or is another node.
    Refused,
}

/// Where a starting node got its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// When.
    pub at: WallMs,
    /// From whom.
    pub from: RestoredFrom,
    /// Held subjects afterwards.
    pub held: usize,
}

/// The giver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoredFrom {
    /// A regional (or acting) leader.
    Leader(NodeId),
    /// Any other node.
    Peer(NodeId),
    /// The own store: nobody was there.
    Store,
    /// Nobody was there and the store was empty.
    Nothing,
}

/// How far joining has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// Still asking for the table.
    Pending,
    /// Has it.
    Ready(Restored),
    /// Gossip works, but no RPC has answered for 60 s: ready on what the store gave.
    Degraded(Restored),
}

impl std::fmt::Display for RestoredFrom {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Leader(node) => write!(out, "leader:{node}"),
            Self::Peer(node) => write!(out, "peer:{node}"),
            Self::Store => out.write_str("store"),
            Self::Nothing => out.write_str("nothing"),
        }
    }
}
