//! What a fleet still knows after all its nodes were killed in one instant.

use std::time::Duration;

use holdline_chaos::fleet::Fleet;
use holdline_chaos::mock::{Fault, Mock};
use holdline_chaos::traffic::Traffic;

use crate::report::{Figure, Report};
use crate::stage;

const NODES: usize = 6;
const ROUNDS: usize = 3;
/// Keys that stay held over a restart, and keys that an operator releases just before it.
const HELD: usize = 2;
const RELEASED: usize = 2;
/// One key is never refused.
const KEYS: usize = ROUNDS * (HELD + RELEASED) + 1;
const PERIOD: Duration = Duration::from_millis(10);
const WATCHED: Duration = Duration::from_secs(3);
const HOLD_LIMIT: Duration = Duration::from_secs(20);
/// The provider states a wait that outlasts the figure: no call is a check.
const FAULT: Fault = Fault::Limited {
    retry_after_s: Some(300),
};

#[derive(Debug, Default)]
struct Broken {
    calls: usize,
    lost: usize,
}

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mock = stage::mock().await?;
    let config = stage::config(&mock.provider_url(stage::PROVIDER), KEYS, true);
    let mut fleet = stage::running_fleet(dir.path(), config, NODES, 2).await?;
    let mut broken = Broken::default();
    for round in 0..ROUNDS {
        one_round(&mut fleet, &mock, round, &mut broken).await?;
    }
    fleet.stop_all().await?;
    report.add(Figure::none_of(
        "calls to held keys after `kill -9` of all 6 nodes",
        broken.calls,
        &format!(
            "{} held keys in {ROUNDS} restarts under load",
            ROUNDS * HELD
        ),
    ));
    report.add(Figure::none_of(
        "acknowledged releases lost, killed right after the acknowledgement",
        broken.lost,
        &format!("{} releases", ROUNDS * RELEASED),
    ));
    Ok(())
}

async fn one_round(
    fleet: &mut Fleet,
    mock: &Mock,
    round: usize,
    broken: &mut Broken,
) -> anyhow::Result<()> {
    let first = round * (HELD + RELEASED);
    let held = first..first + HELD;
    let released = first + HELD..first + HELD + RELEASED;

    for key in held.clone().chain(released.clone()) {
        mock.refuse(&stage::key_secret(key), FAULT);
    }
    let traffic = Traffic::start(stage::apis(fleet), stage::MODEL, PERIOD);
    for key in held.clone().chain(released.clone()) {
        fleet.wait_held(&stage::key_id(key), HOLD_LIMIT).await?;
    }
    drop(traffic);
    // What is kept within a second of its change is no promise before that.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for (turn, key) in released.clone().enumerate() {
        mock.restore(&stage::key_secret(key));
        let node = &fleet.nodes()[(round + 3 * turn) % NODES];
        let count = node
            .api()
            .release(stage::PROVIDER, &stage::key_id(key))
            .await?;
        anyhow::ensure!(count > 0, "{} released nothing", node.id());
    }
    fleet.kill_all().await?;

    let restarted_ms = mock.now_ms();
    fleet.start_all(stage::START_LIMIT).await?;
    for node in fleet.nodes() {
        let view = node.api().conditions().await?.conditions;
        let is_back = |key: usize| view.iter().any(|row| row.key_id == stage::key_id(key));
        broken.lost += released.clone().filter(|key| is_back(*key)).count();
    }
    let traffic = Traffic::start(stage::apis(fleet), stage::MODEL, PERIOD);
    tokio::time::sleep(WATCHED).await;
    drop(traffic);
    for key in held {
        broken.calls += mock.calls(&stage::key_secret(key), restarted_ms).len();
    }
    Ok(())
}
