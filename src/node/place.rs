//! Who a node is and where it listens: flags and environment over the file over defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use holdline_core::ids::{NodeId, Region};

use crate::config::{ClusterConfig, Secret, defaults};

/// What flags and environment say; the file or a default speaks where they don't.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--host`.
    pub host: Option<IpAddr>,
    /// `--port`.
    pub port: Option<u16>,
    /// `--node-id`.
    pub node_id: Option<String>,
    /// `--region`.
    pub region: Option<String>,
    /// `--gossip-port`.
    pub gossip_port: Option<u16>,
    /// `--rpc-port`.
    pub rpc_port: Option<u16>,
    /// `--advertise-host`.
    pub advertise_host: Option<String>,
    /// `--peers`: given at all, cluster mode is on.
    pub peers: Option<Vec<String>>,
    /// `--cluster-secret`.
    pub cluster_secret: Option<Secret>,
    /// `--time-scale`.
    pub time_scale: Option<f64>,
}

/// One node's place in the world.
#[derive(Clone, Debug)]
pub struct Place {
    /// Unique in the cluster.
    pub node_id: NodeId,
    /// Its region.
    pub region: Region,
    /// Inference, admin API, metrics.
    pub http: SocketAddr,
    /// UDP.
    pub gossip: SocketAddr,
    /// TCP.
    pub rpc: SocketAddr,
    /// What peers dial, and what operators are shown.
    pub advertise_host: String,
    /// Whether there are other nodes.
    pub clustered: bool,
    /// Gossip addresses of some of them.
    pub peers: Vec<String>,
    /// Authenticates and encrypts what nodes say.
    pub secret: Option<Secret>,
    /// Still accepted.
    pub previous_secrets: Vec<Secret>,
    /// Separates clusters.
    pub cluster_id: String,
    /// How much faster than the wall clock the waits of routing pass.
    pub time_scale: f64,
}

/// What cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// Nobody can dial 0.0.0.0.
    #[error(
        "the address {0} cannot be dialled by peers: set --advertise-host or cluster_config.advertise_host to one that can"
    )]
    NotDialable(IpAddr),
    /// Zero, negative or absurd.
    #[error("--time-scale must be between 0.01 and 10000")]
    TimeScale,
}

impl Place {
    /// Puts flags over the file over defaults.
    ///
    /// # Errors
    /// When peers could not dial the node, or time would stand still.
    pub fn resolve(config: &ClusterConfig, flags: Overrides) -> Result<Self, PlaceError> {
        let host = flags.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let clustered = flags.peers.is_some() || config.enabled;
        let named = flags
            .advertise_host
            .or_else(|| config.advertise_host.clone());
        if clustered && named.is_none() && host.is_unspecified() {
            return Err(PlaceError::NotDialable(host));
        }
        let time_scale = flags.time_scale.unwrap_or(1.0);
        if !(0.01..=10_000.0).contains(&time_scale) {
            return Err(PlaceError::TimeScale);
        }
        let node_id = flags
            .node_id
            .or_else(|| config.node_id.clone())
            .unwrap_or_else(host_name);
        let region = flags.region.or_else(|| config.region.clone());
        Ok(Self {
            node_id: NodeId::from(node_id),
            region: Region::from(region.unwrap_or_else(|| defaults::REGION.to_owned())),
            http: SocketAddr::new(host, flags.port.unwrap_or(defaults::PORT)),
            gossip: SocketAddr::new(host, flags.gossip_port.unwrap_or(config.gossip_port)),
            rpc: SocketAddr::new(host, flags.rpc_port.unwrap_or(config.rpc_port)),
            advertise_host: named.unwrap_or_else(|| host.to_string()),
            clustered,
            peers: flags.peers.unwrap_or_else(|| config.peers.clone()),
            secret: flags.cluster_secret.or_else(|| config.secret.clone()),
            previous_secrets: config.previous_secrets.clone(),
            cluster_id: config.cluster_id.clone(),
            time_scale,
        })
    }
}

fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let named = std::env::var("HOSTNAME").unwrap_or(kernel);
    match named.trim() {
        "" => "node".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_beat_the_file_and_the_file_beats_defaults() {
        let file = ClusterConfig {
            node_id: Some("from-file".into()),
            region: Some("eu-west".into()),
            gossip_port: 7_000,
            ..ClusterConfig::default()
        };
        let flags = Overrides {
            node_id: Some("from-flag".into()),
            rpc_port: Some(7_001),
            ..Overrides::default()
        };
        let place = Place::resolve(&file, flags).unwrap();
        assert_eq!(place.node_id.as_str(), "from-flag");
        assert_eq!(place.region.as_str(), "eu-west");
        assert_eq!((place.gossip.port(), place.rpc.port()), (7_000, 7_001));
        assert_eq!(place.http.port(), defaults::PORT);
        assert!(!place.clustered);
    }

    #[test]
    fn peers_turn_cluster_mode_on_even_when_there_are_none_yet() {
        let flags = Overrides {
            peers: Some(vec!["127.0.0.1:9".into()]),
            ..Overrides::default()
        };
        assert!(
            Place::resolve(&ClusterConfig::default(), flags)
                .unwrap()
                .clustered
        );
    }

    #[test]
    fn a_cluster_node_must_be_dialable() {
        let everywhere = Overrides {
            host: Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            peers: Some(Vec::new()),
            ..Overrides::default()
        };
        let refused = Place::resolve(&ClusterConfig::default(), everywhere.clone());
        assert_eq!(
            refused.unwrap_err(),
            PlaceError::NotDialable(everywhere.host.unwrap())
        );
        let named = Overrides {
            advertise_host: Some("10.0.0.1".into()),
            ..everywhere
        };
        assert_eq!(
            Place::resolve(&ClusterConfig::default(), named)
                .unwrap()
                .advertise_host,
            "10.0.0.1"
        );
    }

    #[test]
    fn time_neither_stands_still_nor_runs_back() {
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let flags = Overrides {
                time_scale: Some(scale),
                ..Overrides::default()
            };
            assert_eq!(
                Place::resolve(&ClusterConfig::default(), flags).unwrap_err(),
                PlaceError::TimeScale
            );
        }
    }
}
