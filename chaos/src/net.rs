//! Nodes in network namespaces of their own, joined by a bridge, so that links between them can be cut.
//!
//! Needs root and the `ip` command. A link is cut by blackhole routes on both of its ends: packets
//! vanish, open connections hang, as they do when a cable is pulled.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context as _, bail, ensure};

/// Nodes per network: their addresses end in 10 and up.
const NODES: usize = 200;
const FIRST_ADDRESS: u8 = 10;

/// A bridge and one namespace per node; all of it goes when dropped.
#[derive(Debug)]
pub struct Net {
    /// Of the bridge, and the start of every namespace's name.
    name: String,
    /// Third byte of the addresses: two test processes use different networks.
    third: u8,
    nodes: usize,
}

impl Net {
    /// Whether this process may and can make namespaces.
    #[must_use]
    pub fn possible() -> bool {
        rustix::process::geteuid().is_root() && run(&["netns", "list"]).is_ok()
    }

    /// # Errors
    /// When a namespace or a link cannot be made; says which command failed.
    pub fn new(nodes: usize) -> anyhow::Result<Self> {
        static MADE: AtomicU16 = AtomicU16::new(0);
        ensure!(nodes <= NODES, "a network has at most {NODES} nodes");
        let id = std::process::id()
            .wrapping_add(u32::from(MADE.fetch_add(1, Ordering::Relaxed)) * 7_919);
        let third = u8::try_from(id % 250)?;
        let net = Self {
            name: format!("hl{:x}", id % 0xf_ffff),
            third,
            nodes,
        };
        let host = format!("{}/24", net.host());
        run(&["link", "add", &net.name, "type", "bridge"])?;
        run(&["address", "add", &host, "dev", &net.name])?;
        run(&["link", "set", &net.name, "up"])?;
        for index in 0..nodes {
            net.add(index)
                .with_context(|| format!("namespace {}", net.namespace(index)))?;
        }
        Ok(net)
    }

    /// The address of the bridge: mock and test are there.
    #[must_use]
    pub fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 83, self.third, 1)
    }

    /// The address of a node.
    #[must_use]
    pub fn address(&self, index: usize) -> Ipv4Addr {
        let last = u8::try_from(index).map_or(u8::MAX, |index| index.saturating_add(FIRST_ADDRESS));
        Ipv4Addr::new(10, 83, self.third, last)
    }

    /// What stands before the command of a node to run it in its namespace.
    #[must_use]
    pub fn prefix(&self, index: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace(index)]
            .map(str::to_owned)
            .to_vec()
    }

    /// Cuts every link between these nodes and those (indices), both ways.
    ///
    /// # Errors
    /// When a route cannot be set.
    pub fn cut(&self, these: &[usize], those: &[usize]) -> anyhow::Result<()> {
        self.routes("add", these, those)
    }

    /// Mends what [`Net::cut`] cut.
    ///
    /// # Errors
    /// When a route cannot be removed: those links had not been cut.
    pub fn mend(&self, these: &[usize], those: &[usize]) -> anyhow::Result<()> {
        self.routes("del", these, those)
    }

    fn routes(&self, verb: &str, these: &[usize], those: &[usize]) -> anyhow::Result<()> {
        for (a, b) in these
            .iter()
            .flat_map(|a| those.iter().map(move |b| (*a, *b)))
        {
            for (at, away) in [(a, b), (b, a)] {
                let address = format!("{}/32", self.address(away));
                run(&[
                    "-n",
                    &self.namespace(at),
                    "route",
                    verb,
                    "blackhole",
                    &address,
                ])?;
            }
        }
        Ok(())
    }

    fn add(&self, index: usize) -> anyhow::Result<()> {
        let (namespace, outer) = (self.namespace(index), format!("{}.{index}", self.name));
        let address = format!("{}/24", self.address(index));
        run(&["netns", "add", &namespace])?;
        run(&[
            "link", "add", &outer, "type", "veth", "peer", "name", "eth0", "netns", &namespace,
        ])?;
        run(&["link", "set", &outer, "master", &self.name, "up"])?;
        run(&["-n", &namespace, "address", "add", &address, "dev", "eth0"])?;
        run(&["-n", &namespace, "link", "set", "eth0", "up"])?;
        run(&["-n", &namespace, "link", "set", "lo", "up"])
    }

    fn namespace(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // What was never made cannot be removed, and that is well.
        for index in 0..self.nodes {
            let _ = run(&["netns", "delete", &self.namespace(index)]);
        }
        let _ = run(&["link", "delete", &self.name]);
    }
}

fn run(words: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip")
        .args(words)
        .output()
        .context("there is no ip command")?;
    if output.status.success() {
        return Ok(());
    }
    bail!(
        "ip {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    )
}
