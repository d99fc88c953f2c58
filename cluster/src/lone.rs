//! A cluster of one: no ports, and the node's own store in the place of a raft group.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdline_core::holds::{Incoming, Record, Subject};
use tokio::sync::{Notify, watch};

use crate::join::own_store;
use crate::options::Options;
use crate::status::{ClusterStatus, Join, Member, MemberState, Restored};
use crate::store::{Snapshot, SnapshotInfo, State, Store, StoreError};
use crate::view::restored;

/// Changes of one moment are saved together, and well within a second.
const GATHER: Duration = Duration::from_millis(200);

/// A broken store is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Subjects that wait to be saved. Beyond it the whole table is.
const MAX_CHANGED: usize = 16_384;

/// A lone node.
pub(crate) struct Lone {
    options: Options,
    state: Arc<dyn State>,
    store: Arc<dyn Store>,
    started: Instant,
    pub(crate) join: watch::Sender<Join>,
    snapshot: watch::Sender<Option<SnapshotInfo>>,
    changed: Mutex<Changed>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Changed {
    by_subject: BTreeMap<Subject, Record>,
    whole: bool,
}

impl Lone {
    /// Merges what the store has.
    pub(crate) fn new(options: Options, state: Arc<dyn State>, store: Arc<dyn Store>) -> Self {
        let saved = load(&*store);
        let had_held_keys = saved
            .as_ref()
            .is_some_and(|saved| saved.records.iter().any(is_held));
        let info = saved.as_ref().map(|saved| saved.info.clone());
        if let Some(saved) = saved {
            state.merge_records(saved.records);
        }
        let join = Join::Ready(Restored {
            at: state.wall(),
            from: own_store(had_held_keys),
            held: state.held_count(),
        });
        Self {
            options,
            state,
            store,
            started: Instant::now(),
            join: watch::Sender::new(join),
            snapshot: watch::Sender::new(info),
            changed: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Saves these within a second.
    pub(crate) fn publish(&self, records: &[Record]) {
        let mut changed = self.lock();
        for record in records {
            changed
                .by_subject
                .insert(record.subject.clone(), record.clone());
        }
        if changed.by_subject.len() > MAX_CHANGED {
            changed.by_subject.clear();
            changed.whole = true;
        }
        drop(changed);
        self.wake.notify_one();
    }

    pub(crate) fn status(&self) -> ClusterStatus {
        let own = Member {
            node_id: self.options.node_id.clone(),
            region: self.options.region.clone(),
            state: MemberState::Alive,
            is_leader: true,
            acting: false,
            version: self.options.version.clone(),
            uptime_seconds: self.started.elapsed().as_secs(),
            http_address: self.options.http_address.clone(),
            gossip_address: String::new(),
            rpc_address: String::new(),
            digest: self.state.record_digest(),
            held: self.state.held_count(),
            link: None,
        };
        let leader = (own.region.clone(), own.node_id.clone());
        ClusterStatus {
            node_id: own.node_id.clone(),
            region: own.region.clone(),
            leaders: [leader].into(),
            converged: true,
            nodes: vec![own],
            snapshot: self.snapshot.borrow().clone(),
            restored: restored(&self.join.borrow()),
        }
    }

    /// Saves changes and, every interval, the whole table, until it is aborted.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut interval = self.options.snapshot_interval.clone();
        let mut failed = false;
        loop {
            let every = *interval.borrow_and_update();
            tokio::select! {
                () = self.wake.notified() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(every) => self.lock().whole = true,
                Ok(()) = interval.changed() => continue,
            }
            while let Err(error) = self.save().await {
                if !failed {
                    tracing::error!(%error, "cannot save held keys, trying again");
                }
                failed = true;
                tokio::time::sleep(RETRY).await;
            }
            failed = false;
        }
    }

    /// Saves what waits.
    ///
    /// # Errors
    /// When the store is broken; what was to be saved waits on, as a whole table.
    pub(crate) async fn save(&self) -> Result<(), StoreError> {
        let changed = std::mem::take(&mut *self.lock());
        if changed.by_subject.is_empty() && !changed.whole {
            return Ok(());
        }
        let records: Vec<Record> = changed.by_subject.into_values().collect();
        let snapshot = Snapshot {
            info: self.info(),
            whole: changed.whole,
            records: if changed.whole {
                self.state.export_records()
            } else {
                self.state.export_some(&records)
            },
        };
        let info = snapshot.info.clone();
        let store = Arc::clone(&self.store);
        let saved = tokio::task::spawn_blocking(move || store.save_snapshot(&snapshot, &[])).await;
        let saved = saved.unwrap_or_else(|error| Err(StoreError(error.to_string())));
        if saved.is_ok() {
            self.snapshot.send_replace(Some(info));
        } else {
            self.lock().whole = true;
        }
        saved
    }

    fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            saved_at: self.state.wall(),
            saved_by: self.options.node_id.clone(),
            held: self.state.held_count(),
            group_uid: 0,
            term: 0,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the store has. A broken one is reported and counts as empty: holds never wait for it.
pub(crate) fn load(store: &dyn Store) -> Option<Snapshot> {
    match store.load_snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => {
            tracing::error!(%error, "cannot read saved held keys, starting without them");
            None
        }
    }
}

/// Whether the record holds its subject.
pub(crate) fn is_held(incoming: &Incoming) -> bool {
    incoming.record.register.is_held()
}
