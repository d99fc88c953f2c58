//! CPU time of the gateway per request, beside that of a bare pass-through for the same work.

use std::time::Duration;

use crate::load::{Load, Shape};
use crate::measure::cpu_time;
use crate::pass_through::PassThrough;
use crate::report::{Figure, Report, shown};
use crate::stage;
use crate::upstream::Upstream;

const CONNECTIONS: usize = 32;
const AIM: f64 = 1.6;
/// Each side works so many times, in turns: a slow spell of the machine meets both.
const ROUNDS: u32 = 4;

/// One kind of work.
#[derive(Clone, Copy, Debug)]
struct Work {
    shape: Shape,
    requests_per_round: u32,
}

const PLAIN: Work = Work {
    shape: Shape::Plain,
    requests_per_round: 8_000,
};
const STREAMED: Work = Work {
    shape: Shape::Stream { chunks: 100 },
    requests_per_round: 320,
};

/// A process under load.
#[derive(Clone, Copy, Debug)]
struct Side {
    pid: u32,
    port: u16,
}

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let upstream = Upstream::start().await?;
    let bare = PassThrough::start(&upstream.url())?;
    let theirs = Side {
        pid: bare.pid(),
        port: bare.port(),
    };
    for enable_logging in [false, true] {
        let dir = tempfile::tempdir()?;
        let config = stage::config(&upstream.url(), 3, enable_logging);
        let mut fleet = stage::fleet(dir.path(), config, 1, 1)?;
        fleet.start_all(stage::START_LIMIT).await?;
        let node = &fleet.nodes()[0];
        let gateway = Side {
            pid: stage::pid(node)?,
            port: node.spec().ports.http,
        };
        let works: &[Work] = if enable_logging {
            &[PLAIN]
        } else {
            &[PLAIN, STREAMED]
        };
        for work in works {
            let (ours, theirs) = in_turns(gateway, theirs, *work).await?;
            report.add(figure(*work, enable_logging, ours, theirs));
        }
        fleet.stop_all().await?;
    }
    Ok(())
}

/// CPU time per request of both, each after a warm-up.
async fn in_turns(a: Side, b: Side, work: Work) -> anyhow::Result<(Duration, Duration)> {
    let mut used = [Duration::ZERO; 2];
    for round in 0..=ROUNDS {
        for (index, side) in [a, b].into_iter().enumerate() {
            let before = cpu_time(side.pid)?;
            let request = Load::request(stage::MODEL, "", work.shape);
            let load = Load::new(side.port, vec![request], CONNECTIONS);
            load.run(usize::try_from(work.requests_per_round)?, 200)
                .await?;
            if round > 0 {
                used[index] += cpu_time(side.pid)?.saturating_sub(before);
            }
        }
    }
    let requests = work.requests_per_round * ROUNDS;
    Ok((used[0] / requests, used[1] / requests))
}

fn figure(work: Work, enable_logging: bool, ours: Duration, theirs: Duration) -> Figure {
    let logs = if enable_logging { "with" } else { "without" };
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    let measured = |of: &str, ours: Duration, theirs: Duration| {
        format!(
            "{ratio:.2} ({} against {} per {of})",
            shown(ours),
            shown(theirs)
        )
    };
    match work.shape {
        Shape::Plain => {
            let name =
                format!("CPU per plain request against a bare pass-through, {logs} request logs");
            let figure = Figure::new(name, measured("request", ours, theirs));
            // The pass-through keeps no records: with them it is not the same work.
            if enable_logging {
                figure
            } else {
                figure.aim("< 1.6", ratio < AIM)
            }
        }
        Shape::Stream { chunks } => Figure::new(
            format!("CPU per streamed chunk against a bare pass-through, {logs} request logs"),
            measured("chunk", ours / chunks, theirs / chunks),
        )
        .aim("< 1.6", ratio < AIM),
    }
}
