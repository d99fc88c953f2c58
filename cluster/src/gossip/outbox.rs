//! Records on their way into the own keyspace.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdline_core::holds::{Record, Subject};
use holdline_core::time::WallMs;
use tokio::sync::Notify;

use super::keyspace::Posted;

/// Subjects waiting. What does not fit is found in the table afterwards.
const CAPACITY: usize = 16_384;

/// The newest record of each subject that gossip does not carry yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Something is waiting, or a fact has changed.
    pub(crate) wake: Notify,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    by_subject: BTreeMap<Subject, Posted>,
    overflowed: bool,
}

impl Outbox {
    /// Queues records this node made just now.
    pub(crate) fn post_own(&self, records: &[Record]) {
        let posted = records.iter().map(|record| Posted {
            settled_at: record.details.settled_at,
            record: record.clone(),
        });
        self.post(posted);
    }

    /// Queues records.
    pub(crate) fn post(&self, posted: impl Iterator<Item = Posted>) {
        let mut waiting = self.lock();
        for one in posted {
            let known = waiting.by_subject.get(&one.record.subject);
            if known.is_some_and(|known| known.record.register >= one.record.register) {
                continue;
            }
            if known.is_none() && waiting.by_subject.len() >= CAPACITY {
                waiting.overflowed = true;
                continue;
            }
            waiting.by_subject.insert(one.record.subject.clone(), one);
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// Takes some out.
    pub(crate) fn take(&self, at_most: usize) -> Vec<Posted> {
        let mut waiting = self.lock();
        let mut taken = Vec::new();
        while taken.len() < at_most {
            let Some((_, posted)) = waiting.by_subject.pop_first() else {
                break;
            };
            taken.push(posted);
        }
        taken
    }

    /// Whether something did not fit since this was last asked.
    pub(crate) fn take_overflow(&self) -> bool {
        std::mem::take(&mut self.lock().overflowed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a record of this age was made, by the clock that shows `wall`.
pub(crate) fn settled_at(wall: WallMs, age_ms: u64, time_scale: f64) -> WallMs {
    WallMs(wall.0.saturating_sub(scaled_ms(age_ms, 1.0 / time_scale)))
}

/// Milliseconds times a factor, saturating.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "milliseconds of any plausible age are exact in an f64, and the cast saturates"
)]
pub(crate) fn scaled_ms(ms: u64, factor: f64) -> u64 {
    (ms as f64 * factor) as u64
}
