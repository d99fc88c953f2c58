//! Steady requests on every node, with a tally per node and the time of each failure.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::api::{Api, Chat};

/// Failures that are remembered one by one; all are counted.
const KEPT_FAILURES: usize = 200;
/// Every so many requests, one is a stream.
const STREAM_EVERY: u64 = 4;

/// Running traffic; it ends when dropped.
#[derive(Debug)]
pub struct Traffic {
    tallies: Arc<Mutex<BTreeMap<String, Tally>>>,
    // Aborted on drop.
    _asking: JoinSet<()>,
}

/// What became of the requests to one node.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Whole answers.
    pub served: u64,
    /// Everything else.
    pub failed: u64,
    /// The first failures.
    pub failures: Vec<Failure>,
}

/// One request that was not served.
#[derive(Clone, Debug)]
pub struct Failure {
    /// When it was sent.
    pub sent_at: Instant,
    /// What came instead of an answer.
    pub text: String,
}

impl Traffic {
    /// Asks each node (its id, its API) for `model` once per `period`, one request at a time.
    #[must_use]
    pub fn start(nodes: Vec<(String, Api)>, model: &str, period: Duration) -> Self {
        let tallies = Arc::new(Mutex::new(BTreeMap::new()));
        let mut asking = JoinSet::new();
        for (id, api) in nodes {
            lock(&tallies).insert(id.clone(), Tally::default());
            asking.spawn(ask(id, api, model.to_owned(), period, Arc::clone(&tallies)));
        }
        Self {
            tallies,
            _asking: asking,
        }
    }

    /// The tallies so far, by node id.
    #[must_use]
    pub fn tallies(&self) -> BTreeMap<String, Tally> {
        lock(&self.tallies).clone()
    }

    /// Requests that were sent at `since` or later to other nodes than these, and failed.
    #[must_use]
    pub fn failures(&self, since: Instant, except: &[&str]) -> Vec<String> {
        let tallies = lock(&self.tallies);
        let others = tallies
            .iter()
            .filter(|(id, _)| !except.contains(&id.as_str()));
        let failures = others.flat_map(|(id, tally)| tally.failures.iter().map(move |f| (id, f)));
        failures
            .filter(|(_, f)| f.sent_at >= since)
            .map(|(id, f)| format!("{id}: {}", f.text))
            .collect()
    }
}

async fn ask(
    id: String,
    api: Api,
    model: String,
    period: Duration,
    tallies: Arc<Mutex<BTreeMap<String, Tally>>>,
) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u64.. {
        ticks.tick().await;
        let sent_at = Instant::now();
        let stream = number % STREAM_EVERY == STREAM_EVERY - 1;
        let chat = Chat {
            model: &model,
            user: &id,
            pin: None,
            stream,
        };
        let outcome = match api.chat(chat).await {
            Ok(reply) if reply.status != 200 => Err(format!("{}: {}", reply.status, reply.text())),
            Ok(reply) if stream && !reply.body.ends_with(b"data: [DONE]\n\n") => {
                Err(format!("a stream without its end: {}", reply.text()))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{error:#}")),
        };
        if let Some(tally) = lock(&tallies).get_mut(&id) {
            tally.add(sent_at, outcome);
        }
    }
}

impl Tally {
    fn add(&mut self, sent_at: Instant, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.served += 1,
            Err(text) => {
                self.failed += 1;
                if self.failures.len() == KEPT_FAILURES {
                    self.failures.remove(0);
                }
                self.failures.push(Failure { sent_at, text });
            }
        }
    }
}

fn lock(tallies: &Mutex<BTreeMap<String, Tally>>) -> MutexGuard<'_, BTreeMap<String, Tally>> {
    tallies.lock().unwrap_or_else(PoisonError::into_inner)
}
