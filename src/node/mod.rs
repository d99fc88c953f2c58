//! The one owner of a node's state: the ledger behind a short mutex, and the view that requests read.
//!
//! Every change of holds, whoever made it, goes through here: applied, made visible, told to the other
//! nodes, kept. No lock is held across an await.

pub mod clock;
pub mod live;

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::{Answer, HeldRow, Record, Selector, Token};
use holdline_core::replica::Document;

pub use clock::Clock;
pub use live::Live;

use crate::store::{RequestLog, Store, StoreError};
use crate::telemetry::Metrics;

/// One running node.
#[derive(Debug)]
pub struct Node {
    /// Its clock: monotonic and scaled, and the wall's.
    pub clock: Clock,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    live: ArcSwap<Live>,
    store: Arc<Store>,
}

impl Node {
    /// What requests read: load once per decision.
    pub fn live(&self) -> arc_swap::Guard<Arc<Live>> {
        self.live.load()
    }

    /// The database.
    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Settles an answer: applies, shows, tells and keeps what it changed. Returns those records, for
    /// the request's own log.
    pub fn settle(&self, _route: &RouteKey, _token: &Token, _answer: &Answer) -> Vec<Record> {
        unimplemented!()
    }

    /// Every hold of a configured key, in order.
    #[must_use]
    pub fn held(&self) -> Vec<HeldRow> {
        unimplemented!()
    }

    /// Hash of the shared table, as the views show it.
    #[must_use]
    pub fn digest(&self) -> String {
        unimplemented!()
    }

    /// Releases by hand. Durable here before it returns.
    ///
    /// # Errors
    /// When the store cannot keep it: then nothing was released.
    pub fn release(&self, _what: &Selector) -> Result<Vec<Record>, StoreError> {
        unimplemented!()
    }

    /// Writes documents (settings, admin edits): durable here, in force here, then told to the others.
    /// `None` deletes.
    ///
    /// # Errors
    /// When the store cannot keep them: then nothing changed.
    pub fn write_documents(
        &self,
        _changes: Vec<(String, Option<String>)>,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }

    /// One document's body, if it exists and was not deleted.
    #[must_use]
    pub fn document(&self, _name: &str) -> Option<Document> {
        unimplemented!()
    }

    /// Keeps a request's log record, soon. Never blocks; a full queue drops and counts.
    pub fn log_request(&self, _log: RequestLog) {
        unimplemented!()
    }
}
