//! History as the whole cluster has it: questions to all nodes, answered from what each of them keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdline_cluster::{Asked, MemberState};
use holdline_core::ids::{NodeId, Region};
use holdline_core::incidents::{Incident, REOPEN_MS, Sighting, merge};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Node;
use crate::store::{HistoryBatch, MAX_SIGHTINGS, ScoreQuery, Series, StoreError};

/// How long all nodes together are waited for.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Sightings of one message: well within the longest question.
const TOLD_AT_ONCE: usize = 100;

/// What nodes ask one another about history.
#[derive(Debug, Serialize, Deserialize)]
enum Question {
    /// What did you see?
    Sightings,
    /// This is what I saw, for when I am gone.
    Remember(Vec<Sighting>),
    /// What did you measure?
    Scores(ScoreQuery),
}

/// Something of the whole cluster.
#[derive(Clone, Debug)]
pub struct Gathered<T> {
    /// What was found.
    pub found: T,
    /// Nodes that could not be asked, or did not answer in time.
    pub missing: Vec<NodeId>,
}

/// The scores of one node.
#[derive(Clone, Debug)]
pub struct NodeScores {
    /// Which.
    pub node_id: NodeId,
    /// Where.
    pub region: Region,
    /// What it measured.
    pub series: Vec<Series>,
}

impl Node {
    /// The incidents of the cluster, as they stand now. Of nodes that are missing, what they told this
    /// one.
    ///
    /// # Errors
    /// When this node's store cannot be read.
    pub async fn incidents(self: &Arc<Self>) -> Result<Gathered<Vec<Incident>>, StoreError> {
        if !self.settings().history_enabled {
            return Ok(Gathered {
                found: Vec::new(),
                missing: Vec::new(),
            });
        }
        let (own, told) = self.kept_sightings().await?;
        let asked = self.ask_all(&Question::Sightings).await;
        let (answers, missing) = read::<Vec<Sighting>>(asked);
        let answered: BTreeSet<NodeId> = answers.iter().map(|(node, ..)| node.clone()).collect();
        let states = self.node_states();
        let mut sightings = own;
        for (node, _, seen) in answers {
            let seen = seen.into_iter().take(MAX_SIGHTINGS);
            sightings.extend(seen.filter(|s| s.node == node));
        }
        for one in told
            .into_iter()
            .filter(|t| !answered.contains(&t.sighting.node))
        {
            sightings.push(match states.get(&one.sighting.node) {
                Some(MemberState::Alive | MemberState::Suspect) => one.sighting,
                Some(MemberState::Dead | MemberState::Left) | None => {
                    one.sighting.out_of_sight(one.at)
                }
            });
        }
        let near_ms = u64::try_from(self.clock.real(REOPEN_MS).as_millis()).unwrap_or(u64::MAX);
        Ok(Gathered {
            found: merge(sightings, near_ms, self.clock.wall()),
            missing,
        })
    }

    /// The scores of every node.
    ///
    /// # Errors
    /// When this node's store cannot be read.
    pub async fn scores(
        self: &Arc<Self>,
        query: &ScoreQuery,
    ) -> Result<Gathered<Vec<NodeScores>>, StoreError> {
        if !self.settings().history_enabled {
            return Ok(Gathered {
                found: Vec::new(),
                missing: Vec::new(),
            });
        }
        let (node, own) = (Arc::clone(self), query.clone());
        let own = tokio::task::spawn_blocking(move || node.store.scores(&own, node.clock.wall()));
        let own = own
            .await
            .unwrap_or_else(|error| Err(StoreError(error.to_string())))?;
        let asked = self.ask_all(&Question::Scores(query.clone())).await;
        let (answers, missing) = read::<Vec<Series>>(asked);
        let others = answers
            .into_iter()
            .map(|(node_id, region, series)| NodeScores {
                node_id,
                region,
                series,
            });
        let own = NodeScores {
            node_id: self.id.clone(),
            region: self.region.clone(),
            series: own,
        };
        let mut found: Vec<NodeScores> = std::iter::once(own).chain(others).collect();
        found.sort_by(|a, b| a.node_id.cmp(&b.node_id));
        Ok(Gathered { found, missing })
    }

    /// Tells the other nodes what this one saw, so that it is known when this one is gone. Who does not
    /// hear it asks when it is asked.
    pub(super) async fn tell_sightings(&self, sightings: Vec<Sighting>) {
        for some in sightings.chunks(TOLD_AT_ONCE) {
            self.ask_all(&Question::Remember(some.to_vec())).await;
        }
    }

    /// Answers a node's question; may wait for the disk. None where it makes no sense.
    pub(super) fn answer_history(&self, from: &NodeId, question: &[u8]) -> Option<Vec<u8>> {
        match serde_json::from_slice(question).ok()? {
            Question::Sightings => told(self.own_sightings()),
            Question::Remember(sightings) => {
                let sightings = sightings.into_iter().take(TOLD_AT_ONCE);
                let batch = HistoryBatch {
                    sightings: sightings.filter(|s| s.node == *from).collect(),
                    ..HistoryBatch::default()
                };
                told(self.store.save_history(&batch, self.clock.wall()))
            }
            Question::Scores(query) => told(self.store.scores(&query, self.clock.wall())),
        }
    }

    async fn ask_all(&self, question: &Question) -> Asked {
        let question = serde_json::to_vec(question);
        match (self.cluster.get(), question) {
            (Some(cluster), Ok(question)) => cluster.ask_all(question, PATIENCE).await,
            (None, _) | (_, Err(_)) => Asked::default(),
        }
    }

    async fn kept_sightings(
        self: &Arc<Self>,
    ) -> Result<(Vec<Sighting>, Vec<crate::store::Told>), StoreError> {
        let node = Arc::clone(self);
        let kept = tokio::task::spawn_blocking(move || {
            Ok((
                node.own_sightings()?,
                node.store.sightings_of_others(&node.id)?,
            ))
        });
        kept.await
            .unwrap_or_else(|error| Err(StoreError(error.to_string())))
    }

    fn node_states(&self) -> BTreeMap<NodeId, MemberState> {
        let status = self.cluster.get().map(holdline_cluster::Handle::status);
        let nodes = status.map(|status| status.nodes).unwrap_or_default();
        nodes.into_iter().map(|n| (n.node_id, n.state)).collect()
    }
}

fn told<T: Serialize>(answer: Result<T, StoreError>) -> Option<Vec<u8>> {
    match answer {
        Ok(answer) => serde_json::to_vec(&answer).ok(),
        Err(error) => {
            tracing::warn!(%error, "another node's question about history is not answered");
            None
        }
    }
}

/// The answers that make sense; the others are missing too.
fn read<T: DeserializeOwned>(asked: Asked) -> (Vec<(NodeId, Region, T)>, Vec<NodeId>) {
    let mut missing = asked.missing;
    let mut answers = Vec::new();
    for one in asked.answers {
        match serde_json::from_slice(&one.answer) {
            Ok(answer) => answers.push((one.node_id, one.region, answer)),
            Err(_) => missing.push(one.node_id),
        }
    }
    missing.sort();
    (answers, missing)
}
