//! The storage that the cluster asks its node for.

use holdline_cluster::{Snapshot, Store as ClusterStore, StoreError as ClusterStoreError};

use super::{Store, StoreError, holds, logs, raft};

impl From<StoreError> for ClusterStoreError {
    fn from(error: StoreError) -> Self {
        Self(error.0)
    }
}

const RAFT: &str = "the raft log";

impl ClusterStore for Store {
    fn raft_value(&self, name: &str) -> Result<Option<Vec<u8>>, ClusterStoreError> {
        Ok(self.read(RAFT, |connection| raft::value(connection, name))?)
    }

    fn put_raft_value(&self, name: &str, value: &[u8]) -> Result<(), ClusterStoreError> {
        Ok(self.write(RAFT, |t| raft::put_value(t, name, value))?)
    }

    fn append_log(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), ClusterStoreError> {
        Ok(self.write(RAFT, |t| raft::append(t, entries))?)
    }

    fn log_range(&self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, ClusterStoreError> {
        Ok(self.read(RAFT, |connection| raft::range(connection, from, to))?)
    }

    fn last_log(&self) -> Result<Option<(u64, Vec<u8>)>, ClusterStoreError> {
        Ok(self.read(RAFT, raft::last)?)
    }

    fn truncate_log(&self, from: u64) -> Result<(), ClusterStoreError> {
        Ok(self.write(RAFT, |t| raft::truncate(t, from))?)
    }

    fn purge_log(&self, to: u64) -> Result<(), ClusterStoreError> {
        Ok(self.write(RAFT, |t| raft::purge(t, to))?)
    }

    fn wipe_raft(&self) -> Result<(), ClusterStoreError> {
        Ok(self.write(RAFT, raft::wipe)?)
    }

    fn save_snapshot(
        &self,
        snapshot: &Snapshot,
        raft_values: &[(&str, Vec<u8>)],
    ) -> Result<(), ClusterStoreError> {
        let wall = logs::wall_now();
        Ok(self.write("a snapshot", |t| {
            holds::merge_snapshot(t, snapshot, wall, self.time_scale)?;
            for (name, value) in raft_values {
                raft::put_value(t, name, value)?;
            }
            Ok(())
        })?)
    }

    fn load_snapshot(&self) -> Result<Option<Snapshot>, ClusterStoreError> {
        let wall = logs::wall_now();
        Ok(self.read("the snapshot", |connection| {
            holds::load_snapshot(connection, wall, self.time_scale)
        })?)
    }
}
