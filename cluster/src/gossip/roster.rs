//! Who is in the cluster, as gossip tells it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chitchat::{Chitchat, ChitchatId, Heartbeat};
use holdline_core::ids::{NodeId, Region};

use super::keyspace::{Claim, Facts};
use crate::status::MemberState;

/// Silence before a suspect counts as dead.
const SUSPICION: Duration = Duration::from_secs(5);

/// However steady a node's heartbeats were, so much silence is forgiven: a busy host is no dead node.
const FORGIVEN: Duration = Duration::from_millis(1_000);

/// All other nodes, in their newest life.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    pub(crate) peers: BTreeMap<NodeId, Peer>,
    /// Somebody with a newer life claims this node's id.
    pub(crate) impostor: Option<String>,
}

/// One other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) node_id: NodeId,
    pub(crate) generation: u64,
    pub(crate) state: MemberState,
    pub(crate) facts: Facts,
}

impl Peer {
    pub(crate) fn is_alive(&self) -> bool {
        self.state == MemberState::Alive
    }

    /// Alive, or silent for so short that it may be.
    pub(crate) fn may_answer(&self) -> bool {
        match self.state {
            MemberState::Alive | MemberState::Suspect => true,
            MemberState::Dead | MemberState::Left => false,
        }
    }
}

impl Roster {
    pub(crate) fn alive(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().filter(|peer| peer.is_alive())
    }

    pub(crate) fn by_raft_id(&self, raft_id: u64) -> Option<&Peer> {
        let mut found = self.peers.values().filter(|p| p.facts.raft_id == raft_id);
        let first = found.next()?;
        Some(found.find(|peer| peer.is_alive()).unwrap_or(first))
    }

    /// Who says that it leads this region: elected before acting, the newer term before an older one.
    pub(crate) fn claimant(&self, region: &Region) -> Option<(&Peer, Claim)> {
        let claims = self
            .alive()
            .filter(|peer| peer.facts.region == *region)
            .filter_map(|peer| Some((peer, peer.facts.leads?)));
        claims.max_by(|(a, x), (b, y)| {
            (!x.acting, x.term)
                .cmp(&(!y.acting, y.term))
                .then_with(|| b.node_id.cmp(&a.node_id))
        })
    }
}

/// Makes rosters; remembers who was heard when.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    sightings: BTreeMap<ChitchatId, Sighting>,
}

#[derive(Debug)]
struct Sighting {
    heartbeat: Heartbeat,
    /// When the heartbeat last moved.
    moved: Instant,
    was_alive: bool,
    /// Since when it counts as silent.
    silent_since: Instant,
}

impl Watch {
    /// The roster at this moment. `left` names lives that said goodbye by RPC.
    pub(crate) fn look(
        &mut self,
        chitchat: &Chitchat,
        left: &BTreeMap<NodeId, u64>,
        now: Instant,
    ) -> Roster {
        let own = chitchat.self_chitchat_id();
        let live: std::collections::BTreeSet<&ChitchatId> = chitchat.live_nodes().collect();
        self.sightings
            .retain(|id, _| chitchat.node_state(id).is_some());
        let mut roster = Roster::default();
        for (id, state) in chitchat.node_states() {
            if id.node_id == own.node_id {
                if id.generation_id > own.generation_id {
                    roster.impostor = Some(id.gossip_advertise_addr.to_string());
                }
                continue;
            }
            let silence = self.sight(id, state.heartbeat(), live.contains(id), now);
            let Some(facts) = Facts::read(state) else {
                continue;
            };
            let node_id = NodeId::from(&*id.node_id);
            let gone = facts.left || left.get(&node_id) == Some(&facts.boot);
            let peer = Peer {
                state: state_of(gone, silence),
                node_id: node_id.clone(),
                generation: id.generation_id,
                facts,
            };
            match roster.peers.get(&node_id) {
                Some(known) if known.generation >= peer.generation => {}
                Some(_) | None => {
                    roster.peers.insert(node_id, peer);
                }
            }
        }
        roster
    }

    /// How long it has been silent; none while it is alive.
    fn sight(
        &mut self,
        id: &ChitchatId,
        heartbeat: Heartbeat,
        live: bool,
        now: Instant,
    ) -> Option<Duration> {
        let sighting = self.sightings.entry(id.clone()).or_insert(Sighting {
            heartbeat,
            moved: now,
            was_alive: false,
            silent_since: now,
        });
        if heartbeat != sighting.heartbeat {
            (sighting.heartbeat, sighting.moved) = (heartbeat, now);
        }
        let forgiven = sighting.was_alive && now.duration_since(sighting.moved) < FORGIVEN;
        if live || forgiven {
            sighting.was_alive = true;
            sighting.silent_since = now;
            return None;
        }
        sighting.was_alive = false;
        Some(now.duration_since(sighting.silent_since))
    }
}

fn state_of(gone: bool, silence: Option<Duration>) -> MemberState {
    match silence {
        _ if gone => MemberState::Left,
        None => MemberState::Alive,
        Some(silence) if silence < SUSPICION => MemberState::Suspect,
        Some(_) => MemberState::Dead,
    }
}
