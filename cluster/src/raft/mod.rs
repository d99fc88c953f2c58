//! The raft group of a region: who leads it, and the snapshots of held keys it keeps.
//!
//! Leadership is a duty, not an authority: the leader serves joiners, adopts orphaned records and
//! proposes snapshots. Holds never wait for it.

mod codec;
mod control;
mod disk;
mod leading;
mod log;
mod machine;
mod plan;
mod saver;
mod shared;
#[cfg(test)]
mod tests;
mod types;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdline_core::ids::NodeId;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::store::{SnapshotInfo, State, Store, StoreError};
use shared::{Life, Shared};
use types::Timings;
use wire::{Envelope, Reply, Request};

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

/// A running part in the region's group. Cheap to clone; its tasks end with [`Group::leave`] or with
/// the last clone.
#[derive(Clone)]
pub struct Group {
    shared: Arc<Shared>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Group")
            .field("node_id", &self.shared.options.node_id)
            .field("leadership", &*self.shared.leadership.borrow())
            .finish_non_exhaustive()
    }
}

impl Group {
    /// Starts with what the store has; forms or joins a group as the members allow.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn start(options: GroupOptions) -> Result<Self, StoreError> {
        Self::start_with(options, Timings::default()).await
    }

    async fn start_with(options: GroupOptions, timings: Timings) -> Result<Self, StoreError> {
        let shared = Shared::open(options, timings).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(leading::watch(Arc::clone(&shared)));
        tasks.spawn(control::run(Arc::clone(&shared)));
        tasks.spawn(saver::run(Arc::clone(&shared)));
        Ok(Self {
            shared,
            tasks: Arc::new(Mutex::new(tasks)),
        })
    }

    /// Answers a raft message of another node. The caller has authenticated it.
    ///
    /// # Errors
    /// When it is meant for another raft id or another group, or makes no sense.
    pub async fn answer(&self, request: &[u8]) -> Result<Vec<u8>, WireError> {
        let shared = &self.shared;
        let refused = |why: String| WireError::Refused(shared.options.raft_id, why);
        let envelope: Envelope =
            codec::decode(request).map_err(|error| refused(error.to_string()))?;
        if envelope.target != shared.options.raft_id {
            return Err(refused(format!("it is for {}", envelope.target)));
        }
        let joins = match &envelope.request {
            Request::Append(_) | Request::Install(_) => true,
            // A vote needs a memory of votes: a node without a group has none.
            Request::Vote(_) | Request::Leaving(_) => false,
        };
        let belongs = shared.belongs(envelope.group_uid, joins).await;
        if !belongs.map_err(|error| refused(error.to_string()))? {
            return Err(refused("it is of another group".to_owned()));
        }
        let Some(life) = shared.life() else {
            return Err(refused("raft is being started".to_owned()));
        };
        let reply = self.reply(&life, envelope.request).await;
        codec::encode(&reply).map_err(|error| refused(error.to_string()))
    }

    async fn reply(&self, life: &Life, request: Request) -> Reply {
        use openraft::error::{InstallSnapshotError, RaftError};
        let raft = &life.raft;
        match request {
            Request::Append(request) => raft
                .append_entries(request)
                .await
                .map_or_else(|error| Reply::Failed(error.to_string()), Reply::Append),
            Request::Vote(request) => raft
                .vote(request)
                .await
                .map_or_else(|error| Reply::Failed(error.to_string()), Reply::Vote),
            Request::Install(request) => match raft.install_snapshot(request).await {
                Ok(reply) => Reply::Install(reply),
                Err(RaftError::APIError(InstallSnapshotError::SnapshotMismatch(mismatch))) => {
                    Reply::Mismatch(mismatch)
                }
                Err(RaftError::Fatal(error)) => Reply::Failed(error.to_string()),
            },
            Request::Leaving(raft_id) => {
                self.shared.leaves(raft_id);
                Reply::Noted
            }
        }
    }

    /// Who leads.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shared.leadership.subscribe()
    }

    /// The last snapshot that reached this node's store.
    #[must_use]
    pub fn snapshot(&self) -> watch::Receiver<Option<SnapshotInfo>> {
        self.shared.saved.subscribe()
    }

    /// The table changed: the leader proposes the changes within 1 s.
    pub fn changed(&self) {
        self.shared.dirty.notify_one();
    }

    /// Hands a vote or leadership on, then stops.
    pub async fn leave(&self) {
        // The time is up: the others will find out by themselves.
        let _ = tokio::time::timeout(self.shared.timings.leave_within, self.hand_on()).await;
        self.stop().await;
    }

    /// Waits until this node has no vote, or nobody could take it.
    async fn hand_on(&self) {
        let shared = &self.shared;
        let me = shared.options.raft_id;
        shared.leaves(me);
        let Some(life) = shared.life() else { return };
        let mut metrics = life.raft.metrics();
        let mut told = None;
        loop {
            let (votes, leader) = {
                let seen = metrics.borrow_and_update();
                let votes = seen.membership_config.voter_ids().any(|id| id == me);
                (votes, seen.current_leader.filter(|leader| *leader != me))
            };
            let live = |member: &RegionMember| member.raft_id != me && member.alive && !member.left;
            let others = shared.options.members.borrow().iter().any(live);
            if !votes || !others {
                return;
            }
            if let Some(leader) = leader.filter(|leader| told != Some(*leader)) {
                told = Some(leader);
                self.tell_leaving(leader).await;
            }
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    async fn tell_leaving(&self, leader: u64) {
        let me = self.shared.options.raft_id;
        let within = self.shared.timings.leave_within / 2;
        let lines = self.shared.lines();
        if let Err(error) = lines.call(leader, Request::Leaving(me), within).await {
            tracing::debug!(%error, "the leader does not hear that this node leaves");
        }
    }

    async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks());
        tasks.shutdown().await;
        self.shared.end().await;
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
