//! A store and a state in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use holdline_core::failure::Reason;
use holdline_core::holds::{
    Body, Details, Incoming, Record, Register, Subject, SubjectScope, Wait,
};
use holdline_core::ids::{Fingerprint, KeyId, ProviderId};
use holdline_core::replica::Document;
use holdline_core::time::{Hlc, WallMs};
use holdline_core::tpm::IncomingSignal;

use crate::store::{Snapshot, State, Store, StoreError};

/// A held subject of its own for each number; a greater `seq` is a newer state of it.
pub(in crate::raft) fn record(number: u64, seq: u32) -> Incoming {
    let body = Body::Held {
        refused: true,
        rung: 0,
        reason: Reason::Credential,
        wait: Wait {
            ms: 30_000,
            stated: false,
        },
    };
    Incoming {
        record: Record {
            subject: Subject {
                provider: ProviderId::from("openai"),
                key: KeyId::from(format!("k-{number}")),
                fingerprint: Fingerprint(number),
                scope: SubjectScope::Key,
            },
            register: Register {
                seq,
                body,
                ..Register::NEVER
            },
            details: Details::default(),
        },
        age_ms: 5,
    }
}

/// The state of [`record`] after an operator released it.
pub(super) fn released(number: u64, seq: u32) -> Incoming {
    let mut released = record(number, 0);
    released.record.register = Register {
        release: Hlc {
            ms: u64::from(seq),
            counter: 0,
            node: 1,
        },
        ..Register::NEVER
    };
    released
}

/// A table without rules: the greater register wins.
#[derive(Default)]
pub(super) struct Table(Mutex<BTreeMap<Subject, Record>>);

impl State for Table {
    fn merge_records(&self, incoming: Vec<Incoming>) -> usize {
        let mut table = self.0.lock().unwrap();
        let mut changed = 0;
        for Incoming { record, .. } in incoming {
            let here = table.get(&record.subject);
            if here.is_none_or(|here| here.register < record.register) {
                table.insert(record.subject.clone(), record);
                changed += 1;
            }
        }
        changed
    }

    fn export_records(&self) -> Vec<Incoming> {
        let table = self.0.lock().unwrap();
        let aged = |record: &Record| Incoming {
            record: record.clone(),
            age_ms: 5,
        };
        table.values().map(aged).collect()
    }

    fn held_count(&self) -> usize {
        let table = self.0.lock().unwrap();
        table.values().filter(|r| r.register.is_held()).count()
    }

    fn wall(&self) -> WallMs {
        WallMs(1_000_000)
    }

    fn merge_signals(&self, _: Vec<IncomingSignal>) -> usize {
        0
    }
    fn export_some(&self, _: &[Record]) -> Vec<Incoming> {
        Vec::new()
    }
    fn record_digest(&self) -> u128 {
        0
    }
    fn merge_documents(&self, _: Vec<Document>) -> usize {
        0
    }
    fn export_documents(&self) -> Vec<Document> {
        Vec::new()
    }
    fn document_digest(&self) -> u64 {
        0
    }
}

/// What a disk would have.
#[derive(Default)]
pub(super) struct Memory {
    rows: Mutex<Rows>,
    broken: AtomicBool,
}

#[derive(Default)]
struct Rows {
    values: BTreeMap<String, Vec<u8>>,
    log: BTreeMap<u64, Vec<u8>>,
    saved: Option<Snapshot>,
}

impl Memory {
    /// Fails every call from now on, or works again.
    pub(super) fn break_down(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    fn rows<T>(&self, call: impl FnOnce(&mut Rows) -> T) -> Result<T, StoreError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError("the disk is broken".to_owned()));
        }
        Ok(call(&mut self.rows.lock().unwrap()))
    }

    /// How many log entries it keeps.
    pub(super) fn log_len(&self) -> usize {
        self.rows.lock().unwrap().log.len()
    }
}

impl Store for Memory {
    fn raft_value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.rows(|rows| rows.values.get(name).cloned())
    }

    fn put_raft_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.rows(|rows| drop(rows.values.insert(name.to_owned(), value.to_vec())))
    }

    fn append_log(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        self.rows(|rows| rows.log.extend(entries.iter().cloned()))
    }

    fn log_range(&self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        self.rows(|rows| {
            let range = rows.log.range(from..to.max(from));
            range
                .map(|(index, entry)| (*index, entry.clone()))
                .collect()
        })
    }

    fn last_log(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.rows(|rows| {
            let last = rows.log.last_key_value();
            last.map(|(index, entry)| (*index, entry.clone()))
        })
    }

    fn truncate_log(&self, from: u64) -> Result<(), StoreError> {
        self.rows(|rows| drop(rows.log.split_off(&from)))
    }

    fn purge_log(&self, to: u64) -> Result<(), StoreError> {
        self.rows(|rows| rows.log = rows.log.split_off(&(to + 1)))
    }

    fn wipe_raft(&self) -> Result<(), StoreError> {
        self.rows(|rows| {
            rows.values.clear();
            rows.log.clear();
        })
    }

    fn save_snapshot(
        &self,
        snapshot: &Snapshot,
        raft_values: &[(&str, Vec<u8>)],
    ) -> Result<(), StoreError> {
        self.rows(|rows| {
            let before = rows.saved.take().map(|saved| saved.records);
            let before = before.filter(|_| !snapshot.whole).unwrap_or_default();
            let mut merged: BTreeMap<Subject, Incoming> = BTreeMap::new();
            for incoming in before.into_iter().chain(snapshot.records.clone()) {
                merged.insert(incoming.record.subject.clone(), incoming);
            }
            rows.saved = Some(Snapshot {
                info: snapshot.info.clone(),
                whole: true,
                records: merged.into_values().collect(),
            });
            for (name, value) in raft_values {
                rows.values.insert((*name).to_owned(), value.clone());
            }
        })
    }

    fn load_snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.rows(|rows| rows.saved.clone())
    }
}
