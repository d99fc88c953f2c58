//! Records and signals that arrive by gossip, from chitchat's callbacks to the node's state.
//!
//! The callbacks run under chitchat's lock: they only hand over. What does not fit is found by a scan of
//! all keyspaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chitchat::Chitchat;
use holdline_core::holds::Incoming;
use holdline_core::ids::{NodeId, Region};
use holdline_core::time::WallMs;
use holdline_core::tpm::IncomingSignal;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::keyspace::{CLEARS, Notice, Posted, RECORDS, backoffs, from_value, is_hash};
use super::outbox::scaled_ms;
use crate::node::Node;

/// Values between callback and state.
const CAPACITY: usize = 4_096;

/// Values merged at a time.
const BATCH: usize = 512;

/// A value in somebody's keyspace.
#[derive(Debug)]
pub(crate) struct Heard {
    publisher: NodeId,
    kind: Kind,
    value: String,
}

/// What a value is, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Record,
    Signal,
}

/// Where callbacks hand over.
pub(crate) struct Intake {
    heard: mpsc::Sender<Heard>,
    rescan: Arc<AtomicBool>,
}

impl Intake {
    /// And the end to read from.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Heard>) {
        let (heard, receiver) = mpsc::channel(CAPACITY);
        let intake = Self {
            heard,
            rescan: Arc::default(),
        };
        (intake, receiver)
    }

    /// Listens to what concerns a node of this region in all keyspaces but the own one.
    pub(crate) fn subscribe(&self, chitchat: &Chitchat, region: &Region) {
        for (prefix, kind) in prefixes(region) {
            let own = chitchat.self_chitchat_id().node_id.clone();
            let (heard, rescan) = (self.heard.clone(), Arc::clone(&self.rescan));
            let callback = move |event: chitchat::KeyChangeEvent<'_>| {
                if event.node.node_id == own || !is_meant(kind, event.key) {
                    return;
                }
                let one = Heard {
                    publisher: NodeId::from(&*event.node.node_id),
                    kind,
                    value: event.value.to_owned(),
                };
                if heard.try_send(one).is_err() {
                    rescan.store(true, Ordering::Release);
                }
            };
            chitchat.subscribe_event(prefix, callback).forever();
        }
    }

    /// Whether something was lost, and there is room for a scan.
    pub(crate) fn take_rescan(&self) -> bool {
        self.heard.capacity() == CAPACITY && self.rescan.swap(false, Ordering::AcqRel)
    }

    /// Hands over what stands in all other keyspaces. More than fits is scanned again.
    pub(crate) fn scan(&self, chitchat: &Chitchat, region: &Region) {
        let own = &chitchat.self_chitchat_id().node_id;
        let others = || {
            let states = chitchat.node_states().iter();
            states.filter(|(id, _)| id.node_id != *own)
        };
        for (prefix, kind) in prefixes(region) {
            let values = others().flat_map(|(id, state)| {
                let values = state.iter_prefix(&prefix);
                values.map(move |(key, value)| (id, key, &value.value))
            });
            let meant = values.filter(|(_, key, _)| is_meant(kind, &key[prefix.len()..]));
            for (id, _, value) in meant {
                let one = Heard {
                    publisher: NodeId::from(&*id.node_id),
                    kind,
                    value: value.clone(),
                };
                if self.heard.try_send(one).is_err() {
                    self.rescan.store(true, Ordering::Release);
                    return;
                }
            }
        }
    }
}

/// What a node of this region listens to.
fn prefixes(region: &Region) -> impl Iterator<Item = (String, Kind)> {
    let shared = [(RECORDS, Kind::Record), (CLEARS, Kind::Signal)];
    let shared = shared.map(|(prefix, kind)| (prefix.to_owned(), kind));
    let of_region = backoffs(region).map(|prefix| (prefix, Kind::Signal));
    shared.into_iter().chain(of_region)
}

fn is_meant(kind: Kind, rest: &str) -> bool {
    match kind {
        Kind::Record => true,
        Kind::Signal => is_hash(rest),
    }
}

/// Merges what arrives until it is aborted.
pub(crate) async fn run(node: Arc<Node>, mut heard: mpsc::Receiver<Heard>) {
    let mut batch = Vec::new();
    while heard.recv_many(&mut batch, BATCH).await > 0 {
        let (mut records, mut signals) = (Vec::new(), Vec::new());
        for one in batch.drain(..) {
            match one.kind {
                Kind::Record => records.extend(record(&node, &one)),
                Kind::Signal => signals.extend(signal(&node, &one)),
            }
        }
        let changed = node.merge_records(records).await;
        node.tally.records_received_by_gossip.add(changed as u64);
        if !signals.is_empty() {
            let changed = node.state.merge_signals(signals);
            node.tally.signals_received.add(changed as u64);
        }
    }
}

/// The record and its age.
fn record(node: &Node, heard: &Heard) -> Option<Incoming> {
    let posted: Posted = read(node, heard)?;
    Some(Incoming {
        record: posted.record,
        age_ms: age_ms(node, &heard.publisher, posted.settled_at),
    })
}

/// The signal and its age.
pub(super) fn signal(node: &Node, heard: &Heard) -> Option<IncomingSignal> {
    let notice: Notice = read(node, heard)?;
    Some(IncomingSignal {
        signal: notice.signal,
        age_ms: age_ms(node, &heard.publisher, notice.made_at),
    })
}

fn read<M: DeserializeOwned>(node: &Node, heard: &Heard) -> Option<M> {
    match from_value(&heard.value) {
        Ok(message) => Some(message),
        Err(error) => {
            tracing::debug!(publisher = %heard.publisher, kind = ?heard.kind, %error, "refused a value in gossip");
            node.tally.datagrams_refused.add(1);
            None
        }
    }
}

/// The age of what was made then, estimated by the measured offset of its publisher's clock.
fn age_ms(node: &Node, publisher: &NodeId, made_at: WallMs) -> u64 {
    let made_at = node.own_clock(publisher, made_at);
    let age_ms = node.state.wall().0.saturating_sub(made_at);
    scaled_ms(age_ms, node.options.time_scale)
}
