//! Messages cut into datagrams that no router fragments, and put together again within bounds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Of one fragment, so that a sealed datagram stays under 1,200 bytes.
const PAYLOAD_BYTES: usize = 1_100;

/// Message number, index, count.
pub(crate) const HEADER_BYTES: usize = 6;

/// Chitchat writes at most 65,507 bytes.
const MAX_FRAGMENTS: usize = 64;

/// Messages put together at a time.
const MAX_PARTIAL: usize = 64;

/// Fragments of one message come in one burst.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cuts a message. None if it is larger than any that can be put together.
pub(crate) fn cut(message: u32, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let chunks: Vec<&[u8]> = bytes.chunks(PAYLOAD_BYTES).collect();
    if chunks.is_empty() || chunks.len() > MAX_FRAGMENTS {
        return None;
    }
    let count = u8::try_from(chunks.len()).ok()?;
    let fragments = (0..count).zip(chunks).map(|(index, chunk)| {
        let mut fragment = Vec::with_capacity(HEADER_BYTES + chunk.len());
        fragment.extend_from_slice(&message.to_le_bytes());
        fragment.extend_from_slice(&[index, count]);
        fragment.extend_from_slice(chunk);
        fragment
    });
    Some(fragments.collect())
}

/// Messages of which some fragments are here.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    partial: BTreeMap<(u64, u32), Partial>,
}

#[derive(Debug)]
struct Partial {
    since: Instant,
    parts: Vec<Option<Vec<u8>>>,
}

/// What a fragment led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Assembled {
    /// The last one: here is the message.
    Whole(Vec<u8>),
    /// More are to come.
    Partly,
    /// It makes no sense.
    Nonsense,
}

impl Assembly {
    /// Takes an authentic fragment of the sender with this boot number.
    pub(crate) fn take(&mut self, boot: u64, fragment: &[u8], now: Instant) -> Assembled {
        let Some((header, payload)) = fragment.split_first_chunk::<HEADER_BYTES>() else {
            return Assembled::Nonsense;
        };
        let &[m0, m1, m2, m3, index, count] = header;
        let (index, count) = (usize::from(index), usize::from(count));
        if count == 0 || count > MAX_FRAGMENTS || index >= count || payload.len() > PAYLOAD_BYTES {
            return Assembled::Nonsense;
        }
        if count == 1 {
            return Assembled::Whole(payload.to_vec());
        }
        let key = (boot, u32::from_le_bytes([m0, m1, m2, m3]));
        self.make_room(key, now);
        let partial = self.partial.entry(key).or_insert_with(|| Partial {
            since: now,
            parts: vec![None; count],
        });
        if partial.parts.len() != count {
            return Assembled::Nonsense;
        }
        partial.parts[index] = Some(payload.to_vec());
        if partial.parts.iter().any(Option::is_none) {
            return Assembled::Partly;
        }
        let parts = self.partial.remove(&key).map(|whole| whole.parts);
        Assembled::Whole(parts.into_iter().flatten().flatten().flatten().collect())
    }

    fn make_room(&mut self, for_key: (u64, u32), now: Instant) {
        if self.partial.contains_key(&for_key) || self.partial.len() < MAX_PARTIAL {
            return;
        }
        self.partial
            .retain(|_, partial| now.saturating_duration_since(partial.since) < PATIENCE);
        if self.partial.len() >= MAX_PARTIAL {
            let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.since);
            if let Some(key) = oldest.map(|(&key, _)| key) {
                self.partial.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_come_together_in_any_order(
            bytes in prop::collection::vec(any::<u8>(), 1..8_000),
            turn in any::<usize>(),
        ) {
            let mut fragments = cut(9, &bytes).unwrap();
            let count = fragments.len();
            fragments.rotate_left(turn % count);
            let mut assembly = Assembly::default();
            let now = Instant::now();
            let last = fragments.pop().unwrap();
            for fragment in fragments {
                prop_assert_eq!(assembly.take(1, &fragment, now), Assembled::Partly);
            }
            prop_assert_eq!(assembly.take(1, &last, now), Assembled::Whole(bytes));
            prop_assert!(assembly.partial.is_empty());
        }

        #[test]
        fn any_fragment_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            Assembly::default().take(1, &bytes, Instant::now());
        }
    }

    #[test]
    fn half_messages_are_bounded_and_the_oldest_goes() {
        let mut assembly = Assembly::default();
        let start = Instant::now();
        for message in 0..1_000u32 {
            let fragments = cut(message, &[0; 3_000]).unwrap();
            let now = start + Duration::from_millis(u64::from(message));
            assert_eq!(assembly.take(1, &fragments[0], now), Assembled::Partly);
            assert!(assembly.partial.len() <= MAX_PARTIAL);
        }
        assert!(assembly.partial.contains_key(&(1, 999)));
    }

    #[test]
    fn too_large_or_empty_is_not_cut() {
        assert!(cut(1, &[]).is_none());
        assert!(
            cut(1, &vec![0; 65_507]).is_some(),
            "the largest that chitchat writes"
        );
        assert!(cut(1, &vec![0; 80_000]).is_none());
    }
}
