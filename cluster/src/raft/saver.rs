//! Saves the table: the leader proposes it to the group, an acting leader keeps it in its own store.
//!
//! Changes are saved within a second, the whole table every interval and by every new leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdline_core::holds::{Register, Subject};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::disk::Disk;
use super::shared::Shared;
use super::types::{Command, Part};
use crate::store::{Snapshot, SnapshotInfo, StoreError};

/// An entry that is not committed by then is proposed again.
const PROPOSE_WITHIN: Duration = Duration::from_secs(5);
/// Between two attempts to save.
const RETRY_APART: Duration = Duration::from_secs(1);

/// In what part this node saves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Another node does.
    Rests,
    /// By proposing to the group.
    Leads,
    /// Into its own store alone.
    Acts,
}

/// What was saved last.
struct Saver {
    shared: Arc<Shared>,
    role: Role,
    saved: BTreeMap<Subject, Register>,
    held: usize,
    /// When the last attempt ended.
    at: Instant,
    whole_due: Instant,
    /// The first change since.
    dirty_since: Option<Instant>,
    failing: bool,
}

/// Runs until the task is ended.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut leadership = shared.leadership.subscribe();
    let mut interval = shared.options.snapshot_interval.clone();
    let mut saver = Saver::new(Arc::clone(&shared));
    loop {
        saver.take_role();
        let due = saver.due();
        tokio::select! {
            () = sleep_until(due) => saver.save().await,
            () = shared.dirty.notified() => {
                saver.dirty_since.get_or_insert(Instant::now());
            }
            changed = leadership.changed() => if changed.is_err() { return },
            Ok(()) = interval.changed() => {
                let next = saver.at + *interval.borrow();
                saver.whole_due = saver.whole_due.min(next);
            }
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Saver {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            role: Role::Rests,
            saved: BTreeMap::new(),
            held: 0,
            at: Instant::now(),
            whole_due: Instant::now(),
            dirty_since: None,
            failing: false,
        }
    }

    /// A new leader does not know what the old one saved: it begins with the whole table.
    fn take_role(&mut self) {
        let leadership = self.shared.leadership.borrow().clone();
        let role = match leadership.leader {
            Some(leader) if leader == self.shared.options.node_id && leadership.acting => {
                Role::Acts
            }
            Some(leader) if leader == self.shared.options.node_id => Role::Leads,
            Some(_) | None => Role::Rests,
        };
        if role != self.role {
            self.role = role;
            self.saved.clear();
            self.whole_due = Instant::now();
        }
    }

    fn due(&self) -> Option<Instant> {
        let timings = &self.shared.timings;
        let changes = self
            .dirty_since
            .map(|since| (since + timings.save_after).max(self.at + timings.save_apart));
        match self.role {
            Role::Rests => None,
            Role::Leads | Role::Acts => {
                let due = changes.map_or(self.whole_due, |changes| changes.min(self.whole_due));
                Some(if self.failing {
                    due.max(self.at + RETRY_APART)
                } else {
                    due
                })
            }
        }
    }

    async fn save(&mut self) {
        let whole = self.whole_due <= Instant::now();
        // Before the table is read: a change that comes now is saved next time.
        self.dirty_since = None;
        let saved = match self.next(whole) {
            Some(snapshot) => self.keep(snapshot, whole).await,
            None => Ok(()),
        };
        self.at = Instant::now();
        match saved {
            Ok(()) => self.failing = false,
            Err(StoreError(error)) => {
                if std::mem::replace(&mut self.failing, true) {
                    debug!(error, "the table is not saved yet");
                } else {
                    warn!(error, "cannot save the table: trying again");
                }
                self.saved.clear();
                self.whole_due = self.at;
            }
        }
    }

    /// What differs from what was saved last, or all of it.
    fn next(&self, whole: bool) -> Option<Snapshot> {
        let shared = &self.shared;
        let held = shared.options.state.held_count();
        let mut records = shared.options.state.export_records();
        if !whole {
            records.retain(|incoming| {
                let record = &incoming.record;
                self.saved.get(&record.subject) != Some(&record.register)
            });
        }
        if !whole && records.is_empty() && held == self.held {
            return None;
        }
        let (group_uid, term) = match self.role {
            Role::Leads => {
                let leadership = shared.leadership.borrow();
                (leadership.group_uid.unwrap_or(0), leadership.term)
            }
            Role::Acts | Role::Rests => (0, 0),
        };
        let info = SnapshotInfo {
            saved_at: shared.options.state.wall(),
            saved_by: shared.options.node_id.clone(),
            held,
            group_uid,
            term,
        };
        Some(Snapshot {
            info,
            whole,
            records,
        })
    }

    async fn keep(&mut self, snapshot: Snapshot, whole: bool) -> Result<(), StoreError> {
        let held = snapshot.info.held;
        let kept: Vec<_> = snapshot
            .records
            .iter()
            .map(|incoming| (incoming.record.subject.clone(), incoming.record.register))
            .collect();
        match self.role {
            Role::Leads => self.propose(snapshot).await?,
            Role::Acts => self.keep_here(snapshot).await?,
            Role::Rests => return Ok(()),
        }
        if whole {
            self.saved.clear();
            let interval = *self.shared.options.snapshot_interval.borrow();
            self.whole_due = Instant::now() + interval;
        }
        self.saved.extend(kept);
        self.held = held;
        Ok(())
    }

    async fn propose(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        let Some(life) = self.shared.life() else {
            return Err(StoreError("raft does not run".to_owned()));
        };
        for part in Part::cut(snapshot) {
            let proposed = life.raft.client_write(Command::Snapshot(part));
            let proposed = timeout(PROPOSE_WITHIN, proposed).await;
            let proposed = proposed.map_err(|_| StoreError("no quorum in time".to_owned()))?;
            proposed.map_err(|error| StoreError(error.to_string()))?;
        }
        Ok(())
    }

    async fn keep_here(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        let info = snapshot.info.clone();
        let disk = Disk::new(Arc::clone(&self.shared.options.store));
        disk.write(move |store| store.save_snapshot(&snapshot, &[]))
            .await?;
        self.shared.saved.send_replace(Some(info));
        Ok(())
    }
}
