//! What the mock remembers: the present fault of each key, and the calls that came. Bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::fault::Fault;

/// The oldest calls go first beyond this.
const KEPT_CALLS: usize = 100_000;
/// Keys beyond this are served but not counted one by one.
const KEPT_KEYS: usize = 1_000;
/// Callers and models are cut to this many characters.
const KEPT_LETTERS: usize = 64;

/// One call as the provider saw it.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// When its head had arrived, on the mock's clock.
    pub at_ms: u64,
    /// The path prefix.
    pub provider: String,
    /// The bearer token.
    pub key: String,
    /// The `user` field: who asked the node.
    pub caller: String,
    /// The model that was asked for.
    pub model: String,
    /// What it was answered.
    pub status: u16,
}

/// Counts of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyCount {
    /// All calls.
    pub calls: u64,
    /// Those that were refused.
    pub refused: u64,
    /// When the last one came.
    pub last_at_ms: u64,
    /// What the key gets at present.
    pub fault: Option<Fault>,
}

#[derive(Debug)]
pub(super) struct Record {
    started: Instant,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    keys: BTreeMap<String, KeyCount>,
    calls: VecDeque<Call>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            kept: Mutex::default(),
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// False when there is no room for another key.
    pub(super) fn set_fault(&self, key: &str, fault: Option<Fault>) -> bool {
        let mut kept = self.kept();
        let Some(count) = kept.count(key) else {
            return false;
        };
        count.fault = fault;
        true
    }

    pub(super) fn fault(&self, key: &str) -> Option<Fault> {
        self.kept().keys.get(key).and_then(|count| count.fault)
    }

    pub(super) fn add(&self, mut call: Call) {
        call.caller = cut(&call.caller);
        call.model = cut(&call.model);
        let mut kept = self.kept();
        if let Some(count) = kept.count(&call.key) {
            count.calls += 1;
            count.refused += u64::from(call.status >= 400);
            count.last_at_ms = call.at_ms;
        }
        if kept.calls.len() == KEPT_CALLS {
            kept.calls.pop_front();
        }
        kept.calls.push_back(call);
    }

    /// The calls of one key or of all, oldest first.
    pub(super) fn calls(&self, key: Option<&str>, since_ms: u64) -> Vec<Call> {
        let wanted = |call: &&Call| call.at_ms >= since_ms && key.is_none_or(|key| call.key == key);
        let mut found: Vec<Call> = self.kept().calls.iter().filter(wanted).cloned().collect();
        found.sort_by_key(|call| call.at_ms);
        found
    }

    pub(super) fn keys(&self) -> BTreeMap<String, KeyCount> {
        self.kept().keys.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn count(&mut self, key: &str) -> Option<&mut KeyCount> {
        if self.keys.len() >= KEPT_KEYS && !self.keys.contains_key(key) {
            return None;
        }
        Some(self.keys.entry(cut(key)).or_default())
    }
}

fn cut(text: &str) -> String {
    text.chars().take(KEPT_LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(key: &str) -> Call {
        Call {
            at_ms: 0,
            provider: String::new(),
            key: key.to_owned(),
            caller: "c".repeat(1000),
            model: String::new(),
            status: 200,
        }
    }

    #[test]
    fn memory_stays_bounded() {
        let record = Record::new();
        for number in 0..KEPT_CALLS + 5 {
            record.add(call(&format!("sk-{}", number % (KEPT_KEYS + 5))));
        }
        assert_eq!(record.calls(None, 0).len(), KEPT_CALLS);
        assert_eq!(record.keys().len(), KEPT_KEYS);
        assert_eq!(record.calls(None, 0)[0].caller.len(), KEPT_LETTERS);
        assert!(!record.set_fault("sk-new", None));
    }
}
