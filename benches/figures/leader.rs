//! How long a region is without a leader when its leader is killed, and whether load unseats one.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use holdline_chaos::fleet::Fleet;
use holdline_chaos::traffic::Traffic;

use crate::measure::Sample;
use crate::report::{Figure, Report, shown};
use crate::stage;

const KILLS: usize = 5;
const AIM: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(30);
const LOADED: Duration = Duration::from_secs(20);
const PERIOD: Duration = Duration::from_millis(3);

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mock = stage::mock().await?;
    let config = stage::config(&mock.provider_url(stage::PROVIDER), 3, true);
    let mut fleet = stage::running_fleet(dir.path(), config, 3, 1).await?;

    churn(&fleet, report).await?;
    let mut gaps = Vec::new();
    for _ in 0..KILLS {
        gaps.push(kill_leader(&mut fleet).await?);
        fleet.start_all(stage::START_LIMIT).await?;
        fleet.wait_agreed(stage::START_LIMIT).await?;
    }
    let gaps = Sample::new(gaps)?;
    report.add(
        Figure::new(
            "a region's leader is killed: every survivor names another one",
            format!(
                "p50 {}, longest {} of {}",
                shown(gaps.median()),
                shown(gaps.longest()),
                gaps.len()
            ),
        )
        .aim("p50 < 2 s", gaps.median() < AIM),
    );
    fleet.stop_all().await
}

async fn kill_leader(fleet: &mut Fleet) -> anyhow::Result<Duration> {
    let region = region(fleet)?;
    let (leader, _) = fleet.leader(&region, None, LIMIT).await?;
    fleet.node(&leader)?.kill().await?;
    let start = Instant::now();
    loop {
        let named = named_leaders(fleet, &region).await;
        if named.len() == 1
            && let Some(Some(next)) = named.first()
            && *next != leader
        {
            return Ok(start.elapsed());
        }
        if start.elapsed() > LIMIT {
            bail!("{LIMIT:?} after {leader} was killed: {named:?}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Changes of the leader that any node names, while all are busy.
async fn churn(fleet: &Fleet, report: &mut Report) -> anyhow::Result<()> {
    let region = region(fleet)?;
    let traffic = Traffic::start(stage::apis(fleet), stage::MODEL, PERIOD);
    let (start, mut changes) = (Instant::now(), 0_usize);
    let mut before = named_leaders(fleet, &region).await;
    while start.elapsed() < LOADED {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let named = named_leaders(fleet, &region).await;
        changes += usize::from(named != before);
        before = named;
    }
    let served: u64 = traffic.tallies().values().map(|tally| tally.served).sum();
    report.add(Figure::none_of(
        "changes of the leader under load, 20 s on 3 nodes",
        changes,
        &format!("{served} requests served"),
    ));
    Ok(())
}

fn region(fleet: &Fleet) -> anyhow::Result<String> {
    let first = fleet.nodes().first().context("no node")?;
    Ok(first.spec().region.clone())
}

/// What the live nodes say; a node that does not answer names nobody.
async fn named_leaders(fleet: &Fleet, region: &str) -> BTreeSet<Option<String>> {
    let mut named = BTreeSet::new();
    for node in fleet.live() {
        let status = node.api().cluster().await;
        named.insert(
            status
                .ok()
                .and_then(|s| s.leaders.get(region).cloned().flatten()),
        );
    }
    named
}
