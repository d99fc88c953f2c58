//! One node's grip on its cluster.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdline_core::holds::Record;
use holdline_core::replica::Document;
use holdline_core::tpm::Signal;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::ask::{self, Asked};
use crate::gossip::intake::{self, Intake};
use crate::gossip::socket::Wire;
use crate::gossip::{self, Gossip, seek};
use crate::lone::{self, Lone};
use crate::node::{self, Node, Parts};
use crate::options::Options;
use crate::rpc::client::Purpose;
use crate::rpc::message::Request;
use crate::rpc::server;
use crate::seal::Keyring;
use crate::status::{ClusterStatus, Join};
use crate::store::{Snapshot, State, Store};
use crate::tally::Tally;
use crate::tasks::Tasks;
use crate::{duty, join, push, repair, view};

/// What goodbyes may take.
const GOODBYE: Duration = Duration::from_millis(400);

/// For the goodbye to get into gossip: more than one interval.
const LAST_GOSSIP: Duration = Duration::from_millis(300);

/// Seeds found by name and not asked yet.
const MAX_SOUGHT: usize = 64;

/// A running part in the cluster. Cheap to clone; the tasks end with [`Handle::leave`], or with the last
/// clone.
#[derive(Clone)]
pub struct Handle {
    part: Part,
    tasks: Arc<Tasks>,
}

#[derive(Clone)]
enum Part {
    Node(Arc<Node>),
    Lone(Arc<Lone>),
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = match self.part {
            Part::Node(_) => "node",
            Part::Lone(_) => "lone",
        };
        out.debug_struct("Handle")
            .field("part", &part)
            .finish_non_exhaustive()
    }
}

/// Why a node could not take part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken or an address is not ours.
    #[error("cannot listen on {what} {address}")]
    Bind {
        /// `gossip (UDP)` or `rpc (TCP)`.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Beyond loopback without a secret.
    #[error(
        "a cluster node without a cluster secret binds loopback addresses only, not {0}: set --cluster-secret, HOLDLINE_CLUSTER_SECRET or cluster_config.secret"
    )]
    SecretMissing(SocketAddr),
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
    mut options: Options,
    state: Arc<dyn State>,
    store: Arc<dyn Store>,
) -> Result<Handle, StartError> {
    options.secret = options.secret.filter(|secret| !secret.is_empty());
    options.previous_secrets.retain(|secret| !secret.is_empty());
    for address in [options.gossip_bind, options.rpc_bind] {
        if options.secret.is_none() && !address.ip().is_loopback() {
            return Err(StartError::SecretMissing(address));
        }
    }
    let keys = Arc::new(Keyring::new(
        options.secret.as_deref(),
        &options.previous_secrets,
        &options.cluster_id,
    ));
    let tally = Arc::new(Tally::default());
    let (wire, listener) = bind(&options, &keys, &tally).await?;
    let (gossip_bound, rpc_bound) = local_addresses(&wire, &listener)?;
    let advertised = advertised(&options.advertise_host, gossip_bound).await?;
    let had_held_keys = merge_own_store(&state, &store).await;
    let node = Arc::new(Node::new(Parts {
        gossip_address: address(&options.advertise_host, gossip_bound.port()),
        rpc_address: address(&options.advertise_host, rpc_bound.port()),
        options,
        state,
        store,
        keys,
        tally,
        wire: Arc::new(wire),
    }));
    let (intake, heard) = Intake::new();
    let gossip = Gossip::start(&node, advertised, &intake).await;
    let gossip = gossip.map_err(|error| StartError::Other(format!("{error:#}")))?;
    let (found, sought) = mpsc::channel(MAX_SOUGHT);

    let tasks = Tasks::default();
    tasks.spawn(server::serve(Arc::clone(&node), listener));
    tasks.spawn(gossip::run(
        Arc::clone(&node),
        gossip,
        Arc::new(intake),
        sought,
    ));
    tasks.spawn(intake::run(Arc::clone(&node), heard));
    tasks.spawn(seek::run(Arc::clone(&node), found));
    tasks.spawn(push::run(Arc::clone(&node)));
    tasks.spawn(repair::run(Arc::clone(&node)));
    tasks.spawn(duty::run(Arc::clone(&node)));
    tasks.spawn(join::run(Arc::clone(&node), had_held_keys));
    Ok(Handle {
        part: Part::Node(node),
        tasks: Arc::new(tasks),
    })
}

/// A cluster of one: no ports. Snapshots go straight to the store (within 1 s of a change, whole every
/// interval), and [`Handle::status`] names this node as the leader of its region.
///
/// Must be called within a tokio runtime.
#[must_use]
pub fn alone(options: Options, state: Arc<dyn State>, store: Arc<dyn Store>) -> Handle {
    let lone = Arc::new(Lone::new(options, state, store));
    let tasks = Tasks::default();
    tasks.spawn(Arc::clone(&lone).keep());
    Handle {
        part: Part::Lone(lone),
        tasks: Arc::new(tasks),
    }
}

impl Handle {
    /// Tells every other node of records this node made. Never blocks: the queues are bounded, and what
    /// does not fit is repaired by gossip.
    pub fn publish(&self, records: &[Record]) {
        if records.is_empty() {
            return;
        }
        match &self.part {
            Part::Node(node) => {
                if node.options.spread.push {
                    node.lanes.offer(records);
                }
                if node.options.spread.gossip {
                    node.outbox.post_own(records);
                }
                node.duty.changed();
            }
            Part::Lone(lone) => lone.publish(records),
        }
    }

    /// Tells every other node of documents this node wrote.
    pub fn publish_documents(&self, documents: &[Document]) {
        match &self.part {
            Part::Node(node) => {
                node.lanes.offer_documents(documents);
                node.outbox.wake.notify_one();
            }
            Part::Lone(_) => {}
        }
    }

    /// Tells the others what this node learnt of a token limit just now: of a backoff those of the same
    /// region only, of a release all. Never blocks, and nothing waits for it.
    pub fn signal(&self, signal: Signal) {
        match &self.part {
            Part::Node(node) if node.options.spread.gossip => {
                let made_at = node.state.wall();
                node.notices.post(signal, made_at, &node.options);
                node.outbox.wake.notify_one();
            }
            Part::Node(_) | Part::Lone(_) => {}
        }
    }

    /// Asks every other node at once what only the node above the cluster can answer
    /// ([`State::answer`]), and waits no longer than `within` for all of them. Nodes that are down are
    /// not asked.
    pub async fn ask_all(&self, question: Vec<u8>, within: Duration) -> Asked {
        match &self.part {
            Part::Node(node) => ask::all(node, question, within).await,
            Part::Lone(_) => Asked::default(),
        }
    }

    /// The cluster as seen from here. Cheap enough for every status request.
    #[must_use]
    pub fn status(&self) -> ClusterStatus {
        match &self.part {
            Part::Node(node) => view::status(node),
            Part::Lone(lone) => lone.status(),
        }
    }

    /// Whether the table is here yet.
    #[must_use]
    pub fn joined(&self) -> watch::Receiver<Join> {
        match &self.part {
            Part::Node(node) => node.join.subscribe(),
            Part::Lone(lone) => lone.join.subscribe(),
        }
    }

    /// What happened on the wire, for metrics.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match &self.part {
            Part::Node(node) => node.tally.read(),
            Part::Lone(_) => Counters::default(),
        }
    }

    /// Says goodbye (so that others list this node as left), hands on a vote, ends every task.
    pub async fn leave(&self) {
        match &self.part {
            Part::Node(node) => say_goodbye(node).await,
            Part::Lone(lone) => {
                if let Err(error) = lone.save().await {
                    tracing::error!(%error, "cannot save held keys before the end");
                }
            }
        }
        self.tasks.end().await;
    }
}

/// Binds both ports.
async fn bind(
    options: &Options,
    keys: &Arc<Keyring>,
    tally: &Arc<Tally>,
) -> Result<(Wire, TcpListener), StartError> {
    let wire = Wire::bind(options.gossip_bind, Arc::clone(keys), Arc::clone(tally));
    let wire = wire.map_err(|source| StartError::Bind {
        what: "gossip (UDP)",
        address: options.gossip_bind,
        source,
    })?;
    let listener = TcpListener::bind(options.rpc_bind).await;
    let listener = listener.map_err(|source| StartError::Bind {
        what: "rpc (TCP)",
        address: options.rpc_bind,
        source,
    })?;
    Ok((wire, listener))
}

fn local_addresses(
    wire: &Wire,
    listener: &TcpListener,
) -> Result<(SocketAddr, SocketAddr), StartError> {
    let other = |error: std::io::Error| StartError::Other(error.to_string());
    Ok((
        wire.local_addr().map_err(other)?,
        listener.local_addr().map_err(other)?,
    ))
}

/// The address that peers send gossip to: chitchat wants it as numbers.
async fn advertised(host: &str, bound: SocketAddr) -> Result<SocketAddr, StartError> {
    let found = tokio::net::lookup_host((host, bound.port())).await;
    let mut found =
        found.map_err(|error| StartError::Other(format!("the advertised host {host}: {error}")))?;
    let same_family = |address: &SocketAddr| address.is_ipv4() == bound.is_ipv4();
    let address = found.find(same_family).ok_or_else(|| {
        StartError::Other(format!(
            "the advertised host {host} has no address of the bound kind"
        ))
    })?;
    if address.ip().is_unspecified() {
        let what = format!("{host} is no address that peers can dial: set --advertise-host");
        return Err(StartError::Other(what));
    }
    Ok(address)
}

/// `host:port`, in brackets for IPv6.
fn address(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) => format!("{host}:{port}"),
    }
}

/// What a node gives to others always has its own store in it. True if that held any key.
async fn merge_own_store(state: &Arc<dyn State>, store: &Arc<dyn Store>) -> bool {
    let store = Arc::clone(store);
    let loaded = tokio::task::spawn_blocking(move || lone::load(&*store)).await;
    let Some(Snapshot { records, .. }) = loaded.ok().flatten() else {
        return false;
    };
    let had_held_keys = records.iter().any(lone::is_held);
    state.merge_records(records);
    had_held_keys
}

/// By gossip to all, and by RPC to those that answer; then the vote is handed on.
async fn say_goodbye(node: &Arc<Node>) {
    node.start_leaving();
    let roster = node.roster();
    let boot = node.wire.boot;
    let mut goodbyes: FuturesUnordered<_> = roster
        .alive()
        .map(|peer| async move {
            let request = Request::Goodbye { boot };
            let target = node::target(peer);
            // Who does not hear it hears it in gossip.
            let _ = node
                .calls
                .call(&target, Purpose::Push, &request, GOODBYE)
                .await;
        })
        .collect();
    node.duty.leave().await;
    let all = async { while goodbyes.next().await.is_some() {} };
    tokio::join!(all, tokio::time::sleep(LAST_GOSSIP));
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
    /// Signals of token limits that arrived by gossip and changed something.
    pub signals_received: u64,
    /// Records dropped from a full push queue (gossip repairs them).
    pub push_queue_full: u64,
    /// Push to acknowledgement, summed, in microseconds, over `push_round_trips`.
    pub push_round_trip_us: u64,
    /// Acknowledged push messages.
    pub push_round_trips: u64,
    /// Leader changes of the own region seen.
    pub leader_changes: u64,
}
