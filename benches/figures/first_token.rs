//! What a gateway adds until a stream's first token arrives, beside what a bare pass-through adds.

use std::time::Duration;

use anyhow::ensure;

use crate::load::{Line, Load, Shape};
use crate::measure::Sample;
use crate::pass_through::PassThrough;
use crate::report::{Figure, Report, shown};
use crate::stage;
use crate::upstream::Upstream;

/// Requests by each of the three ways, one at a time.
const REQUESTS: usize = 1_000;
/// Before them, unmeasured.
const WARM_UP: usize = 100;

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let upstream = Upstream::start().await?;
    let bare = PassThrough::start(&upstream.url())?;
    let dir = tempfile::tempdir()?;
    let mut fleet = stage::fleet(dir.path(), stage::config(&upstream.url(), 3, false), 1, 1)?;
    fleet.start_all(stage::START_LIMIT).await?;
    let gateway = fleet.nodes()[0].spec().ports.http;

    let [direct, theirs, ours] = in_turns([upstream.port(), bare.port(), gateway]).await?;
    fleet.stop_all().await?;

    let added = |way: Duration| way.saturating_sub(direct);
    ensure!(
        added(theirs) > Duration::ZERO,
        "the pass-through adds nothing: {} direct, {} through it",
        shown(direct),
        shown(theirs)
    );
    let ratio = added(ours).as_secs_f64() / added(theirs).as_secs_f64();
    report.add(Figure::new(
        "added time to first token against a bare pass-through, without request logs",
        format!(
            "{ratio:.2} ({} against {} on top of {} without either; medians of {REQUESTS})",
            shown(added(ours)),
            shown(added(theirs)),
            shown(direct)
        ),
    ));
    Ok(())
}

/// Median time to the first event at each port. Every request is sent to all of them in turn: a slow
/// spell of the machine meets all.
async fn in_turns(ports: [u16; 3]) -> anyhow::Result<[Duration; 3]> {
    let request = Load::request(stage::MODEL, "", Shape::Stream { chunks: 1 });
    let mut ways = Vec::new();
    for port in ports {
        ways.push((Line::open(port).await?, Vec::new()));
    }
    for turn in 0..WARM_UP + REQUESTS {
        for (line, times) in &mut ways {
            let first = line.time_to_first_event(&request).await?;
            if turn >= WARM_UP {
                times.push(first);
            }
        }
    }
    let mut medians = [Duration::ZERO; 3];
    for (median, (_, times)) in medians.iter_mut().zip(ways) {
        *median = Sample::new(times)?.median();
    }
    Ok(medians)
}
