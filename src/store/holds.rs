//! Held keys: two tables merged by register, the node's own and the regional leader's snapshots.

use std::collections::BTreeMap;

use holdline_cluster::{Snapshot, SnapshotInfo};
use holdline_core::holds::{Body, Incoming, Record, Subject};
use holdline_core::time::WallMs;
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::{Fault, Store, StoreError, aged_ms, signed, unsigned};

/// Free registers, and holds that ran out, are forgotten after 7 days.
const FORGOTTEN_AFTER_MS: u64 = 7 * 86_400_000;

/// Which table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    Holds,
    Snapshot,
}

impl Table {
    const fn select(self) -> &'static str {
        match self {
            Self::Holds => "SELECT record, age_ms, saved_at FROM holds",
            Self::Snapshot => "SELECT record, age_ms, saved_at FROM snapshot",
        }
    }

    const fn find(self) -> &'static str {
        match self {
            Self::Holds => "SELECT record FROM holds WHERE subject = ?1",
            Self::Snapshot => "SELECT record FROM snapshot WHERE subject = ?1",
        }
    }

    const fn put(self) -> &'static str {
        match self {
            Self::Holds => {
                "INSERT OR REPLACE INTO holds (subject, record, age_ms, saved_at) VALUES (?1, ?2, ?3, ?4)"
            }
            Self::Snapshot => {
                "INSERT OR REPLACE INTO snapshot (subject, record, age_ms, saved_at) VALUES (?1, ?2, ?3, ?4)"
            }
        }
    }

    const fn delete(self) -> &'static str {
        match self {
            Self::Holds => "DELETE FROM holds WHERE subject = ?1",
            Self::Snapshot => "DELETE FROM snapshot WHERE subject = ?1",
        }
    }
}

impl Store {
    /// Keeps records with their ages at `wall`. A stored row gives way only to a greater register.
    ///
    /// # Errors
    /// When the database cannot be written: then none of them was kept.
    pub fn save_holds(&self, records: &[Incoming], wall: WallMs) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        self.write("holds", |t| merge(t, Table::Holds, records, wall))
    }

    /// Everything saved, both tables merged, ages counted to `wall`. What is too old to matter is dropped.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn load_holds(&self, wall: WallMs) -> Result<Vec<Incoming>, StoreError> {
        self.read("holds", |connection| {
            let mut newest: BTreeMap<Subject, Incoming> = BTreeMap::new();
            for table in [Table::Holds, Table::Snapshot] {
                for row in load(connection, table, wall, self.time_scale)? {
                    match newest.get(&row.record.subject) {
                        Some(here) if here.record.register >= row.record.register => {}
                        Some(_) | None => {
                            newest.insert(row.record.subject.clone(), row);
                        }
                    }
                }
            }
            Ok(newest.into_values().collect())
        })
    }

    /// Forgets subjects that the ledger pruned.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn forget_holds(&self, subjects: &[Subject]) -> Result<(), StoreError> {
        if subjects.is_empty() {
            return Ok(());
        }
        self.write("the pruning of holds", |t| {
            for subject in subjects {
                let name = serde_json::to_string(subject)?;
                t.execute(Table::Holds.delete(), [&name])?;
                t.execute(Table::Snapshot.delete(), [&name])?;
            }
            Ok(())
        })
    }
}

/// Merges a snapshot. A whole one also drops rows that are too old to matter, by this node's own clock;
/// it never drops a newer register, because the saved table is a join like any other.
pub(super) fn merge_snapshot(
    t: &Transaction<'_>,
    snapshot: &Snapshot,
    wall: WallMs,
    scale: f64,
) -> Result<(), Fault> {
    merge(
        t,
        Table::Snapshot,
        &snapshot.records,
        snapshot.info.saved_at,
    )?;
    if snapshot.whole {
        prune(t, Table::Snapshot, wall, scale)?;
        prune(t, Table::Holds, wall, scale)?;
    }
    let newest = snapshot_info(t)?.is_none_or(|here| here.saved_at <= snapshot.info.saved_at);
    if newest {
        t.execute(
            "INSERT OR REPLACE INTO snapshot_info (one, info) VALUES (1, ?1)",
            [serde_json::to_string(&snapshot.info)?],
        )?;
    }
    Ok(())
}

/// The saved table as one whole snapshot.
pub(super) fn load_snapshot(
    connection: &Connection,
    wall: WallMs,
    scale: f64,
) -> Result<Option<Snapshot>, Fault> {
    let Some(info) = snapshot_info(connection)? else {
        return Ok(None);
    };
    Ok(Some(Snapshot {
        info,
        whole: true,
        records: load(connection, Table::Snapshot, wall, scale)?,
    }))
}

fn snapshot_info(connection: &Connection) -> Result<Option<SnapshotInfo>, Fault> {
    let info: Option<String> = connection
        .query_row("SELECT info FROM snapshot_info", [], |row| row.get(0))
        .optional()?;
    Ok(info.as_deref().map(serde_json::from_str).transpose()?)
}

fn merge(
    t: &Transaction<'_>,
    table: Table,
    records: &[Incoming],
    wall: WallMs,
) -> Result<(), Fault> {
    let mut find = t.prepare_cached(table.find())?;
    let mut put = t.prepare_cached(table.put())?;
    for row in records {
        let subject = serde_json::to_string(&row.record.subject)?;
        let here: Option<String> = find.query_row([&subject], |r| r.get(0)).optional()?;
        let here: Option<Record> = here.as_deref().map(serde_json::from_str).transpose()?;
        if here.is_none_or(|here| here.register < row.record.register) {
            let record = serde_json::to_string(&row.record)?;
            put.execute((subject, record, signed(row.age_ms), signed(wall.0)))?;
        }
    }
    Ok(())
}

fn load(
    connection: &Connection,
    table: Table,
    wall: WallMs,
    scale: f64,
) -> Result<Vec<Incoming>, Fault> {
    let mut statement = connection.prepare_cached(table.select())?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let record: Record = serde_json::from_str(row.get_ref(0)?.as_str().unwrap_or_default())?;
        let saved_at = WallMs(unsigned(row.get(2)?));
        let age_ms = aged_ms(unsigned(row.get(1)?), saved_at, wall, scale);
        let incoming = Incoming { record, age_ms };
        if !is_forgotten(&incoming) {
            found.push(incoming);
        }
    }
    Ok(found)
}

fn prune(t: &Transaction<'_>, table: Table, wall: WallMs, scale: f64) -> Result<(), Fault> {
    let mut old = Vec::new();
    {
        let mut statement = t.prepare_cached(table.select())?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let record: Record =
                serde_json::from_str(row.get_ref(0)?.as_str().unwrap_or_default())?;
            let saved_at = WallMs(unsigned(row.get(2)?));
            let age_ms = aged_ms(unsigned(row.get(1)?), saved_at, wall, scale);
            let incoming = Incoming { record, age_ms };
            if is_forgotten(&incoming) {
                old.push(serde_json::to_string(&incoming.record.subject)?);
            }
        }
    }
    for subject in old {
        t.execute(table.delete(), [subject])?;
    }
    Ok(())
}

fn is_forgotten(row: &Incoming) -> bool {
    let wait_ms = match row.record.register.body {
        Body::Free { .. } => 0,
        Body::Held { wait, .. } => wait.ms,
    };
    row.age_ms > wait_ms.saturating_add(FORGOTTEN_AFTER_MS)
}
