//! Anti-entropy: tables or documents that stay different are exchanged whole over RPC.
//!
//! Every node's digests are in gossip. One side of a pair is enough: both merge. The lower id goes
//! first; the other waits twice as long, for links that work in one direction only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdline_core::holds::Incoming;
use holdline_core::ids::NodeId;
use holdline_core::replica::Document;

use crate::gossip::roster::Peer;
use crate::node::{Node, target};
use crate::rpc::client::{CallError, Purpose, Target};
use crate::rpc::message::{AnswerBody, Request, Tables, aged, incoming};
use crate::rpc::{BRIEF, BULKY};

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
    match exchange_if_different(&node, &target(&peer), kind).await {
        Ok(Some(Exchanged { changed, .. })) => {
            tracing::debug!(peer = %peer.node_id, ?kind, changed, "exchanged tables");
        }
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(peer = %peer.node_id, ?kind, %error, "cannot exchange tables");
        }
    }
}

/// Digests in gossip may be old: a table is large, so the peer is asked first.
async fn exchange_if_different(
    node: &Arc<Node>,
    with: &Target,
    kind: Kind,
) -> Result<Option<Exchanged>, CallError> {
    let asked = node
        .calls
        .call(with, Purpose::Tables, &Request::Digests, BRIEF)
        .await?;
    let AnswerBody::Digests(theirs) = asked else {
        return Err(CallError::Refused("another answer".to_owned()));
    };
    let own = node.digests();
    let equal = match kind {
        Kind::Records => own.records == theirs.records,
        Kind::Documents => own.documents == theirs.documents,
        Kind::Both => own == theirs,
    };
    if equal {
        return Ok(None);
    }
    exchange(node, with, kind).await.map(Some)
}

/// What an exchange brought.
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    /// How much changed here.
    pub(crate) changed: usize,
    /// What the other side did not know.
    pub(crate) news: Vec<Incoming>,
    /// See `news`.
    pub(crate) news_documents: Vec<Document>,
}

/// Gives all of this node's and takes in all of the other's.
///
/// # Errors
/// When there is no answer.
pub(crate) async fn exchange(
    node: &Arc<Node>,
    with: &Target,
    kind: Kind,
) -> Result<Exchanged, CallError> {
    let (records, documents) = match kind {
        Kind::Records => (true, false),
        Kind::Documents => (false, true),
        Kind::Both => (true, true),
    };
    let records = records.then(|| node.state.export_records());
    let documents = documents.then(|| node.state.export_documents());
    let request = Request::Exchange(Tables {
        records: records.clone().map(aged),
        documents: documents.clone(),
    });
    let answer = node
        .calls
        .call(with, Purpose::Tables, &request, BULKY)
        .await?;
    let AnswerBody::Tables(tables) = answer else {
        return Err(CallError::Refused("another answer".to_owned()));
    };
    let theirs = incoming(tables.records.unwrap_or_default());
    let their_documents = tables.documents.unwrap_or_default();
    Ok(Exchanged {
        news: news(records.unwrap_or_default(), &theirs),
        news_documents: news_documents(documents.unwrap_or_default(), &their_documents),
        changed: node.merge_documents(their_documents) + node.merge_records(theirs).await,
    })
}

fn news(mut own: Vec<Incoming>, theirs: &[Incoming]) -> Vec<Incoming> {
    let theirs: BTreeMap<_, _> = theirs
        .iter()
        .map(|one| (&one.record.subject, one.record.register))
        .collect();
    own.retain(|one| {
        let known = theirs.get(&one.record.subject);
        known.is_none_or(|known| *known < one.record.register)
    });
    own
}

fn news_documents(mut own: Vec<Document>, theirs: &[Document]) -> Vec<Document> {
    let theirs: BTreeMap<_, _> = theirs.iter().map(|one| (&one.name, one.stamp)).collect();
    own.retain(|one| theirs.get(&one.name).is_none_or(|stamp| *stamp < one.stamp));
    own
}
