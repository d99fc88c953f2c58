//! The rules under test, at the seams where the simulator calls them. A mutant alters one of them.

use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::{
    Answer, CheckGuard, Incoming, KeyHolds, Ledger, Record, Selector, Token,
};
use holdline_core::ids::{Fingerprint, ModelId};
use holdline_core::time::{Mono, WallMs};

/// The two clocks of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) now: Mono,
    pub(crate) wall: WallMs,
}

/// What a node does with its ledger. As it stands: the real thing.
pub(crate) trait Rules: Sync {
    fn settle(
        &self,
        ledger: &mut Ledger,
        route: &RouteKey,
        token: &Token,
        answer: &Answer,
        clocks: Clocks,
    ) -> Vec<Record> {
        ledger.settle(route, token, answer, clocks.now, clocks.wall)
    }

    fn merge(&self, ledger: &mut Ledger, incoming: Incoming, now: Mono) -> bool {
        ledger.merge(incoming, now)
    }

    fn release(&self, ledger: &mut Ledger, what: &Selector, clocks: Clocks) -> Vec<Record> {
        ledger.release(what, clocks.wall, clocks.now)
    }

    fn token(&self, holds: &KeyHolds, model: &ModelId, now: Mono) -> Token {
        holds.token(model, now)
    }

    fn try_check(&self, holds: &KeyHolds, model: &ModelId, now: Mono) -> Option<CheckGuard> {
        holds.try_check(model, now)
    }

    /// A request that had the slot fails before it is sent.
    fn fail_unsent(&self, check: CheckGuard) {
        drop(check);
    }

    fn fingerprint(&self, configured: Fingerprint) -> Fingerprint {
        configured
    }

    /// An operator's release is stored before it is acknowledged.
    fn stores_releases_first(&self) -> bool {
        true
    }
}

/// The product's own.
#[derive(Debug)]
pub(crate) struct Real;

impl Rules for Real {}
