//! `holdline demo`: a whole cluster with mock providers, from this very binary.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use holdline_chaos::demo::{self, Demo};

use super::say;

pub(super) const EXAMPLES: &str = "Examples:
  holdline demo                          6 nodes in 2 regions until Ctrl-C, and what to try
  holdline demo --nodes 4 --regions 2
  holdline demo --script                 plays the story, a verdict per promise, exit code 0 or 1
  holdline demo kill n2                  from another terminal: kill -9 one node
  holdline demo restart n2";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// How many nodes
    #[arg(long, default_value_t = demo::NODES)]
    nodes: usize,
    /// In how many regions
    #[arg(long, default_value_t = demo::REGIONS)]
    regions: usize,
    /// Data, logs and configs go below this folder
    #[arg(long, value_name = "PATH", default_value = demo::DATA_DIR, global = true)]
    data_dir: PathBuf,
    /// HTTP port of the first node
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
    /// How much faster holds pass than in real life
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    time_scale: f64,
    /// Play the story once instead of waiting for you
    #[arg(long)]
    script: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// kill -9 a node of the running demo
    Kill {
        /// Such as n2
        node: String,
    },
    /// Start a killed node again, with its data
    Restart {
        /// Such as n2
        node: String,
    },
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    super::install_tls();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(act(args))
}

async fn act(args: Args) -> anyhow::Result<()> {
    match args.verb {
        Some(Verb::Kill { node }) => say(&demo::kill(&args.data_dir, &node).await?),
        Some(Verb::Restart { node }) => say(&demo::restart(&args.data_dir, &node).await?),
        None => {
            let verdicts = demo::run(Demo {
                binary: std::env::current_exe().context("cannot tell where this program is")?,
                nodes: args.nodes,
                regions: args.regions,
                data_dir: args.data_dir,
                base_port: args.base_port,
                time_scale: args.time_scale,
                script: args.script,
            })
            .await?;
            ensure!(verdicts.all_kept(), "a promise was broken");
        }
    }
    Ok(())
}
