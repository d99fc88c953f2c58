//! Anti-entropy: tables or documents that stay different are exchanged whole over RPC.
//!
//! Every node's digests are in gossip. One side of a pair is enough: both merge. The lower id goes
//! first; the other waits twice as long, for links that work in one direction only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdline_core::ids::NodeId;

use crate::gossip::roster::Peer;
use crate::node::{Node, target};
use crate::rpc::BULKY;
use crate::rpc::client::{CallError, Purpose, Target};
use crate::rpc::message::{AnswerBody, Request, Tables, aged, incoming};

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Gossip needs less for what push lost.
const RECORDS_AFTER: Duration = Duration::from_secs(3);

/// Gossip does not carry documents.
const DOCUMENTS_AFTER: Duration = Duration::from_secs(1);

/// Between two exchanges of one kind with one peer.
const RECORDS_PAUSE: Duration = Duration::from_secs(5);
const DOCUMENTS_PAUSE: Duration = Duration::from_secs(2);

/// Which of a peer's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Records,
    Documents,
    Both,
}

/// How long a peer's tables have differed.
#[derive(Debug, Default)]
struct Difference {
    since: Option<Instant>,
    last_exchange: Option<Instant>,
}

impl Difference {
    /// Whether an exchange is due.
    fn see(&mut self, differs: bool, after: Duration, pause: Duration, now: Instant) -> bool {
        if !differs {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let rested = self
            .last_exchange
            .is_none_or(|last| now.duration_since(last) >= pause);
        let due = rested && now.duration_since(since) >= after;
        if due {
            self.last_exchange = Some(now);
        }
        due
    }
}

/// Compares and exchanges until it is aborted.
pub(crate) async fn run(node: Arc<Node>) {
    let mut differences: BTreeMap<(NodeId, Kind), Difference> = BTreeMap::new();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut exchanges = tokio::task::JoinSet::new();
    loop {
        ticks.tick().await;
        let roster = node.roster();
        differences.retain(|(id, _), _| roster.peers.contains_key(id));
        let (records, documents) = (node.state.record_digest(), node.state.document_digest());
        for peer in roster.alive().filter(|peer| peer.facts.ready) {
            let later = if node.options.node_id < peer.node_id {
                1
            } else {
                2
            };
            let kinds = [
                (
                    Kind::Records,
                    peer.facts.digest != records,
                    RECORDS_AFTER,
                    RECORDS_PAUSE,
                ),
                (
                    Kind::Documents,
                    peer.facts.documents != documents,
                    DOCUMENTS_AFTER,
                    DOCUMENTS_PAUSE,
                ),
            ];
            for (kind, differs, after, pause) in kinds {
                let known = differences.entry((peer.node_id.clone(), kind)).or_default();
                if known.see(differs, after * later, pause, Instant::now()) {
                    exchanges.spawn(repair(Arc::clone(&node), peer.clone(), kind));
                }
            }
        }
        while exchanges.try_join_next().is_some() {}
    }
}

async fn repair(node: Arc<Node>, peer: Peer, kind: Kind) {
    match exchange(&node, &target(&peer), kind).await {
        Ok(changed) => {
            tracing::debug!(peer = %peer.node_id, ?kind, changed, "exchanged tables");
        }
        Err(error) => {
            tracing::debug!(peer = %peer.node_id, ?kind, %error, "cannot exchange tables");
        }
    }
}

/// Gives all of this node's and takes in all of the other's. Returns how much changed here.
///
/// # Errors
/// When there is no answer.
pub(crate) async fn exchange(
    node: &Arc<Node>,
    with: &Target,
    kind: Kind,
) -> Result<usize, CallError> {
    let (records, documents) = match kind {
        Kind::Records => (true, false),
        Kind::Documents => (false, true),
        Kind::Both => (true, true),
    };
    let request = Request::Exchange(Tables {
        records: records.then(|| aged(node.state.export_records())),
        documents: documents.then(|| node.state.export_documents()),
    });
    let answer = node
        .calls
        .call(with, Purpose::Tables, &request, BULKY)
        .await?;
    let AnswerBody::Tables(tables) = answer else {
        return Err(CallError::Refused("another answer".to_owned()));
    };
    let mut changed = node.merge_documents(tables.documents.unwrap_or_default());
    changed += node
        .merge_records(incoming(tables.records.unwrap_or_default()))
        .await;
    Ok(changed)
}
