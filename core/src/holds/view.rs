//! What the rest of a node sees of its ledger: what planning reads, and what people read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::check::{CheckGuard, CheckSlot};
use super::record::{Record, Register};
use super::settle::Token;
use crate::ids::ModelId;
use crate::time::Mono;

/// The registers of one key: an immutable piece of a routing view.
#[derive(Clone, Debug, Default)]
pub struct KeyHolds {
    /// The whole key.
    pub key: Option<HoldRef>,
    /// Single models.
    pub models: BTreeMap<ModelId, HoldRef>,
}

/// A register, this node's own deadline for it, and its check slot.
#[derive(Clone, Debug)]
pub struct HoldRef {
    /// The state, free ones with a release or memory included: tokens need them.
    pub register: Register,
    /// When its wait runs out on this node. Meaningless for a free register.
    pub due: Mono,
    /// Who checks it.
    pub slot: Arc<CheckSlot>,
}

/// How a route of a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No hold covers it.
    Free,
    /// Held until then (the latest of the covering holds).
    Held {
        /// When it is due.
        due: Mono,
    },
    /// Every covering hold is due and a check may be taken.
    Due,
    /// Due, and another request is checking it.
    Checking,
}

/// As the held-key view shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// Waiting.
    Held,
    /// The wait is over.
    Due,
    /// A request of this node is finding out.
    Checking,
}

/// One line of the held-key view.
#[derive(Clone, Debug)]
pub struct HeldRow {
    /// The shared record.
    pub record: Record,
    /// This node's own deadline.
    pub due: Mono,
    /// On this node.
    pub state: HoldState,
}

impl KeyHolds {
    /// How the route of this model stands.
    #[must_use]
    pub fn standing(&self, _model: &ModelId, _now: Mono) -> Standing {
        unimplemented!()
    }

    /// What a request for this model takes along when it is sent.
    #[must_use]
    pub fn token(&self, _model: &ModelId, _now: Mono) -> Token {
        unimplemented!()
    }

    /// Takes the slots of every covering hold, all or none. `None` unless the route is due and nobody checks it.
    #[must_use]
    pub fn try_check(&self, _model: &ModelId, _now: Mono) -> Option<CheckGuard> {
        unimplemented!()
    }

    /// When an abandoned check of this route frees its slot: the wait of the present rung, 5 minutes at most.
    #[must_use]
    pub fn abandon_until(&self, _model: &ModelId, _now: Mono) -> Mono {
        unimplemented!()
    }
}
