//! A group's access to its store: off the async path, in order, and none after the group is closed.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec;
use crate::store::{Store, StoreError};

/// Names of the values that a group keeps.
pub(super) mod name {
    /// The last vote.
    pub(in crate::raft) const VOTE: &str = "vote";
    /// The last log id that is no longer in the log.
    pub(in crate::raft) const PURGED: &str = "purged";
    /// The last entry applied, and the membership as of it.
    pub(in crate::raft) const APPLIED: &str = "applied";
    /// The raft snapshot: its meta and its bytes.
    pub(in crate::raft) const SNAPSHOT: &str = "snapshot";
    /// The group's uid.
    pub(in crate::raft) const UID: &str = "uid";
}

/// One life of a group on its store. Cheap to clone.
///
/// A group that is wiped gets a new one: whatever tasks of the old life still want to write is
/// refused, so it cannot land behind the wipe.
#[derive(Clone)]
pub(super) struct Disk {
    store: Arc<dyn Store>,
    open: Arc<Mutex<bool>>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Disk")
    }
}

impl Disk {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            open: Arc::new(Mutex::new(true)),
        }
    }

    /// Reads.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        blocking(move || call(&*store)).await
    }

    /// Writes, alone: no other write of this life runs at the same time.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let this = self.clone();
        blocking(move || {
            let open = this.open.lock().unwrap_or_else(PoisonError::into_inner);
            if !*open {
                return Err(StoreError("the raft group is closed".to_owned()));
            }
            call(&*this.store)
        })
        .await
    }

    /// Ends this life: waits for the write that is under way, and refuses every later one.
    pub(super) async fn close(&self) {
        let open = Arc::clone(&self.open);
        let closed = blocking(move || {
            *open.lock().unwrap_or_else(PoisonError::into_inner) = false;
            Ok(())
        });
        // Fails only while the runtime is shut down, when nothing runs any more.
        let _ = closed.await;
    }
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(call)
        .await
        .unwrap_or_else(|error| Err(StoreError(format!("a store call did not finish: {error}"))))
}

/// A stored value.
pub(super) fn value<T: DeserializeOwned>(
    store: &dyn Store,
    name: &str,
) -> Result<Option<T>, StoreError> {
    store
        .raft_value(name)?
        .map(|bytes| decoded(name, &bytes))
        .transpose()
}

/// Keeps a value.
pub(super) fn put<T: Serialize>(
    store: &dyn Store,
    name: &str,
    value: &T,
) -> Result<(), StoreError> {
    store.put_raft_value(name, &encoded(name, value)?)
}

/// What the bytes stand for; the error names what they were to be.
pub(super) fn decoded<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, StoreError> {
    codec::decode(bytes).map_err(|error| StoreError(format!("{what}: {error}")))
}

/// The value as bytes; the error names what it was.
pub(super) fn encoded<T: Serialize>(what: &str, value: &T) -> Result<Vec<u8>, StoreError> {
    codec::encode(value).map_err(|error| StoreError(format!("{what}: {error}")))
}
