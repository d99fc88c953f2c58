//! A region in one process: nodes that can be killed, wiped, cut off and started again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use holdline_core::holds::Incoming;
use holdline_core::ids::NodeId;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::memory::{Memory, Table};
use crate::raft::types::Timings;
use crate::raft::{Group, GroupOptions, Leadership, RaftWire, RegionMember, WireError};
use crate::store::{SnapshotInfo, State, Store};

/// How long gossip takes to notice anything.
const GOSSIP: Duration = Duration::from_millis(200);
/// How long a message takes.
const LATENCY: Duration = Duration::from_millis(1);

/// A region.
pub(super) struct Net {
    inner: Arc<Inner>,
    gossip: JoinHandle<()>,
    timings: Timings,
}

#[derive(Default)]
struct Inner {
    nodes: Mutex<BTreeMap<String, Node>>,
    /// Pairs that do not reach each other.
    cuts: Mutex<BTreeSet<(String, String)>>,
}

struct Node {
    raft_id: u64,
    store: Arc<Memory>,
    state: Arc<Table>,
    group: Option<Group>,
    left: bool,
    members: watch::Sender<Vec<RegionMember>>,
    interval: watch::Sender<Duration>,
}

struct Wire {
    from: String,
    inner: Arc<Inner>,
}

impl Inner {
    fn is_cut(&self, one: &str, other: &str) -> bool {
        let cuts = self.cuts.lock().unwrap();
        let pair = |a: &str, b: &str| cuts.contains(&(a.to_owned(), b.to_owned()));
        pair(one, other) || pair(other, one)
    }

    /// What `name` would know by gossip: what it cannot reach is dead to it.
    fn members(&self, name: &str, nodes: &BTreeMap<String, Node>) -> Vec<RegionMember> {
        let known = nodes.iter().filter(|(_, node)| node.raft_id != 0);
        known
            .map(|(other, node)| RegionMember {
                node_id: NodeId::from(other.as_str()),
                raft_id: node.raft_id,
                group_uid: node.uid(),
                alive: node.group.is_some() && !self.is_cut(name, other),
                left: node.left,
            })
            .collect()
    }

    fn gossip(&self) {
        let nodes = self.nodes.lock().unwrap();
        for (name, node) in nodes.iter() {
            let members = self.members(name, &nodes);
            node.members.send_if_modified(|known| {
                let changed = *known != members;
                *known = members;
                changed
            });
        }
    }
}

impl Node {
    fn uid(&self) -> Option<u64> {
        match &self.group {
            Some(group) => group.leadership().borrow().group_uid,
            None => self.store.raft_value("uid").ok().flatten().map(|bytes| {
                crate::raft::codec::decode(&bytes).expect("the store keeps what it was given")
            }),
        }
    }
}

#[async_trait]
impl RaftWire for Wire {
    async fn call(
        &self,
        raft_id: u64,
        request: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, WireError> {
        tokio::time::sleep(LATENCY).await;
        let found = {
            let nodes = self.inner.nodes.lock().unwrap();
            let node = nodes.iter().find(|(_, node)| node.raft_id == raft_id);
            node.filter(|(name, _)| !self.inner.is_cut(&self.from, name))
                .and_then(|(_, node)| node.group.clone())
        };
        let unreachable = WireError::Unreachable(raft_id);
        let group = found.ok_or_else(|| unreachable.clone())?;
        let answer = tokio::time::timeout(within, group.answer(&request));
        answer.await.map_err(|_| unreachable)?
    }
}

impl Net {
    /// A region of nodes `n1` … with raft ids 10, 20 …, all running.
    pub(super) async fn of(nodes: u64) -> Self {
        Self::with(nodes, Timings::default()).await
    }

    pub(super) async fn with(nodes: u64, timings: Timings) -> Self {
        let inner = Arc::new(Inner::default());
        let turning = Arc::clone(&inner);
        let gossip = tokio::spawn(async move {
            loop {
                tokio::time::sleep(GOSSIP).await;
                turning.gossip();
            }
        });
        let net = Self {
            inner,
            gossip,
            timings,
        };
        for number in 1..=nodes {
            net.add(&format!("n{number}"), number * 10).await;
        }
        net
    }

    /// A new node.
    pub(super) async fn add(&self, name: &str, raft_id: u64) {
        let node = Node {
            raft_id,
            store: Arc::default(),
            state: Arc::default(),
            group: None,
            left: false,
            members: watch::Sender::default(),
            interval: watch::Sender::new(Duration::from_secs(300)),
        };
        let nodes = &self.inner.nodes;
        nodes.lock().unwrap().insert(name.to_owned(), node);
        self.start(name).await;
    }

    /// Starts a node on what its store has.
    pub(super) async fn start(&self, name: &str) {
        let options = self.node(name, |node| GroupOptions {
            node_id: NodeId::from(name),
            raft_id: node.raft_id,
            region: "r".to_owned(),
            snapshot_interval: node.interval.subscribe(),
            members: node.members.subscribe(),
            wire: Arc::new(Wire {
                from: name.to_owned(),
                inner: Arc::clone(&self.inner),
            }),
            state: Arc::clone(&node.state) as Arc<dyn State>,
            store: Arc::clone(&node.store) as Arc<dyn Store>,
        });
        let group = Group::start_with(options, self.timings.clone()).await;
        let group = group.expect("the store works");
        self.node(name, |node| {
            node.group = Some(group);
            node.left = false;
        });
    }

    /// Ends a node without a word.
    pub(super) async fn kill(&self, name: &str) {
        let group = self.node(name, |node| node.group.take());
        group.expect("it runs").stop().await;
    }

    /// Ends a node with its goodbyes.
    pub(super) async fn leave(&self, name: &str) {
        let group = self.group(name);
        group.leave().await;
        self.node(name, |node| {
            node.group = None;
            node.left = true;
        });
    }

    /// A dead node loses its disk.
    pub(super) fn wipe(&self, name: &str, raft_id: u64) {
        self.node(name, |node| {
            node.store = Arc::default();
            node.state = Arc::default();
            node.raft_id = raft_id;
        });
    }

    /// Parts the region: these on one side, all others on the other.
    pub(super) fn cut(&self, side: &[&str]) {
        let nodes = self.inner.nodes.lock().unwrap();
        let mut cuts = self.inner.cuts.lock().unwrap();
        for one in side {
            for other in nodes.keys().filter(|name| !side.contains(&name.as_str())) {
                cuts.insert(((*one).to_owned(), other.clone()));
            }
        }
    }

    pub(super) fn heal(&self) {
        self.inner.cuts.lock().unwrap().clear();
    }

    fn node<T>(&self, name: &str, call: impl FnOnce(&mut Node) -> T) -> T {
        let mut nodes = self.inner.nodes.lock().unwrap();
        call(nodes.get_mut(name).expect("the test names nodes there are"))
    }

    pub(super) fn group(&self, name: &str) -> Group {
        self.node(name, |node| node.group.clone().expect("it runs"))
    }

    pub(super) fn store(&self, name: &str) -> Arc<Memory> {
        self.node(name, |node| Arc::clone(&node.store))
    }

    pub(super) fn raft_id(&self, name: &str) -> u64 {
        self.node(name, |node| node.raft_id)
    }

    pub(super) fn every(&self, name: &str, interval: Duration) {
        self.node(name, |node| node.interval.send_replace(interval));
    }

    pub(super) fn leadership(&self, name: &str) -> Leadership {
        self.group(name).leadership().borrow().clone()
    }

    pub(super) fn saved(&self, name: &str) -> Option<SnapshotInfo> {
        self.group(name).snapshot().borrow().clone()
    }

    /// The nodes that run.
    pub(super) fn running(&self) -> Vec<String> {
        let nodes = self.inner.nodes.lock().unwrap();
        let running = nodes.iter().filter(|(_, node)| node.group.is_some());
        running.map(|(name, _)| name.clone()).collect()
    }

    /// Every running node learns of these records, as by push.
    pub(super) fn merge(&self, records: &[Incoming]) {
        for name in self.running() {
            self.node(&name, |node| node.state.merge_records(records.to_vec()));
            self.group(&name).changed();
        }
    }

    /// The one real leader that all of these agree on.
    pub(super) fn agreed(&self, names: &[String]) -> Option<String> {
        let first = self.leadership(names.first()?);
        let leader = first.leader.clone().filter(|_| !first.acting)?;
        // Gossip may not have noticed yet that a leader is dead.
        self.running()
            .iter()
            .find(|name| *name == leader.as_str())?;
        names
            .iter()
            .all(|name| {
                let seen = self.leadership(name);
                seen.group_uid.is_some()
                    && (seen.leader, seen.group_uid, seen.acting)
                        == (Some(leader.clone()), first.group_uid, false)
            })
            .then(|| leader.to_string())
    }

    /// Waits until all running nodes agree on a leader.
    pub(super) async fn leader(&self, within: Duration) -> String {
        let running = self.running();
        let leader = self.eventually(within, "a leader", || self.agreed(&running));
        leader.await
    }

    /// (voters, learners) as this node has them, as raft ids.
    pub(super) fn membership(&self, name: &str) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let metrics = self.group(name).shared.metrics().expect("raft runs");
        let membership = metrics.membership_config.membership();
        (
            membership.voter_ids().collect(),
            membership.learner_ids().collect(),
        )
    }

    /// Waits until `leader` has so many voters.
    pub(super) async fn voters(&self, leader: &str, voters: usize) {
        let counted = || (self.membership(leader).0.len() == voters).then_some(());
        self.eventually(Duration::from_secs(8), "such voters", counted)
            .await;
    }

    /// Lets time pass.
    pub(super) async fn settle(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits until `what` is there.
    pub(super) async fn eventually<T>(
        &self,
        within: Duration,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> T {
        let until = Instant::now() + within;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(
                Instant::now() < until,
                "no {what} within {within:?}: {self:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl std::fmt::Debug for Net {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for name in self.running() {
            let (voters, learners) = self.membership(&name);
            let (seen, saved) = (self.leadership(&name), self.saved(&name));
            writeln!(
                out,
                "\n{name}: {seen:?} voters {voters:?} learners {learners:?} {saved:?}"
            )?;
        }
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.gossip.abort();
    }
}
