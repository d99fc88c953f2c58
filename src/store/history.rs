//! The history database: what was seen of incidents, and scores for charts. A file of its own, so that
//! its traffic never delays raft; written in batches.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use holdline_core::ids::NodeId;
use holdline_core::incidents::Sighting;
use holdline_core::time::WallMs;
use rusqlite::{Connection, Transaction};
use rusqlite_migration::{M, Migrations};

use super::scores::Reading;
use super::{Fault, Store, StoreError, incidents, open, scores};

const MIGRATIONS: &[M<'_>] = &[M::up(include_str!("migrations/history/0001-history.sql"))];

/// The open database; none once closed.
#[derive(Debug)]
pub(super) struct History(Mutex<Option<Connection>>);

/// What is written at once.
#[derive(Clone, Debug, Default)]
pub struct HistoryBatch {
    /// Sightings, of this node or told by another; each replaces what was known of it.
    pub sightings: Vec<Sighting>,
    /// Scores and weights.
    pub readings: Vec<Reading>,
    /// The node lives: see [`Store::restore_sightings`].
    pub alive: bool,
}

impl History {
    /// Opens the database. A damaged one is set aside: a node can live without its history.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let migrations = Migrations::from_slice(MIGRATIONS);
        let connection = match open::database(path, &migrations, "NORMAL") {
            Ok(connection) => connection,
            Err(error) if error.0.contains("is damaged") => {
                let aside =
                    open::set_aside(path).map_err(|e| StoreError(format!("{error} ({e})")))?;
                tracing::warn!(%error, aside = %aside.display(), "history set aside, starting an empty one");
                open::database(path, &migrations, "NORMAL")?
            }
            Err(error) => return Err(error),
        };
        connection
            .pragma_update(None, "foreign_keys", true)
            .map_err(|error| StoreError(format!("{}: {error}", path.display())))?;
        Ok(Self(Mutex::new(Some(connection))))
    }

    pub(super) fn close(&self) {
        drop(self.lock().take());
    }

    /// One transaction.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut held = self.lock();
        let changed = held.as_mut().ok_or(Fault::Closed).and_then(|connection| {
            let transaction = connection.transaction()?;
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        changed.map_err(|fault| StoreError(format!("cannot keep history: {fault}")))
    }

    pub(super) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let held = self.lock();
        let found = held.as_ref().ok_or(Fault::Closed).and_then(query);
        found.map_err(|fault| StoreError(format!("cannot read history: {fault}")))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Writes a batch: all of it, or nothing.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn save_history(&self, batch: &HistoryBatch, now: WallMs) -> Result<(), StoreError> {
        self.history.write(|transaction| {
            incidents::save(transaction, &batch.sightings, now)?;
            scores::save(transaction, &batch.readings)?;
            if batch.alive {
                incidents::save_alive(transaction, now)?;
            }
            Ok(())
        })
    }

    /// Drops what ended before `oldest`, and the oldest of what is too much; `own` is this node.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn prune_history(
        &self,
        own: &NodeId,
        oldest: WallMs,
        now: WallMs,
    ) -> Result<(), StoreError> {
        self.history.write(|transaction| {
            incidents::prune(transaction, own, oldest)?;
            scores::prune(transaction, oldest, now)
        })
    }
}
