//! One node: its ledger and clocks, what it stored, and what it has been told (kept by the simulator).

use std::collections::BTreeMap;

use holdline_core::holds::{Incoming, KeyHolds, Ledger, Record, Subject};
use holdline_core::ids::{Fingerprint, NodeId, Region};
use holdline_core::time::{Mono, WallMs};

use crate::chronicle::{Id, Known};
use crate::rules::{Clocks, Rules};
use crate::world::{KEYS, key, provider};

/// When the simulated world begins, by a clock that is right.
const EPOCH_MS: u64 = 1_800_000_000_000;

/// What a node shows of a subject, and since when by its own reckoning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) id: Id,
    /// True time of taking it in.
    pub(crate) at: u64,
    /// How old it was said to be.
    pub(crate) age_ms: u64,
}

/// A record in a store, with the wall time of saving.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) incoming: Incoming,
    pub(crate) wall: WallMs,
}

pub(crate) type Store = BTreeMap<Subject, Saved>;

/// A node, up or down.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) life: u64,
    pub(crate) is_up: bool,
    pub(crate) ledger: Ledger,
    pub(crate) config: [Fingerprint; KEYS],
    pub(crate) store: Store,
    pub(crate) save_is_due: bool,
    /// How far its wall clock is ahead of true time.
    pub(crate) skew_ms: u64,
    /// Everything it was ever told in this life, and what the tellers knew.
    pub(crate) known: BTreeMap<Subject, Known>,
    pub(crate) shown: BTreeMap<Subject, Shown>,
    started: u64,
}

impl Node {
    pub(crate) fn new(number: usize, skew_ms: u64, config: [Fingerprint; KEYS]) -> Self {
        Self {
            number,
            life: 0,
            is_up: true,
            ledger: ledger(number, 0),
            config,
            store: Store::new(),
            save_is_due: false,
            skew_ms,
            known: BTreeMap::new(),
            shown: BTreeMap::new(),
            started: 0,
        }
    }

    pub(crate) fn clocks(&self, time: u64) -> Clocks {
        Clocks {
            now: Mono(time - self.started),
            wall: self.wall(time),
        }
    }

    pub(crate) fn wall(&self, time: u64) -> WallMs {
        WallMs(EPOCH_MS + time + self.skew_ms)
    }

    /// True time of an instant of this node's monotonic clock.
    pub(crate) fn true_time(&self, mono: Mono) -> u64 {
        self.started + mono.0
    }

    pub(crate) fn holds(&self, rules: &dyn Rules, number: usize) -> KeyHolds {
        let fingerprint = rules.fingerprint(self.config[number]);
        self.ledger
            .key_holds(&provider(), &key(number), fingerprint)
    }

    pub(crate) fn save(&mut self, records: Vec<Incoming>, time: u64) {
        let wall = self.wall(time);
        for incoming in records {
            let subject = incoming.record.subject.clone();
            self.store.insert(subject, Saved { incoming, wall });
        }
    }

    pub(crate) fn save_all(&mut self, time: u64) {
        let records = self.ledger.export(self.clocks(time).now);
        self.store.clear();
        self.save(records, time);
    }

    /// Everything that was in memory is gone.
    pub(crate) fn crash(&mut self) {
        self.is_up = false;
        self.life += 1;
        self.save_is_due = false;
        self.known.clear();
        self.shown.clear();
        self.ledger = ledger(self.number, self.life);
    }

    pub(crate) fn start(&mut self, time: u64) {
        self.is_up = true;
        self.started = time;
    }

    pub(crate) fn shown_id(&self, subject: &Subject) -> Option<Id> {
        self.shown.get(subject).map(|shown| shown.id)
    }

    pub(crate) fn knows(&self, subject: &Subject) -> Known {
        self.known.get(subject).cloned().unwrap_or_default()
    }

    pub(crate) fn records(&self, time: u64) -> Vec<Record> {
        let all = self.ledger.export(self.clocks(time).now);
        all.into_iter().map(|incoming| incoming.record).collect()
    }
}

fn ledger(number: usize, life: u64) -> Ledger {
    let name = format!("n{number}");
    let instance = (number as u64 + 1) * 1_000 + life;
    Ledger::new(NodeId::from(name), Region::from("eu"), instance)
}
