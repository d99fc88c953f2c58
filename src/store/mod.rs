//! Everything a node keeps, in SQLite: holds, documents, raft, request logs, history, identity. All SQL
//! is here.
//!
//! `holdline.sqlite` is written with synchronous=FULL: what a call returned from survives a crash.
//! Request logs and history have files of their own, so that their traffic never delays raft. A call that
//! fails leaves the node serving; [`Store::health`] says so.

mod cluster;
mod documents;
mod history;
mod holds;
mod identity;
mod incidents;
pub mod logs;
mod open;
mod raft;
pub mod scores;
mod seal;

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdline_core::time::WallMs;
use rusqlite::{Connection, Transaction};
use rusqlite_migration::{M, Migrations};

pub use history::HistoryBatch;
pub use incidents::{MAX_SIGHTINGS, Told};
pub use logs::{LogPage, LogQuery, RequestLog};
pub use scores::{Reading, ScoreQuery, Series};

use crate::config::{Config, Secret};
use history::History;
use identity::Identity;
use logs::Logs;
use seal::Seal;

const MIGRATIONS: &[M<'_>] = &[M::up(include_str!("migrations/0001-tables.sql"))];

/// What a store needs to know beside its folder.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Encrypts documents; without it a key file in the folder does.
    pub encryption_key: Option<Secret>,
    /// How many times faster than the wall clock ages grow.
    pub time_scale: f64,
    /// `client.log_retention_days`.
    pub log_retention_days: u32,
}

impl StoreOptions {
    /// As the config says, for a node that lives `time_scale` times faster than the wall clock.
    #[must_use]
    pub fn of(config: &Config, time_scale: f64) -> Self {
        Self {
            encryption_key: config.encryption_key.clone(),
            time_scale,
            log_retention_days: config.client.log_retention_days,
        }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            encryption_key: None,
            time_scale: 1.0,
            log_retention_days: crate::config::defaults::LOG_RETENTION_DAYS,
        }
    }
}

/// The database of one data folder.
#[derive(Debug)]
pub struct Store {
    /// None once closed.
    main: Mutex<Option<Main>>,
    logs: Logs,
    history: History,
    seal: Seal,
    identity: Identity,
    time_scale: f64,
    broken: Mutex<Option<String>>,
}

/// The open database, and the lock that keeps other nodes out.
#[derive(Debug)]
struct Main {
    connection: Connection,
    _lock: File,
}

/// Something could not be kept or read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl Store {
    /// Opens the folder, making what is missing. Begins a new life of the node: see [`Store::generation`].
    ///
    /// # Errors
    /// In one line that names the file and what to do: no directory, not writable, used by another node,
    /// damaged, of another program, of a newer version, or encrypted with another key.
    pub fn open(folder: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let lock = open::lock(folder)?;
        let path = folder.join("holdline.sqlite");
        let mut main = open::database(&path, &Migrations::from_slice(MIGRATIONS), "FULL")?;
        let explain = |error| StoreError(format!("{}: {error}", path.display()));
        let identity = identity::begin(&mut main, logs::wall_now()).map_err(explain)?;
        let seal = seal::unlock(&mut main, folder, options.encryption_key.as_ref())?;
        let logs = Logs::open(&folder.join("logs.sqlite"), options.log_retention_days)?;
        let history = History::open(&folder.join("history.sqlite"))?;
        Ok(Self {
            main: Mutex::new(Some(Main {
                connection: main,
                _lock: lock,
            })),
            logs,
            history,
            seal,
            identity,
            time_scale: options.time_scale,
            broken: Mutex::new(None),
        })
    }

    /// Random, drawn once per data folder: a node that lost its disk is a new raft node.
    #[must_use]
    pub const fn raft_id(&self) -> u64 {
        self.identity.raft_id
    }

    /// Of this life of the node: greater than in every life before.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.identity.generation
    }

    /// Why the last write was not kept, if it was not: the node serves on, and what it could not keep is
    /// gone when it restarts.
    #[must_use]
    pub fn health(&self) -> Option<String> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.as_ref().cloned().or_else(|| self.logs.broken())
    }

    /// Writes what is queued and lets go of the folder, however many still share the store. Calls fail
    /// afterwards.
    pub fn close(&self) {
        self.logs.close();
        self.history.close();
        drop(self.main().take());
    }

    /// From here on every write fails.
    #[cfg(test)]
    pub(crate) fn refuse_writes(&self) {
        let refused = self.read("a pragma", |connection| {
            Ok(connection.pragma_update(None, "query_only", true)?)
        });
        refused.expect("a pragma that SQLite has");
    }

    fn main(&self) -> MutexGuard<'_, Option<Main>> {
        self.main.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One transaction: all of it is kept before this returns, or nothing.
    fn write<T>(
        &self,
        what: &str,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut main = self.main();
        let changed = main.as_mut().ok_or(Fault::Closed).and_then(|main| {
            let transaction = main.connection.transaction()?;
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        let done = changed.map_err(|fault| StoreError(format!("cannot keep {what}: {fault}")));
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        *broken = done.as_ref().err().map(ToString::to_string);
        done
    }

    fn read<T>(
        &self,
        what: &str,
        query: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let main = self.main();
        let found = main
            .as_ref()
            .ok_or(Fault::Closed)
            .and_then(|main| query(&main.connection));
        found.map_err(|fault| StoreError(format!("cannot read {what}: {fault}")))
    }
}

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("a row is not what was written: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a document does not open with the encryption key")]
    Sealed,
    #[error("the store is closed")]
    Closed,
}

/// SQLite has signed integers only.
const fn signed(number: u64) -> i64 {
    number.cast_signed()
}

const fn unsigned(number: i64) -> u64 {
    number.cast_unsigned()
}

/// Milliseconds of a node's own time that passed since then; a wall clock that fell back counts as none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "ages are positive and far below 2^53 ms"
)]
fn aged_ms(age_ms: u64, saved_at: WallMs, now: WallMs, time_scale: f64) -> u64 {
    let passed = now.0.saturating_sub(saved_at.0) as f64 * time_scale;
    age_ms.saturating_add(passed as u64)
}

#[cfg(test)]
mod tests;
