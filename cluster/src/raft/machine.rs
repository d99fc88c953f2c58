//! What a committed entry does: the region's snapshot reaches this node's store.

use std::io::Cursor;
use std::sync::Arc;

use holdline_core::holds::{Incoming, Record};
use openraft::storage::{RaftStateMachine, Snapshot as RaftSnapshot};
use openraft::{
    Entry, EntryPayload, OptionalSend, RaftSnapshotBuilder, SnapshotMeta, StorageError,
    StorageIOError, StoredMembership,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::disk::{Disk, decoded, encoded, name, put, value};
use super::types::{Applied, Assembly, Command, Peer, Types};
use crate::store::{Snapshot, SnapshotInfo, State, Store, StoreError};

/// Applies entries to the store.
///
/// A snapshot in several pieces is saved when its last piece comes; until then the stored mark of
/// what was applied stays in front of the first one, so that a restart applies them again.
pub(super) struct Machine {
    disk: Disk,
    state: Arc<dyn State>,
    applied: Applied,
    assembly: Assembly,
    uid: watch::Sender<Option<u64>>,
    saved: watch::Sender<Option<SnapshotInfo>>,
}

/// One durable step of applying a batch.
struct Step {
    snapshot: Option<Snapshot>,
    uid: Option<u64>,
    applied: Vec<u8>,
}

/// What a raft snapshot carries.
#[derive(Debug, Serialize, Deserialize)]
struct Carried {
    uid: Option<u64>,
    table: Option<(SnapshotInfo, Vec<(Record, u64)>)>,
}

impl Machine {
    /// Goes on where the store stands.
    pub(super) async fn load(
        disk: Disk,
        state: Arc<dyn State>,
        uid: watch::Sender<Option<u64>>,
        saved: watch::Sender<Option<SnapshotInfo>>,
    ) -> Result<Self, StoreError> {
        let read = |store: &dyn Store| value::<Applied>(store, name::APPLIED);
        let applied = disk.read(read).await?.unwrap_or_default();
        Ok(Self {
            disk,
            state,
            applied,
            assembly: Assembly::default(),
            uid,
            saved,
        })
    }

    fn take_in(&mut self, entry: Entry<Types>) -> Result<Option<Step>, StoreError> {
        self.applied.0 = Some(entry.log_id);
        let (snapshot, uid) = match entry.payload {
            EntryPayload::Blank => return Ok(None),
            EntryPayload::Membership(membership) => {
                self.applied.1 = StoredMembership::new(Some(entry.log_id), membership);
                return Ok(None);
            }
            EntryPayload::Normal(Command::Init { uid }) => (None, Some(uid)),
            EntryPayload::Normal(Command::Snapshot(part)) => match self.assembly.push(part) {
                Some(snapshot) => (Some(snapshot), None),
                None => return Ok(None),
            },
        };
        let applied = encoded("applied", &self.applied)?;
        Ok(Some(Step {
            snapshot,
            uid,
            applied,
        }))
    }

    async fn apply_all(&mut self, entries: Vec<Entry<Types>>) -> Result<(), StoreError> {
        let mut steps = Vec::new();
        for entry in entries {
            steps.extend(self.take_in(entry)?);
        }
        let mark = match self.assembly.is_partial() {
            true => None,
            false => Some(encoded("applied", &self.applied)?),
        };
        let uid = steps.iter().find_map(|step| step.uid);
        let info = steps
            .iter()
            .rev()
            .find_map(|step| step.snapshot.as_ref())
            .map(|snapshot| snapshot.info.clone());
        let write = move |store: &dyn Store| {
            for step in &steps {
                step.run(store)?;
            }
            match mark {
                Some(mark) if steps.last().is_none_or(|last| last.applied != mark) => {
                    store.put_raft_value(name::APPLIED, &mark)
                }
                Some(_) | None => Ok(()),
            }
        };
        self.disk.write(write).await?;
        self.publish(uid, info);
        Ok(())
    }

    fn publish(&self, uid: Option<u64>, info: Option<SnapshotInfo>) {
        if let Some(uid) = uid {
            self.uid.send_replace(Some(uid));
        }
        if let Some(info) = info {
            self.saved.send_replace(Some(info));
        }
    }

    async fn install(
        &mut self,
        meta: SnapshotMeta<u64, Peer>,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        let carried: Carried = decoded("raft snapshot", &bytes)?;
        let (uid, info) = (
            carried.uid,
            carried.table.as_ref().map(|(info, _)| info.clone()),
        );
        let applied: Applied = (meta.last_log_id, meta.last_membership.clone());
        let kept = applied.clone();
        let write = move |store: &dyn Store| {
            let snapshot = encoded("raft snapshot", &(&meta, &bytes))?;
            let applied = encoded("applied", &kept)?;
            if let Some(uid) = carried.uid {
                put(store, name::UID, &uid)?;
            }
            match carried.table {
                Some((info, records)) => store.save_snapshot(
                    &Snapshot {
                        info,
                        whole: true,
                        records: incoming(records),
                    },
                    &[(name::SNAPSHOT, snapshot), (name::APPLIED, applied)],
                ),
                None => {
                    store.put_raft_value(name::SNAPSHOT, &snapshot)?;
                    store.put_raft_value(name::APPLIED, &applied)
                }
            }
        };
        self.disk.write(write).await?;
        self.applied = applied;
        self.assembly = Assembly::default();
        self.publish(uid, info);
        Ok(())
    }
}

impl Step {
    fn run(&self, store: &dyn Store) -> Result<(), StoreError> {
        if let Some(uid) = self.uid {
            put(store, name::UID, &uid)?;
        }
        match &self.snapshot {
            Some(snapshot) => {
                store.save_snapshot(snapshot, &[(name::APPLIED, self.applied.clone())])
            }
            None => store.put_raft_value(name::APPLIED, &self.applied),
        }
    }
}

fn incoming(records: Vec<(Record, u64)>) -> Vec<Incoming> {
    records
        .into_iter()
        .map(|(record, age_ms)| Incoming { record, age_ms })
        .collect()
}

/// Builds raft snapshots beside a working machine.
pub(super) struct Builder {
    disk: Disk,
    state: Arc<dyn State>,
}

impl Builder {
    async fn build(&self) -> Result<RaftSnapshot<Types>, StoreError> {
        let state = Arc::clone(&self.state);
        let build = move |store: &dyn Store| {
            let applied: Applied = value(store, name::APPLIED)?.unwrap_or_default();
            // The store counts ages to now, and from `saved_at` where they are saved again.
            let table = store.load_snapshot()?.map(|mut saved| {
                saved.info.saved_at = state.wall();
                let records = saved.records.into_iter();
                let records = records.map(|row| (row.record, row.age_ms));
                (saved.info, records.collect())
            });
            let uid = value(store, name::UID)?;
            let bytes = encoded("raft snapshot", &Carried { uid, table })?;
            let meta = SnapshotMeta {
                last_log_id: applied.0,
                last_membership: applied.1,
                snapshot_id: format!("{:016x}", rand::random::<u64>()),
            };
            put(store, name::SNAPSHOT, &(&meta, &bytes))?;
            Ok((meta, bytes))
        };
        // A write: the mark and the table must not move apart while they are read.
        let (meta, bytes) = self.disk.write(build).await?;
        Ok(RaftSnapshot {
            meta,
            snapshot: Box::new(Cursor::new(bytes)),
        })
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    async fn build_snapshot(&mut self) -> Result<RaftSnapshot<Types>, StorageError<u64>> {
        let built = self.build().await;
        built.map_err(|error| StorageIOError::write_snapshot(None, &error).into())
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<Applied, StorageError<u64>> {
        Ok(self.applied.clone())
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let answers = vec![(); entries.len()];
        let applied = self.apply_all(entries).await;
        applied
            .map(|()| answers)
            .map_err(|error| StorageIOError::write_state_machine(&error).into())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder {
            disk: self.disk.clone(),
            state: Arc::clone(&self.state),
        }
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<Cursor<Vec<u8>>>, StorageError<u64>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, Peer>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<u64>> {
        let installed = self.install(meta.clone(), snapshot.into_inner()).await;
        installed
            .map_err(|error| StorageIOError::write_snapshot(Some(meta.signature()), &error).into())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<RaftSnapshot<Types>>, StorageError<u64>> {
        type Stored = (SnapshotMeta<u64, Peer>, Vec<u8>);
        let read = |store: &dyn Store| value::<Stored>(store, name::SNAPSHOT);
        let stored = self.disk.read(read).await;
        let stored = stored.map_err(|error| StorageIOError::read_snapshot(None, &error))?;
        Ok(stored.map(|(meta, bytes)| RaftSnapshot {
            meta,
            snapshot: Box::new(Cursor::new(bytes)),
        }))
    }
}
