//! What the tasks of a group have in common, and the group's life on its store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Raft, RaftMetrics};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::timeout;

use super::disk::{Disk, name, put, value};
use super::log::Log;
use super::machine::Machine;
use super::types::{Peer, Timings, Types};
use super::wire::Lines;
use super::{GroupOptions, Leadership};
use crate::store::{SnapshotInfo, Store, StoreError};

/// Everything a group's tasks share.
pub(super) struct Shared {
    pub(super) options: GroupOptions,
    pub(super) timings: Timings,
    /// The running raft. None while it is rebuilt, and after the group was closed.
    pub(super) life: watch::Sender<Option<Life>>,
    pub(super) uid: watch::Sender<Option<u64>>,
    pub(super) saved: watch::Sender<Option<SnapshotInfo>>,
    pub(super) leadership: watch::Sender<Leadership>,
    /// Raft ids whose votes are to be handed on.
    pub(super) leaving: watch::Sender<BTreeSet<u64>>,
    /// The table changed.
    pub(super) dirty: Notify,
    /// Held while this node enters, founds or forgets a group.
    entering: Mutex<()>,
}

/// One raft and its access to the store.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) raft: Raft<Types>,
    disk: Disk,
}

/// openraft ends within this time, or is left behind.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(2);

impl Life {
    /// Whether nothing of a group has reached its log yet. Its metrics cannot tell: they are blank
    /// for a moment after every start.
    async fn is_blank(&self) -> bool {
        matches!(self.raft.is_initialized().await, Ok(false))
    }

    async fn end(self) {
        // The error is about a task that panicked; it has ended, which is all that matters here.
        let _ = timeout(SHUTDOWN_WITHIN, self.raft.shutdown()).await;
        self.disk.close().await;
    }
}

impl Shared {
    /// Opens what the store has.
    pub(super) async fn open(
        options: GroupOptions,
        timings: Timings,
    ) -> Result<Arc<Self>, StoreError> {
        let disk = Disk::new(Arc::clone(&options.store));
        let read = |store: &dyn Store| {
            let saved = store.load_snapshot()?.map(|snapshot| snapshot.info);
            Ok((value(store, name::UID)?, saved))
        };
        let (uid, saved) = disk.read(read).await?;
        let shared = Arc::new(Self {
            options,
            timings,
            life: watch::Sender::new(None),
            uid: watch::Sender::new(uid),
            saved: watch::Sender::new(saved),
            leadership: watch::Sender::new(Leadership::default()),
            leaving: watch::Sender::default(),
            dirty: Notify::new(),
            entering: Mutex::new(()),
        });
        shared.begin().await?;
        // A group was named, but nothing of it came: nothing is lost by asking anew.
        if let (Some(_), Some(life)) = (uid, shared.life())
            && life.is_blank().await
        {
            shared.forget().await?;
        }
        Ok(shared)
    }

    pub(super) fn life(&self) -> Option<Life> {
        self.life.borrow().clone()
    }

    pub(super) fn metrics(&self) -> Option<RaftMetrics<u64, Peer>> {
        self.life().map(|life| life.raft.metrics().borrow().clone())
    }

    pub(super) fn lines(&self) -> Lines {
        Lines {
            wire: Arc::clone(&self.options.wire),
            uid: self.uid.subscribe(),
        }
    }

    /// Starts a raft on what the store has.
    async fn begin(&self) -> Result<(), StoreError> {
        let options = &self.options;
        let disk = Disk::new(Arc::clone(&options.store));
        let machine = Machine::load(
            disk.clone(),
            Arc::clone(&options.state),
            self.uid.clone(),
            self.saved.clone(),
        )
        .await?;
        let config = self.timings.config(&options.region, options.raft_id);
        let config = Arc::new(config);
        let log = Log::new(disk.clone());
        let raft = Raft::new(options.raft_id, config, self.lines(), log, machine)
            .await
            .map_err(|error| StoreError(error.to_string()))?;
        self.life.send_replace(Some(Life { raft, disk }));
        Ok(())
    }

    /// Ends the raft.
    pub(super) async fn end(&self) {
        if let Some(life) = self.life.send_replace(None) {
            life.end().await;
        }
    }

    /// Starts the raft again after it failed.
    pub(super) async fn rebuild(&self) -> Result<(), StoreError> {
        let _entering = self.entering.lock().await;
        self.end().await;
        self.begin().await
    }

    /// Forgets the group and starts blank.
    pub(super) async fn forget(&self) -> Result<(), StoreError> {
        let _entering = self.entering.lock().await;
        self.end().await;
        let disk = Disk::new(Arc::clone(&self.options.store));
        disk.write(|store| store.wipe_raft()).await?;
        self.uid.send_replace(None);
        self.begin().await
    }

    /// Whether a message of this group is for this node: it is its own group, or it has none, and
    /// joins. Only a leader's message makes it join.
    pub(super) async fn belongs(&self, group_uid: u64, joins: bool) -> Result<bool, StoreError> {
        if *self.uid.borrow() == Some(group_uid) {
            return Ok(true);
        }
        let _entering = self.entering.lock().await;
        let uid = *self.uid.borrow();
        if uid.is_some() || !joins {
            return Ok(uid == Some(group_uid));
        }
        self.enter(group_uid).await?;
        Ok(true)
    }

    async fn enter(&self, uid: u64) -> Result<(), StoreError> {
        let Some(life) = self.life() else {
            return Err(StoreError("raft is being started".to_owned()));
        };
        life.disk
            .write(move |store| put(store, name::UID, &uid))
            .await?;
        self.uid.send_replace(Some(uid));
        Ok(())
    }

    /// Notes that this node's vote is to be handed on.
    pub(super) fn leaves(&self, raft_id: u64) {
        self.leaving
            .send_if_modified(|leaving| leaving.insert(raft_id));
    }

    /// Starts a group of this node alone. Does nothing if it has been taken into one meanwhile.
    pub(super) async fn found(&self) -> Result<(), StoreError> {
        let _entering = self.entering.lock().await;
        if self.uid.borrow().is_some() {
            return Ok(());
        }
        // Half the range: room for a uid in signed columns.
        self.enter(rand::random::<u64>() >> 1).await?;
        let Some(life) = self.life() else {
            return Ok(());
        };
        let peer = Peer {
            node_id: self.options.node_id.to_string(),
        };
        let alone = std::collections::BTreeMap::from([(self.options.raft_id, peer)]);
        let founded = life.raft.initialize(alone).await;
        founded.map_err(|error| StoreError(error.to_string()))
    }
}
