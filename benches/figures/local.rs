//! Six nodes in this process, for what is too quick to be seen from outside.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use holdline::config::{Config, Secret};
use holdline::node::place::{Overrides, Place};
use holdline::node::{Node, Running, start_with};
use holdline_chaos::ports::Ports;
use holdline_cluster::{MemberState, Spread};
use holdline_core::failure::Reason;
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::view::Standing;
use holdline_core::holds::{Answer, Refusal};
use holdline_core::ids::{Fingerprint, KeyId, ModelId, ProviderId};

use crate::stage;

const REGIONS: [&str; 2] = ["us-east", "eu-west"];
/// Between two looks at the nodes' views: small beside what is measured, and it leaves the cores to the
/// nodes.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// Nodes of one cluster in one process.
#[derive(Debug)]
pub(crate) struct Local {
    running: Vec<Running>,
}

impl Local {
    /// Starts `nodes` nodes in two regions and waits until each sees all of them alive.
    pub(crate) async fn start(
        dir: &Path,
        nodes: usize,
        keys: usize,
        spread: Spread,
    ) -> anyhow::Result<Self> {
        let file = dir.join("config.json");
        let config = stage::config("http://127.0.0.1:9", keys, false);
        std::fs::write(&file, config.to_string())?;
        let ports = Ports::any_free(nodes)?;
        let peers: Vec<String> = ports
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.gossip))
            .collect();
        let mut running = Vec::new();
        for (index, node) in ports.nodes.iter().enumerate() {
            let overrides = Overrides {
                port: Some(node.http),
                node_id: Some(format!("n{}", index + 1)),
                region: Some(REGIONS[index * REGIONS.len() / nodes].to_owned()),
                gossip_port: Some(node.gossip),
                rpc_port: Some(node.rpc),
                peers: Some(peers.clone()),
                cluster_secret: Some(Secret::from("only-for-the-figures".to_owned())),
                ..Overrides::default()
            };
            let config = Config::load(Some(&file))?.config;
            let place = Place::resolve(&config.cluster, overrides)?;
            let data = dir.join(format!("n{}", index + 1));
            running.push(start_with(config, place, &data, spread).await?);
        }
        let local = Self { running };
        local.wait_joined().await?;
        Ok(local)
    }

    /// From the answer that holds this key's model on the first node until every node skips it.
    ///
    /// Blocks: for a thread that may.
    pub(crate) fn time_to_skip(&self, key: usize, model: &str) -> anyhow::Result<Duration> {
        let route = self.route(key, model)?;
        let node = self.nodes().next().context("no node")?;
        let token = {
            let live = node.live();
            let (provider, key) = (&route.provider, &route.key);
            let holds = live.view.providers.get(provider).and_then(|provider| {
                let found = provider.keys.iter().find(|k| k.spec.id == *key)?;
                Some(Arc::clone(&found.holds))
            });
            let holds = holds.context("a key that is not configured")?;
            holds.token(&route.model, node.clock.now())
        };
        let refusal = Refusal {
            reason: Reason::ModelAccess,
            stated_ms: None,
            words: "The model does not exist or you do not have access to it.".to_owned(),
            status: 404,
        };
        let start = Instant::now();
        let made = node.settle(&route, &token, &Answer::Refused(refusal));
        ensure!(made.len() == 1, "{} records of one refusal", made.len());
        for node in self.nodes() {
            while !skips(node, &route) {
                ensure!(
                    start.elapsed() < Duration::from_secs(10),
                    "{} does not hear of it",
                    node.id
                );
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(start.elapsed())
    }

    /// Ends all nodes at once.
    pub(crate) async fn stop(self) {
        futures_util::future::join_all(self.running.into_iter().map(Running::stop)).await;
    }

    fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.running.iter().map(|running| &running.node)
    }

    fn route(&self, key: usize, model: &str) -> anyhow::Result<RouteKey> {
        let (provider, key) = (
            ProviderId::from(stage::PROVIDER),
            KeyId::from(stage::key_id(key)),
        );
        let node = self.nodes().next().context("no node")?;
        let fingerprint: Option<Fingerprint> = node
            .live()
            .key(&provider, &key)
            .map(|key| key.spec.fingerprint);
        Ok(RouteKey {
            provider,
            key,
            fingerprint: fingerprint.context("a key that is not configured")?,
            model: ModelId::from(model),
        })
    }

    async fn wait_joined(&self) -> anyhow::Result<()> {
        let all = self.running.len();
        let joined = holdline_chaos::poll::until(stage::START_LIMIT, "one cluster", async || {
            for node in self.nodes() {
                let status = node.cluster().context("no cluster")?.status();
                let alive = status
                    .nodes
                    .iter()
                    .filter(|n| n.state == MemberState::Alive);
                let alive = alive.count();
                ensure!(alive == all, "{} sees {alive} nodes alive", node.id);
            }
            Ok(())
        });
        joined.await.map(|_| ())
    }
}

fn skips(node: &Node, route: &RouteKey) -> bool {
    let live = node.live();
    let provider = live.view.providers.get(&route.provider);
    let key = provider.and_then(|p| p.keys.iter().find(|k| k.spec.id == route.key));
    let standing = key.map(|key| key.holds.standing(&route.model, node.clock.now()));
    matches!(standing, Some(Standing::Held { .. }))
}
