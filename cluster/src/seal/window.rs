//! Against replay: which datagrams of a sender's present life were seen already.
//!
//! A sender numbers its datagrams from its start. No clock takes part.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How far behind the newest datagram an older one may arrive.
const WINDOW: u64 = 1_024;
const WORDS: usize = 16;

/// Lives of senders remembered. Only who knows the secret can add one.
const MAX_SENDERS: usize = 1_024;

/// Every sender heard of, by the number it drew when it started.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    by_boot: BTreeMap<u64, Sender>,
}

#[derive(Debug)]
struct Sender {
    window: Window,
    heard: Instant,
}

impl Senders {
    /// Takes note of an authentic datagram. False if it was seen before or is too old to tell.
    pub(crate) fn accept(&mut self, boot: u64, counter: u64, now: Instant) -> bool {
        if !self.by_boot.contains_key(&boot) && self.by_boot.len() >= MAX_SENDERS {
            self.forget_the_most_silent();
        }
        let sender = self.by_boot.entry(boot).or_insert_with(|| Sender {
            window: Window::default(),
            heard: now,
        });
        let fresh = sender.window.accept(counter);
        if fresh {
            sender.heard = now;
        }
        fresh
    }

    /// Since this life of a node was last heard directly.
    pub(crate) fn silence(&self, boot: u64, now: Instant) -> Option<Duration> {
        let sender = self.by_boot.get(&boot)?;
        Some(now.saturating_duration_since(sender.heard))
    }

    fn forget_the_most_silent(&mut self) {
        let oldest = self.by_boot.iter().min_by_key(|(_, sender)| sender.heard);
        if let Some(boot) = oldest.map(|(&boot, _)| boot) {
            self.by_boot.remove(&boot);
        }
    }
}

/// A sliding window of bits below the highest counter seen. Counters start at 1.
#[derive(Debug, Default)]
struct Window {
    highest: u64,
    seen: [u64; WORDS],
}

impl Window {
    fn accept(&mut self, counter: u64) -> bool {
        if counter == 0 || counter.saturating_add(WINDOW) <= self.highest {
            return false;
        }
        if counter > self.highest {
            self.slide_to(counter);
        }
        let (word, bit) = place(counter);
        let fresh = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        fresh
    }

    fn slide_to(&mut self, counter: u64) {
        if counter - self.highest >= WINDOW {
            self.seen = [0; WORDS];
        } else {
            for passed in self.highest + 1..=counter {
                let (word, bit) = place(passed);
                self.seen[word] &= !bit;
            }
        }
        self.highest = counter;
    }
}

fn place(counter: u64) -> (usize, u64) {
    let slot = counter % WINDOW;
    let word = usize::try_from(slot / 64).expect("below WORDS");
    (word, 1 << (slot % 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_number_of_senders_is_bounded() {
        let start = Instant::now();
        let mut senders = Senders::default();
        for boot in 0..=MAX_SENDERS as u64 {
            assert!(senders.accept(boot, 1, start + Duration::from_millis(boot)));
        }
        assert_eq!(senders.by_boot.len(), MAX_SENDERS);
        assert!(senders.silence(0, start).is_none(), "the most silent goes");
    }

    #[test]
    fn silence_counts_from_the_last_fresh_datagram() {
        let start = Instant::now();
        let mut senders = Senders::default();
        senders.accept(5, 1, start);
        let later = start + Duration::from_secs(3);
        assert!(
            !senders.accept(5, 1, later),
            "a replay is not a sign of life"
        );
        assert_eq!(senders.silence(5, later), Some(Duration::from_secs(3)));
    }

    proptest! {
        #[test]
        fn no_counter_is_accepted_twice(counters in prop::collection::vec(0u64..5_000, 1..400)) {
            let mut window = Window::default();
            let mut seen = std::collections::BTreeSet::new();
            let mut highest = 0;
            for counter in counters {
                let accepted = window.accept(counter);
                let in_window = counter > 0 && counter + WINDOW > highest;
                prop_assert_eq!(accepted, in_window && !seen.contains(&counter));
                seen.insert(counter);
                highest = highest.max(counter);
            }
        }
    }
}
