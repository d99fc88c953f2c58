//! A running cluster for one test, with the logs of its nodes when the test fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holdline_chaos::api::{Api, Chat};
use holdline_chaos::demo::{Demo, DemoKey, MODEL, Stage};
use holdline_chaos::mock::Fault;
use holdline_chaos::net::Net;
use holdline_chaos::ports::Ports;
use holdline_chaos::traffic::Traffic;
use tempfile::TempDir;

pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);
pub(crate) const AGREE_LIMIT: Duration = Duration::from_secs(30);
pub(crate) const ELECTION_LIMIT: Duration = Duration::from_secs(30);
/// Far beyond what a push needs: what is slow here is the machine.
pub(crate) const SPREAD_LIMIT: Duration = Duration::from_secs(10);
/// One propagation time on a busy machine.
pub(crate) const PROPAGATION_MS: u64 = 250;
/// How long silence is listened to.
pub(crate) const LISTEN: Duration = Duration::from_secs(1);
/// A hold is saved within a second.
pub(crate) const SAVED: Duration = Duration::from_millis(1_200);
/// The first hold lasts 30 s, less jitter.
pub(crate) const FIRST_HOLD_MS: u64 = 27_000;

/// A cluster whose nodes agree. Everything ends when it is dropped.
pub(crate) struct Running {
    pub(crate) stage: Stage,
    _dir: TempDir,
}

impl Running {
    pub(crate) async fn start(nodes: usize, regions: usize, time_scale: f64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let demo = demo(nodes, regions, time_scale, dir.path());
        let ports = Ports::any_free(nodes).unwrap();
        let stage = Stage::new(&demo, dir.path(), ports).await.unwrap();
        Self { stage, _dir: dir }.agreed().await
    }

    /// The same on a network whose links can be cut.
    pub(crate) async fn start_on(net: Arc<Net>, nodes: usize, regions: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let demo = demo(nodes, regions, 1.0, dir.path());
        let ports = Ports::any_free(nodes).unwrap();
        let stage = Stage::on_net(&demo, dir.path(), ports, net).await.unwrap();
        Self { stage, _dir: dir }.agreed().await
    }

    async fn agreed(mut self) -> Self {
        self.stage.fleet.start_all(START_LIMIT).await.unwrap();
        self.stage.fleet.wait_agreed(AGREE_LIMIT).await.unwrap();
        self
    }

    /// This node meets the refusal of the key, and the mock goes on refusing it. Returns when, in the mock's time.
    pub(crate) async fn hold(&mut self, on: &str, key: DemoKey) -> u64 {
        let at_ms = self.stage.mock.now_ms();
        self.stage.mock.refuse(key.secret, Fault::Revoked);
        assert_eq!(
            self.ask(on, Some(key)).await,
            401,
            "the refusal of a pinned key reaches the caller"
        );
        self.stage
            .fleet
            .wait_held(key.key_id, SPREAD_LIMIT)
            .await
            .unwrap();
        at_ms
    }

    /// One request to this node, pinned to a key or not; the status of its answer.
    pub(crate) async fn ask(&mut self, node: &str, pin: Option<DemoKey>) -> u16 {
        let chat = Chat {
            model: MODEL,
            user: node,
            pin: pin.map(|key| key.key_id),
            stream: false,
        };
        self.api(node).chat(chat).await.unwrap().status.as_u16()
    }

    pub(crate) fn api(&mut self, node: &str) -> Api {
        self.stage.fleet.node(node).unwrap().api().clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.stage
            .fleet
            .nodes()
            .iter()
            .map(|node| node.id().to_owned())
            .collect()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic::start(self.stage.apis(), MODEL, Duration::from_millis(20))
    }

    /// Starts a node that is down and waits until all live ones agree.
    pub(crate) async fn restart(&mut self, node: &str) {
        let node = self.stage.fleet.node(node).unwrap();
        node.start().unwrap();
        node.wait_ready(START_LIMIT).await.unwrap();
        self.stage.fleet.wait_agreed(AGREE_LIMIT).await.unwrap();
    }

    /// SIGKILL for all in one instant, and a start of all.
    pub(crate) async fn restart_everything(&mut self) {
        self.stage.fleet.kill_all().await.unwrap();
        self.stage.fleet.start_all(START_LIMIT).await.unwrap();
    }
}

fn demo(nodes: usize, regions: usize, time_scale: f64, dir: &Path) -> Demo {
    Demo {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_holdline")),
        nodes,
        regions,
        data_dir: dir.to_owned(),
        base_port: None,
        time_scale,
        script: false,
    }
}

impl Drop for Running {
    #[expect(clippy::print_stdout, reason = "the runner shows it with the failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in self.stage.fleet.nodes() {
                println!(
                    "--- {} ({:?})\n{}",
                    node.id(),
                    node.state(),
                    node.log_tail()
                );
            }
        }
    }
}
