//! Calls that a cluster under load still sends to a key after one of its nodes saw it refused.

use std::time::Duration;

use anyhow::Context as _;
use holdline_chaos::mock::{Call, Fault, Mock};
use holdline_chaos::traffic::Traffic;

use crate::report::{Figure, Report, shown};
use crate::{propagation, stage};

const NODES: usize = 6;
const KEYS: usize = 10;
/// So many of the keys are refused, one after the other.
const REFUSED: usize = 8;
/// One request after the other, at most this often, on every node.
const PERIOD: Duration = Duration::from_millis(8);
const WARM_UP: Duration = Duration::from_secs(2);
/// How long calls are looked for after a refusal: far below the first wait, so none is a check.
const WATCHED: Duration = Duration::from_millis(1_200);
/// Propagation counts as at least this long: the mock's clock has whole milliseconds.
const LEAST_MS: u64 = 5;

/// Calls to one refused key.
#[derive(Debug, Default)]
struct Calls {
    /// By nodes that could not have heard of the refusal yet.
    early: usize,
    /// By other nodes than the first, later than one propagation time.
    late: usize,
}

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let propagation = propagation::by_push().await?.percentile(99);
    let propagation_ms = u64::try_from(propagation.as_millis())?.max(LEAST_MS);

    let dir = tempfile::tempdir()?;
    let mock = stage::mock().await?;
    let config = stage::config(&mock.provider_url(stage::PROVIDER), KEYS, true);
    let mut fleet = stage::running_fleet(dir.path(), config, NODES, 2).await?;
    let traffic = Traffic::start(stage::apis(&fleet), stage::MODEL, PERIOD);
    tokio::time::sleep(WARM_UP).await;

    let mut all = Calls::default();
    for key in 0..REFUSED {
        let calls = refuse(&mock, &stage::key_secret(key), propagation_ms).await?;
        all.early += calls.early;
        all.late += calls.late;
    }
    let tallies = traffic.tallies();
    let served: u64 = tallies.values().map(|tally| tally.served).sum();
    let failed: u64 = tallies.values().map(|tally| tally.failed).sum();
    drop(traffic);
    fleet.stop_all().await?;

    report.add(Figure::none_of(
        format!(
            "calls to a refused key by the other 5 nodes, later than one propagation time ({})",
            shown(Duration::from_millis(propagation_ms))
        ),
        all.late,
        &format!(
            "{REFUSED} keys refused under load; {} calls were sent too early to know",
            all.early
        ),
    ));
    report.add(Figure::none_of(
        "client requests that failed meanwhile",
        usize::try_from(failed)?,
        &format!("{served} served"),
    ));
    Ok(())
}

async fn refuse(mock: &Mock, secret: &str, propagation_ms: u64) -> anyhow::Result<Calls> {
    let since_ms = mock.now_ms();
    mock.refuse(secret, Fault::Revoked);
    tokio::time::sleep(WATCHED).await;
    let calls = mock.calls(secret, since_ms);
    let refused: Vec<&Call> = calls.iter().filter(|call| call.status >= 400).collect();
    let first = refused.first().context("nobody used the key")?;
    // The mock answers 2 ms after the head arrived; its clock cuts off up to 1 ms.
    let known_ms = first.at_ms + 3 + propagation_ms;
    let others = refused.iter().filter(|call| call.caller != first.caller);
    let (late, early): (Vec<&Call>, Vec<&Call>) = others.partition(|call| call.at_ms > known_ms);
    Ok(Calls {
        early: early.len(),
        late: late.len(),
    })
}
