//! A mock and a fleet that uses it: what the demo, its story and the chaos tests all play on.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rand::Rng as _;

use super::Demo;
use super::config;
use crate::api::Api;
use crate::fleet::{Fleet, FleetSpec};
use crate::mock::Mock;
use crate::net::Net;
use crate::ports::Ports;

/// How long the mock thinks about a call.
const MOCK_LATENCY: Duration = Duration::from_millis(5);

/// The mock runs; the nodes do not yet.
#[derive(Debug)]
pub struct Stage {
    /// The nodes.
    pub fleet: Fleet,
    /// Their providers.
    pub mock: Mock,
    /// Where both listen.
    pub ports: Ports,
}

impl Stage {
    /// Starts the mock and writes what the nodes need into `dir`. Everything is on the loopback.
    ///
    /// # Errors
    /// When the folder cannot be written or the mock's port is taken.
    pub async fn new(demo: &Demo, dir: &Path, ports: Ports) -> anyhow::Result<Self> {
        Self::build(demo, dir, ports, None).await
    }

    /// The same on a network whose links can be cut. Off the loopback nodes want to know who administers
    /// them, so there is a token.
    ///
    /// # Errors
    /// When the folder cannot be written or the mock's port is taken.
    pub async fn on_net(
        demo: &Demo,
        dir: &Path,
        ports: Ports,
        net: Arc<Net>,
    ) -> anyhow::Result<Self> {
        Self::build(demo, dir, ports, Some(net)).await
    }

    async fn build(
        demo: &Demo,
        dir: &Path,
        ports: Ports,
        net: Option<Arc<Net>>,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot write {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let host = net.as_ref().map_or(Ipv4Addr::LOCALHOST, |net| net.host());
        let mock = Mock::start((host, ports.mock).into(), MOCK_LATENCY).await?;
        let secret = secret(&dir)?;
        let mut spec = FleetSpec {
            binary: demo.binary.clone(),
            nodes: demo.nodes,
            regions: demo.regions,
            ports: ports.clone(),
            time_scale: demo.time_scale,
            config: config::config_file(&mock.url()),
            secret,
            dir,
        };
        let fleet = match net {
            None => Fleet::new(&spec)?,
            Some(net) => {
                // A secret of the test's own, so any will do.
                let token = spec.secret.clone();
                config::open_to_network(&mut spec.config, &token);
                Fleet::on_net(&spec, net, token)?
            }
        };
        Ok(Self { fleet, mock, ports })
    }

    /// Every node's id and API.
    #[must_use]
    pub fn apis(&self) -> Vec<(String, Api)> {
        self.fleet
            .nodes()
            .iter()
            .map(|node| (node.id().to_owned(), node.api().clone()))
            .collect()
    }
}

/// The cluster secret of this data folder: made once, readable by its owner only.
fn secret(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("cluster-secret");
    if let Ok(secret) = fs::read_to_string(&path) {
        return Ok(secret.trim().to_owned());
    }
    let bytes: [u8; 32] = rand::rng().random();
    let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::io::Write::write_all(&mut file, secret.as_bytes())?;
    Ok(secret)
}
