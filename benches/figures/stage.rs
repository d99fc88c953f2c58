//! The real processes that figures look at, and their config.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use holdline_chaos::api::Api;
use holdline_chaos::fleet::{Fleet, FleetSpec};
use holdline_chaos::mock::Mock;
use holdline_chaos::ports::Ports;
use holdline_chaos::process::Node;
use serde_json::{Value, json};

/// The provider of every figure.
pub(crate) const PROVIDER: &str = "openai";
/// What steady traffic asks for.
pub(crate) const MODEL: &str = "openai/gpt-4o";
/// Long enough for any start on a busy machine.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(30);

/// The id of the key with this number.
pub(crate) fn key_id(number: usize) -> String {
    format!("key-{number}")
}

/// Its value, by which the mock knows it.
pub(crate) fn key_secret(number: usize) -> String {
    format!("sk-figures-{number}")
}

/// One provider at `url` with this many equal keys.
pub(crate) fn config(url: &str, keys: usize, enable_logging: bool) -> Value {
    let key = |number: usize| {
        json!({
            "id": key_id(number),
            "name": key_id(number),
            "value": key_secret(number),
            "models": ["*"],
            "weight": 1,
        })
    };
    json!({
        "version": 2,
        "client": { "enable_logging": enable_logging },
        "providers": {
            PROVIDER: {
                "keys": (0..keys).map(key).collect::<Vec<_>>(),
                "network_config": { "base_url": url, "max_retries": 2, "retry_backoff_initial": 50 },
            },
        },
        "load_balancer_config": { "enabled": true },
    })
}

/// A mock provider on any port.
pub(crate) async fn mock() -> anyhow::Result<Mock> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Mock::start(any_port, Duration::from_millis(2)).await
}

/// A fleet that runs no node yet.
pub(crate) fn fleet(
    dir: &Path,
    config: Value,
    nodes: usize,
    regions: usize,
) -> anyhow::Result<Fleet> {
    Fleet::new(&FleetSpec {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_holdline")),
        dir: dir.to_owned(),
        nodes,
        regions,
        ports: Ports::any_free(nodes)?,
        time_scale: 1.0,
        config,
        secret: "only-for-the-figures".to_owned(),
    })
}

/// A fleet whose nodes all run and agree.
pub(crate) async fn running_fleet(
    dir: &Path,
    config: Value,
    nodes: usize,
    regions: usize,
) -> anyhow::Result<Fleet> {
    let mut fleet = fleet(dir, config, nodes, regions)?;
    fleet.start_all(START_LIMIT).await?;
    fleet.wait_agreed(START_LIMIT).await?;
    Ok(fleet)
}

/// The nodes as traffic wants them.
pub(crate) fn apis(fleet: &Fleet) -> Vec<(String, Api)> {
    let nodes = fleet.live();
    nodes
        .map(|node| (node.id().to_owned(), node.api().clone()))
        .collect()
}

/// The process of a running node.
pub(crate) fn pid(node: &Node) -> anyhow::Result<u32> {
    let path = node.pid_path();
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("{} does not run", node.id()))?;
    Ok(text.trim().parse()?)
}

/// Asks until the node is ready, every millisecond: the pauses of `wait_ready` would be in the figure.
pub(crate) async fn wait_ready_closely(node: &mut Node) -> anyhow::Result<()> {
    let start = std::time::Instant::now();
    while node.api().ready().await.is_err() {
        if let Some(status) = node.reap()? {
            anyhow::bail!("{} ended ({status}):\n{}", node.id(), node.log_tail());
        }
        anyhow::ensure!(
            start.elapsed() < START_LIMIT,
            "{} does not get ready",
            node.id()
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
