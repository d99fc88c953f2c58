//! The raft group of a region: who leads it, and the snapshots of held keys it keeps.
//!
//! Leadership is a duty, not an authority: the leader serves joiners, adopts orphaned records and
//! proposes snapshots. Holds never wait for it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holdline_core::ids::NodeId;
use tokio::sync::watch;

use crate::store::{State, Store};

/// One node of the own region, this one included, as gossip knows it. Newest generation only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionMember {
    /// Its id.
    pub node_id: NodeId,
    /// Its raft id: another one after it lost its disk.
    pub raft_id: u64,
    /// The group it says it belongs to.
    pub group_uid: Option<u64>,
    /// Heard of lately.
    pub alive: bool,
    /// Said goodbye.
    pub left: bool,
}

/// Carries raft messages to the node with this raft id, wherever it lives at this moment.
#[async_trait]
pub trait RaftWire: Send + Sync + 'static {
    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// When the node cannot be reached within the time, or refuses.
    async fn call(
        &self,
        raft_id: u64,
        request: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, WireError>;
}

/// Why a message did not get there.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WireError {
    /// Nobody answers there.
    #[error("raft node {0} is unreachable")]
    Unreachable(u64),
    /// It answered, but not to this.
    #[error("raft node {0} refused the message: {1}")]
    Refused(u64, String),
}

/// Who leads the region, as far as this node may believe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The leader, alive by gossip; for this node itself only while its last quorum acknowledgement is fresh.
    pub leader: Option<NodeId>,
    /// It leads without an election, because the region has had no leader for 5 s.
    pub acting: bool,
    /// The group this node belongs to: published in gossip.
    pub group_uid: Option<u64>,
    /// The group's term.
    pub term: u64,
}

/// What a group needs of its node.
pub struct GroupOptions {
    /// This node.
    pub node_id: NodeId,
    /// Its raft id.
    pub raft_id: u64,
    /// Used in raft's own log lines.
    pub region: String,
    /// How often the whole table is proposed.
    pub snapshot_interval: watch::Receiver<Duration>,
    /// The region, kept current by the caller.
    pub members: watch::Receiver<Vec<RegionMember>>,
    /// To the other nodes.
    pub wire: Arc<dyn RaftWire>,
    /// What is snapshotted.
    pub state: Arc<dyn State>,
    /// Where.
    pub store: Arc<dyn Store>,
}

impl std::fmt::Debug for GroupOptions {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("GroupOptions")
            .field("node_id", &self.node_id)
            .field("raft_id", &self.raft_id)
            .finish_non_exhaustive()
    }
}

/// A running part in the region's group. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Group {}

impl Group {
    /// Starts with what the store has; forms or joins a group as the members allow.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn start(_options: GroupOptions) -> Result<Self, crate::store::StoreError> {
        unimplemented!()
    }

    /// Answers a raft message of another node. The caller has authenticated it.
    ///
    /// # Errors
    /// When it is meant for another raft id or another group, or makes no sense.
    pub async fn answer(&self, _request: &[u8]) -> Result<Vec<u8>, WireError> {
        unimplemented!()
    }

    /// Who leads.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        unimplemented!()
    }

    /// The last snapshot that reached this node's store.
    #[must_use]
    pub fn snapshot(&self) -> watch::Receiver<Option<crate::store::SnapshotInfo>> {
        unimplemented!()
    }

    /// The table changed: the leader proposes the changes within 1 s.
    pub fn changed(&self) {
        unimplemented!()
    }

    /// Hands a vote or leadership on, then stops.
    pub async fn leave(&self) {
        unimplemented!()
    }
}
