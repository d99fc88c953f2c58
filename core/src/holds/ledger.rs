//! One node's table of registers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ladder;
use super::record::{Body, Details, Incoming, Record, Register, Subject, SubjectScope};
use super::row::Row;
use super::settle::{self, Answer, Change, Cover, Launched, Token, Turn};
use super::view::{HeldRow, HoldState, KeyHolds};
use crate::failure::Scope;
use crate::ids::{Fingerprint, KeyId, ModelId, NodeId, ProviderId, Region};
use crate::time::{Hlc, HlcClock, Mono, WallMs};

/// The most subjects one key may have: random model names must not grow the shared table.
pub const MAX_TRACKED_MODELS_PER_KEY: usize = 1_000;

/// Longer model names are not tracked: a record must stay small, and no provider has such names.
pub const MAX_MODEL_NAME_BYTES: usize = 256;

/// How long a free register, or a hold that ran out, is kept.
pub const KEEP_MS: u64 = 7 * 24 * 3_600_000;

/// The table, its clock, and this node's deadlines and check slots.
///
/// Owned by one caller; every method is a function of the state and its arguments.
#[derive(Debug)]
pub struct Ledger {
    node: NodeId,
    region: Region,
    instance: u64,
    clock: HlcClock,
    rows: BTreeMap<Subject, Row>,
    held: usize,
    digest: u128,
}

/// The key, as configured, and the model that a request used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RouteKey {
    /// Provider.
    pub provider: ProviderId,
    /// Key.
    pub key: KeyId,
    /// The key's configuration when the request was sent.
    pub fingerprint: Fingerprint,
    /// Model.
    pub model: ModelId,
}

/// Which holds an operator releases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Selector {
    /// All.
    All,
    /// Every hold of a provider.
    Provider(ProviderId),
    /// The key's whole-key hold and all its models.
    Key(ProviderId, KeyId),
    /// One model of a key; never a whole-key hold.
    Model(ProviderId, KeyId, ModelId),
}

impl RouteKey {
    fn subject(&self, scope: Scope) -> Subject {
        Subject {
            provider: self.provider.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint,
            scope: match scope {
                Scope::Key => SubjectScope::Key,
                Scope::Model => SubjectScope::Model(self.model.clone()),
            },
        }
    }
}

impl Selector {
    fn names(&self, subject: &Subject) -> bool {
        match self {
            Self::All => true,
            Self::Provider(provider) => subject.provider == *provider,
            Self::Key(provider, key) => subject.provider == *provider && subject.key == *key,
            Self::Model(provider, key, model) => {
                subject.provider == *provider
                    && subject.key == *key
                    && subject.scope.model() == Some(model)
            }
        }
    }
}

impl Ledger {
    /// An empty table for one life of a node. `instance` is a hash of id and generation.
    #[must_use]
    pub const fn new(node: NodeId, region: Region, instance: u64) -> Self {
        Self {
            node,
            region,
            instance,
            clock: HlcClock::new(instance),
            rows: BTreeMap::new(),
            held: 0,
            digest: 0,
        }
    }

    /// What the answer to a request changes. The records are applied already; they are returned to be
    /// pushed, gossiped and stored.
    pub fn settle(
        &mut self,
        route: &RouteKey,
        token: &Token,
        answer: &Answer,
        now: Mono,
        wall: WallMs,
    ) -> Vec<Record> {
        if token.is_unmoved_by(answer) {
            return Vec::new();
        }
        let [key, model] = [Scope::Key, Scope::Model].map(|scope| route.subject(scope));
        let changes = settle::settle(
            &self.cover(&key, token.key, now),
            &self.cover(&model, token.model, now),
            answer,
            now.since_ms(token.sent),
            self.clock.peek(wall),
        );
        let mut made = Vec::new();
        for change in changes {
            let subject = match change.scope {
                Scope::Key => &key,
                Scope::Model => &model,
            };
            if self.may_track(subject) {
                made.push(self.apply(subject, &change, answer, now, wall));
            }
        }
        made
    }

    /// Takes in a record from elsewhere. True if it changed the table.
    ///
    /// A record that is [`KEEP_MS`] past its time is not taken in anew, or pruned rows would come back.
    pub fn merge(&mut self, incoming: Incoming, now: Mono) -> bool {
        let Register { release, stamp, .. } = incoming.record.register;
        if !release.is_plausible() || !stamp.is_plausible() {
            return false;
        }
        self.clock.observe(release);
        self.clock.observe(stamp);
        let known = self.rows.get(&incoming.record.subject);
        let here = known.map_or(Register::NEVER, |row| row.record.register);
        let is_newer = incoming.record.register > here;
        let is_past = known.is_none() && is_past(&incoming.record.register, incoming.age_ms);
        if !is_newer || is_past {
            return false;
        }
        self.put(incoming.record, incoming.age_ms, now);
        true
    }

    /// The records that release by hand, one per held subject; no memory is kept. Not applied: the
    /// caller makes them durable first, then merges them.
    pub fn releases(&mut self, what: &Selector, wall: WallMs) -> Vec<Record> {
        let held: Vec<Subject> = self
            .rows
            .iter()
            .filter(|(subject, row)| row.record.register.is_held() && what.names(subject))
            .map(|(subject, _)| subject.clone())
            .collect();
        held.into_iter()
            .map(|subject| {
                let stamp = self.clock.tick(wall);
                let register = Register {
                    release: stamp,
                    seq: 0,
                    body: Body::Free { memory: None },
                    stamp,
                };
                let details = self.details(wall);
                Record {
                    subject,
                    register,
                    details,
                }
            })
            .collect()
    }

    /// Releases by hand, at once. Returns the releasing records.
    pub fn release(&mut self, what: &Selector, wall: WallMs, now: Mono) -> Vec<Record> {
        let records = self.releases(what, wall);
        for record in &records {
            self.put(record.clone(), 0, now);
        }
        records
    }

    /// A stamp for other replicated data (documents), from the same clock.
    pub fn tick(&mut self, wall: WallMs) -> Hlc {
        self.clock.tick(wall)
    }

    /// Learns of a stamp in other replicated data.
    pub fn observe(&mut self, stamp: Hlc) {
        self.clock.observe(stamp);
    }

    /// How far the clock runs ahead of `wall`.
    #[must_use]
    pub const fn clock_ahead_ms(&self, wall: WallMs) -> u64 {
        self.clock.ahead_ms(wall)
    }

    /// The registers of one key, for a routing view.
    #[must_use]
    pub fn key_holds(
        &self,
        provider: &ProviderId,
        key: &KeyId,
        fingerprint: Fingerprint,
    ) -> KeyHolds {
        let mut holds = KeyHolds::default();
        for (subject, row) in self.rows_of_key(provider, key, fingerprint) {
            match &subject.scope {
                SubjectScope::Key => holds.key = Some(row.hold_ref()),
                SubjectScope::Model(model) => {
                    holds.models.insert(model.clone(), row.hold_ref());
                }
            }
        }
        holds
    }

    /// Every held subject, in order.
    #[must_use]
    pub fn held(&self, now: Mono) -> Vec<HeldRow> {
        let held = self
            .rows
            .values()
            .filter(|row| row.record.register.is_held());
        held.map(|row| HeldRow {
            record: row.record.clone(),
            due: row.due,
            state: if row.due > now {
                HoldState::Held
            } else if row.slot.is_taken(now) {
                HoldState::Checking
            } else {
                HoldState::Due
            },
        })
        .collect()
    }

    /// What is held, without the rest of it.
    pub fn held_subjects(&self) -> impl Iterator<Item = &Subject> {
        let held = |row: &&Row| row.record.register.is_held();
        self.rows
            .values()
            .filter(held)
            .map(|row| &row.record.subject)
    }

    /// One record.
    #[must_use]
    pub fn record(&self, subject: &Subject) -> Option<&Record> {
        self.rows.get(subject).map(|row| &row.record)
    }

    /// The whole table with ages, for a hand-over or a snapshot.
    #[must_use]
    pub fn export(&self, now: Mono) -> Vec<Incoming> {
        self.rows.values().map(|row| row.export(now)).collect()
    }

    /// One record with its age, for a push.
    #[must_use]
    pub fn export_one(&self, subject: &Subject, now: Mono) -> Option<Incoming> {
        self.rows.get(subject).map(|row| row.export(now))
    }

    /// 128-bit hash over the held registers: equal digests mean equal tables.
    #[must_use]
    pub const fn digest(&self) -> u128 {
        self.digest
    }

    /// How many subjects are held.
    #[must_use]
    pub const fn held_count(&self) -> usize {
        self.held
    }

    /// Drops free registers and holds that ran out 7 days ago. Returns what it dropped.
    pub fn prune(&mut self, now: Mono) -> Vec<Subject> {
        let past: Vec<Subject> = self
            .rows
            .iter()
            .filter(|(_, row)| is_past(&row.record.register, row.age_ms(now)))
            .map(|(subject, _)| subject.clone())
            .collect();
        for subject in &past {
            if let Some(row) = self.rows.remove(subject) {
                self.uncount(&row);
            }
        }
        past
    }

    fn cover(&self, subject: &Subject, launched: Launched, now: Mono) -> Cover {
        let row = self.rows.get(subject);
        Cover {
            launched,
            current: row.map_or(Register::NEVER, |row| row.record.register),
            remembered: row.and_then(|row| row.remembered(now)),
            remaining_ms: row.map_or(0, |row| row.due.since_ms(now)),
        }
    }

    /// Whether a hold may be made: the one place that bounds the table, because a merge must take all.
    fn may_track(&self, subject: &Subject) -> bool {
        let SubjectScope::Model(model) = &subject.scope else {
            return true;
        };
        self.rows.contains_key(subject)
            || (model.as_str().len() <= MAX_MODEL_NAME_BYTES
                && self
                    .rows_of_key(&subject.provider, &subject.key, subject.fingerprint)
                    .take(MAX_TRACKED_MODELS_PER_KEY)
                    .count()
                    < MAX_TRACKED_MODELS_PER_KEY)
    }

    fn rows_of_key<'a>(
        &'a self,
        provider: &'a ProviderId,
        key: &'a KeyId,
        fingerprint: Fingerprint,
    ) -> impl Iterator<Item = (&'a Subject, &'a Row)> {
        let first = Subject {
            provider: provider.clone(),
            key: key.clone(),
            fingerprint,
            scope: SubjectScope::Key,
        };
        self.rows.range(first..).take_while(move |(subject, _)| {
            subject.provider == *provider
                && subject.key == *key
                && subject.fingerprint == fingerprint
        })
    }

    fn apply(
        &mut self,
        subject: &Subject,
        change: &Change,
        answer: &Answer,
        now: Mono,
        wall: WallMs,
    ) -> Record {
        self.clock.observe(change.register.stamp);
        let before = self.rows.get(subject);
        let mut record = Record {
            subject: subject.clone(),
            register: change.register,
            details: self.details_of(before, change.turn, answer, wall),
        };
        record.cut_words();
        let memory = before.and_then(|row| row.memory_behind(&change.register, now));
        self.put(record.clone(), 0, now);
        if let (Some(row), Some(_)) = (self.rows.get_mut(subject), memory) {
            row.memory = memory;
        }
        record
    }

    fn details_of(
        &self,
        before: Option<&Row>,
        turn: Turn,
        answer: &Answer,
        wall: WallMs,
    ) -> Details {
        let before = before
            .filter(|row| row.record.register.is_held())
            .map(|row| &row.record.details);
        let mut details = self.details(wall);
        if let Answer::Refused(refusal) = answer {
            details.words.clone_from(&refusal.words);
            details.status = refusal.status;
        }
        match (turn, before) {
            (Turn::Begins, _) | (Turn::Refused | Turn::Unsettled, None) => Details {
                held_at: wall,
                refused_at: wall,
                ..details
            },
            (Turn::Refused, Some(before)) => Details {
                held_at: before.held_at,
                refused_at: wall,
                ..details
            },
            // The words, and who heard them, stay those of the refusal.
            (Turn::Unsettled, Some(before)) => Details {
                settled_at: wall,
                ..before.clone()
            },
            (Turn::Ends, _) => self.details(wall),
        }
    }

    fn details(&self, wall: WallMs) -> Details {
        Details {
            settled_at: wall,
            ..Details::from_origin(&self.node, &self.region)
        }
    }

    fn put(&mut self, record: Record, age_ms: u64, now: Mono) {
        let own_wait_ms = ladder::own_wait_ms(self.instance, &record.subject, &record.register);
        let subject = record.subject.clone();
        let before = self.rows.get(&subject);
        let row = Row::new(record, before, age_ms, own_wait_ms, now);
        self.held += usize::from(row.record.register.is_held());
        self.digest ^= row.mark;
        if let Some(before) = self.rows.insert(subject, row) {
            self.uncount(&before);
        }
    }

    fn uncount(&mut self, gone: &Row) {
        self.held -= usize::from(gone.record.register.is_held());
        self.digest ^= gone.mark;
    }
}

/// Whether a state of this age is of no use to anyone.
fn is_past(register: &Register, age_ms: u64) -> bool {
    age_ms >= ladder::shared_wait_ms(register).saturating_add(KEEP_MS)
}

#[cfg(test)]
mod tests;
