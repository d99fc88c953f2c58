//! What a node's database keeps, in memory: it outlives the node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use holdline_cluster::{Snapshot, SnapshotInfo, Store, StoreError};
use holdline_core::holds::{Incoming, Subject};
use holdline_core::time::WallMs;

#[derive(Default)]
pub(crate) struct Disk(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    values: BTreeMap<String, Vec<u8>>,
    log: BTreeMap<u64, Vec<u8>>,
    saved: Option<Snapshot>,
    saves: usize,
    broken: bool,
}

impl Disk {
    /// Held subjects saved.
    pub(crate) fn held(&self) -> usize {
        let rows = self.0.lock().unwrap();
        let saved = rows.saved.as_ref();
        saved.map_or(0, |saved| {
            let held = |one: &&Incoming| one.record.register.is_held();
            saved.records.iter().filter(held).count()
        })
    }

    /// Snapshots saved, and whether the last one was whole.
    pub(crate) fn saves(&self) -> usize {
        self.0.lock().unwrap().saves
    }

    /// Puts a table there.
    pub(crate) fn save(&self, records: Vec<Incoming>) {
        let info = SnapshotInfo {
            saved_at: WallMs(1),
            saved_by: "n-other".into(),
            held: 0,
            group_uid: 0,
            term: 0,
        };
        let whole = true;
        self.0.lock().unwrap().saved = Some(Snapshot {
            info,
            whole,
            records,
        });
    }

    /// Fails every call from now on, or works again.
    pub(crate) fn break_down(&self, broken: bool) {
        self.0.lock().unwrap().broken = broken;
    }

    fn rows(&self) -> Result<MutexGuard<'_, Rows>, StoreError> {
        let rows = self.0.lock().unwrap();
        if rows.broken {
            return Err(StoreError("broken".to_owned()));
        }
        Ok(rows)
    }
}

impl Store for Disk {
    fn raft_value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rows()?.values.get(name).cloned())
    }

    fn put_raft_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.rows()?.values.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn append_log(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        self.rows()?.log.extend(entries.iter().cloned());
        Ok(())
    }

    fn log_range(&self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let rows = self.rows()?;
        let range = rows.log.range(from..to.max(from));
        Ok(range
            .map(|(index, entry)| (*index, entry.clone()))
            .collect())
    }

    fn last_log(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let rows = self.rows()?;
        let last = rows.log.last_key_value();
        Ok(last.map(|(index, entry)| (*index, entry.clone())))
    }

    fn truncate_log(&self, from: u64) -> Result<(), StoreError> {
        self.rows()?.log.retain(|index, _| *index < from);
        Ok(())
    }

    fn purge_log(&self, to: u64) -> Result<(), StoreError> {
        self.rows()?.log.retain(|index, _| *index > to);
        Ok(())
    }

    fn wipe_raft(&self) -> Result<(), StoreError> {
        let mut rows = self.rows()?;
        rows.values.clear();
        rows.log.clear();
        Ok(())
    }

    fn save_snapshot(
        &self,
        snapshot: &Snapshot,
        raft_values: &[(&str, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let mut rows = self.rows()?;
        rows.saves += 1;
        let before = rows.saved.take().filter(|_| !snapshot.whole);
        let before = before.map(|saved| saved.records).unwrap_or_default();
        let mut merged: BTreeMap<Subject, Incoming> = BTreeMap::new();
        for one in before.into_iter().chain(snapshot.records.clone()) {
            merged.insert(one.record.subject.clone(), one);
        }
        rows.saved = Some(Snapshot {
            info: snapshot.info.clone(),
            whole: true,
            records: merged.into_values().collect(),
        });
        for (name, value) in raft_values {
            rows.values.insert((*name).to_owned(), value.clone());
        }
        Ok(())
    }

    fn load_snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.rows()?.saved.clone())
    }
}
