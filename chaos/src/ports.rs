//! Which ports a fleet listens on, and whether they are free.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::OnceLock;

use anyhow::{Context, bail};

/// Where a demo's nodes listen unless told otherwise: HTTP from here on, one port per node.
pub const BASE: u16 = 8081;
/// The first gossip port (UDP) that belongs to [`BASE`]; RPC (TCP) is one above.
const GOSSIP: u16 = 10_101;
/// Node n+1 gossips this far above node n, so that `10121` is seen to be n3's.
const GOSSIP_STEP: u16 = 10;
/// The mock providers' port that belongs to [`BASE`].
const MOCK: u16 = 9100;
/// Where tests look for free ports: below the range that kernels use for outgoing connections.
const SEARCH: std::ops::Range<u16> = 20_000..30_000;
/// How many of them a process has for itself; more than any fleet of a test needs.
const BLOCK: u16 = 100;

/// The ports of one node, all on the loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePorts {
    /// Inference and admin API, TCP.
    pub http: u16,
    /// Gossip, UDP.
    pub gossip: u16,
    /// Node-to-node calls, TCP.
    pub rpc: u16,
}

/// The ports of a fleet and of what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// One entry per node, in their order.
    pub nodes: Vec<NodePorts>,
    /// The mock providers, TCP.
    pub mock: u16,
    /// The demo's own control endpoint, TCP.
    pub control: u16,
}

impl Ports {
    /// The well-known layout, shifted so that the first node serves HTTP on `base`.
    ///
    /// # Errors
    /// When the nodes do not fit between `base` and the mock, or a port would not be a port.
    pub fn from_base(base: u16, nodes: usize) -> anyhow::Result<Self> {
        let shift = i32::from(base) - i32::from(BASE);
        let at = |port: u16, more: usize| -> anyhow::Result<u16> {
            let wanted = i64::from(port) + i64::from(shift) + i64::try_from(more)?;
            u16::try_from(wanted)
                .ok()
                .filter(|p| *p >= 1024)
                .with_context(|| format!("base port {base} leads to port {wanted}"))
        };
        if nodes > usize::from(MOCK - BASE) {
            bail!("{nodes} nodes: at most {} fit", MOCK - BASE);
        }
        let node = |index: usize| -> anyhow::Result<NodePorts> {
            let gossip = at(GOSSIP, index * usize::from(GOSSIP_STEP))?;
            Ok(NodePorts {
                http: at(BASE, index)?,
                gossip,
                rpc: gossip + 1,
            })
        };
        Ok(Self {
            nodes: (0..nodes).map(node).collect::<anyhow::Result<_>>()?,
            mock: at(MOCK, 0)?,
            control: at(MOCK, 1)?,
        })
    }

    /// Ports that are free at this moment, and stay so until this process ends: no other one looks there.
    ///
    /// # Errors
    /// When the search range has too few free ports.
    pub fn any_free(nodes: usize) -> anyhow::Result<Self> {
        let mut free = SEARCH
            .cycle_from(usize::from(own_block()?))
            .filter(|p| tcp_is_free(*p) && udp_is_free(*p));
        let mut next = || free.next().context("no free port left");
        let mut made = Vec::new();
        for _ in 0..nodes {
            made.push(NodePorts {
                http: next()?,
                gossip: next()?,
                rpc: next()?,
            });
        }
        Ok(Self {
            nodes: made,
            mock: next()?,
            control: next()?,
        })
    }

    /// # Errors
    /// Names the first port that something else listens on, and what it was meant for.
    pub fn check_free(&self) -> anyhow::Result<()> {
        let taken = |port: u16, kind: &str, of: &str| -> anyhow::Result<()> {
            bail!(
                "port {port} ({kind}, {of}) is taken: stop what listens there, or choose another --base-port"
            )
        };
        for (index, node) in self.nodes.iter().enumerate() {
            let of = format!("node n{}", index + 1);
            if !tcp_is_free(node.http) {
                taken(node.http, "TCP", &of)?;
            }
            if !udp_is_free(node.gossip) {
                taken(node.gossip, "UDP", &of)?;
            }
            if !tcp_is_free(node.rpc) {
                taken(node.rpc, "TCP", &of)?;
            }
        }
        for (port, of) in [
            (self.mock, "mock providers"),
            (self.control, "demo control"),
        ] {
            if !tcp_is_free(port) {
                taken(port, "TCP", of)?;
            }
        }
        Ok(())
    }
}

fn tcp_is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn udp_is_free(port: u16) -> bool {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Where in [`SEARCH`] the block begins that this process has locked. A port which its node has not
/// bound yet looks free to everybody.
fn own_block() -> anyhow::Result<u16> {
    static LOCKED: OnceLock<Option<(File, u16)>> = OnceLock::new();
    let blocks = (SEARCH.end - SEARCH.start) / BLOCK;
    let lock = |block: u16| {
        let path = std::env::temp_dir().join(format!("holdline-ports-{block}.lock"));
        let file = File::create(path).ok()?;
        file.try_lock().ok().map(|()| (file, block * BLOCK))
    };
    let locked = LOCKED.get_or_init(|| (0..blocks).find_map(lock));
    let (_file, begin) = locked
        .as_ref()
        .context("every block of ports belongs to some process")?;
    Ok(*begin)
}

/// One round through a range of ports, beginning somewhere inside it.
trait CycleFrom {
    fn cycle_from(self, skip: usize) -> impl Iterator<Item = u16>;
}

impl CycleFrom for std::ops::Range<u16> {
    fn cycle_from(self, skip: usize) -> impl Iterator<Item = u16> {
        let whole = self.len();
        self.cycle().skip(skip).take(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_layout_is_the_documented_one() {
        let ports = Ports::from_base(BASE, 6).unwrap();
        assert_eq!(
            ports.nodes[0],
            NodePorts {
                http: 8081,
                gossip: 10_101,
                rpc: 10_102
            }
        );
        assert_eq!(
            ports.nodes[5],
            NodePorts {
                http: 8086,
                gossip: 10_151,
                rpc: 10_152
            }
        );
        assert_eq!((ports.mock, ports.control), (9100, 9101));
    }

    #[test]
    fn impossible_ports_are_refused() {
        assert!(Ports::from_base(1, 3).is_err());
        assert!(Ports::from_base(65_000, 3).is_err());
        assert!(Ports::from_base(BASE, 5000).is_err());
    }

    #[test]
    fn a_block_of_ports_belongs_to_one_process() {
        let begin = own_block().unwrap();
        assert_eq!(own_block().unwrap(), begin);
        let name = format!("holdline-ports-{}.lock", begin / BLOCK);
        let others = File::open(std::env::temp_dir().join(name)).unwrap();
        assert!(others.try_lock().is_err());
        let ports = Ports::any_free(6).unwrap();
        let own = SEARCH.start + begin..SEARCH.start + begin + BLOCK;
        assert!(ports.nodes.iter().all(|node| own.contains(&node.http)));
    }

    #[test]
    fn a_taken_port_is_named() {
        let ports = Ports::any_free(1).unwrap();
        ports.check_free().unwrap();
        let _other = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.nodes[0].rpc)).unwrap();
        let error = ports.check_free().unwrap_err().to_string();
        assert!(
            error.contains(&ports.nodes[0].rpc.to_string()) && error.contains("n1"),
            "{error}"
        );
    }
}
