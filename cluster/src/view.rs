//! The cluster as one node reports it.

use std::sync::Arc;

use crate::gossip::roster::{Peer, Roster};
use crate::node::Node;
use crate::status::{ClusterStatus, Join, Link, Member, MemberState, Restored, RpcLink};

/// What [`crate::Handle::status`] answers.
pub(crate) fn status(node: &Node) -> ClusterStatus {
    let roster: Arc<Roster> = node.roster();
    let leaders = node.leaders(&roster);
    let leads = |member: &Member| {
        let lead = leaders.get(&member.region);
        lead.filter(|(leader, _)| *leader == member.node_id)
            .map(|(_, acting)| *acting)
    };
    let own = own_row(node);
    let (digest, documents) = (own.digest, node.state.document_digest());
    let converged = roster
        .alive()
        .all(|peer| peer.facts.digest == digest && peer.facts.documents == documents);
    let mut nodes: Vec<Member> = roster.peers.values().map(|peer| row(node, peer)).collect();
    nodes.push(own);
    nodes.sort_by(|a, b| a.node_id.cmp(&b.node_id));
    for member in &mut nodes {
        let lead = leads(member);
        member.is_leader = lead.is_some();
        member.acting = lead.unwrap_or_default();
    }
    ClusterStatus {
        node_id: node.options.node_id.clone(),
        region: node.options.region.clone(),
        leaders: leaders
            .into_iter()
            .map(|(region, (leader, _))| (region, leader))
            .collect(),
        converged,
        nodes,
        snapshot: node.duty.snapshot(),
        restored: restored(&node.join.borrow()),
    }
}

/// Where the table came from, once it is here.
pub(crate) fn restored(join: &Join) -> Option<Restored> {
    match join {
        Join::Pending => None,
        Join::Ready(restored) | Join::Degraded(restored) => Some(restored.clone()),
    }
}

fn own_row(node: &Node) -> Member {
    Member {
        node_id: node.options.node_id.clone(),
        region: node.options.region.clone(),
        state: if node.is_leaving() {
            MemberState::Left
        } else {
            MemberState::Alive
        },
        is_leader: false,
        acting: false,
        version: node.options.version.clone(),
        uptime_seconds: node.started.elapsed().as_secs(),
        http_address: node.options.http_address.clone(),
        gossip_address: node.gossip_address.clone(),
        rpc_address: node.rpc_address.clone(),
        digest: node.state.record_digest(),
        held: node.state.held_count(),
        link: None,
    }
}

fn row(node: &Node, peer: &Peer) -> Member {
    let facts = &peer.facts;
    let started_at = node.own_clock(&peer.node_id, facts.started_at);
    let up = match peer.state {
        MemberState::Alive | MemberState::Suspect => true,
        MemberState::Dead | MemberState::Left => false,
    };
    let uptime_ms = if up {
        node.state.wall().0.saturating_sub(started_at)
    } else {
        0
    };
    let silence = node.wire.silence(facts.boot);
    // Never heard directly: others told of it, since this node started at the earliest.
    let silence = silence.unwrap_or_else(|| node.started.elapsed());
    Member {
        node_id: peer.node_id.clone(),
        region: facts.region.clone(),
        state: peer.state,
        is_leader: false,
        acting: false,
        version: facts.version.clone(),
        uptime_seconds: uptime_ms / 1_000,
        http_address: facts.http_address.clone(),
        gossip_address: facts.gossip_address.clone(),
        rpc_address: facts.rpc_address.clone(),
        digest: facts.digest,
        held: facts.held,
        link: Some(Link {
            gossip_seen_ms: u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
            rpc: node
                .calls
                .link(&peer.node_id)
                .unwrap_or(RpcLink::Unreachable),
            unacknowledged: node.lanes.unacknowledged(&peer.node_id),
        }),
    }
}
