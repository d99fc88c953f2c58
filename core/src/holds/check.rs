//! The check slot: one request per node finds out whether a held key serves again.

use std::fmt;
use std::sync::Arc;

use crate::time::Mono;

/// One per subject and (release, seq) on this node. Shared by the ledger and every view of it.
#[derive(Debug, Default)]
pub struct CheckSlot {}

impl CheckSlot {
    /// Takes the slot if nobody has it. Compare-and-set: of any number of callers one wins.
    /// A slot that never reports is free again after 5 minutes.
    pub fn try_take(self: &Arc<Self>, _now: Mono) -> Option<CheckGuard> {
        unimplemented!()
    }

    /// Whether a check is under way.
    #[must_use]
    pub fn is_taken(&self, _now: Mono) -> bool {
        unimplemented!()
    }
}

/// The right to check, for one request. Dropping it frees every slot it holds.
///
/// One request may hold the slots of several registers that cover its route.
pub struct CheckGuard {}

impl CheckGuard {
    /// Joins the slots of another register that covers the same route.
    pub fn join(&mut self, _other: Self) {
        unimplemented!()
    }

    /// The caller left: no answer. The slots stay taken until then, so that impatient callers do not
    /// probe a hung key one after another.
    pub fn abandon(self, _until: Mono) {
        unimplemented!()
    }
}

impl fmt::Debug for CheckGuard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("CheckGuard")
    }
}
