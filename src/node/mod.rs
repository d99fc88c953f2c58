//! The one owner of a node's state: the ledger behind a short mutex, and the view that requests read.
//!
//! Every change of holds, whoever made it, goes through here: applied, made visible, told to the other
//! nodes, kept. So does every document. No lock is held across an await, and none while the disk is
//! written.

mod budget;
pub mod clock;
mod health;
pub mod history;
mod incidents;
pub mod keep;
pub mod live;
mod models;
pub mod place;
pub mod readiness;
pub mod replicated;
pub mod run;
mod tpm;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use holdline_cluster::Handle;
use holdline_core::health::Book;
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::{Answer, HeldRow, Incoming, Ledger, Record, Selector, Subject, Token};
use holdline_core::ids::{Fingerprint, KeyId, NodeId, ProviderId, Region};
use holdline_core::replica::{Document, Documents};
use holdline_core::routing::Settings;
use holdline_core::tpm::Table as Backoffs;
use tokio::sync::watch;

pub use clock::Clock;
pub use live::Live;
pub use place::{Overrides, Place, PlaceError};
pub use readiness::Readiness;
pub use run::{Running, StartError, start, start_with};

use crate::config::{self, Catalog, Config};
use crate::store::{RequestLog, Store, StoreError};
use crate::telemetry::Metrics;

/// One running node.
#[derive(Debug)]
pub struct Node {
    /// Its id, unique in the cluster.
    pub id: NodeId,
    /// Its region.
    pub region: Region,
    /// What the file said.
    pub config: Config,
    /// Who it is and where it listens.
    pub place: Place,
    /// Its clock: monotonic and scaled, and the wall's.
    pub clock: Clock,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Whether it should be sent traffic.
    pub readiness: Readiness,
    live: ArcSwap<Live>,
    replicated: Mutex<Replicated>,
    health: Mutex<Book>,
    store: Arc<Store>,
    unsaved: keep::Unsaved,
    incidents: incidents::Incidents,
    cluster: OnceLock<Handle>,
    snapshot_interval: watch::Sender<std::time::Duration>,
    models: models::Models,
}

/// What every node has a copy of.
#[derive(Debug)]
struct Replicated {
    ledger: Ledger,
    documents: Documents,
    /// Of this region, and for as long as it matters: not kept.
    tpm: Backoffs,
}

/// A key as it is configured: what holds are about.
type KeyOfProvider = (ProviderId, KeyId, Fingerprint);

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

    /// The cluster, once it is joined or founded.
    #[must_use]
    pub fn cluster(&self) -> Option<&Handle> {
        self.cluster.get()
    }

    /// Settles an answer: applies, shows, tells and keeps what it changed. Returns those records, for
    /// the request's own log.
    pub fn settle(&self, route: &RouteKey, token: &Token, answer: &Answer) -> Vec<Record> {
        if !self.live().view.adaptive {
            return Vec::new();
        }
        self.incidents.answered(route, answer);
        if token.is_unmoved_by(answer) {
            return Vec::new();
        }
        let records = {
            let mut state = self.lock();
            let records =
                state
                    .ledger
                    .settle(route, token, answer, self.clock.now(), self.clock.wall());
            self.show(&state, records.iter().map(|r| &r.subject));
            self.follow_holds(&mut state, records.iter().map(|r| (r, 0)));
            records
        };
        self.tell_and_keep(&records);
        records
    }

    /// Every hold of a configured key, in order.
    #[must_use]
    pub fn held(&self) -> Vec<HeldRow> {
        let rows = self.lock().ledger.held(self.clock.now());
        let live = self.live();
        rows.into_iter()
            .filter(|row| live.has(&row.record.subject))
            .collect()
    }

    /// How many holds of configured keys there are.
    #[must_use]
    pub fn held_count(&self) -> usize {
        let live = Arc::clone(&self.live());
        let state = self.lock();
        state.ledger.held_subjects().filter(|s| live.has(s)).count()
    }

    /// Hash of the shared table: equal on two nodes whose tables are equal.
    #[must_use]
    pub fn digest(&self) -> String {
        format!("{:032x}", self.lock().ledger.digest())
    }

    /// Releases by hand. Durable here before it is in force, and before this returns.
    ///
    /// # Errors
    /// When the store cannot keep it: then nothing was released.
    pub fn release(&self, what: &Selector) -> Result<Vec<Record>, StoreError> {
        let wall = self.clock.wall();
        let records: Vec<Record> = {
            let mut state = self.lock();
            let records = state.ledger.releases(what, wall);
            let live = self.live();
            records
                .into_iter()
                .filter(|record| live.has(&record.subject))
                .collect()
        };
        let incoming: Vec<Incoming> = records.iter().cloned().map(Incoming::fresh).collect();
        self.store.save_holds(&incoming, wall)?;
        {
            let mut state = self.lock();
            let now = self.clock.now();
            for record in incoming {
                state.ledger.merge(record, now);
            }
            self.show(&state, records.iter().map(|r| &r.subject));
        }
        self.tell(&records);
        self.release_backoffs(what);
        Ok(records)
    }

    /// Writes documents (settings, admin edits): durable here, in force here, then told to the others.
    /// `None` deletes.
    ///
    /// # Errors
    /// When the store cannot keep them: then nothing changed.
    pub fn write_documents(
        &self,
        changes: Vec<(String, Option<String>)>,
    ) -> Result<(), StoreError> {
        let documents: Vec<Document> = {
            let mut state = self.lock();
            let wall = self.clock.wall();
            let stamped = changes.into_iter().map(|(name, body)| Document {
                name,
                stamp: state.ledger.tick(wall),
                body,
            });
            stamped.collect()
        };
        self.store.save_documents(&documents)?;
        self.adopt_documents(documents.clone());
        if let Some(cluster) = self.cluster.get() {
            cluster.publish_documents(&documents);
        }
        Ok(())
    }

    /// One document, tombstones included.
    #[must_use]
    pub fn document(&self, name: &str) -> Option<Document> {
        self.lock().documents.get(name).cloned()
    }

    /// All documents whose name starts so, tombstones included.
    #[must_use]
    pub fn documents(&self, prefix: &str) -> Vec<Document> {
        self.lock()
            .documents
            .starting_with(prefix)
            .cloned()
            .collect()
    }

    /// The adaptive settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.live().view.settings)
    }

    /// Keeps a request's log record, soon. Never blocks; a full queue drops and counts.
    pub fn log_request(&self, log: RequestLog) {
        self.store.log(log);
    }

    /// How far the shared clock runs ahead of the wall: some node's clock is wrong if it is much.
    #[must_use]
    pub fn clock_ahead_ms(&self) -> u64 {
        self.lock().ledger.clock_ahead_ms(self.clock.wall())
    }

    /// Takes documents in, puts them in force. Returns those that were newer.
    fn adopt_documents(&self, documents: Vec<Document>) -> Vec<Document> {
        let mut state = self.lock();
        let mut newer = Vec::new();
        for document in documents {
            state.ledger.observe(document.stamp);
            if state.documents.merge(document.clone()) {
                newer.push(document);
            }
        }
        if !newer.is_empty() {
            self.rebuild(&state);
        }
        newer
    }

    /// Makes the catalog and the view anew: after documents changed.
    fn rebuild(&self, state: &Replicated) {
        let catalog = Catalog::build(&self.config, &state.documents);
        for problem in &catalog.problems {
            tracing::warn!(%problem, "a saved edit cannot be used on this node");
        }
        let settings = Arc::new(config::settings(&self.config, &state.documents));
        self.snapshot_interval.send_if_modified(|interval| {
            let wanted = self
                .clock
                .real(settings.snapshot_persist_interval_seconds * 1_000);
            let differs = *interval != wanted;
            *interval = wanted;
            differs
        });
        let view = catalog.view(
            settings,
            self.config.adaptive.enabled,
            |provider, key, print| state.ledger.key_holds(provider, key, print),
        );
        let now = self.clock.now();
        let mut view = tpm::with_dry(view, &state.tpm, state.tpm.routes(now), now);
        budget::carry_over(&mut view, &self.live().view);
        self.models.name(&mut view, &catalog);
        self.measure(&mut view, &catalog);
        self.live.store(Arc::new(Live {
            view,
            catalog: Arc::new(catalog),
        }));
        self.incidents.wake();
    }

    /// Makes changed holds visible to requests. The caller holds the mutex, so that views are replaced
    /// in the order of the changes.
    fn show<'a>(&self, state: &Replicated, changed: impl IntoIterator<Item = &'a Subject>) {
        let changed: Vec<&Subject> = changed.into_iter().collect();
        let keys: BTreeSet<KeyOfProvider> = changed
            .iter()
            .map(|s| (s.provider.clone(), s.key.clone(), s.fingerprint))
            .collect();
        if keys.is_empty() {
            return;
        }
        let live = self.live.load();
        let mut view = live.view.clone();
        for (provider, key, fingerprint) in &keys {
            if live
                .key(provider, key)
                .is_some_and(|k| k.spec.fingerprint == *fingerprint)
            {
                let holds = state.ledger.key_holds(provider, key, *fingerprint);
                view = view.with_holds(provider, key, holds);
            }
        }
        let providers: BTreeSet<&ProviderId> = keys.iter().map(|(provider, ..)| provider).collect();
        self.see_holds(&mut view, providers);
        self.live.store(Arc::new(Live {
            view,
            catalog: Arc::clone(&live.catalog),
        }));
        if live.view.settings.history_enabled {
            let records = changed.into_iter().filter_map(|s| state.ledger.record(s));
            self.incidents.hear(records.cloned());
        }
    }

    fn tell_and_keep(&self, records: &[Record]) {
        if !records.is_empty() {
            self.tell(records);
            self.unsaved.add(records);
        }
    }

    fn tell(&self, records: &[Record]) {
        if let Some(cluster) = self.cluster.get()
            && !records.is_empty()
        {
            cluster.publish(records);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Replicated> {
        // Nothing under this lock can leave the state half changed, so a panic elsewhere is no reason to stop.
        self.replicated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
