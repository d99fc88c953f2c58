//! Cold start of a lone node, and the memory of an idle one in a cluster.

use std::time::{Duration, Instant};

use crate::measure::{Sample, resident_bytes};
use crate::report::{Figure, Report, shown};
use crate::stage;

const STARTS: usize = 10;
const COLD_START_AIM: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_secs(10);
const MEMORY_AIM_BYTES: u64 = 40_000_000;

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    cold_start(report).await?;
    idle_memory(report).await
}

/// From the spawn to the first 200 of `/ready`; the data folder is new each time.
async fn cold_start(report: &mut Report) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let config = stage::config("http://127.0.0.1:9", 3, true);
    let mut fleet = stage::fleet(dir.path(), config, 1, 1)?;
    let node = &mut fleet.nodes_mut()[0];
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let start = Instant::now();
        node.start()?;
        stage::wait_ready_closely(node).await?;
        starts.push(start.elapsed());
        node.stop().await?;
        node.wipe()?;
    }
    let starts = Sample::new(starts)?;
    report.add(
        Figure::new(
            "cold start of a lone node to `/ready`",
            format!(
                "median {}, longest {} of {}",
                shown(starts.median()),
                shown(starts.longest()),
                starts.len()
            ),
        )
        .aim("median < 100 ms", starts.median() < COLD_START_AIM),
    );
    Ok(())
}

async fn idle_memory(report: &mut Report) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let config = stage::config("http://127.0.0.1:9", 3, true);
    let mut fleet = stage::running_fleet(dir.path(), config, 3, 1).await?;
    tokio::time::sleep(IDLE).await;
    let sizes = fleet
        .nodes()
        .iter()
        .map(|node| resident_bytes(stage::pid(node)?));
    let largest = sizes
        .collect::<anyhow::Result<Vec<u64>>>()?
        .into_iter()
        .max()
        .unwrap_or(0);
    report.add(
        Figure::new(
            "memory of an idle node in a cluster of 3, after 10 s",
            format!("{:.1} MB (the largest of 3)", megabytes(largest)),
        )
        .aim("< 40 MB", largest < MEMORY_AIM_BYTES),
    );
    fleet.stop_all().await
}

#[expect(clippy::cast_precision_loss, reason = "only shown")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
