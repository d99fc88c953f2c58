//! `holdline demo`: a whole cluster with mock providers and traffic under one command.

mod config;
mod control;
mod screen;
mod stage;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

pub use config::{DemoKey, KEYS, MODEL, config_file};
pub use screen::say;
pub use stage::Stage;

use crate::fleet::Fleet;
use crate::ports::Ports;
use crate::process::NodeState;
use crate::story::{self, Verdicts};
use crate::traffic::Traffic;
use control::{Command, Control};
use watch::Watch;

/// Nodes and regions, unless told otherwise.
pub const NODES: usize = 6;
/// See [`NODES`].
pub const REGIONS: usize = 2;
/// Where a demo keeps its data, unless told otherwise.
pub const DATA_DIR: &str = ".demo";

/// A whole fleet starts within this even on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Of the light traffic on each node.
const TRAFFIC_PERIOD: Duration = Duration::from_millis(500);
/// How often the demo looks for nodes that ended and for holds that came or went.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// What to start.
#[derive(Clone, Debug)]
pub struct Demo {
    /// The gateway's program, usually the running one.
    pub binary: PathBuf,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of regions.
    pub regions: usize,
    /// Data, logs and pid files go below this folder.
    pub data_dir: PathBuf,
    /// HTTP port of the first node; the script takes any free ports when none is given.
    pub base_port: Option<u16>,
    /// How much faster holds pass.
    pub time_scale: f64,
    /// Play the story and end, instead of waiting for a person.
    pub script: bool,
}

/// Runs the demo until Ctrl-C, or plays its story once.
///
/// # Errors
/// When the cluster does not start. What the story finds wrong is in the verdicts.
pub async fn run(demo: Demo) -> anyhow::Result<Verdicts> {
    if demo.script {
        return play(&demo).await;
    }
    let ports = Ports::from_base(demo.base_port.unwrap_or(crate::ports::BASE), demo.nodes)?;
    ports.check_free()?;
    let mut control = Control::start(ports.control, &demo.data_dir).await?;
    say(&format!(
        "Starting {} nodes in {} regions …",
        demo.nodes, demo.regions
    ));
    let mut stage = Stage::new(&demo, &demo.data_dir, ports).await?;
    let mut interrupts = Interrupts::new()?;
    let started = tokio::select! {
        started = stage.fleet.start_all(START_LIMIT) => started,
        () = interrupts.next() => return stage.fleet.stop_all().await.map(|()| Verdicts::default()),
    };
    started?;
    screen::show(&demo, &stage);
    let _traffic = Traffic::start(stage.apis(), MODEL, TRAFFIC_PERIOD);
    let mut watch = Watch::default();
    let mut looks = tokio::time::interval(LOOK_PERIOD);
    loop {
        tokio::select! {
            () = interrupts.next() => break,
            command = control.next() => tokio::select! {
                () = obey(&mut stage.fleet, command) => {}
                () = interrupts.next() => break,
            },
            _ = looks.tick() => watch.look(&mut stage.fleet).await,
        }
    }
    say("Stopping (once more to stop at once) …");
    tokio::select! {
        stopped = stage.fleet.stop_all() => stopped?,
        () = interrupts.next() => stage.fleet.kill_all().await?,
    }
    say("All stopped. Held keys are kept in the data folder; `make clean` forgets them.");
    Ok(Verdicts::default())
}

/// Tells a running demo to kill one of its nodes, the hard way.
///
/// # Errors
/// When no demo runs on this data folder, or it knows no such node.
pub async fn kill(data_dir: &Path, node: &str) -> anyhow::Result<String> {
    control::ask(data_dir, node, "kill").await
}

/// Tells a running demo to start a node again.
///
/// # Errors
/// When no demo runs on this data folder, or it knows no such node.
pub async fn restart(data_dir: &Path, node: &str) -> anyhow::Result<String> {
    control::ask(data_dir, node, "restart").await
}

async fn play(demo: &Demo) -> anyhow::Result<Verdicts> {
    // What an earlier run left would be part of the story.
    let dir = demo.data_dir.join("story");
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", dir.display()));
        }
        _ => {}
    }
    let ports = match demo.base_port {
        Some(base) => Ports::from_base(base, demo.nodes)?,
        None => Ports::any_free(demo.nodes)?,
    };
    ports.check_free()?;
    let mut stage = Stage::new(demo, &dir, ports).await?;
    let mut interrupts = Interrupts::new()?;
    let verdicts = tokio::select! {
        verdicts = story::play(&mut stage, say) => verdicts,
        () = interrupts.next() => anyhow::bail!("interrupted"),
    };
    if verdicts.all_kept() {
        stage.fleet.stop_all().await?;
    } else {
        say(&format!(
            "What the nodes said is in {}/n*/log",
            dir.display()
        ));
        stage.fleet.kill_all().await?;
    }
    Ok(verdicts)
}

async fn obey(fleet: &mut Fleet, command: Command) {
    let done = match command.verb {
        control::Verb::Kill => match fleet.node(&command.node) {
            Ok(node) if node.state() == NodeState::Down => {
                Ok(format!("{} is down already", node.id()))
            }
            Ok(node) => node.kill().await.map(|()| {
                format!(
                    "{} killed with SIGKILL; it stays down until it is restarted",
                    node.id()
                )
            }),
            Err(error) => Err(error),
        },
        control::Verb::Restart => restart_node(fleet, &command.node).await,
    };
    if let Ok(line) = &done {
        say(line);
    }
    command.answer(done);
}

async fn restart_node(fleet: &mut Fleet, id: &str) -> anyhow::Result<String> {
    let node = fleet.node(id)?;
    // It may have been killed from outside a moment ago.
    node.reap()?;
    if node.state() != NodeState::Down {
        node.stop().await?;
    }
    node.start()?;
    let took = node.wait_ready(START_LIMIT).await?;
    Ok(format!("{id} is back after {} ms", took.as_millis()))
}

/// Ctrl-C and SIGTERM.
struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Interrupts {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
