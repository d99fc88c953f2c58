//! What happened on the wire, counted since start.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::handle::Counters;

/// The counters behind [`Counters`], shared by every task.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) datagrams_refused: Count,
    pub(crate) rpcs_refused: Count,
    pub(crate) records_pushed: Count,
    pub(crate) records_received_by_push: Count,
    pub(crate) records_received_by_gossip: Count,
    pub(crate) signals_received: Count,
    pub(crate) push_queue_full: Count,
    pub(crate) push_round_trip_us: Count,
    pub(crate) push_round_trips: Count,
    pub(crate) leader_changes: Count,
}

/// One counter. Only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    pub(crate) fn read(&self) -> Counters {
        Counters {
            datagrams_refused: self.datagrams_refused.read(),
            rpcs_refused: self.rpcs_refused.read(),
            records_pushed: self.records_pushed.read(),
            records_received_by_push: self.records_received_by_push.read(),
            records_received_by_gossip: self.records_received_by_gossip.read(),
            signals_received: self.signals_received.read(),
            push_queue_full: self.push_queue_full.read(),
            push_round_trip_us: self.push_round_trip_us.read(),
            push_round_trips: self.push_round_trips.read(),
            leader_changes: self.leader_changes.read(),
        }
    }
}
