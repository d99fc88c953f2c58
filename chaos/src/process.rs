//! One node as a child process: started, asked whether it is ready, stopped, killed, paused.

use std::env;
use std::fs::{self, OpenOptions};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::api::Api;
use crate::http::Http;
use crate::poll;
use crate::ports::NodePorts;
use crate::watchdog::Watchdog;

/// A node that drains gives its requests 30 s; longer than that is a defect.
const STOP_LIMIT: Duration = Duration::from_secs(40);
/// After SIGKILL only the kernel has work to do.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Lines of a node's log in an error.
const SHOWN_LINES: usize = 12;

/// What makes a node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its id, `n1`.
    pub id: String,
    /// Its region, `us-east`.
    pub region: String,
    /// The address it listens on.
    pub host: Ipv4Addr,
    /// Where it listens.
    pub ports: NodePorts,
    /// Words before the command: what runs it in another network namespace.
    pub prefix: Vec<String>,
    /// For the admin API, where that asks for one.
    pub admin_token: Option<String>,
    /// Gossip addresses of the others.
    pub peers: Vec<String>,
    /// The program.
    pub binary: PathBuf,
    /// The config file.
    pub config: PathBuf,
    /// Data, log and pid file go here.
    pub dir: PathBuf,
    /// How much faster its holds pass.
    pub time_scale: f64,
    /// Shared by the cluster; handed over in the environment, never on the command line.
    pub secret: String,
}

/// What a node is doing, as far as this process has noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It runs, as far as the kernel knows.
    Running,
    /// It runs, but SIGSTOP keeps it from doing anything.
    Paused,
    /// It does not run.
    Down,
}

/// A node and, while it runs, its process; killed when dropped.
#[derive(Debug)]
pub struct Node {
    spec: NodeSpec,
    api: Api,
    watchdog: Arc<Watchdog>,
    child: Option<Child>,
    paused: bool,
}

impl Node {
    /// Nothing runs before [`Node::start`].
    #[must_use]
    pub fn new(spec: NodeSpec, http: Http, watchdog: Arc<Watchdog>) -> Self {
        let url = format!("http://{}:{}", spec.host, spec.ports.http);
        let api = Api::new(http, url);
        let api = match &spec.admin_token {
            Some(token) => api.with_token(token),
            None => api,
        };
        Self {
            spec,
            api,
            watchdog,
            child: None,
            paused: false,
        }
    }

    /// What it was made of.
    #[must_use]
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.spec.id
    }

    /// Its HTTP side.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Where it writes what it says.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.spec.dir.join("log")
    }

    /// Where its process id stands while it runs.
    #[must_use]
    pub fn pid_path(&self) -> PathBuf {
        self.spec.dir.join("pid")
    }

    /// Whether it runs, is paused or down.
    #[must_use]
    pub fn state(&self) -> NodeState {
        match (&self.child, self.paused) {
            (None, _) => NodeState::Down,
            (Some(_), true) => NodeState::Paused,
            (Some(_), false) => NodeState::Running,
        }
    }

    /// Starts the process; it is not ready yet.
    ///
    /// # Errors
    /// When it runs already or cannot be started.
    pub fn start(&mut self) -> anyhow::Result<()> {
        if self.child.is_some() {
            bail!("{} runs already", self.id());
        }
        fs::create_dir_all(&self.spec.dir)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())?;
        let child = self
            .command()
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for this process, which then stops the nodes in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.spec.binary.display()))?;
        let pid = child.id().context("a child that ended before it began")?;
        self.watchdog.add(pid);
        self.child = Some(child);
        self.paused = false;
        fs::write(self.pid_path(), format!("{pid}\n"))?;
        Ok(())
    }

    /// Waits until the node says that it is ready.
    ///
    /// # Errors
    /// When it ends first or takes longer than `limit`; with the end of its log.
    pub async fn wait_ready(&mut self, limit: Duration) -> anyhow::Result<Duration> {
        let api = self.api.clone();
        let what = format!("{} ready", self.id());
        let ready = poll::until(limit, &what, async || {
            if let Some(status) = self.reap()? {
                return Ok(Err(status));
            }
            api.ready().await.map(Ok)
        })
        .await;
        match ready {
            Ok((Ok(()), took)) => Ok(took),
            Ok((Err(status), _)) => bail!("{} ended ({status}):\n{}", self.id(), self.log_tail()),
            Err(error) => Err(error.context(self.log_tail())),
        }
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it does not end by itself.
    pub async fn stop(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.end(Signal::TERM, STOP_LIMIT).await
    }

    /// SIGKILL: no goodbye, nothing flushed.
    ///
    /// # Errors
    /// When the kernel does not end it.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.end(Signal::KILL, KILL_LIMIT).await.map(|_| ())
    }

    /// SIGKILL without waiting, so that a whole fleet can die in one instant.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn send_kill(&self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)
    }

    /// SIGSTOP: the process stays, but does nothing.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        self.paused = true;
        Ok(())
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)?;
        self.paused = false;
        Ok(())
    }

    /// Removes everything the node wrote about the cluster; its log stays.
    ///
    /// # Errors
    /// When it still runs, or the folder cannot be removed.
    pub fn wipe(&mut self) -> anyhow::Result<()> {
        if self.child.is_some() {
            bail!("{} still runs", self.id());
        }
        match fs::remove_dir_all(self.data_dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Notices an end that nobody here asked for. Some once, then the node is down.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn reap(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let Some(child) = self.child.as_mut() else {
            return Ok(None);
        };
        let pid = child.id();
        let status = child.try_wait()?;
        if status.is_some() {
            self.forget(pid);
        }
        Ok(status)
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    async fn end(&mut self, signal: Signal, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
        if self.child.is_none() {
            return Ok(None);
        }
        self.signal(signal)?;
        let id = self.spec.id.clone();
        let Some(child) = self.child.as_mut() else {
            return Ok(None);
        };
        let pid = child.id();
        let status = tokio::time::timeout(limit, child.wait())
            .await
            .with_context(|| format!("{id} still runs {limit:?} after signal {signal:?}"))??;
        self.forget(pid);
        Ok(Some(status))
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.child.as_ref().and_then(Child::id);
        let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.with_context(|| format!("{} does not run", self.id()))?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.id()))
    }

    fn forget(&mut self, pid: Option<u32>) {
        if let Some(pid) = pid {
            self.watchdog.drop_pid(pid);
        }
        self.child = None;
        self.paused = false;
        // A pid file that stays names a process that is gone; the next start overwrites it.
        let _ = fs::remove_file(self.pid_path());
    }

    fn data_dir(&self) -> PathBuf {
        self.spec.dir.join("data")
    }

    fn command(&self) -> Command {
        let spec = &self.spec;
        let mut command = match spec.prefix.as_slice() {
            [] => Command::new(&spec.binary),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&spec.binary);
                command
            }
        };
        // What the user's shell sets for a node of his own is not meant for these.
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("HOLDLINE_") || name.to_lowercase().ends_with("_proxy") {
                command.env_remove(&name);
            }
        }
        command.env("HOLDLINE_CLUSTER_SECRET", &spec.secret);
        command.arg("serve");
        command
            .arg("--config")
            .arg(&spec.config)
            .arg("--data-dir")
            .arg(self.data_dir());
        for (flag, value) in [
            ("--host", spec.host.to_string()),
            ("--port", spec.ports.http.to_string()),
            ("--gossip-port", spec.ports.gossip.to_string()),
            ("--rpc-port", spec.ports.rpc.to_string()),
            ("--node-id", spec.id.clone()),
            ("--region", spec.region.clone()),
            ("--time-scale", spec.time_scale.to_string()),
        ] {
            command.arg(flag).arg(value);
        }
        if !spec.peers.is_empty() {
            command.arg("--peers").arg(spec.peers.join(","));
        }
        command
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The child kills itself when dropped; only the file is left to tidy.
        if self.child.is_some() {
            let _ = fs::remove_file(self.pid_path());
        }
    }
}
