//! Keeping changed holds: collected while requests run, written in batches within a second.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdline_core::holds::{Record, Subject};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Node;

/// How long changes are collected before they are written.
const COLLECT: Duration = Duration::from_millis(150);
/// How long to wait after the store refused to write.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Records that are not in the store yet, the newest of each subject.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    records: Mutex<BTreeMap<Subject, Record>>,
    changed: Notify,
}

impl Unsaved {
    pub(super) fn add(&self, records: &[Record]) {
        {
            let mut waiting = self.records.lock().unwrap_or_else(PoisonError::into_inner);
            for record in records {
                waiting.insert(record.subject.clone(), record.clone());
            }
        }
        self.changed.notify_one();
    }

    fn take(&self) -> Vec<Record> {
        let mut waiting = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting).into_values().collect()
    }
}

impl Node {
    /// Writes what changed until `end`, and what is left then.
    pub(super) async fn keep_holds(self: Arc<Self>, end: CancellationToken) {
        loop {
            tokio::select! {
                () = self.unsaved.changed.notified() => {}
                () = end.cancelled() => break,
            }
            tokio::select! {
                () = tokio::time::sleep(COLLECT) => {}
                () = end.cancelled() => break,
            }
            if !self.save_unsaved().await {
                tokio::select! {
                    () = tokio::time::sleep(AFTER_FAILURE) => {}
                    () = end.cancelled() => break,
                }
            }
        }
        self.save_unsaved().await;
    }

    /// False if the store refused: the records wait for the next try.
    async fn save_unsaved(self: &Arc<Self>) -> bool {
        let records = self.unsaved.take();
        if records.is_empty() {
            return true;
        }
        let node = Arc::clone(self);
        let rows = self.export(&records);
        let saved =
            tokio::task::spawn_blocking(move || node.store.save_holds(&rows, node.clock.wall()));
        match saved.await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, records = records.len(), "held keys could not be saved; trying again");
                self.unsaved.add(&records);
                false
            }
            Err(error) => {
                tracing::error!(%error, "saving held keys failed");
                self.unsaved.add(&records);
                false
            }
        }
    }
}
