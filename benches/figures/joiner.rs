//! How soon a node serves that joins a cluster with ten thousand held keys.

use std::time::{Duration, Instant};

use anyhow::ensure;
use holdline_chaos::mock::Fault;

use crate::load::{Load, Shape};
use crate::report::{Figure, Report, shown};
use crate::stage;

const KEYS: usize = 10;
const MODELS: usize = 1_000;
const AIM: Duration = Duration::from_secs(1);

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mock = stage::mock().await?;
    for key in 0..KEYS {
        mock.refuse(&stage::key_secret(key), Fault::Denied);
    }
    let config = stage::config(&mock.provider_url(stage::PROVIDER), KEYS, false);
    let mut fleet = stage::fleet(dir.path(), config, 2, 1)?;
    let [giver, joiner] = fleet.nodes_mut() else {
        anyhow::bail!("a fleet of two has other than two nodes");
    };
    giver.start()?;
    giver.wait_ready(stage::START_LIMIT).await?;
    hold_all(giver.spec().ports.http).await?;
    let held = giver.api().conditions().await?.conditions.len();
    ensure!(held == KEYS * MODELS, "{held} keys are held instead");

    let start = Instant::now();
    joiner.start()?;
    stage::wait_ready_closely(joiner).await?;
    let took = start.elapsed();
    let taken_over = joiner.api().conditions().await?.conditions.len();
    ensure!(taken_over == held, "the joiner holds {taken_over}");
    let restored = joiner.api().cluster().await?.restored;
    let from = restored.map_or_else(|| "nobody".to_owned(), |restored| restored.from);
    report.add(
        Figure::new(
            "a joiner takes over 10,000 held keys: spawn to `/ready`",
            format!("{} (from {from})", shown(took)),
        )
        .aim("< 1 s", took < AIM),
    );
    fleet.stop_all().await
}

/// One pinned request for every model of every key; the mock knows none of the models.
async fn hold_all(port: u16) -> anyhow::Result<()> {
    let requests = (0..KEYS).flat_map(|key| {
        (0..MODELS).map(move |model| {
            let pin = format!("x-bf-api-key-id: {}\r\n", stage::key_id(key));
            Load::request(
                &format!("{}/m-{model}", stage::PROVIDER),
                &pin,
                Shape::Plain,
            )
        })
    });
    Load::new(port, requests.collect(), 16)
        .run(KEYS * MODELS, 404)
        .await
}
