//! The check slot: one request per node finds out whether a held key serves again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::Mono;

/// How long a check may go without reporting before another request may check.
pub const CHECK_LIMIT_MS: u64 = 300_000;

/// One per subject and (release, seq) on this node. Shared by the ledger and every view of it.
#[derive(Debug, Default)]
pub struct CheckSlot {
    /// 0 while free, else until when it is taken and by which ticket: one word, so that one
    /// compare-and-set decides, and a late guard recognises that the slot is no longer its own.
    word: AtomicU64,
    tickets: AtomicU64,
}

/// Low bits of the word: the ticket. The rest: milliseconds, enough for 8,900 years.
const TICKET_BITS: u32 = 16;
const TICKET_MASK: u64 = (1 << TICKET_BITS) - 1;

impl CheckSlot {
    /// Takes the slot if nobody has it. Compare-and-set: of any number of callers one wins.
    /// A slot that never reports is free again after 5 minutes.
    pub fn try_take(self: &Arc<Self>, now: Mono) -> Option<CheckGuard> {
        let seen = self.word.load(Ordering::Acquire);
        if is_taken(seen, now) {
            return None;
        }
        // Never 0: a taken word differs from the free one even at the origin of time.
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) % TICKET_MASK + 1;
        let mine = word(now.plus_ms(CHECK_LIMIT_MS), ticket);
        self.word
            .compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Acquire)
            .ok()?;
        Some(CheckGuard {
            taken: vec![(Arc::clone(self), mine)],
        })
    }

    /// Whether a check is under way.
    #[must_use]
    pub fn is_taken(&self, now: Mono) -> bool {
        is_taken(self.word.load(Ordering::Acquire), now)
    }
}

const fn word(until: Mono, ticket: u64) -> u64 {
    let ms = if until.0 > u64::MAX >> TICKET_BITS {
        u64::MAX >> TICKET_BITS
    } else {
        until.0
    };
    (ms << TICKET_BITS) | ticket
}

const fn is_taken(word: u64, now: Mono) -> bool {
    word != 0 && (word >> TICKET_BITS) > now.0
}

/// The right to check, for one request. Dropping it unused frees every slot it holds.
///
/// One request may hold the slots of several registers that cover its route.
pub struct CheckGuard {
    taken: Vec<(Arc<CheckSlot>, u64)>,
}

impl CheckGuard {
    /// Joins the slots of another register that covers the same route.
    pub fn join(&mut self, mut other: Self) {
        self.taken.append(&mut other.taken);
    }

    /// The answer was settled. This generation of the slots is never free again before its time is up:
    /// a request that still looks at the view from before the answer must not check once more. What
    /// the answer made has slots of its own.
    pub fn settled(mut self) {
        self.taken.clear();
    }

    /// The caller left: no answer. The slots stay taken until then, so that impatient callers do not
    /// probe a hung key one after another.
    pub fn abandon(mut self, until: Mono) {
        for (slot, mine) in self.taken.drain(..) {
            replace(&slot, mine, word(until, mine & TICKET_MASK));
        }
    }
}

impl Drop for CheckGuard {
    fn drop(&mut self) {
        for (slot, mine) in &self.taken {
            replace(slot, *mine, 0);
        }
    }
}

/// Changes the slot only if it is still this guard's: it may have run out and be another's.
fn replace(slot: &CheckSlot, mine: u64, new: u64) {
    let _someone_else_has_it =
        slot.word
            .compare_exchange(mine, new, Ordering::AcqRel, Ordering::Acquire);
}

impl fmt::Debug for CheckGuard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CheckGuard")
            .field("slots", &self.taken.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Arc<CheckSlot> {
        Arc::new(CheckSlot::default())
    }

    #[test]
    fn one_of_many_threads_wins_the_slot() {
        for _ in 0..50 {
            let slot = slot();
            let guards: Vec<_> = std::thread::scope(|scope| {
                let racers: Vec<_> = (0..8)
                    .map(|_| scope.spawn(|| slot.try_take(Mono(5))))
                    .collect();
                racers
                    .into_iter()
                    .map(|racer| racer.join().unwrap())
                    .collect()
            });
            assert_eq!(guards.iter().flatten().count(), 1);
        }
    }

    #[test]
    fn a_dropped_guard_frees_the_slot() {
        let slot = slot();
        drop(slot.try_take(Mono(0)).unwrap());
        assert!(!slot.is_taken(Mono(0)));
        assert!(slot.try_take(Mono(0)).is_some());
    }

    #[test]
    fn a_check_that_never_reports_frees_the_slot_after_five_minutes() {
        let slot = slot();
        let hung = slot.try_take(Mono(1_000)).unwrap();
        assert!(slot.try_take(Mono(300_999)).is_none());
        let second = slot.try_take(Mono(301_000)).unwrap();
        drop(hung);
        assert!(
            slot.is_taken(Mono(301_001)),
            "a late guard freed another's slot"
        );
        drop(second);
        assert!(!slot.is_taken(Mono(301_001)));
    }

    #[test]
    fn a_settled_check_does_not_free_its_generation() {
        let slot = slot();
        slot.try_take(Mono(0)).unwrap().settled();
        assert!(slot.try_take(Mono(299_999)).is_none());
        assert!(slot.try_take(Mono(300_000)).is_some());
    }

    #[test]
    fn an_abandoned_check_keeps_the_slot_until_then() {
        let slot = slot();
        slot.try_take(Mono(0)).unwrap().abandon(Mono(30_000));
        assert!(slot.try_take(Mono(29_999)).is_none());
        assert!(slot.try_take(Mono(30_000)).is_some());
    }

    #[test]
    fn a_late_abandon_does_not_touch_anothers_slot() {
        let slot = slot();
        let hung = slot.try_take(Mono(0)).unwrap();
        let second = slot.try_take(Mono(300_000)).unwrap();
        hung.abandon(Mono(900_000));
        drop(second);
        assert!(!slot.is_taken(Mono(300_001)));
    }
}
