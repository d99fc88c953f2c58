//! Gossip: who is there, and the backbone under push that repairs every loss.
//!
//! Chitchat carries each node's keyspace (see [`keyspace`]) to every other, sealed (see [`socket`]). One
//! task writes the own keyspace and reads the others' facts; another merges the records that arrive.

pub(crate) mod fragment;
pub(crate) mod intake;
pub(crate) mod keyspace;
pub(crate) mod notices;
pub(crate) mod outbox;
pub(crate) mod roster;
pub(crate) mod seek;
pub(crate) mod socket;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chitchat::{
    Chitchat, ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, NodeState,
    ProtocolVersion, spawn_chitchat,
};
use tokio::sync::{Mutex, mpsc};
use tokio::time::MissedTickBehavior;

use self::intake::Intake;
use self::keyspace::{Posted, RECORDS, record_key, to_value};
use self::roster::Watch;
use self::socket::SealedTransport;
use crate::adoption::Adoption;
use crate::node::Node;
use crate::status::RpcLink;

const INTERVAL: Duration = Duration::from_millis(200);

/// How often the own facts are brought up to date and the others' read.
const BEAT: Duration = Duration::from_millis(100);

/// Between two beats, however much there is to say.
const BREATH: Duration = Duration::from_millis(10);

/// Records set per beat: one delta carries about so many, and the facts behind them must not be late.
const BATCH: usize = 128;

/// Silence that makes a node suspect, in mean heartbeat intervals.
const PHI: f64 = 8.0;

/// Heartbeats kept per node for their mean.
const HEARTBEATS: usize = 1_000;

/// A dead node is listed for so long. It leaves gossip after half of it.
const FORGET_AFTER: Duration = Duration::from_secs(3_600);

/// Deleted keys are remembered for so long.
const FORGET_KEYS_AFTER: Duration = Duration::from_secs(600);

/// Chitchat died: not again at once.
const RESTART_AFTER: Duration = Duration::from_millis(500);

/// A running chitchat.
pub(crate) struct Gossip {
    handle: ChitchatHandle,
    chitchat: Arc<Mutex<Chitchat>>,
    advertised: SocketAddr,
    restarts: u64,
}

impl Gossip {
    /// Starts chitchat on the bound port of the node's wire.
    ///
    /// # Errors
    /// When chitchat does not start.
    pub(crate) async fn start(
        node: &Node,
        advertised: SocketAddr,
        intake: &Intake,
    ) -> anyhow::Result<Self> {
        Self::spawn(node, advertised, intake, 0, node.facts().texts()).await
    }

    async fn spawn(
        node: &Node,
        advertised: SocketAddr,
        intake: &Intake,
        restarts: u64,
        keyspace: Vec<(String, String)>,
    ) -> anyhow::Result<Self> {
        let generation = node.options.generation.saturating_add(restarts);
        let own = ChitchatId::new(node.options.node_id.as_str(), generation, advertised);
        let config = ChitchatConfig {
            chitchat_id: own,
            cluster_id: node.options.cluster_id.clone(),
            gossip_interval: INTERVAL,
            listen_addr: advertised,
            // Names are looked up by `seek`: chitchat would wait for them before it starts.
            seed_nodes: seek::numeric(&node.options.seeds),
            failure_detector_config: FailureDetectorConfig {
                phi_threshold: PHI,
                sampling_window_size: HEARTBEATS,
                max_interval: INTERVAL * 10,
                initial_interval: INTERVAL,
                dead_node_grace_period: FORGET_AFTER,
            },
            marked_for_deletion_grace_period: FORGET_KEYS_AFTER,
            catchup_callback: None,
            extra_liveness_predicate: None,
            protocol_version: ProtocolVersion::V1,
        };
        let transport = SealedTransport(Arc::clone(&node.wire));
        let handle = spawn_chitchat(config, keyspace, &transport).await?;
        let chitchat = handle.chitchat();
        if node.options.spread.gossip {
            intake.subscribe(&*chitchat.lock().await, &node.options.region);
        }
        Ok(Self {
            handle,
            chitchat,
            advertised,
            restarts,
        })
    }

    /// A new chitchat with the same keyspace. Its generation is one higher, or the others would wait for
    /// versions that never come.
    async fn restart(&self, node: &Node, intake: &Intake) -> anyhow::Result<Self> {
        self.handle.abort();
        let keyspace = {
            let mut chitchat = self.chitchat.lock().await;
            let own = chitchat.self_node_state();
            let texts = own.key_values();
            texts.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
        };
        Self::spawn(node, self.advertised, intake, self.restarts + 1, keyspace).await
    }
}

/// Writes and reads keyspaces until it is aborted; starts chitchat again if that dies.
pub(crate) async fn run(
    node: Arc<Node>,
    mut gossip: Gossip,
    intake: Arc<Intake>,
    mut sought: mpsc::Receiver<SocketAddr>,
) {
    let mut watch = Watch::default();
    let mut allowance = Allowance::default();
    let mut adoption = Adoption::default();
    let mut ticks = tokio::time::interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end = Box::pin(gossip.handle.termination_watcher());
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                adoption.tick(&node, &gossip.chitchat).await;
                beat(&node, &gossip, &intake, &mut watch, &mut allowance).await;
            }
            () = node.outbox.wake.notified() => {
                beat(&node, &gossip, &intake, &mut watch, &mut allowance).await;
                tokio::time::sleep(BREATH).await;
            }
            Some(address) = sought.recv() => {
                let _ = gossip.handle.gossip(address); // it died: the next branch sees to it
            }
            ended = &mut end => {
                let reason = ended.err().map(|error| error.to_string());
                tracing::error!(reason, "gossip stopped, starting it again");
                tokio::time::sleep(RESTART_AFTER).await;
                match gossip.restart(&node, &intake).await {
                    Ok(started) => gossip = started,
                    Err(error) => tracing::error!(%error, "gossip does not start"),
                }
                end = Box::pin(gossip.handle.termination_watcher());
            }
        }
    }
}

/// One round: say what is new here, see who is there.
async fn beat(
    node: &Node,
    gossip: &Gossip,
    intake: &Intake,
    watch: &mut Watch,
    allowance: &mut Allowance,
) {
    let facts = node.facts();
    let records = if node.options.spread.gossip {
        next_records(node, allowance)
    } else {
        Vec::new()
    };
    let roster = {
        let mut chitchat = gossip.chitchat.lock().await;
        let own = chitchat.self_node_state();
        facts.write(own);
        for (key, value) in &records {
            own.set(key, value);
        }
        node.notices.write(own, Instant::now());
        if intake.take_rescan() {
            intake.scan(&chitchat, &node.options.region);
        }
        watch.look(&chitchat, &node.goodbyes(), Instant::now())
    };
    let was_impostor = node.roster.borrow().impostor.clone();
    if roster.impostor.is_some() && roster.impostor != was_impostor {
        tracing::warn!(
            address = roster.impostor,
            "another node uses this node's id and is newer"
        );
    }
    let roster = Arc::new(roster);
    node.calls.keep_only(|id| roster.peers.contains_key(id));
    node.goodbyes()
        .retain(|id, _| roster.peers.contains_key(id));
    nudge(node, gossip, &roster, !records.is_empty());
    node.roster.send_replace(roster);
}

/// Peers that push does not reach, or that should hear a goodbye, get gossip out of turn.
fn nudge(node: &Node, gossip: &Gossip, roster: &roster::Roster, new_records: bool) {
    for peer in roster.alive() {
        let unreached = new_records && node.calls.link(&peer.node_id) != Some(RpcLink::Ok);
        if (unreached || node.is_leaving())
            && let Ok(address) = peer.facts.gossip_address.parse()
        {
            let _ = gossip.handle.gossip(address); // it died: the watcher sees to it
        }
    }
}

/// Keys and values of the records that wait for gossip.
fn next_records(node: &Node, allowance: &mut Allowance) -> Vec<(String, String)> {
    if node.outbox.take_overflow() {
        let own = node.options.node_id.as_str();
        let records = node.state.export_records().into_iter();
        let made_here = records.map(|incoming| incoming.record);
        let made_here: Vec<_> = made_here.filter(|r| r.details.origin == own).collect();
        node.outbox.post_own(&made_here);
    }
    let posted = node.outbox.take(allowance.left(Instant::now()));
    allowance.left -= posted.len();
    posted.iter().filter_map(entry).collect()
}

/// How many records may still be set before the next beat.
#[derive(Debug)]
struct Allowance {
    since: Instant,
    left: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            left: BATCH,
        }
    }
}

impl Allowance {
    fn left(&mut self, now: Instant) -> usize {
        if now.duration_since(self.since) >= BEAT {
            (self.since, self.left) = (now, BATCH);
        }
        self.left
    }
}

fn entry(posted: &Posted) -> Option<(String, String)> {
    Some((record_key(&posted.record.subject), to_value(posted)?))
}

/// The records in a keyspace, as they stand there.
pub(crate) fn records(state: &NodeState) -> impl Iterator<Item = (&str, &str)> {
    state
        .iter_prefix(RECORDS)
        .map(|(key, value)| (key, value.value.as_str()))
}
