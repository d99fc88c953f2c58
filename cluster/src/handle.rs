//! One node's grip on its cluster.

use std::sync::Arc;

use holdline_core::holds::Record;
use holdline_core::replica::Document;
use tokio::sync::watch;

use crate::options::Options;
use crate::status::{ClusterStatus, Join};
use crate::store::{State, Store};

/// A running part in the cluster. Cheap to clone; the tasks end with [`Handle::leave`].
#[derive(Clone, Debug)]
pub struct Handle {}

/// Why a node could not take part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken or an address is not ours.
    #[error("cannot listen on {what} {address}: {source}")]
    Bind {
        /// `gossip (UDP)` or `rpc (TCP)`.
        what: &'static str,
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Beyond loopback without a secret.
    #[error(
        "a cluster node without a cluster secret binds loopback addresses only, not {0}: set --cluster-secret, HOLDLINE_CLUSTER_SECRET or cluster_config.secret"
    )]
    SecretMissing(std::net::SocketAddr),
    /// Gossip or raft did not start.
    #[error("cannot start the cluster: {0}")]
    Other(String),
}

/// Joins the cluster with the seeds of `options`, or starts one.
///
/// Returns as soon as the ports are bound; [`Handle::joined`] tells when the table is here.
///
/// # Errors
/// When a port cannot be bound, or beyond loopback without a secret.
pub async fn start(
    _options: Options,
    _state: Arc<dyn State>,
    _store: Arc<dyn Store>,
) -> Result<Handle, StartError> {
    unimplemented!()
}

/// A cluster of one: no ports. Snapshots go straight to the store (within 1 s of a change, whole every
/// interval), and [`Handle::status`] names this node as the leader of its region.
#[must_use]
pub fn alone(_options: Options, _state: Arc<dyn State>, _store: Arc<dyn Store>) -> Handle {
    unimplemented!()
}

impl Handle {
    /// Tells every other node of records this node made. Never blocks: the queues are bounded, and what
    /// does not fit is repaired by gossip.
    pub fn publish(&self, _records: &[Record]) {
        unimplemented!()
    }

    /// Tells every other node of documents this node wrote.
    pub fn publish_documents(&self, _documents: &[Document]) {
        unimplemented!()
    }

    /// The cluster as seen from here. Cheap enough for every status request.
    #[must_use]
    pub fn status(&self) -> ClusterStatus {
        unimplemented!()
    }

    /// Whether the table is here yet.
    #[must_use]
    pub fn joined(&self) -> watch::Receiver<Join> {
        unimplemented!()
    }

    /// What happened on the wire, for metrics.
    #[must_use]
    pub fn counters(&self) -> Counters {
        unimplemented!()
    }

    /// Says goodbye (so that others list this node as left), hands on a vote, ends every task.
    pub async fn leave(&self) {
        unimplemented!()
    }
}

/// Counted since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Gossip datagrams that did not open, were replayed, or made no sense.
    pub datagrams_refused: u64,
    /// RPC connections or messages that did not open or made no sense.
    pub rpcs_refused: u64,
    /// Records sent by push and acknowledged, per peer and record.
    pub records_pushed: u64,
    /// Records that arrived by push.
    pub records_received_by_push: u64,
    /// Records that arrived by gossip and were not known yet.
    pub records_received_by_gossip: u64,
    /// Records dropped from a full push queue (gossip repairs them).
    pub push_queue_full: u64,
    /// Push to acknowledgement, summed, in microseconds, over `push_round_trips`.
    pub push_round_trip_us: u64,
    /// Acknowledged push messages.
    pub push_round_trips: u64,
    /// Leader changes of the own region seen.
    pub leader_changes: u64,
}
