//! The cluster's side of a node: what it asks for and hands over.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdline_cluster::State;
use holdline_core::holds::{Body, Incoming, Record};
use holdline_core::ids::NodeId;
use holdline_core::replica::Document;
use holdline_core::time::WallMs;
use holdline_core::tpm::IncomingSignal;

use super::Node;

impl Node {
    /// Takes records in, shows and keeps those that changed something. Returns how many did.
    pub(super) fn take_in(&self, incoming: Vec<Incoming>) -> usize {
        let changed: Vec<Record> = {
            let mut state = self.lock();
            let now = self.clock.now();
            let (mut changed, mut ages) = (Vec::new(), Vec::new());
            for one in incoming {
                let (record, age_ms) = (one.record.clone(), one.age_ms);
                if state.ledger.merge(one, now) {
                    self.count_told(&record, age_ms);
                    changed.push(record);
                    ages.push(age_ms);
                }
            }
            self.show(&state, changed.iter().map(|r| &r.subject));
            self.follow_holds(&mut state, changed.iter().zip(ages));
            changed
        };
        if !changed.is_empty() {
            self.unsaved.add(&changed);
        }
        changed.len()
    }

    /// Counts a hold that another node found out about.
    fn count_told(&self, record: &Record, age_ms: u64) {
        if let Body::Held {
            refused: true,
            reason,
            ..
        } = record.register.body
        {
            let age = self.clock.real(age_ms);
            self.metrics
                .held_elsewhere(&record.subject.provider, reason, age);
        }
    }

    /// The present state of these records' subjects with ages.
    pub(super) fn export(&self, records: &[Record]) -> Vec<Incoming> {
        let now = self.clock.now();
        let state = self.lock();
        let subjects: BTreeSet<_> = records.iter().map(|r| &r.subject).collect();
        subjects
            .into_iter()
            .filter_map(|subject| state.ledger.export_one(subject, now))
            .collect()
    }
}

/// Handed to the cluster; a type of its own so that a node's own interface stays small.
#[derive(Debug)]
pub(super) struct ClusterSide(pub(super) Arc<Node>);

impl State for ClusterSide {
    fn merge_records(&self, incoming: Vec<Incoming>) -> usize {
        self.0.take_in(incoming)
    }

    fn export_records(&self) -> Vec<Incoming> {
        let now = self.0.clock.now();
        self.0.lock().ledger.export(now)
    }

    fn export_some(&self, records: &[Record]) -> Vec<Incoming> {
        self.0.export(records)
    }

    fn record_digest(&self) -> u128 {
        self.0.lock().ledger.digest()
    }

    fn held_count(&self) -> usize {
        self.0.held_count()
    }

    fn merge_documents(&self, documents: Vec<Document>) -> usize {
        let newer = self.0.adopt_documents(documents);
        if !newer.is_empty()
            && let Err(error) = self.0.store.save_documents(&newer)
        {
            // In force all the same; every other node has them, and they come again at the next start.
            tracing::warn!(%error, "documents of another node could not be saved");
        }
        newer.len()
    }

    fn export_documents(&self) -> Vec<Document> {
        self.0.lock().documents.iter().cloned().collect()
    }

    fn document_digest(&self) -> u64 {
        self.0.lock().documents.digest()
    }

    fn merge_signals(&self, signals: Vec<IncomingSignal>) -> usize {
        self.0.take_in_signals(signals)
    }

    fn wall(&self) -> WallMs {
        self.0.clock.wall()
    }

    fn answer(&self, from: &NodeId, question: &[u8]) -> Option<Vec<u8>> {
        self.0.answer_history(from, question)
    }
}
