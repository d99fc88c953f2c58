//! What this node says of token limits: set in its keyspace when it is learnt, taken out when it can matter
//! no more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chitchat::NodeState;
use holdline_core::time::WallMs;
use holdline_core::tpm::{LONGEST_MS, Signal};

use super::keyspace::{Notice, signal_key, to_value};
use crate::options::Options;

/// Keys of signals in the own keyspace. What does not fit is known here only, which costs the other nodes
/// of the region a few refusals.
const CAPACITY: usize = 512;

/// Set per beat: more would keep facts and records waiting.
const BATCH: usize = 32;

/// The newest signal of each key.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    by_key: Mutex<BTreeMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// None: it is in the keyspace.
    waiting: Option<String>,
    /// From then on it says nothing.
    ends: Instant,
}

impl Notices {
    /// Queues a signal that this node made just now.
    pub(crate) fn post(&self, signal: Signal, made_at: WallMs, options: &Options) {
        let Some(key) = signal_key(&signal, &options.region) else {
            return;
        };
        let Some(value) = to_value(&Notice { made_at, signal }) else {
            return;
        };
        let lasts = Duration::from_millis(LONGEST_MS).div_f64(options.time_scale);
        let ends = Instant::now() + lasts;
        let mut by_key = self.lock();
        if by_key.len() < CAPACITY || by_key.contains_key(&key) {
            let waiting = Some(value);
            by_key.insert(key, Entry { waiting, ends });
        }
    }

    /// Brings the own keyspace up to date.
    pub(crate) fn write(&self, own: &mut NodeState, now: Instant) {
        let mut by_key = self.lock();
        by_key.retain(|key, entry| {
            let stays = entry.ends > now;
            if !stays && entry.waiting.is_none() {
                own.delete(key);
            }
            stays
        });
        let waiting = by_key
            .iter_mut()
            .filter_map(|(key, entry)| Some((key, entry.waiting.take()?)));
        for (key, value) in waiting.take(BATCH) {
            own.set(key, value);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
