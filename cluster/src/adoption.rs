//! Adoption: records whose publishers are all gone stay in gossip, in the regional leader's keyspace.
//!
//! Chitchat forgets a dead node, and the former life of one that started again, and with it what only it
//! had published. Tables do not depend on that; a node that hears the others by gossip only does.
//! Every node also takes records out of its own keyspace that have left its table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use chitchat::{Chitchat, ChitchatId};
use holdline_core::holds::Incoming;
use tokio::sync::Mutex;

use crate::duty;
use crate::gossip::keyspace::{Posted, from_value, record_key};
use crate::gossip::outbox::settled_at;
use crate::gossip::records;
use crate::node::Node;

const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Records adopted at a time: a table of 10,000 must not come as one flood.
const BATCH: usize = 2_000;

/// Tells when to look.
#[derive(Debug)]
pub(crate) struct Adoption {
    next: Instant,
}

impl Default for Adoption {
    fn default() -> Self {
        Self {
            next: Instant::now() + LOOK_EVERY,
        }
    }
}

impl Adoption {
    /// Looks from time to time. Called by the only task that writes the own keyspace.
    pub(crate) async fn tick(&mut self, node: &Node, chitchat: &Mutex<Chitchat>) {
        if !node.options.spread.gossip || !node.is_ready() || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + LOOK_EVERY;
        let table = node.state.export_records().into_iter();
        let table: BTreeMap<String, Incoming> = table
            .map(|incoming| (record_key(&incoming.record.subject), incoming))
            .collect();
        let orphans = {
            let mut chitchat = chitchat.lock().await;
            tidy(&mut chitchat, &table);
            if duty::leads(node) {
                orphans(&chitchat, &table)
            } else {
                Vec::new()
            }
        };
        if !orphans.is_empty() {
            tracing::debug!(count = orphans.len(), "adopted records");
        }
        let (wall, scale) = (node.state.wall(), node.options.time_scale);
        node.outbox.post(orphans.into_iter().map(|incoming| Posted {
            settled_at: settled_at(wall, incoming.age_ms, scale),
            record: incoming.record,
        }));
    }
}

/// Takes out what the table has pruned. Everybody prunes at the same age, so nobody misses it.
pub(crate) fn tidy(chitchat: &mut Chitchat, table: &BTreeMap<String, Incoming>) {
    let own = chitchat.self_node_state();
    let pruned: Vec<String> = records(own)
        .filter(|(key, _)| !table.contains_key(*key))
        .map(|(key, _)| key.to_owned())
        .collect();
    for key in pruned {
        own.delete(&key);
    }
}

/// Records of the table that no keyspace carries which will stay.
pub(crate) fn orphans(chitchat: &Chitchat, table: &BTreeMap<String, Incoming>) -> Vec<Incoming> {
    let going: BTreeSet<&ChitchatId> = chitchat.scheduled_for_deletion_nodes().collect();
    let staying = chitchat
        .node_states()
        .iter()
        .filter(|(id, _)| !going.contains(id));
    let mut published = BTreeSet::new();
    for (key, value) in staying.flat_map(|(_, state)| records(state)) {
        let Some(here) = table.get(key).filter(|_| !published.contains(key)) else {
            continue;
        };
        let posted = from_value::<Posted>(value);
        if posted.is_ok_and(|posted| posted.record.register >= here.record.register) {
            published.insert(key);
        }
    }
    table
        .iter()
        .filter(|(key, _)| !published.contains(key.as_str()))
        .take(BATCH)
        .map(|(_, incoming)| incoming.clone())
        .collect()
}
