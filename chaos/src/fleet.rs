//! Several nodes over regions, sharing one config: started, broken and asked together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::api::{ClusterStatus, Condition};
use crate::http::Http;
use crate::net::Net;
use crate::poll;
use crate::ports::Ports;
use crate::process::{Node, NodeSpec, NodeState};
use crate::watchdog::Watchdog;

/// Names for the first regions; further ones are numbered.
const REGIONS: [&str; 6] = [
    "us-east", "eu-west", "ap-south", "us-west", "eu-north", "sa-east",
];

/// What makes a fleet.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// The program under test.
    pub binary: PathBuf,
    /// Everything is written below this folder.
    pub dir: PathBuf,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of regions, at most the number of nodes.
    pub regions: usize,
    /// Where they listen.
    pub ports: Ports,
    /// How much faster holds pass.
    pub time_scale: f64,
    /// The config file's content, the same for every node.
    pub config: Value,
    /// Shared by the cluster.
    pub secret: String,
}

/// Nodes `n1`, `n2`, … in the order of their regions.
#[derive(Debug)]
pub struct Fleet {
    nodes: Vec<Node>,
    // After the nodes: a network that is gone would leave them alone.
    _net: Option<Arc<Net>>,
}

impl Fleet {
    /// Writes the config; starts nothing. All nodes are on the loopback.
    ///
    /// # Errors
    /// When the shape is impossible or the folder cannot be written.
    pub fn new(spec: &FleetSpec) -> anyhow::Result<Self> {
        Self::build(spec, None)
    }

    /// The same on a network whose links can be cut; `admin_token` is what the config asks admins for.
    ///
    /// # Errors
    /// When the shape is impossible or the folder cannot be written.
    pub fn on_net(spec: &FleetSpec, net: Arc<Net>, admin_token: String) -> anyhow::Result<Self> {
        Self::build(spec, Some((net, admin_token)))
    }

    fn build(spec: &FleetSpec, place: Option<(Arc<Net>, String)>) -> anyhow::Result<Self> {
        let regions = regions(spec.nodes, spec.regions)?;
        fs::create_dir_all(&spec.dir)
            .with_context(|| format!("cannot write {}", spec.dir.display()))?;
        let config = spec.dir.join("config.json");
        fs::write(&config, serde_json::to_string_pretty(&spec.config)?)?;
        let watchdog = Arc::new(Watchdog::start()?);
        let http = Http::new();
        let nodes = regions.into_iter().enumerate().map(|(index, region)| {
            let mut node = node_spec(spec, &config, index, region);
            if let Some((net, token)) = &place {
                put_on(net, token, spec, index, &mut node);
            }
            Node::new(node, http.clone(), Arc::clone(&watchdog))
        });
        Ok(Self {
            nodes: nodes.collect(),
            _net: place.map(|(net, _)| net),
        })
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All nodes, to break them.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// # Errors
    /// When there is no such node; the message lists those that there are.
    pub fn node(&mut self, id: &str) -> anyhow::Result<&mut Node> {
        let known = self
            .nodes
            .iter()
            .map(Node::id)
            .collect::<Vec<_>>()
            .join(", ");
        let found = self.nodes.iter_mut().find(|node| node.id() == id);
        found.with_context(|| format!("there is no node {id}: there are {known}"))
    }

    /// Nodes that run and are not paused.
    pub fn live(&self) -> impl Iterator<Item = &Node> {
        self.nodes
            .iter()
            .filter(|node| node.state() == NodeState::Running)
    }

    /// The regions and their nodes' ids, both in the order of the nodes.
    #[must_use]
    pub fn regions(&self) -> Vec<(String, Vec<String>)> {
        let mut regions: Vec<(String, Vec<String>)> = Vec::new();
        for node in &self.nodes {
            match regions.last_mut() {
                Some((region, ids)) if *region == node.spec().region => {
                    ids.push(node.id().to_owned());
                }
                _ => regions.push((node.spec().region.clone(), vec![node.id().to_owned()])),
            }
        }
        regions
    }

    /// Starts every node that is down and waits until each is ready.
    ///
    /// # Errors
    /// When one does not become ready within `limit`.
    pub async fn start_all(&mut self, limit: Duration) -> anyhow::Result<()> {
        for node in &mut self.nodes {
            if node.state() == NodeState::Down {
                node.start()?;
            }
        }
        for node in &mut self.nodes {
            node.wait_ready(limit).await?;
        }
        Ok(())
    }

    /// SIGKILL for all in one instant, then waits until all are gone.
    ///
    /// # Errors
    /// When one does not end.
    pub async fn kill_all(&mut self) -> anyhow::Result<()> {
        for node in &self.nodes {
            if node.state() != NodeState::Down {
                node.send_kill()?;
            }
        }
        for node in &mut self.nodes {
            node.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM for all; those that do not end by themselves are killed and named.
    ///
    /// # Errors
    /// When a node had to be killed.
    pub async fn stop_all(&mut self) -> anyhow::Result<()> {
        let mut stubborn = Vec::new();
        let stops = self.nodes.iter_mut().map(|node| async move {
            let stopped = if node.state() == NodeState::Paused {
                node.resume()
            } else {
                Ok(())
            };
            let stopped = match stopped {
                Ok(()) => node.stop().await.map(|_| ()),
                Err(error) => Err(error),
            };
            match stopped {
                Ok(()) => None,
                Err(error) => {
                    let killed = node.kill().await;
                    Some(format!(
                        "{error:#}{}",
                        if killed.is_err() {
                            ", and SIGKILL did not help"
                        } else {
                            ""
                        }
                    ))
                }
            }
        });
        stubborn.extend(
            futures_util::future::join_all(stops)
                .await
                .into_iter()
                .flatten(),
        );
        ensure!(stubborn.is_empty(), "{}", stubborn.join("; "));
        Ok(())
    }

    /// Waits until the live nodes agree: equal tables, all see each other alive, one leader per region.
    ///
    /// # Errors
    /// When they do not within `limit`; says in what they differ.
    pub async fn wait_agreed(&self, limit: Duration) -> anyhow::Result<Duration> {
        let agreed =
            poll::until(limit, "the nodes agree", async || self.disagreement().await).await?;
        Ok(agreed.1)
    }

    /// Waits until every live node holds the key; how long that took.
    ///
    /// # Errors
    /// When one does not within `limit`.
    pub async fn wait_held(&self, key_id: &str, limit: Duration) -> anyhow::Result<Duration> {
        self.wait_each(
            &format!("a hold of {key_id} everywhere"),
            limit,
            key_id,
            true,
        )
        .await
    }

    /// Waits until no live node holds the key; how long that took.
    ///
    /// # Errors
    /// When one still does after `limit`.
    pub async fn wait_released(&self, key_id: &str, limit: Duration) -> anyhow::Result<Duration> {
        self.wait_each(
            &format!("the release of {key_id} everywhere"),
            limit,
            key_id,
            false,
        )
        .await
    }

    /// What each live node shows as held, without what it draws for itself, sorted.
    ///
    /// # Errors
    /// When a live node does not answer.
    pub async fn views(&self) -> anyhow::Result<BTreeMap<String, Vec<Condition>>> {
        let mut views = BTreeMap::new();
        for node in self.live() {
            let view = node
                .api()
                .conditions()
                .await
                .with_context(|| node.id().to_owned())?;
            let mut shared: Vec<Condition> =
                view.conditions.iter().map(Condition::shared).collect();
            shared.sort();
            views.insert(node.id().to_owned(), shared);
        }
        Ok(views)
    }

    /// The leader of a region, once all live nodes name the same live one other than `not`.
    ///
    /// # Errors
    /// When they do not within `limit`.
    pub async fn leader(
        &self,
        region: &str,
        not: Option<&str>,
        limit: Duration,
    ) -> anyhow::Result<(String, Duration)> {
        let what = format!("one leader of {region}");
        poll::until(limit, &what, async || {
            let status = self.statuses().await?;
            let leader = one_leader(region, &status)?;
            ensure!(Some(leader.as_str()) != not, "still {leader}");
            Ok(leader)
        })
        .await
    }

    async fn wait_each(
        &self,
        what: &str,
        limit: Duration,
        key_id: &str,
        held: bool,
    ) -> anyhow::Result<Duration> {
        let waited = poll::until(limit, what, async || {
            for node in self.live() {
                let is_held = node.api().held(key_id).await?.is_some();
                ensure!(
                    is_held == held,
                    "{} {}",
                    node.id(),
                    if is_held {
                        "holds it"
                    } else {
                        "does not hold it"
                    }
                );
            }
            Ok(())
        });
        Ok(waited.await?.1)
    }

    async fn statuses(&self) -> anyhow::Result<Vec<ClusterStatus>> {
        let mut statuses = Vec::new();
        for node in self.live() {
            statuses.push(
                node.api()
                    .cluster()
                    .await
                    .with_context(|| node.id().to_owned())?,
            );
        }
        Ok(statuses)
    }

    async fn disagreement(&self) -> anyhow::Result<()> {
        let statuses = self.statuses().await?;
        let live: BTreeSet<&str> = self.live().map(Node::id).collect();
        for status in &statuses {
            let alive = status.nodes.iter().filter(|member| member.state == "alive");
            let alive: BTreeSet<&str> = alive.map(|member| member.node_id.as_str()).collect();
            ensure!(
                alive == live,
                "{} sees {alive:?} alive instead of {live:?}",
                status.node_id
            );
        }
        let regions: BTreeSet<&str> = self
            .live()
            .map(|node| node.spec().region.as_str())
            .collect();
        for region in regions {
            let leader = one_leader(region, &statuses)?;
            ensure!(
                live.contains(leader.as_str()),
                "{leader} leads {region} and does not run"
            );
        }
        let mut digests = BTreeMap::new();
        for node in self.live() {
            digests.insert(node.id(), node.api().conditions().await?.digest);
        }
        let different: BTreeSet<&String> = digests.values().collect();
        ensure!(different.len() == 1, "the tables differ: {digests:?}");
        Ok(())
    }
}

fn one_leader(region: &str, statuses: &[ClusterStatus]) -> anyhow::Result<String> {
    let named = |status: &ClusterStatus| status.leaders.get(region).cloned().flatten();
    let names: BTreeSet<Option<String>> = statuses.iter().map(named).collect();
    match names.first() {
        Some(Some(leader)) if names.len() == 1 => Ok(leader.clone()),
        _ => bail!("leaders named for {region}: {names:?}"),
    }
}

fn node_spec(spec: &FleetSpec, config: &Path, index: usize, region: String) -> NodeSpec {
    let id = format!("n{}", index + 1);
    NodeSpec {
        region,
        host: Ipv4Addr::LOCALHOST,
        ports: spec.ports.nodes[index],
        prefix: Vec::new(),
        admin_token: None,
        peers: seeds(spec, index, |_| Ipv4Addr::LOCALHOST),
        binary: spec.binary.clone(),
        config: config.to_owned(),
        dir: spec.dir.join(&id),
        time_scale: spec.time_scale,
        secret: spec.secret.clone(),
        id,
    }
}

/// Moves a node from the loopback to its place on the network.
fn put_on(net: &Net, token: &str, spec: &FleetSpec, index: usize, node: &mut NodeSpec) {
    node.host = net.address(index);
    node.prefix = net.prefix(index);
    node.admin_token = Some(token.to_owned());
    node.peers = seeds(spec, index, |other| net.address(other));
}

/// Gossip addresses of all nodes but this one.
fn seeds(spec: &FleetSpec, index: usize, host: impl Fn(usize) -> Ipv4Addr) -> Vec<String> {
    let ports = spec.ports.nodes.iter().enumerate();
    let others = ports.filter(|(other, _)| *other != index);
    let addresses = others.map(|(other, ports)| format!("{}:{}", host(other), ports.gossip));
    addresses.collect()
}

/// The region of each node: equal parts, the first ones larger by one where it does not come out even.
fn regions(nodes: usize, regions: usize) -> anyhow::Result<Vec<String>> {
    ensure!(nodes >= 1, "a fleet has at least one node");
    ensure!(
        (1..=nodes).contains(&regions),
        "{nodes} nodes fill 1 to {nodes} regions, not {regions}"
    );
    let name = |index: usize| {
        REGIONS.get(index).map_or_else(
            || format!("region-{}", index + 1),
            |name| (*name).to_owned(),
        )
    };
    let (share, larger) = (nodes / regions, nodes % regions);
    let sizes = (0..regions).map(|index| share + usize::from(index < larger));
    Ok(sizes
        .enumerate()
        .flat_map(|(index, size)| std::iter::repeat_n(name(index), size))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_get_equal_parts() {
        assert_eq!(
            regions(4, 2).unwrap(),
            ["us-east", "us-east", "eu-west", "eu-west"]
        );
        assert_eq!(regions(3, 2).unwrap(), ["us-east", "us-east", "eu-west"]);
        assert_eq!(regions(8, 8).unwrap()[7], "region-8");
        assert!(regions(2, 3).is_err() && regions(0, 0).is_err() && regions(1, 0).is_err());
    }
}
