//! What a region's group replicates, and how long it waits for things.

use std::io::Cursor;
use std::time::Duration;

use holdline_core::holds::{Incoming, Record};
use openraft::{LogId, SnapshotPolicy, StoredMembership};
use serde::{Deserialize, Serialize};

use crate::store::{Snapshot, SnapshotInfo};

openraft::declare_raft_types!(
    /// The types openraft works with.
    pub(super) Types:
        D = Command,
        R = (),
        NodeId = u64,
        Node = Peer,
        SnapshotData = Cursor<Vec<u8>>,
);

/// What is known of a raft node beside its raft id. Where it lives is gossip's to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Peer {
    /// Its node id: the same after it lost its disk.
    pub(super) node_id: String,
}

/// The last entry that was applied, and the membership as of it.
pub(super) type Applied = (Option<LogId<u64>>, StoredMembership<u64, Peer>);

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    /// The group's name, once.
    Init {
        /// Random.
        uid: u64,
    },
    /// A piece of the table.
    Snapshot(Part),
}

/// A piece of a snapshot. Pieces of one snapshot follow each other in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    /// The same in every piece.
    pub(super) info: SnapshotInfo,
    /// Replaces what was saved before.
    pub(super) whole: bool,
    /// Which piece this is, from 0.
    pub(super) number: u32,
    /// How many there are.
    pub(super) of: u32,
    /// Records with their ages in milliseconds at `info.saved_at`.
    pub(super) records: Vec<(Record, u64)>,
}

/// How many records one log entry carries: some 80 KB at the most.
const RECORDS_PER_PART: usize = 128;

impl Part {
    /// Cuts a snapshot into entries. An empty table is one empty piece.
    pub(super) fn cut(snapshot: Snapshot) -> Vec<Self> {
        let Snapshot {
            info,
            whole,
            records,
        } = snapshot;
        let of = records.len().div_ceil(RECORDS_PER_PART).max(1);
        let mut records = records.into_iter();
        (0..of)
            .map(|number| Self {
                info: info.clone(),
                whole,
                number: u32::try_from(number).unwrap_or(u32::MAX),
                of: u32::try_from(of).unwrap_or(u32::MAX),
                records: records
                    .by_ref()
                    .take(RECORDS_PER_PART)
                    .map(|incoming| (incoming.record, incoming.age_ms))
                    .collect(),
            })
            .collect()
    }
}

/// Puts pieces together again.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    parts: Vec<Part>,
}

impl Assembly {
    /// Takes the next piece in. Gives the snapshot with its last piece.
    ///
    /// A piece out of order belongs to a snapshot whose leader was lost on the way: the next leader
    /// starts with a whole table, so the rest is dropped.
    pub(super) fn push(&mut self, part: Part) -> Option<Snapshot> {
        let follows = self.parts.last().is_none_or(|last| {
            (last.number + 1, &last.info, last.whole, last.of)
                == (part.number, &part.info, part.whole, part.of)
        });
        if !follows {
            self.parts.clear();
        }
        if self.parts.is_empty() && part.number != 0 {
            return None;
        }
        let last = part.number + 1 >= part.of;
        self.parts.push(part);
        last.then(|| self.take()).flatten()
    }

    /// Whether pieces are missing.
    pub(super) const fn is_partial(&self) -> bool {
        !self.parts.is_empty()
    }

    fn take(&mut self) -> Option<Snapshot> {
        let parts = std::mem::take(&mut self.parts);
        let first = parts.first()?;
        Some(Snapshot {
            info: first.info.clone(),
            whole: first.whole,
            records: parts
                .into_iter()
                .flat_map(|part| part.records)
                .map(|(record, age_ms)| Incoming { record, age_ms })
                .collect(),
        })
    }
}

/// How long a group waits. Tests shorten some.
#[derive(Clone, Debug)]
pub(super) struct Timings {
    /// Between two heartbeats of a leader.
    pub(super) heartbeat: Duration,
    /// The shortest election timeout. A lost leader is replaced after twice the timeout of the
    /// fastest voter that is left.
    pub(super) election: Duration,
    /// Election timeouts differ by multiples of this, so that two voters seldom stand at once.
    pub(super) election_step: Duration,
    /// How often the group looks at itself.
    pub(super) tick: Duration,
    /// Gossip gets this long to tell of a group before one is founded.
    pub(super) boot_wait: Duration,
    /// Without a leader for this long, the lowest live raft id acts as one.
    pub(super) acting_after: Duration,
    /// A quorum acknowledgement older than this makes a leader doubt itself.
    pub(super) ack_fresh: Duration,
    /// A voter away for this long is replaced by a live learner.
    pub(super) replace_after: Duration,
    /// A voter away for this long is dropped even if nobody can take its place.
    pub(super) drop_after: Duration,
    /// A group none of whose voters has been alive for this long is given up, and a learner away for
    /// this long is no longer waited for.
    pub(super) give_up_after: Duration,
    /// A group without a live quorum for this long is given up.
    pub(super) give_up_quorum_after: Duration,
    /// From a change to its snapshot.
    pub(super) save_after: Duration,
    /// Between two snapshots of changes.
    pub(super) save_apart: Duration,
    /// How long handing on a vote may take.
    pub(super) leave_within: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            heartbeat: ms(100),
            election: ms(400),
            election_step: ms(40),
            tick: ms(100),
            boot_wait: ms(2_000),
            acting_after: ms(5_000),
            ack_fresh: ms(1_500),
            replace_after: ms(10_000),
            drop_after: ms(30_000),
            give_up_after: ms(60_000),
            give_up_quorum_after: ms(600_000),
            save_after: ms(250),
            save_apart: ms(500),
            leave_within: ms(1_000),
        }
    }
}

/// Election timeouts come in this many steps.
const ELECTION_STEPS: u64 = 8;

impl Timings {
    /// openraft's settings for this raft id.
    ///
    /// openraft draws the election timeout once per process and lets the lease of a lost leader last
    /// as long as the greatest draw. The steps keep draws of different nodes apart, and the slowest
    /// lease shorter than the fastest stand (lease and timeout), so that the first to stand is not
    /// refused for a lease.
    pub(super) fn config(&self, region: &str, raft_id: u64) -> openraft::Config {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let step = ms(self.election_step).max(1);
        let slot = raft_id.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(8) % ELECTION_STEPS;
        let election_timeout_min = ms(self.election) + slot * step;
        openraft::Config {
            cluster_name: region.to_owned(),
            heartbeat_interval: ms(self.heartbeat),
            election_timeout_min,
            election_timeout_max: election_timeout_min + step,
            install_snapshot_timeout: 5_000,
            max_payload_entries: 64,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(256),
            max_in_snapshot_log_to_keep: 64,
            snapshot_max_chunk_size: 256 << 10,
            ..openraft::Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use holdline_core::ids::NodeId;
    use holdline_core::time::WallMs;

    use super::*;
    use crate::raft::tests::record;

    fn snapshot(records: u64) -> Snapshot {
        Snapshot {
            info: SnapshotInfo {
                saved_at: WallMs(records),
                saved_by: NodeId::from("n1"),
                held: 0,
                group_uid: 1,
                term: 1,
            },
            whole: true,
            records: (0..records).map(|n| record(n, 1)).collect(),
        }
    }

    #[test]
    fn a_table_is_cut_and_put_together_again() {
        for (records, parts) in [(0, 1), (1, 1), (128, 1), (129, 2), (1_000, 8)] {
            let cut = Part::cut(snapshot(records));
            assert_eq!(cut.len(), parts);
            let mut assembly = Assembly::default();
            let whole: Vec<_> = cut
                .into_iter()
                .filter_map(|part| assembly.push(part))
                .collect();
            assert_eq!(whole, [snapshot(records)]);
            assert!(!assembly.is_partial());
        }
    }

    #[test]
    fn pieces_of_a_lost_snapshot_are_dropped() {
        let mut assembly = Assembly::default();
        let mut lost = Part::cut(snapshot(500));
        assert_eq!(assembly.push(lost.remove(0)), None);
        assert_eq!(assembly.push(lost.remove(1)), None, "a piece is missing");
        assert!(!assembly.is_partial());
        assert_eq!(assembly.push(lost.remove(0)), None, "begins in the middle");
        for part in Part::cut(snapshot(300)).into_iter().take(2) {
            assert_eq!(assembly.push(part), None);
        }
        let next = Part::cut(snapshot(2)).remove(0);
        assert_eq!(assembly.push(next), Some(snapshot(2)));
    }

    #[test]
    fn the_first_to_stand_is_not_refused_for_a_lease() {
        let configs = (0..1_000).map(|id| Timings::default().config("r", id).validate().unwrap());
        let (min, max) = configs.fold((u64::MAX, 0), |(min, max), config| {
            (
                min.min(config.election_timeout_min),
                max.max(config.election_timeout_max),
            )
        });
        assert!(2 * min > max, "{min} {max}");
    }
}
