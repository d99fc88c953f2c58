//! The product's story, played once on real processes: one verdict per promise.

mod acts;
mod tell;

use std::time::{Duration, Instant};

use crate::demo::Stage;
use acts::Acts;
pub use tell::{Verdict, Verdicts};

/// Beyond this the story is over, whatever was still to come.
const WHOLE_LIMIT: Duration = Duration::from_secs(240);

/// Plays the story on a stage whose nodes are not started, and says each verdict as it falls.
///
/// An act that cannot be played is a promise that was not kept; the next act still tries, on
/// whatever the last one left. Without a cluster there is no story.
pub async fn play(stage: &mut Stage, say: impl Fn(&str)) -> Verdicts {
    let started = Instant::now();
    let mut acts = Acts::new(stage);
    let mut verdicts = Verdicts::default();
    for act in acts::ORDER {
        if !acts.can_play(act) {
            continue;
        }
        let left = WHOLE_LIMIT.saturating_sub(started.elapsed());
        let outcome = tokio::time::timeout(left, acts.play(act)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("the story took too long")));
        let no_cluster = act == acts::Act::Start && outcome.is_err();
        let verdict = Verdict::new(act.promise(), outcome);
        say(&verdict.line());
        verdicts.push(verdict);
        if no_cluster {
            break;
        }
    }
    say(&format!(
        "{} in {:.0} s",
        verdicts.summary(),
        started.elapsed().as_secs_f64()
    ));
    verdicts
}
