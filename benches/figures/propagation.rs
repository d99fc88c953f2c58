//! How long until every node of a cluster skips a key that one of them saw refused.

use std::sync::Arc;
use std::time::Duration;

use holdline_cluster::Spread;

use crate::local::Local;
use crate::measure::Sample;
use crate::report::{Figure, Report, shown};

const NODES: usize = 6;
const KEYS: usize = 10;
const PUSHED: usize = 300;
const GOSSIPED: usize = 60;
const AIM: Duration = Duration::from_millis(10);
/// Lets connections and gossip settle after the start.
const QUIET: Duration = Duration::from_secs(2);
/// Between two holds with push: the queues are empty again.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let pushed = by_push().await?;
    let gossiped = holds(
        Spread {
            push: false,
            gossip: true,
        },
        GOSSIPED,
    )
    .await?;
    report.add(figure("push alone", &pushed).aim("p99 < 10 ms", pushed.percentile(99) < AIM));
    report.add(figure("gossip alone", &gossiped));
    Ok(())
}

/// Time until 6 nodes skip a key, by push alone.
pub(crate) async fn by_push() -> anyhow::Result<Sample> {
    holds(
        Spread {
            push: true,
            gossip: false,
        },
        PUSHED,
    )
    .await
}

async fn holds(spread: Spread, count: usize) -> anyhow::Result<Sample> {
    let dir = tempfile::tempdir()?;
    let local = Arc::new(Local::start(dir.path(), NODES, KEYS, spread).await?);
    tokio::time::sleep(QUIET).await;
    let mut times = Vec::new();
    for number in 0..count {
        let nodes = Arc::clone(&local);
        let one = move || nodes.time_to_skip(number % KEYS, &format!("model-{number}"));
        times.push(tokio::task::spawn_blocking(one).await??);
        tokio::time::sleep(PAUSE).await;
    }
    if let Some(local) = Arc::into_inner(local) {
        local.stop().await;
    }
    Sample::new(times)
}

fn figure(way: &str, sample: &Sample) -> Figure {
    Figure::new(
        format!("an answer holds a key: {NODES} of {NODES} nodes skip it, {way}"),
        format!(
            "p50 {}, p99 {}, longest {} of {}",
            shown(sample.median()),
            shown(sample.percentile(99)),
            shown(sample.longest()),
            sample.len()
        ),
    )
}
