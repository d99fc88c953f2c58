//! What the rest of a node sees of its ledger: what planning reads, and what people read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::check::{CHECK_LIMIT_MS, CheckGuard, CheckSlot};
use super::ladder::ladder_ms;
use super::record::{Body, Record, Register};
use super::settle::{Launched, Token};
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

impl HoldRef {
    fn is_due(&self, now: Mono) -> bool {
        self.register.is_held() && self.due <= now
    }

    fn launched(&self, now: Mono) -> Launched {
        Launched {
            register: self.register,
            due: self.is_due(now),
        }
    }
}

impl KeyHolds {
    /// How the route of this model stands.
    #[must_use]
    pub fn standing(&self, model: &ModelId, now: Mono) -> Standing {
        let Some(due) = self.covering(model).map(|hold| hold.due).max() else {
            return Standing::Free;
        };
        if due > now {
            Standing::Held { due }
        } else if self.covering(model).any(|hold| hold.slot.is_taken(now)) {
            Standing::Checking
        } else {
            Standing::Due
        }
    }

    /// What a request for this model takes along when it is sent.
    #[must_use]
    pub fn token(&self, model: &ModelId, now: Mono) -> Token {
        let launched = |hold: Option<&HoldRef>| {
            hold.map_or(
                Launched {
                    register: Register::NEVER,
                    due: false,
                },
                |hold| hold.launched(now),
            )
        };
        Token {
            key: launched(self.key.as_ref()),
            model: launched(self.models.get(model)),
            sent: now,
        }
    }

    /// Takes the slots of every covering hold, all or none. `None` unless the route is due and nobody checks it.
    #[must_use]
    pub fn try_check(&self, model: &ModelId, now: Mono) -> Option<CheckGuard> {
        if self.standing(model, now) != Standing::Due {
            return None;
        }
        let mut guard: Option<CheckGuard> = None;
        for hold in self.covering(model) {
            // Lost to another request: dropping the guard gives back what was taken.
            let taken = hold.slot.try_take(now)?;
            match &mut guard {
                Some(guard) => guard.join(taken),
                None => guard = Some(taken),
            }
        }
        guard
    }

    /// When an abandoned check of this route frees its slot: the wait of the present rung, 5 minutes at most.
    #[must_use]
    pub fn abandon_until(&self, model: &ModelId, now: Mono) -> Mono {
        let wait_ms = self
            .covering(model)
            .map(|hold| match hold.register.body {
                Body::Held { reason, rung, .. } => ladder_ms(reason, rung),
                Body::Free { .. } => 0,
            })
            .max()
            .unwrap_or(0);
        now.plus_ms(wait_ms.min(CHECK_LIMIT_MS))
    }

    /// The holds that keep this model out of rotation: the whole key's and the model's.
    fn covering(&self, model: &ModelId) -> impl Iterator<Item = &HoldRef> {
        self.key
            .iter()
            .chain(self.models.get(model))
            .filter(|hold| hold.register.is_held())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Reason;
    use crate::holds::ladder;

    fn held(due: u64, rung: u8) -> HoldRef {
        let body = Body::Held {
            refused: true,
            rung,
            reason: Reason::ModelGone,
            wait: ladder::wait(Reason::ModelGone, rung, None),
        };
        HoldRef {
            register: Register {
                seq: 1,
                body,
                ..Register::NEVER
            },
            due: Mono(due),
            slot: Arc::default(),
        }
    }

    fn holds(key: Option<HoldRef>, model: Option<HoldRef>) -> KeyHolds {
        KeyHolds {
            key,
            models: model
                .map(|hold| (ModelId::from("m"), hold))
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn a_route_is_due_only_when_all_its_holds_are() {
        let both = holds(Some(held(10, 0)), Some(held(20, 0)));
        let (m, other) = (ModelId::from("m"), ModelId::from("other"));
        assert_eq!(
            both.standing(&m, Mono(10)),
            Standing::Held { due: Mono(20) }
        );
        assert_eq!(both.standing(&m, Mono(20)), Standing::Due);
        assert_eq!(both.standing(&other, Mono(10)), Standing::Due);
        assert!(both.try_check(&m, Mono(19)).is_none());
        let check = both.try_check(&m, Mono(20)).unwrap();
        assert_eq!(both.standing(&m, Mono(20)), Standing::Checking);
        assert_eq!(both.standing(&other, Mono(20)), Standing::Checking);
        drop(check);
        assert_eq!(both.standing(&m, Mono(20)), Standing::Due);
    }

    #[test]
    fn a_check_takes_the_slots_of_all_covering_holds_or_none() {
        let both = holds(Some(held(10, 0)), Some(held(10, 0)));
        let (m, other) = (ModelId::from("m"), ModelId::from("other"));
        let of_the_model = both.models[&m].slot.try_take(Mono(10)).unwrap();
        assert!(both.try_check(&m, Mono(10)).is_none());
        assert!(both.try_check(&other, Mono(10)).is_some());
        drop(of_the_model);
        assert!(both.try_check(&m, Mono(10)).is_some());
    }

    #[test]
    fn a_free_register_holds_nothing_and_is_in_the_token() {
        let released = HoldRef {
            register: Register {
                release: crate::time::Hlc {
                    ms: 7,
                    counter: 0,
                    node: 1,
                },
                ..Register::NEVER
            },
            due: Mono(0),
            slot: Arc::default(),
        };
        let free = holds(Some(released.clone()), None);
        let m = ModelId::from("m");
        assert_eq!(free.standing(&m, Mono(0)), Standing::Free);
        let token = free.token(&m, Mono(3));
        assert_eq!(token.key.register, released.register);
        assert_eq!(token.model.register, Register::NEVER);
        assert!(!token.key.due && !token.model.due);
        assert_eq!(token.sent, Mono(3));
    }

    #[test]
    fn an_abandoned_check_waits_for_its_rung_and_at_most_five_minutes() {
        let m = ModelId::from("m");
        for (rung, wait_ms) in [(0, 30_000), (2, 120_000), (5, 300_000)] {
            let route = holds(None, Some(held(0, rung)));
            assert_eq!(route.abandon_until(&m, Mono(1)), Mono(1 + wait_ms));
        }
    }
}
