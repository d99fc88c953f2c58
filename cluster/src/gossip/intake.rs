//! Records that arrive by gossip, from chitchat's callbacks to the table.
//!
//! The callbacks run under chitchat's lock: they only hand over. What does not fit is found by a scan of
//! all keyspaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chitchat::Chitchat;
use holdline_core::holds::Incoming;
use holdline_core::ids::NodeId;
use tokio::sync::mpsc;

use super::keyspace::{Posted, RECORDS};
use super::outbox::scaled_ms;
use super::records;
use crate::node::Node;

/// Records between callback and table.
const CAPACITY: usize = 4_096;

/// Records merged at a time.
const BATCH: usize = 512;

/// A value in somebody's keyspace.
#[derive(Debug)]
pub(crate) struct Heard {
    publisher: NodeId,
    value: String,
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

    /// Listens to the records of all keyspaces but the own one.
    pub(crate) fn subscribe(&self, chitchat: &Chitchat) {
        let own = chitchat.self_chitchat_id().node_id.clone();
        let (heard, rescan) = (self.heard.clone(), Arc::clone(&self.rescan));
        let callback = move |event: chitchat::KeyChangeEvent<'_>| {
            if event.node.node_id == own {
                return;
            }
            let one = Heard {
                publisher: NodeId::from(&*event.node.node_id),
                value: event.value.to_owned(),
            };
            if heard.try_send(one).is_err() {
                rescan.store(true, Ordering::Release);
            }
        };
        chitchat.subscribe_event(RECORDS, callback).forever();
    }

    /// Whether something was lost, and there is room for a scan.
    pub(crate) fn take_rescan(&self) -> bool {
        self.heard.capacity() == CAPACITY && self.rescan.swap(false, Ordering::AcqRel)
    }

    /// Hands over what stands in all other keyspaces. More than fits is scanned again.
    pub(crate) fn scan(&self, chitchat: &Chitchat) {
        let own = &chitchat.self_chitchat_id().node_id;
        for (id, state) in chitchat.node_states() {
            if id.node_id == *own {
                continue;
            }
            for (_, value) in records(state) {
                let one = Heard {
                    publisher: NodeId::from(&*id.node_id),
                    value: value.to_owned(),
                };
                if self.heard.try_send(one).is_err() {
                    self.rescan.store(true, Ordering::Release);
                    return;
                }
            }
        }
    }
}

/// Merges what arrives until it is aborted.
pub(crate) async fn run(node: Arc<Node>, mut heard: mpsc::Receiver<Heard>) {
    let mut batch = Vec::new();
    while heard.recv_many(&mut batch, BATCH).await > 0 {
        let records = batch.drain(..).filter_map(|one| incoming(&node, &one));
        let records: Vec<Incoming> = records.collect();
        let changed = node.merge_records(records).await;
        node.tally.records_received_by_gossip.add(changed as u64);
    }
}

/// The record and its age, estimated by the measured offset of its publisher's clock.
fn incoming(node: &Node, heard: &Heard) -> Option<Incoming> {
    let posted = match Posted::from_value(&heard.value) {
        Ok(posted) => posted,
        Err(error) => {
            tracing::debug!(publisher = %heard.publisher, %error, "refused a record in gossip");
            node.tally.datagrams_refused.add(1);
            return None;
        }
    };
    let settled_at = node.own_clock(&heard.publisher, posted.settled_at);
    let age_ms = node.state.wall().0.saturating_sub(settled_at);
    Some(Incoming {
        record: posted.record,
        age_ms: scaled_ms(age_ms, node.options.time_scale),
    })
}
