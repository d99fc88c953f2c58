//! One subject in the table: its record, its age, and what is this node's own.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::check::CheckSlot;
use super::ladder::MEMORY_MS;
use super::record::{Body, Incoming, Record, Register};
use super::settle;
use super::view::HoldRef;
use crate::failure::Reason;
use crate::time::Mono;

/// A record with this node's deadline and check slot.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) record: Record,
    /// This node's own deadline.
    pub(super) due: Mono,
    pub(super) slot: Arc<CheckSlot>,
    /// Share of the table's digest: 0 for a free register.
    pub(super) mark: u128,
    /// Outlives a hold for another reason, so that two reasons that take turns still climb.
    pub(super) memory: Option<Memory>,
    age: Age,
}

/// The rung that a subject had when it last served or was disproved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    reason: Reason,
    rung: u8,
    age: Age,
}

/// How old something is, counted on this node's monotonic clock from what its carrier said.
#[derive(Clone, Copy, Debug)]
struct Age {
    at: Mono,
    ms: u64,
}

impl Age {
    const fn at(self, now: Mono) -> u64 {
        self.ms.saturating_add(now.since_ms(self.at))
    }
}

impl Row {
    /// `before` is the row that this one replaces.
    pub(super) fn new(
        record: Record,
        before: Option<&Self>,
        age_ms: u64,
        own_wait_ms: u64,
        now: Mono,
    ) -> Self {
        let age = Age {
            at: now,
            ms: age_ms,
        };
        let register = &record.register;
        // An age that is wrong can shorten a wait, never lengthen it.
        let due = now.plus_ms(own_wait_ms.saturating_sub(age_ms));
        let memory = match register.body {
            Body::Free { memory } => memory.map(|(reason, rung)| Memory { reason, rung, age }),
            // Only within a release: another one may have been an operator's, who wants it forgotten.
            Body::Held { .. } => before
                .filter(|row| row.record.register.release == register.release)
                .and_then(|row| row.memory),
        };
        let slot = before
            .filter(|row| row.is_same_generation(register))
            .map(|row| Arc::clone(&row.slot))
            .unwrap_or_default();
        Self {
            due,
            slot,
            mark: mark(&record),
            memory,
            age,
            record,
        }
    }

    pub(super) const fn age_ms(&self, now: Mono) -> u64 {
        self.age.at(now)
    }

    /// The remembered rung, for as long as a flapping key's is.
    pub(super) fn remembered(&self, now: Mono) -> Option<(Reason, u8)> {
        self.memory
            .filter(|memory| memory.age.at(now) < MEMORY_MS)
            .map(|memory| (memory.reason, memory.rung))
    }

    /// What stays remembered when this node finds another reason: of a reason that is disproved by it,
    /// its rung; else what was remembered before.
    pub(super) fn memory_behind(&self, next: &Register, now: Mono) -> Option<Memory> {
        let (Body::Held { rung, reason, .. }, Body::Held { reason: newest, .. }) =
            (self.record.register.body, next.body)
        else {
            return None;
        };
        if settle::disproves(newest, reason) {
            let age = Age { at: now, ms: 0 };
            return Some(Memory { reason, rung, age });
        }
        self.memory
    }

    pub(super) fn hold_ref(&self) -> HoldRef {
        HoldRef {
            register: self.record.register,
            due: self.due,
            slot: Arc::clone(&self.slot),
        }
    }

    pub(super) fn export(&self, now: Mono) -> Incoming {
        Incoming {
            record: self.record.clone(),
            age_ms: self.age_ms(now),
        }
    }

    fn is_same_generation(&self, register: &Register) -> bool {
        (self.record.register.release, self.record.register.seq) == (register.release, register.seq)
    }
}

fn mark(record: &Record) -> u128 {
    if !record.register.is_held() {
        return 0;
    }
    let mut hash = Sha256::new();
    hash.update(b"holdline record v1");
    record.subject.feed(&mut hash);
    record.register.feed(&mut hash);
    let digest = hash.finalize();
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(first)
}
