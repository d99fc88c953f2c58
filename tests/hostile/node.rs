//! A folder, ports and a config for one node, and the program to run there.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdline_chaos::api::Api;
use holdline_chaos::http::Http;
use holdline_chaos::mock::Mock;
use holdline_chaos::poll;
use holdline_chaos::ports::{NodePorts, Ports};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// What requests ask for.
pub(crate) const MODEL: &str = "openai/gpt-4o";
/// Longer than any start or end that is no defect.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Where one node runs.
#[derive(Debug)]
pub(crate) struct Place {
    dir: TempDir,
    pub(crate) ports: NodePorts,
}

/// A running node; killed when dropped.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) child: Child,
    pub(crate) api: Api,
    log: PathBuf,
}

/// Free ports for so many nodes, which no other test of this process takes.
pub(crate) fn ports(nodes: usize) -> Ports {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    let first = TAKEN.fetch_add(nodes, Ordering::Relaxed);
    let mut ports = Ports::any_free(first + nodes).unwrap();
    ports.nodes.drain(..first);
    ports
}

/// A mock provider that answers after `latency`.
pub(crate) async fn mock(latency: Duration) -> Mock {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Mock::start(any_port, latency).await.unwrap()
}

/// One provider with two keys, `key-a` and `key-b`.
pub(crate) fn config(mock: &Mock) -> Value {
    let key = |id: &str| json!({ "id": id, "name": id, "value": format!("sk-{id}"), "models": ["*"], "weight": 1 });
    json!({
        "version": 2,
        "client": { "max_request_body_size_mb": 1 },
        "providers": {
            "openai": {
                "keys": [key("key-a"), key("key-b")],
                "network_config": { "base_url": mock.provider_url("openai") },
            },
        },
    })
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            ports: ports(1).nodes[0],
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    /// Writes config.json.
    pub(crate) fn write_config(&self, text: &str) {
        std::fs::write(self.path("config.json"), text).unwrap();
    }

    /// `holdline serve` with everything of this place.
    pub(crate) fn serve(&self) -> Command {
        self.serve_behind(&[])
    }

    /// The same, started by another program, whose last arguments it is.
    pub(crate) fn serve_behind(&self, before: &[&OsStr]) -> Command {
        let mut command = program(before);
        command.arg("serve").arg("--data-dir").arg(self.data_dir());
        if self.path("config.json").exists() {
            command.arg("--config").arg(self.path("config.json"));
        }
        for (flag, port) in [
            ("--port", self.ports.http),
            ("--gossip-port", self.ports.gossip),
            ("--rpc-port", self.ports.rpc),
        ] {
            command.arg(flag).arg(port.to_string());
        }
        command.current_dir(self.dir.path());
        command
    }

    /// Starts the node and waits until it is ready.
    pub(crate) async fn start(&self, mut command: Command) -> Node {
        let log = self.path("log");
        let file = std::fs::File::create(&log).unwrap();
        let child = command
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        let api = Api::new(Http::new(), format!("http://127.0.0.1:{}", self.ports.http));
        let mut node = Node { child, api, log };
        let ready = poll::until(LIMIT, "a ready node", async || {
            assert!(
                node.child.try_wait().unwrap().is_none(),
                "it ended:\n{}",
                node.log()
            );
            node.api.ready().await
        });
        ready.await.unwrap();
        node
    }
}

impl Node {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// All it has said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// It serves a request.
    pub(crate) async fn serves(&self) {
        let reply = self.api.chat(chat("still-there")).await.unwrap();
        assert_eq!(reply.status, 200, "{}\n{}", reply.text(), self.log());
    }

    /// It serves, and nothing in it has panicked.
    pub(crate) async fn is_unhurt(&self) {
        self.serves().await;
        assert!(!self.log().contains("panicked"), "{}", self.log());
    }
}

/// The value of a metric of the node at `url`, all its labels summed.
pub(crate) async fn metric(url: &str, name: &str) -> f64 {
    let url = format!("{url}/metrics");
    let reply = Http::new()
        .send(http::Method::GET, &url, &[], None, LIMIT)
        .await;
    let reply = reply.unwrap();
    let text = std::str::from_utf8(&reply.body).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
    assert!(!lines.is_empty(), "no {name} in:\n{text}");
    let values = lines.iter().filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<f64>().unwrap()).sum()
}

/// A request of this caller to [`MODEL`].
pub(crate) fn chat(user: &str) -> holdline_chaos::api::Chat<'_> {
    holdline_chaos::api::Chat {
        model: MODEL,
        user,
        pin: None,
        stream: false,
    }
}

/// The program without what the shell around the tests sets, killed when dropped.
pub(crate) fn program(before: &[&OsStr]) -> Command {
    let binary = OsStr::new(env!("CARGO_BIN_EXE_holdline"));
    let mut words = before.iter().copied().chain([binary]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).kill_on_drop(true).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDLINE_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command that has to end by itself.
pub(crate) async fn ended(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    output.expect("a command that goes on").unwrap()
}

/// Runs a command that has to fail; the one line in which it says why.
pub(crate) async fn refused(command: Command) -> String {
    let output = ended(command).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("holdline: "))
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    lines[0].to_owned()
}

/// True if `path` is somewhere in a text.
pub(crate) fn names(text: &str, path: &Path) -> bool {
    text.contains(&path.display().to_string())
}
