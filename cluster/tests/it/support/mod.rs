//! Nodes to test with: started, stopped, killed and started again on the same ports and store.

mod disk;
mod table;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdline_cluster::{
    Handle, Join, Member, MemberState, Options, Restored, Spread, StartError, start,
};
use holdline_core::replica::Document;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use disk::Disk;
pub(crate) use table::Table;

/// Long enough for a busy machine; what is waited for comes far sooner.
const PATIENCE: Duration = Duration::from_secs(20);

const FORMER_LIFE: Duration = Duration::from_secs(2);

/// Greater with each life of any node.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// A node, running or not.
pub(crate) struct Node {
    pub(crate) options: Options,
    pub(crate) disk: Arc<Disk>,
    pub(crate) table: Arc<Table>,
    handle: Option<Handle>,
}

impl Node {
    /// A node that is not running yet, on ports the system chooses.
    pub(crate) fn new(node_id: &str, region: &str, seeds: &[&Self]) -> Self {
        let options = Options {
            seeds: seeds.iter().map(|seed| seed.gossip_address()).collect(),
            ..options(node_id, region)
        };
        Self {
            table: Arc::new(Table::new(&options, 0)),
            disk: Arc::default(),
            options,
            handle: None,
        }
    }

    /// Starts it, or starts it again with an empty memory, another generation and what its disk has.
    pub(crate) async fn start(&mut self) {
        let begun = Instant::now();
        loop {
            match self.try_start().await {
                // The sockets of a former life close when its tasks are gone.
                Err(StartError::Bind { .. }) if begun.elapsed() < FORMER_LIFE => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                started => break started.unwrap(),
            }
        }
    }

    pub(crate) async fn try_start(&mut self) -> Result<(), StartError> {
        self.options.generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        self.table = Arc::new(Table::new(&self.options, self.table.wall_skew_ms()));
        let (state, disk) = (Arc::clone(&self.table), Arc::clone(&self.disk));
        let handle = start(self.options.clone(), state, disk).await?;
        let own = own_row(&handle);
        self.options.gossip_bind = own.gossip_address.parse().unwrap();
        self.options.rpc_bind = own.rpc_address.parse().unwrap();
        self.handle = Some(handle);
        Ok(())
    }

    /// Ends it without a goodbye.
    pub(crate) fn kill(&mut self) {
        self.handle = None;
    }

    pub(crate) async fn leave(&mut self) {
        self.handle().leave().await;
        self.handle = None;
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.handle.as_ref().unwrap()
    }

    pub(crate) fn gossip_address(&self) -> String {
        own_row(self.handle()).gossip_address
    }

    pub(crate) fn rpc_address(&self) -> String {
        own_row(self.handle()).rpc_address
    }

    /// Waits until it has its table.
    pub(crate) async fn ready(&self) -> Restored {
        let mut joined = self.handle().joined();
        let is_ready = |join: &Join| !matches!(join, Join::Pending);
        let wait = tokio::time::timeout(PATIENCE, joined.wait_for(is_ready));
        match wait.await.unwrap().unwrap().clone() {
            Join::Ready(restored) => restored,
            other @ (Join::Pending | Join::Degraded(_)) => panic!("joined as {other:?}"),
        }
    }

    /// A refusal here: the key is held, and the others are told.
    pub(crate) fn hold(&self, key: &str) {
        self.handle().publish(&self.table.refuse(key));
    }

    pub(crate) fn release(&self, key: &str) {
        self.handle().publish(&self.table.release(key));
    }

    /// A token limit is met here, and the others are told.
    pub(crate) fn run_dry(&self, key: &str, wait_ms: u64) {
        self.handle().signal(self.table.run_dry(key, wait_ms));
    }

    /// An operator ends a backoff here, and the others are told.
    pub(crate) fn clear(&self, key: &str) {
        self.handle().signal(self.table.clear(key));
    }

    pub(crate) fn write(&self, name: &str, body: &str) {
        let document: Document = self.table.write(name, body);
        self.handle().publish_documents(&[document]);
    }

    pub(crate) fn holds(&self, key: &str) -> bool {
        self.table.held().contains(&key.to_owned())
    }

    /// How this node lists another.
    pub(crate) fn row(&self, node_id: &str) -> Option<Member> {
        let status = self.handle().status();
        let mut rows = status.nodes.into_iter();
        rows.find(|row| row.node_id.as_str() == node_id)
    }

    pub(crate) fn sees(&self, node_id: &str, state: MemberState) -> bool {
        self.row(node_id).is_some_and(|row| row.state == state)
    }
}

/// Starts all at once and waits until they are ready and see one another.
pub(crate) async fn start_all(nodes: &mut [Node]) {
    let mut seeds: Vec<String> = Vec::new();
    for node in nodes.iter_mut() {
        node.options.seeds.extend(seeds.iter().cloned());
        node.start().await;
        seeds.push(node.gossip_address());
    }
    for node in nodes.iter() {
        node.ready().await;
    }
    eventually("all see all alive", || {
        nodes.iter().all(|node| {
            let rows = node.handle().status().nodes;
            rows.len() == nodes.len() && rows.iter().all(|row| row.state == MemberState::Alive)
        })
    })
    .await;
}

/// Names of two regions in turn.
pub(crate) fn fleet(count: usize) -> Vec<Node> {
    let region = |number| if number % 2 == 0 { "east" } else { "west" };
    (0..count)
        .map(|number| Node::new(&format!("n{number}"), region(number), &[]))
        .collect()
}

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    start.elapsed()
}

pub(crate) async fn all_hold(nodes: &[Node], key: &str) -> Duration {
    eventually(key, || nodes.iter().all(|node| node.holds(key))).await
}

pub(crate) async fn none_holds(nodes: &[Node], key: &str) -> Duration {
    eventually(key, || !nodes.iter().any(|node| node.holds(key))).await
}

fn options(node_id: &str, region: &str) -> Options {
    let any_port = SocketAddr::from((loopback(), 0));
    Options {
        node_id: node_id.into(),
        region: region.into(),
        cluster_id: "tests".to_owned(),
        generation: 0,
        raft_id: GENERATION.fetch_add(1, Ordering::Relaxed),
        gossip_bind: any_port,
        rpc_bind: any_port,
        advertise_host: loopback().to_string(),
        http_address: format!("{node_id}:8080"),
        seeds: Vec::new(),
        secret: Some("a secret of tests".to_owned()),
        previous_secrets: Vec::new(),
        version: "1.2.3".to_owned(),
        snapshot_interval: watch::channel(Duration::from_secs(300)).1,
        time_scale: 1.0,
        spread: Spread::default(),
    }
}

/// The loopback address of this process: nobody else takes the ports of a node that is down there.
fn loopback() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    if cfg!(target_os = "linux") {
        Ipv4Addr::new(127, 64 | high, middle, low)
    } else {
        Ipv4Addr::LOCALHOST
    }
}

fn own_row(handle: &Handle) -> Member {
    let status = handle.status();
    let mut rows = status.nodes.into_iter();
    rows.find(|row| row.node_id == status.node_id).unwrap()
}
