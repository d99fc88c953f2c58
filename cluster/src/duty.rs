//! The node's part in the raft group of its region: the one place where the group is wired in.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use holdline_core::ids::NodeId;
use tokio::sync::watch;

use crate::gossip::roster::Roster;
use crate::node::{Node, target};
use crate::raft::{Group, GroupOptions, Leadership, RaftWire, RegionMember, WireError};
use crate::rpc::client::{CallError, Purpose};
use crate::rpc::message::{AnswerBody, Blob, Request};
use crate::status::MemberState;
use crate::store::SnapshotInfo;

/// Handing on a vote must not hold up the end of a process.
const FAREWELL: Duration = Duration::from_secs(2);

/// The group, once it has started.
#[derive(Debug, Default)]
pub(crate) struct Duty(OnceLock<Group>);

impl Duty {
    /// Who leads the own region.
    pub(crate) fn leadership(&self) -> Leadership {
        let group = self.0.get();
        group.map_or_else(Leadership::default, |group| {
            group.leadership().borrow().clone()
        })
    }

    /// The last snapshot that reached the own store.
    pub(crate) fn snapshot(&self) -> Option<SnapshotInfo> {
        self.0.get()?.snapshot().borrow().clone()
    }

    /// The table changed.
    pub(crate) fn changed(&self) {
        if let Some(group) = self.0.get() {
            group.changed();
        }
    }

    /// Answers another node's raft message.
    ///
    /// # Errors
    /// When it is not meant for this group.
    pub(crate) async fn answer(&self, message: &[u8]) -> Result<Vec<u8>, WireError> {
        match self.0.get() {
            Some(group) => group.answer(message).await,
            None => Err(WireError::Refused(0, "starting".to_owned())),
        }
    }

    /// Hands on what this node has, then stops.
    pub(crate) async fn leave(&self) {
        if let Some(group) = self.0.get()
            && tokio::time::timeout(FAREWELL, group.leave()).await.is_err()
        {
            tracing::info!("left the raft group without handing on");
        }
    }
}

/// Starts the group, then keeps its members current and counts its leaders, until it is aborted.
pub(crate) async fn run(node: Arc<Node>) {
    let mut roster = node.roster.subscribe();
    let members = watch::Sender::new(region_members(&node, &roster.borrow_and_update().clone()));
    let options = GroupOptions {
        node_id: node.options.node_id.clone(),
        raft_id: node.options.raft_id,
        region: node.options.region.to_string(),
        snapshot_interval: node.options.snapshot_interval.clone(),
        members: members.subscribe(),
        wire: Arc::new(Wiring(Arc::downgrade(&node))),
        state: Arc::clone(&node.state),
        store: Arc::clone(&node.store),
    };
    let group = match Group::start(options).await {
        Ok(group) => node.duty.0.get_or_init(|| group),
        Err(error) => {
            tracing::error!(%error, "no part in the region's raft group: no snapshots from here");
            return;
        }
    };
    let mut leadership = group.leadership();
    let mut leader = None;
    loop {
        tokio::select! {
            changed = roster.changed() => if changed.is_err() { return },
            changed = leadership.changed() => if changed.is_err() { return },
        }
        let current = leadership.borrow_and_update().clone();
        if current.leader.is_some() && current.leader != leader {
            tracing::info!(leader = ?current.leader, acting = current.acting, term = current.term, "regional leader");
            node.tally.leader_changes.add(1);
            leader.clone_from(&current.leader);
        }
        let now = region_members(&node, &roster.borrow_and_update().clone());
        members.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
    }
}

fn region_members(node: &Node, roster: &Roster) -> Vec<RegionMember> {
    let own = RegionMember {
        node_id: node.options.node_id.clone(),
        raft_id: node.options.raft_id,
        group_uid: node.duty.leadership().group_uid,
        alive: true,
        left: node.is_leaving(),
    };
    let others = roster
        .peers
        .values()
        .filter(|peer| peer.facts.region == node.options.region)
        .map(|peer| RegionMember {
            node_id: peer.node_id.clone(),
            raft_id: peer.facts.raft_id,
            group_uid: peer.facts.group_uid,
            alive: peer.is_alive(),
            left: peer.state == MemberState::Left,
        });
    [own].into_iter().chain(others).collect()
}

/// Raft over the sealed RPC, addresses taken from gossip at the moment of the call. The node owns the
/// group, so the group must not own the node.
struct Wiring(Weak<Node>);

#[async_trait]
impl RaftWire for Wiring {
    async fn call(
        &self,
        raft_id: u64,
        request: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, WireError> {
        let unreachable = WireError::Unreachable(raft_id);
        let node = self.0.upgrade().ok_or(unreachable.clone())?;
        let roster = node.roster();
        let peer = roster.by_raft_id(raft_id).ok_or(unreachable)?;
        let request = Request::Raft {
            to: raft_id,
            message: Blob(request),
        };
        let target = target(peer);
        let calls = &node.calls;
        match calls.call(&target, Purpose::Raft, &request, within).await {
            Ok(AnswerBody::Raft(Blob(answer))) => Ok(answer),
            Ok(
                AnswerBody::Done
                | AnswerBody::Introduction(_)
                | AnswerBody::Digests(_)
                | AnswerBody::Tables(_)
                | AnswerBody::Told(_)
                | AnswerBody::Refused(_),
            ) => Err(WireError::Refused(raft_id, "another answer".to_owned())),
            Err(CallError::Refused(why)) => Err(WireError::Refused(raft_id, why)),
            Err(CallError::Unreachable(_) | CallError::Late) => {
                Err(WireError::Unreachable(raft_id))
            }
        }
    }
}

/// Whether this node leads its region, elected or acting.
pub(crate) fn leads(node: &Node) -> bool {
    node.duty.leadership().leader.as_ref() == Some::<&NodeId>(&node.options.node_id)
}
