//! Who leads, as far as this node may believe it.
//!
//! What openraft says is a belief: a leader counts only while gossip sees it alive, and this node
//! itself only while a quorum has said so lately.

use std::sync::Arc;
use std::time::Duration;

use holdline_core::ids::NodeId;
use openraft::{RaftMetrics, ServerState};
use tokio::time::Instant;

use super::shared::Shared;
use super::types::{Peer, Timings};
use super::{Leadership, RegionMember};

/// Keeps the leadership current until the task is ended.
pub(super) async fn watch(shared: Arc<Shared>) {
    let mut members = shared.options.members.clone();
    let mut leaderless_since = Instant::now();
    loop {
        let judged = shared.judge();
        if judged.leader.is_some() {
            leaderless_since = Instant::now();
        }
        let judged = shared.or_acting(judged, leaderless_since.elapsed());
        shared.leadership.send_if_modified(|leadership| {
            let changed = *leadership != judged;
            *leadership = judged;
            changed
        });
        tokio::select! {
            () = tokio::time::sleep(shared.timings.tick) => {}
            changed = members.changed() => if changed.is_err() {
                tokio::time::sleep(shared.timings.tick).await;
            },
        }
    }
}

impl Shared {
    fn judge(&self) -> Leadership {
        let metrics = self.metrics();
        let term = metrics.as_ref().map_or(0, |metrics| metrics.current_term);
        let leader = metrics.and_then(|metrics| {
            if leads(&metrics, &self.timings) {
                return Some(self.options.node_id.clone());
            }
            let id = metrics.current_leader?;
            let members = self.options.members.borrow();
            let leader = members.iter().find(|member| member.raft_id == id)?;
            (id != self.options.raft_id && leader.alive && !leader.left)
                .then(|| leader.node_id.clone())
        });
        Leadership {
            leader,
            acting: false,
            group_uid: *self.uid.borrow(),
            term,
        }
    }

    fn or_acting(&self, judged: Leadership, leaderless: Duration) -> Leadership {
        if judged.leader.is_some() || leaderless < self.timings.acting_after {
            return judged;
        }
        let leaving = self.leaving.borrow().contains(&self.options.raft_id);
        let me = (self.options.raft_id, &self.options.node_id);
        let leader = acting((!leaving).then_some(me), &self.options.members.borrow());
        Leadership {
            acting: leader.is_some(),
            leader,
            ..judged
        }
    }
}

/// Whether this node leads and a quorum said so lately.
pub(super) fn leads(metrics: &RaftMetrics<u64, Peer>, timings: &Timings) -> bool {
    let fresh = |ms: u64| Duration::from_millis(ms) < timings.ack_fresh;
    metrics.state == ServerState::Leader && metrics.millis_since_quorum_ack.is_some_and(fresh)
}

/// The lowest live raft id.
fn acting(me: Option<(u64, &NodeId)>, members: &[RegionMember]) -> Option<NodeId> {
    let live = members.iter().filter(|member| member.alive && !member.left);
    live.map(|member| (member.raft_id, &member.node_id))
        .filter(|(raft_id, _)| me.is_none_or(|(me, _)| me != *raft_id))
        .chain(me)
        .min()
        .map(|(_, node_id)| node_id.clone())
}
