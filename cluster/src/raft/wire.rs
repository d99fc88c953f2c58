//! Raft's messages: each names the group and the raft id it is meant for.

use std::sync::Arc;
use std::time::Duration;

use openraft::error::{
    InstallSnapshotError, RPCError, RaftError, RemoteError, SnapshotMismatch, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::types::{Peer, Types};
use super::{RaftWire, WireError, codec};

/// A message of one raft node to another.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    /// The sender's group.
    pub(super) group_uid: u64,
    /// Whom it is for. An address may have passed to a node with another raft id.
    pub(super) target: u64,
    /// What it says.
    pub(super) request: Request,
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Entries, or a heartbeat.
    Append(AppendEntriesRequest<Types>),
    /// A vote.
    Vote(VoteRequest<u64>),
    /// A piece of a raft snapshot.
    Install(InstallSnapshotRequest<Types>),
    /// This voter is about to leave: take its vote.
    Leaving(u64),
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// To [`Request::Append`].
    Append(AppendEntriesResponse<u64>),
    /// To [`Request::Vote`].
    Vote(VoteResponse<u64>),
    /// To [`Request::Install`].
    Install(InstallSnapshotResponse<u64>),
    /// To [`Request::Install`]: begin again.
    Mismatch(SnapshotMismatch),
    /// To [`Request::Leaving`].
    Noted,
    /// The node's raft does not run.
    Failed(String),
}

/// Makes openraft's connections to peers.
#[derive(Clone)]
pub(super) struct Lines {
    pub(super) wire: Arc<dyn RaftWire>,
    pub(super) uid: watch::Receiver<Option<u64>>,
}

/// To one peer.
pub(super) struct Line {
    raft_id: u64,
    lines: Lines,
}

/// A message that failed. A peer that is down and one that refuses count as unreachable alike, so
/// that openraft waits before it tries again.
type Failed<E> = RPCError<u64, Peer, E>;

impl Lines {
    /// Sends one message to a member of the group.
    pub(super) async fn call(
        &self,
        raft_id: u64,
        request: Request,
        within: Duration,
    ) -> Result<Reply, WireError> {
        let refused = |why: String| WireError::Refused(raft_id, why);
        let Some(group_uid) = *self.uid.borrow() else {
            return Err(refused("this node is in no group yet".to_owned()));
        };
        let envelope = Envelope {
            group_uid,
            target: raft_id,
            request,
        };
        let bytes = codec::encode(&envelope).map_err(|error| refused(error.to_string()))?;
        let reply = self.wire.call(raft_id, bytes, within).await?;
        match codec::decode(&reply).map_err(|error| refused(error.to_string()))? {
            Reply::Failed(why) => Err(refused(why)),
            reply @ (Reply::Append(_)
            | Reply::Vote(_)
            | Reply::Install(_)
            | Reply::Mismatch(_)
            | Reply::Noted) => Ok(reply),
        }
    }
}

impl RaftNetworkFactory<Types> for Lines {
    type Network = Line;

    async fn new_client(&mut self, target: u64, _peer: &Peer) -> Line {
        Line {
            raft_id: target,
            lines: self.clone(),
        }
    }
}

impl Line {
    async fn call(&self, request: Request, within: Duration) -> Result<Reply, Unreachable> {
        // openraft gives up by itself after `within`, and tries again with the next heartbeat. Only
        // a peer that is known to be down is to be waited for: on a busy machine every other pause
        // brings an election closer.
        let reply = self.lines.call(self.raft_id, request, 2 * within).await;
        reply.map_err(|error| Unreachable::new(&error))
    }

    fn odd(&self) -> Unreachable {
        let why = "the answer is to another question".to_owned();
        Unreachable::new(&WireError::Refused(self.raft_id, why))
    }
}

impl RaftNetwork<Types> for Line {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed<RaftError<u64>>> {
        let request = Request::Append(request);
        match self.call(request, option.hard_ttl()).await? {
            Reply::Append(reply) => Ok(reply),
            Reply::Vote(_)
            | Reply::Install(_)
            | Reply::Mismatch(_)
            | Reply::Noted
            | Reply::Failed(_) => Err(self.odd().into()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, Failed<RaftError<u64>>> {
        match self.call(Request::Vote(request), option.hard_ttl()).await? {
            Reply::Vote(reply) => Ok(reply),
            Reply::Append(_)
            | Reply::Install(_)
            | Reply::Mismatch(_)
            | Reply::Noted
            | Reply::Failed(_) => Err(self.odd().into()),
        }
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<RaftError<u64, InstallSnapshotError>>> {
        let request = Request::Install(request);
        match self.call(request, option.hard_ttl()).await? {
            Reply::Install(reply) => Ok(reply),
            Reply::Mismatch(mismatch) => Err(RPCError::RemoteError(RemoteError::new(
                self.raft_id,
                RaftError::APIError(mismatch.into()),
            ))),
            Reply::Append(_) | Reply::Vote(_) | Reply::Noted | Reply::Failed(_) => {
                Err(self.odd().into())
            }
        }
    }

    fn backoff(&self) -> Backoff {
        let growing = (0..).map(|tries: u32| Duration::from_millis(100 << tries.min(1)));
        Backoff::new(growing)
    }
}
