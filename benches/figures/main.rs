//! `make bench`: what the promises cost and how well they hold, as ratios and counts.
//!
//! Nothing here passes or fails by time: a missed aim is printed, and only a figure that could not be
//! measured makes the run fail. `cargo bench --bench figures -- [--out FILE] [NAME..]`; a name picks
//! figures, such as `cpu`. What each figure means stands in docs/benchmarks.md.

mod cpu;
mod first_token;
mod footprint;
mod joiner;
mod leader;
mod load;
mod local;
mod measure;
mod pass_through;
mod propagation;
mod report;
mod restart;
mod spared;
mod stage;
mod upstream;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use report::{Report, say, shown};

/// All figures, in the order in which they are measured.
const NAMES: [&str; 8] = [
    "footprint",
    "cpu",
    "first_token",
    "propagation",
    "spared",
    "leader",
    "joiner",
    "restart",
];

#[derive(Debug, Default)]
struct Args {
    out: Option<PathBuf>,
    wanted: Vec<String>,
}

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some(pass_through::ARGUMENT) => pass_through::run(std::env::args().skip(2)),
        Some(_) | None => parse(std::env::args().skip(1)).and_then(|args| run(&args)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("figures: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Args> {
    let mut args = Args::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            // What cargo itself adds.
            "--bench" => {}
            "--out" => args.out = Some(words.next().context("--out needs a file")?.into()),
            name if NAMES.contains(&name) => args.wanted.push(word),
            other => anyhow::bail!(
                "no figure is called {other}: there are {}",
                NAMES.join(", ")
            ),
        }
    }
    Ok(args)
}

fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let start = Instant::now();
    let mut report = Report::new();
    let mut failed = Vec::new();
    for name in NAMES {
        if !args.wanted.is_empty() && !args.wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        if let Err(error) = runtime.block_on(measure(name, &mut report)) {
            say(&format!("{name} could not be measured: {error:#}"));
            failed.push(name);
        }
    }
    say(&format!("\n{}", report.table()));
    say(&format!("This took {}.", shown(start.elapsed())));
    if let Some(path) = &args.out {
        std::fs::write(path, report.table())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    anyhow::ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

async fn measure(name: &str, report: &mut Report) -> anyhow::Result<()> {
    match name {
        "footprint" => footprint::measure(report).await,
        "cpu" => cpu::measure(report).await,
        "first_token" => first_token::measure(report).await,
        "propagation" => propagation::measure(report).await,
        "spared" => spared::measure(report).await,
        "leader" => leader::measure(report).await,
        "joiner" => joiner::measure(report).await,
        "restart" => restart::measure(report).await,
        other => anyhow::bail!("no figure is called {other}"),
    }
}
