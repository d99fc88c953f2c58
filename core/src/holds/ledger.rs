//! One node's table of registers.

use super::record::{Incoming, Record, Subject};
use super::settle::{Answer, Token};
use super::view::{HeldRow, KeyHolds};
use crate::ids::{Fingerprint, KeyId, ModelId, NodeId, ProviderId, Region};
use crate::time::{Hlc, Mono, WallMs};

/// The most subjects one key may have: random model names must not grow the shared table.
pub const MAX_TRACKED_MODELS_PER_KEY: usize = 1_000;

/// The table, its clock, and this node's deadlines and check slots.
///
/// Owned by one caller; every method is a function of the state and its arguments.
#[derive(Debug)]
pub struct Ledger {}

/// The key, as configured, and the model that a request used.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Ledger {
    /// An empty table for one life of a node. `instance` is a hash of id and generation.
    #[must_use]
    pub fn new(_node: NodeId, _region: Region, _instance: u64) -> Self {
        unimplemented!()
    }

    /// What the answer to a request changes. The records are applied already; they are returned to be
    /// pushed, gossiped and stored.
    pub fn settle(
        &mut self,
        _route: &RouteKey,
        _token: &Token,
        _answer: &Answer,
        _now: Mono,
        _wall: WallMs,
    ) -> Vec<Record> {
        unimplemented!()
    }

    /// Takes in a record from elsewhere. True if it changed the table.
    pub fn merge(&mut self, _incoming: Incoming, _now: Mono) -> bool {
        unimplemented!()
    }

    /// Releases by hand: no memory is kept. Returns the releasing records, one per held subject.
    pub fn release(&mut self, _what: &Selector, _wall: WallMs, _now: Mono) -> Vec<Record> {
        unimplemented!()
    }

    /// A stamp for other replicated data (documents), from the same clock.
    pub fn tick(&mut self, _wall: WallMs) -> Hlc {
        unimplemented!()
    }

    /// Learns of a stamp in other replicated data.
    pub fn observe(&mut self, _stamp: Hlc) {
        unimplemented!()
    }

    /// How far the clock runs ahead of `wall`.
    #[must_use]
    pub fn clock_ahead_ms(&self, _wall: WallMs) -> u64 {
        unimplemented!()
    }

    /// The registers of one key, for a routing view.
    #[must_use]
    pub fn key_holds(
        &self,
        _provider: &ProviderId,
        _key: &KeyId,
        _fingerprint: Fingerprint,
    ) -> KeyHolds {
        unimplemented!()
    }

    /// Every held subject, in order.
    #[must_use]
    pub fn held(&self, _now: Mono) -> Vec<HeldRow> {
        unimplemented!()
    }

    /// One record.
    #[must_use]
    pub fn record(&self, _subject: &Subject) -> Option<&Record> {
        unimplemented!()
    }

    /// The whole table with ages, for a hand-over or a snapshot.
    #[must_use]
    pub fn export(&self, _now: Mono) -> Vec<Incoming> {
        unimplemented!()
    }

    /// One record with its age, for a push.
    #[must_use]
    pub fn export_one(&self, _subject: &Subject, _now: Mono) -> Option<Incoming> {
        unimplemented!()
    }

    /// 128-bit hash over the held registers: equal digests mean equal tables.
    #[must_use]
    pub fn digest(&self) -> u128 {
        unimplemented!()
    }

    /// How many subjects are held.
    #[must_use]
    pub fn held_count(&self) -> usize {
        unimplemented!()
    }

    /// Drops free registers and holds that ran out 7 days ago. Returns what it dropped.
    pub fn prune(&mut self, _now: Mono) -> Vec<Subject> {
        unimplemented!()
    }
}
