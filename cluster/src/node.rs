//! What the tasks of one node share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holdline_core::holds::Incoming;
use holdline_core::ids::{NodeId, Region};
use holdline_core::replica::Document;
use holdline_core::time::WallMs;
use tokio::sync::{Semaphore, watch};

use crate::ask;
use crate::duty::Duty;
use crate::gossip::keyspace::{Claim, Facts, Posted};
use crate::gossip::notices::Notices;
use crate::gossip::outbox::{Outbox, settled_at};
use crate::gossip::roster::{Peer, Roster};
use crate::gossip::socket::Wire;
use crate::options::Options;
use crate::push::Lanes;
use crate::rpc::client::{Calls, Target};
use crate::rpc::message::{Acquaintance, Digests, Introduction};
use crate::seal::Keyring;
use crate::status::Join;
use crate::store::{State, Store};
use crate::tally::Tally;

/// Records merged at a time: merging a large table must not keep others from the node's state.
const MERGE_BATCH: usize = 500;

/// One node in its cluster.
pub(crate) struct Node {
    pub(crate) options: Options,
    pub(crate) state: Arc<dyn State>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) calls: Calls,
    pub(crate) lanes: Lanes,
    pub(crate) outbox: Outbox,
    pub(crate) notices: Notices,
    pub(crate) duty: Duty,
    pub(crate) roster: watch::Sender<Arc<Roster>>,
    pub(crate) join: watch::Sender<Join>,
    pub(crate) gossip_address: String,
    pub(crate) rpc_address: String,
    pub(crate) started: Instant,
    pub(crate) started_at: WallMs,
    pub(crate) answering: Semaphore,
    leaving: AtomicBool,
    goodbyes: Mutex<BTreeMap<NodeId, u64>>,
}

/// The parts of a [`Node`] that its start makes.
pub(crate) struct Parts {
    pub(crate) options: Options,
    pub(crate) state: Arc<dyn State>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) gossip_address: String,
    pub(crate) rpc_address: String,
}

impl Node {
    pub(crate) fn new(parts: Parts) -> Self {
        let own = parts.options.node_id.clone();
        Self {
            calls: Calls::new(own, Arc::clone(&parts.keys), Arc::clone(&parts.state)),
            lanes: Lanes::new(Arc::clone(&parts.tally)),
            outbox: Outbox::default(),
            notices: Notices::default(),
            duty: Duty::default(),
            roster: watch::Sender::new(Arc::default()),
            join: watch::Sender::new(Join::Pending),
            started: Instant::now(),
            started_at: parts.state.wall(),
            answering: Semaphore::new(ask::MAX_AT_ONCE),
            leaving: AtomicBool::new(false),
            goodbyes: Mutex::default(),
            options: parts.options,
            state: parts.state,
            store: parts.store,
            keys: parts.keys,
            tally: parts.tally,
            wire: parts.wire,
            gossip_address: parts.gossip_address,
            rpc_address: parts.rpc_address,
        }
    }

    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.roster.borrow())
    }

    /// Where this node lives, if it may answer.
    pub(crate) fn target(&self, node: &NodeId) -> Option<Target> {
        let roster = self.roster();
        let peer = roster.peers.get(node).filter(|peer| peer.may_answer())?;
        Some(target(peer))
    }

    /// Takes in records from elsewhere. Returns how many changed something.
    pub(crate) async fn merge_records(&self, records: Vec<Incoming>) -> usize {
        let mut changed = 0;
        let mut rest = records.into_iter();
        loop {
            let batch: Vec<Incoming> = rest.by_ref().take(MERGE_BATCH).collect();
            if batch.is_empty() {
                break;
            }
            changed += self.state.merge_records(batch);
            if rest.len() > 0 {
                tokio::task::yield_now().await;
            }
        }
        if changed > 0 {
            self.duty.changed();
        }
        changed
    }

    /// Takes in documents from elsewhere. Returns how many were newer.
    pub(crate) fn merge_documents(&self, documents: Vec<Document>) -> usize {
        if documents.is_empty() {
            return 0;
        }
        self.state.merge_documents(documents)
    }

    /// Tells every node of records and documents that only this one has.
    pub(crate) fn tell_all(&self, records: Vec<Incoming>, documents: &[Document]) {
        self.lanes.offer_documents(documents);
        // A whole table would only fill the lanes: comparing digests sees to it.
        if self.options.spread.push && records.len() <= MERGE_BATCH {
            let records: Vec<_> = records.iter().map(|one| one.record.clone()).collect();
            self.lanes.offer(&records);
        }
        if self.options.spread.gossip {
            let (wall, scale) = (self.state.wall(), self.options.time_scale);
            let posted = records.into_iter().map(|one| Posted {
                settled_at: settled_at(wall, one.age_ms, scale),
                record: one.record,
            });
            self.outbox.post(posted);
        }
    }

    /// What this node says of itself in gossip.
    pub(crate) fn facts(&self) -> Facts {
        let leadership = self.duty.leadership();
        let leads = leadership.leader.as_ref() == Some(&self.options.node_id);
        Facts {
            region: self.options.region.clone(),
            rpc_address: self.rpc_address.clone(),
            http_address: self.options.http_address.clone(),
            gossip_address: self.gossip_address.clone(),
            version: self.options.version.clone(),
            raft_id: self.options.raft_id,
            group_uid: leadership.group_uid,
            digest: self.state.record_digest(),
            held: self.state.held_count(),
            documents: self.state.document_digest(),
            started_at: self.started_at,
            boot: self.wire.boot,
            ready: self.is_ready(),
            left: self.is_leaving(),
            leads: leads.then_some(Claim {
                term: leadership.term,
                acting: leadership.acting,
            }),
        }
    }

    /// Of the tables as they are now.
    pub(crate) fn digests(&self) -> Digests {
        Digests {
            records: self.state.record_digest(),
            documents: self.state.document_digest(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        match *self.join.borrow() {
            Join::Pending => false,
            Join::Ready(_) | Join::Degraded(_) => true,
        }
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// From here on this node says that it has left.
    pub(crate) fn start_leaving(&self) {
        self.leaving.store(true, Ordering::Release);
        self.outbox.wake.notify_one();
    }

    /// The life of a node with this boot number ends.
    pub(crate) fn note_goodbye(&self, from: &NodeId, boot: u64) {
        self.goodbyes().insert(from.clone(), boot);
    }

    pub(crate) fn goodbyes(&self) -> MutexGuard<'_, BTreeMap<NodeId, u64>> {
        self.goodbyes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who leads each region that has a live leader, and whether it does so without an election.
    pub(crate) fn leaders(&self, roster: &Roster) -> BTreeMap<Region, (NodeId, bool)> {
        let mut leaders = BTreeMap::new();
        for peer in roster.alive() {
            let region = &peer.facts.region;
            if !leaders.contains_key(region)
                && let Some((leader, claim)) = roster.claimant(region)
            {
                leaders.insert(region.clone(), (leader.node_id.clone(), claim.acting));
            }
        }
        // The own region is known at first hand.
        let own = self.duty.leadership();
        if let Some(leader) = own.leader {
            leaders.insert(self.options.region.clone(), (leader, own.acting));
        }
        leaders
    }

    /// What a joiner needs to know.
    pub(crate) fn introduction(&self) -> Introduction {
        let roster = self.roster();
        let leaders = self.leaders(&roster);
        let acquaintance = |node_id: &NodeId, facts: &Facts| {
            let lead = leaders.get(&facts.region).filter(|(id, _)| id == node_id);
            Acquaintance {
                node_id: node_id.clone(),
                region: facts.region.clone(),
                rpc_address: facts.rpc_address.clone(),
                ready: facts.ready,
                leads: lead.is_some(),
                acting: lead.is_some_and(|(_, acting)| *acting),
            }
        };
        let others = roster
            .alive()
            .map(|peer| acquaintance(&peer.node_id, &peer.facts));
        let own = self.facts();
        Introduction {
            ready: own.ready,
            nodes: others
                .chain([acquaintance(&self.options.node_id, &own)])
                .collect(),
        }
    }

    /// Milliseconds, on this node's clock, of an instant on another's.
    pub(crate) fn own_clock(&self, node: &NodeId, theirs: WallMs) -> u64 {
        let ahead = self.calls.clock_ahead_ms(node).unwrap_or_default();
        if ahead >= 0 {
            theirs.0.saturating_sub(ahead.unsigned_abs())
        } else {
            theirs.0.saturating_add(ahead.unsigned_abs())
        }
    }
}

/// Where a peer lives.
pub(crate) fn target(peer: &Peer) -> Target {
    Target {
        node_id: peer.node_id.clone(),
        address: peer.facts.rpc_address.clone(),
    }
}
