//! Push: what a node settles is sent to every other node at once, and acknowledged.
//!
//! Each peer has a lane: a bounded set of waiting records (the newest per subject), and a task that sends
//! them in batches. A lane lives while its peer may answer, suspects included; what it could not deliver
//! by then comes by gossip. An idle lane asks now and then whether the peer is there, so that the state
//! of the link and the offset of the clocks are known before they matter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use holdline_core::holds::{Record, Subject};
use holdline_core::ids::NodeId;
use holdline_core::replica::Document;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use crate::node::Node;
use crate::rpc::client::{CallError, Purpose};
use crate::rpc::message::{Request, aged};
use crate::rpc::{BRIEF, BULKY};
use crate::tally::Tally;

/// Subjects waiting per peer.
const MAX_WAITING: usize = 4_096;
const MAX_WAITING_DOCUMENTS: usize = 1_024;

/// Records in one message.
const BATCH: usize = 256;

const PING_EVERY: Duration = Duration::from_secs(1);

/// After a failure; doubled up to the second.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_millis(1_000);

/// The lanes to all peers.
pub(crate) struct Lanes {
    by_node: ArcSwap<BTreeMap<NodeId, Arc<Lane>>>,
    tally: Arc<Tally>,
}

impl Lanes {
    pub(crate) fn new(tally: Arc<Tally>) -> Self {
        Self {
            by_node: ArcSwap::default(),
            tally,
        }
    }

    /// Queues records for every peer.
    pub(crate) fn offer(&self, records: &[Record]) {
        for lane in self.by_node.load().values() {
            let full = lane.records.lock().offer(records);
            self.tally.push_queue_full.add(full);
            lane.records.wake.notify_one();
        }
    }

    /// Queues documents for every peer.
    pub(crate) fn offer_documents(&self, documents: &[Document]) {
        for lane in self.by_node.load().values() {
            lane.documents.lock().offer(documents);
            lane.documents.wake.notify_one();
        }
    }

    /// Records not acknowledged by this peer.
    pub(crate) fn unacknowledged(&self, node: &NodeId) -> usize {
        let lanes = self.by_node.load();
        lanes.get(node).map_or(0, |lane| {
            let records = lane.records.lock();
            records.waiting.len() + records.under_way
        })
    }
}

#[derive(Debug, Default)]
struct Lane {
    records: Queue<Subject, Record>,
    documents: Queue<String, Document>,
}

/// The newest of each name, waiting.
#[derive(Debug)]
struct Queue<K, V> {
    wake: Notify,
    inner: Mutex<Waiting<K, V>>,
}

#[derive(Debug)]
struct Waiting<K, V> {
    waiting: BTreeMap<K, V>,
    under_way: usize,
}

impl<K, V> Default for Queue<K, V> {
    fn default() -> Self {
        Self {
            wake: Notify::new(),
            inner: Mutex::new(Waiting {
                waiting: BTreeMap::new(),
                under_way: 0,
            }),
        }
    }
}

impl<K: Ord, V> Queue<K, V> {
    fn lock(&self) -> MutexGuard<'_, Waiting<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a batch; it counts as unacknowledged until [`Queue::done`].
    fn take(&self, at_most: usize) -> Vec<V> {
        let mut inner = self.lock();
        let mut batch = Vec::new();
        while batch.len() < at_most {
            let Some((_, value)) = inner.waiting.pop_first() else {
                break;
            };
            batch.push(value);
        }
        inner.under_way = batch.len();
        batch
    }

    fn done(&self) {
        self.lock().under_way = 0;
    }
}

impl Waiting<Subject, Record> {
    /// Returns how many did not fit.
    fn offer(&mut self, records: &[Record]) -> u64 {
        let mut full = 0;
        for record in records {
            let known = self.waiting.get(&record.subject);
            if known.is_some_and(|known| known.register >= record.register) {
                continue;
            }
            if known.is_none() && self.waiting.len() >= MAX_WAITING {
                full += 1;
                continue;
            }
            self.waiting.insert(record.subject.clone(), record.clone());
        }
        full
    }
}

impl Waiting<String, Document> {
    /// What does not fit is repaired by comparing digests.
    fn offer(&mut self, documents: &[Document]) {
        for document in documents {
            let known = self.waiting.get(&document.name);
            let newer = known.is_none_or(|known| known.stamp < document.stamp);
            let fits = known.is_some() || self.waiting.len() < MAX_WAITING_DOCUMENTS;
            if newer && fits {
                self.waiting.insert(document.name.clone(), document.clone());
            }
        }
    }
}

/// Keeps a lane to each peer that may answer, until it is aborted; the lanes' tasks end with it.
pub(crate) async fn run(node: Arc<Node>) {
    let mut roster = node.roster.subscribe();
    let mut tasks = JoinSet::new();
    let mut ends: BTreeMap<NodeId, [AbortHandle; 2]> = BTreeMap::new();
    loop {
        let now = roster.borrow_and_update().clone();
        let mut lanes = BTreeMap::clone(&node.lanes.by_node.load());
        let known = lanes.len();
        lanes.retain(|id, _| now.peers.get(id).is_some_and(|peer| peer.may_answer()));
        let mut changed = lanes.len() != known;
        ends.retain(|id, handles| {
            let stays = lanes.contains_key(id);
            if !stays {
                handles.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        for peer in now.peers.values().filter(|peer| peer.may_answer()) {
            if lanes.contains_key(&peer.node_id) {
                continue;
            }
            let lane = Arc::new(Lane::default());
            lanes.insert(peer.node_id.clone(), Arc::clone(&lane));
            let (id, other) = (peer.node_id.clone(), Arc::clone(&lane));
            let records = tasks.spawn(send_records(Arc::clone(&node), id.clone(), lane));
            let documents = tasks.spawn(send_documents(Arc::clone(&node), id.clone(), other));
            ends.insert(id, [records, documents]);
            changed = true;
        }
        if changed {
            node.lanes.by_node.store(Arc::new(lanes));
        }
        while tasks.try_join_next().is_some() {}
        if roster.changed().await.is_err() {
            return;
        }
    }
}

async fn send_records(node: Arc<Node>, peer: NodeId, lane: Arc<Lane>) {
    let queue = &lane.records;
    let mut retry = RETRY_FIRST;
    ask(&node, &peer, Purpose::Push, &Request::Ping, BRIEF)
        .await
        .ok();
    loop {
        let batch = queue.take(BATCH);
        if batch.is_empty() {
            if tokio::time::timeout(PING_EVERY, queue.wake.notified())
                .await
                .is_err()
            {
                // What it met is kept with the link.
                ask(&node, &peer, Purpose::Push, &Request::Ping, BRIEF)
                    .await
                    .ok();
            }
            continue;
        }
        let records = aged(node.state.export_some(&batch));
        let count = records.len() as u64;
        let asked = Instant::now();
        let pushed = ask(&node, &peer, Purpose::Push, &Request::Push(records), BRIEF).await;
        if pushed.is_ok() {
            queue.done();
            node.tally.records_pushed.add(count);
            node.tally.push_round_trips.add(1);
            let took = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
            node.tally.push_round_trip_us.add(took);
            retry = RETRY_FIRST;
        } else {
            let full = queue.lock().offer(&batch);
            queue.done();
            node.tally.push_queue_full.add(full);
            tokio::time::sleep(retry).await;
            retry = RETRY_LAST.min(retry * 2);
        }
    }
}

async fn send_documents(node: Arc<Node>, peer: NodeId, lane: Arc<Lane>) {
    let queue = &lane.documents;
    let mut retry = RETRY_FIRST;
    loop {
        let batch = queue.take(BATCH);
        if batch.is_empty() {
            queue.wake.notified().await;
            continue;
        }
        let request = Request::PushDocuments(batch.clone());
        if ask(&node, &peer, Purpose::Tables, &request, BULKY)
            .await
            .is_ok()
        {
            retry = RETRY_FIRST;
        } else {
            queue.lock().offer(&batch);
            tokio::time::sleep(retry).await;
            retry = RETRY_LAST.min(retry * 2);
        }
    }
}

async fn ask(
    node: &Node,
    peer: &NodeId,
    purpose: Purpose,
    request: &Request,
    within: Duration,
) -> Result<(), CallError> {
    let Some(target) = node.target(peer) else {
        return Err(CallError::Unreachable("not listed".to_owned()));
    };
    let answer = node.calls.call(&target, purpose, request, within).await;
    answer.map(|_| ())
}
