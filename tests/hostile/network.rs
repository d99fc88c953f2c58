//! Strangers on the cluster's ports: refused, counted, and nothing changes.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use holdline_chaos::fleet::{Fleet, FleetSpec};
use holdline_chaos::http::Http;
use holdline_chaos::mock::{Fault, Mock};
use holdline_chaos::poll;
use holdline_chaos::ports::NodePorts;
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use tempfile::TempDir;

use crate::node::{self, LIMIT};
use crate::wire::exchange;

const SECRET: &str = "the-secret-of-the-cluster";

/// Two nodes that hold `key-a`, and ports for a stranger.
struct Pair {
    fleet: Fleet,
    mock: Mock,
    stranger: NodePorts,
    dir: TempDir,
}

async fn pair() -> Pair {
    let dir = tempfile::tempdir().unwrap();
    let mock = node::mock(Duration::ZERO).await;
    let mut ports = node::ports(3);
    let stranger = ports.nodes.pop().unwrap();
    let mut fleet = Fleet::new(&FleetSpec {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_holdline")),
        dir: dir.path().join("fleet"),
        nodes: 2,
        regions: 1,
        ports,
        time_scale: 1.0,
        config: node::config(&mock),
        secret: SECRET.to_owned(),
    })
    .unwrap();
    fleet.start_all(LIMIT).await.unwrap();
    fleet.wait_agreed(LIMIT).await.unwrap();
    // A stated wait that outlasts the test: no check changes the table meanwhile.
    let limited = Fault::Limited {
        retry_after_s: Some(300),
    };
    mock.refuse("sk-key-a", limited);
    let mut chat = node::chat("pair");
    chat.pin = Some("key-a");
    fleet.nodes()[0].api().chat(chat).await.unwrap();
    fleet.wait_held("key-a", LIMIT).await.unwrap();
    Pair {
        fleet,
        mock,
        stranger,
        dir,
    }
}

impl Pair {
    /// Both nodes know each other and nobody else, and hold `key-a` only.
    async fn is_unchanged(&self) {
        for node in self.fleet.nodes() {
            let status = node.api().cluster().await.unwrap();
            let known: BTreeSet<&str> = status.nodes.iter().map(|n| n.node_id.as_str()).collect();
            assert_eq!(
                known,
                BTreeSet::from(["n1", "n2"]),
                "as {} sees it",
                node.id()
            );
            let held = node.api().conditions().await.unwrap().conditions;
            let held: Vec<&str> = held.iter().map(|row| row.key_id.as_str()).collect();
            assert_eq!(held, ["key-a"], "on {}", node.id());
        }
    }

    /// Records still travel: a release on one node ends the hold on both.
    async fn still_works(&self) {
        self.mock.restore("sk-key-a");
        let node = &self.fleet.nodes()[1];
        assert_eq!(node.api().release("openai", "key-a").await.unwrap(), 1);
        self.fleet.wait_released("key-a", LIMIT).await.unwrap();
        for node in self.fleet.nodes() {
            let log = std::fs::read_to_string(node.log_path()).unwrap();
            assert!(!log.contains("panicked"), "{log}");
        }
    }

    /// The value of a counter on the first node.
    async fn counted(&self, name: &str) -> f64 {
        node::metric(self.fleet.nodes()[0].api().url(), name).await
    }

    async fn wait_counted(&self, name: &str, at_least: f64) {
        let counted = poll::until(LIMIT, name, async || {
            let counted = self.counted(name).await;
            anyhow::ensure!(counted >= at_least, "{counted} of {at_least}");
            Ok(())
        });
        counted.await.unwrap();
    }
}

#[tokio::test]
async fn a_node_with_another_secret_gets_nothing_and_is_no_member() {
    let pair = pair().await;
    let place = node::Place::new();
    place.write_config(&node::config(&pair.mock).to_string());
    let mut command = node::program(&[]);
    command.arg("serve").arg("--data-dir").arg(place.data_dir());
    command.arg("--config").arg(place.path("config.json"));
    // It even claims to be one of them.
    command.args(["--node-id", "n2"]);
    for (flag, port) in [
        ("--port", pair.stranger.http),
        ("--gossip-port", pair.stranger.gossip),
        ("--rpc-port", pair.stranger.rpc),
    ] {
        command.arg(flag).arg(port.to_string());
    }
    let peers = pair.fleet.nodes().iter();
    let peers = peers.map(|n| format!("127.0.0.1:{}", n.spec().ports.gossip));
    command
        .arg("--peers")
        .arg(peers.collect::<Vec<_>>().join(","));
    command.env("HOLDLINE_CLUSTER_SECRET", "another-secret");
    let log = std::fs::File::create(pair.dir.path().join("stranger.log")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let _stranger = command.spawn().unwrap();

    pair.wait_counted("holdline_datagrams_refused", 5.0).await;
    pair.is_unchanged().await;
    let api = holdline_chaos::api::Api::new(
        Http::new(),
        format!("http://127.0.0.1:{}", pair.stranger.http),
    );
    let learned = poll::until(LIMIT, "a stranger that serves alone", async || {
        api.ready().await?;
        api.conditions().await
    });
    assert!(learned.await.unwrap().0.conditions.is_empty());
    // What it decides is its own affair.
    let mut chat = node::chat("stranger");
    chat.pin = Some("key-b");
    pair.mock.refuse("sk-key-b", Fault::Revoked);
    api.chat(chat).await.unwrap();
    assert!(api.held("key-b").await.unwrap().is_some());
    pair.wait_counted("holdline_datagrams_refused", 10.0).await;
    pair.is_unchanged().await;
    pair.mock.restore("sk-key-b");
    pair.still_works().await;
}

#[tokio::test]
async fn noise_on_the_gossip_port_is_counted_and_changes_nothing() {
    let pair = pair().await;
    let before = pair.counted("holdline_datagrams_refused").await;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = StdRng::seed_from_u64(7);
    // The kernel drops what does not fit in the node's buffer: these do.
    let at_once = 10;
    for round in 1..=20 {
        for _ in 0..at_once {
            let length = [1, 7, 40, 200, 1_200, 8_000][random.random_range(0..6)];
            let mut bytes = vec![0; length];
            random.fill_bytes(&mut bytes);
            for node in pair.fleet.nodes() {
                socket
                    .send_to(&bytes, ("127.0.0.1", node.spec().ports.gossip))
                    .unwrap();
            }
        }
        let sent = f64::from(round * at_once);
        pair.wait_counted("holdline_datagrams_refused", before + sent)
            .await;
    }
    pair.is_unchanged().await;
    pair.still_works().await;
}

#[tokio::test]
async fn noise_on_the_rpc_port_is_counted_and_changes_nothing() {
    let pair = pair().await;
    let before = pair.counted("holdline_rpcs_refused").await;
    let port = pair.fleet.nodes()[0].spec().ports.rpc;
    let mut random = StdRng::seed_from_u64(11);
    let mut noise = vec![0; 5_000];
    random.fill_bytes(&mut noise);
    let hostile: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nhost: node\r\n\r\n",
        &[0xff; 64],
        // A frame that claims to be 4 GB long.
        &[0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1],
        &[0; 4096],
        &noise,
    ];
    let rounds = 4;
    for _ in 0..rounds {
        for bytes in hostile {
            exchange(port, bytes).await;
        }
    }
    // Some of it may only look unfinished.
    pair.wait_counted("holdline_rpcs_refused", before + f64::from(rounds))
        .await;
    pair.is_unchanged().await;
    pair.still_works().await;
}
