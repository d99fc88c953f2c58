//! What happened, told by causes alone: who made which record, and what they knew when they made it.
//!
//! The laws are judged against this, so that they do not lean on the order of registers they test.

use std::collections::BTreeMap;

use holdline_core::holds::{Record, Subject};
use holdline_core::time::Hlc;

/// Number of a record, in the order of making.
pub(crate) type Id = usize;

/// A set of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known(Vec<u64>);

impl Known {
    pub(crate) fn add(&mut self, id: Id) {
        if self.0.len() <= id / 64 {
            self.0.resize(id / 64 + 1, 0);
        }
        self.0[id / 64] |= 1 << (id % 64);
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.0
            .get(id / 64)
            .is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Id> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            (0..64)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| at * 64 + bit)
        })
    }
}

/// One record and its causes.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) record: Record,
    /// Everything about the subject that its maker knew.
    pub(crate) past: Known,
    /// The part of it that was known when the request was sent whose answer made the record.
    pub(crate) launch: Known,
}

impl Made {
    /// Made by an answer or a hand that ended what was held before.
    pub(crate) fn is_release(&self) -> bool {
        self.record.register.release == self.record.register.stamp
    }

    pub(crate) fn is_hold(&self) -> bool {
        self.record.register.is_held()
    }
}

/// Every record ever made in one run.
#[derive(Debug, Default)]
pub(crate) struct Chronicle {
    made: Vec<Made>,
    ids: BTreeMap<Subject, BTreeMap<Hlc, Id>>,
}

impl Chronicle {
    pub(crate) fn add(&mut self, made: Made) -> Id {
        let id = self.made.len();
        let of_subject = self.ids.entry(made.record.subject.clone()).or_default();
        of_subject.insert(made.record.register.stamp, id);
        self.made.push(made);
        id
    }

    pub(crate) fn made(&self, id: Id) -> &Made {
        &self.made[id]
    }

    /// The record's number. Nobody shows a record that nobody made.
    pub(crate) fn id(&self, record: &Record) -> Option<Id> {
        let id = *self.ids.get(&record.subject)?.get(&record.register.stamp)?;
        (self.made[id].record.register == record.register).then_some(id)
    }

    /// The record and everything its maker knew.
    pub(crate) fn closure(&self, id: Id) -> Known {
        let mut known = self.made[id].past.clone();
        known.add(id);
        known
    }

    /// The release that came last by its stamp: the one order that releases have by design.
    pub(crate) fn last_release(&self, known: &Known) -> Option<Id> {
        known
            .iter()
            .filter(|id| self.made[*id].is_release())
            .max_by_key(|id| self.made[*id].record.register.stamp)
    }

    /// Whether a hold was made by a request that was sent with this release known, or is part of it.
    pub(crate) fn is_after(&self, hold: Id, release: Option<Id>) -> bool {
        release.is_none_or(|release| hold == release || self.made[hold].launch.has(release))
    }
}
