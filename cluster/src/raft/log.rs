//! openraft's log and vote over the node's store.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
};

use super::disk::{Disk, decoded, encoded, name, put, value};
use super::types::Types;
use crate::store::StoreError;

/// The log. Every write is durable before it is acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Log {
    disk: Disk,
}

/// One message to a follower carries about this many bytes of entries, one entry at the least.
const BYTES_PER_MESSAGE: usize = 512 << 10;

impl Log {
    pub(super) const fn new(disk: Disk) -> Self {
        Self { disk }
    }

    async fn entries(
        &self,
        from: u64,
        to: u64,
        bytes: usize,
    ) -> Result<Vec<Entry<Types>>, StorageError<u64>> {
        let read = move |store: &dyn crate::store::Store| {
            let mut left = bytes;
            let mut entries = Vec::new();
            for (_, entry) in store.log_range(from, to)? {
                if entry.len() > left && !entries.is_empty() {
                    break;
                }
                left = left.saturating_sub(entry.len());
                entries.push(decoded("log entry", &entry)?);
            }
            Ok(entries)
        };
        self.disk.read(read).await.map_err(reading)
    }
}

fn reading(error: StoreError) -> StorageError<u64> {
    StorageIOError::read_logs(&error).into()
}

fn writing(error: StoreError) -> StorageError<u64> {
    StorageIOError::write_logs(&error).into()
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<Types>>, StorageError<u64>> {
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => index.saturating_add(1),
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(from, to, usize::MAX).await
    }

    async fn limited_get_log_entries(
        &mut self,
        from: u64,
        to: u64,
    ) -> Result<Vec<Entry<Types>>, StorageError<u64>> {
        self.entries(from, to, BYTES_PER_MESSAGE).await
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError<u64>> {
        let read = |store: &dyn crate::store::Store| {
            let purged: Option<LogId<u64>> = value(store, name::PURGED)?;
            let last = store
                .last_log()?
                .map(|(_, entry)| decoded::<Entry<Types>>("log entry", &entry))
                .transpose()?;
            Ok(LogState {
                last_purged_log_id: purged,
                last_log_id: last.map(|entry| entry.log_id).or(purged),
            })
        };
        self.disk.read(read).await.map_err(reading)
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError<u64>> {
        let vote = *vote;
        let write = move |store: &dyn crate::store::Store| put(store, name::VOTE, &vote);
        let saved = self.disk.write(write).await;
        saved.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError<u64>> {
        let read = |store: &dyn crate::store::Store| value(store, name::VOTE);
        let vote = self.disk.read(read).await;
        vote.map_err(|error| StorageIOError::read_vote(&error).into())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let write = move |store: &dyn crate::store::Store| {
            let rows = entries
                .iter()
                .map(|entry| Ok((entry.log_id.index, encoded("log entry", entry)?)))
                .collect::<Result<Vec<_>, StoreError>>()?;
            store.append_log(&rows)
        };
        self.disk.write(write).await.map_err(writing)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, since: LogId<u64>) -> Result<(), StorageError<u64>> {
        let write = move |store: &dyn crate::store::Store| store.truncate_log(since.index);
        self.disk.write(write).await.map_err(writing)
    }

    async fn purge(&mut self, upto: LogId<u64>) -> Result<(), StorageError<u64>> {
        // The mark first: entries below it are ignored, while a hole without a mark would not be.
        let write = move |store: &dyn crate::store::Store| {
            put(store, name::PURGED, &upto)?;
            store.purge_log(upto.index)
        };
        self.disk.write(write).await.map_err(writing)
    }
}
