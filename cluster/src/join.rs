//! Joining: a starting node exchanges tables with one that has them, the regional leader before others.
//!
//! Order: the leader of the own region (elected before acting), any live peer of the region, another
//! region's leader, any live peer; again and again until one gives. While only nodes that are starting
//! too answer, it exchanges with all of them and is ready after the join window. Found nobody within it:
//! the own store alone. What the giver did not know is told to all: an operator's release may be in this
//! node's store only. Gossip works, but no RPC answers for a minute: ready, and says that it is degraded.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdline_core::ids::{NodeId, Region};

use crate::node::{Node, target};
use crate::repair::{Kind, exchange};
use crate::rpc::BRIEF;
use crate::rpc::client::{CallError, Purpose, Target};
use crate::rpc::message::{Acquaintance, AnswerBody, Introduction, Request};
use crate::status::{Join, Restored, RestoredFrom};

/// For nodes that start together to find one another, and for a lone one to find out that it is.
const WINDOW: Duration = Duration::from_secs(3);

/// Gossip without RPC is endured for so long.
const ENDURANCE: Duration = Duration::from_secs(60);

/// A leader that is there but does not answer is preferred for so long.
const LEADER_FIRST: Duration = Duration::from_millis(1_500);

/// Who has just heard of an election may know more than who answered first.
const LEADER_NAMED: Duration = Duration::from_millis(250);

const RETRY: Duration = Duration::from_millis(50);

/// Peers asked at a time.
const MAX_ASKED: usize = 8;

/// Joins, then tells [`Node::join`]. `from_store`: the own store had held keys.
pub(crate) async fn run(node: Arc<Node>, from_store: bool) {
    let mut joining = Joining {
        node,
        started: Instant::now(),
        leader_until: None,
        exchanged: BTreeSet::new(),
        brought: None,
        answered: false,
    };
    let join = loop {
        if let Some(from) = joining.round().await {
            break Join::Ready(joining.restored(from));
        }
        let waited = joining.started.elapsed();
        if waited >= WINDOW && joining.nobody_else_to_ask() {
            let from = joining.brought.clone().map(RestoredFrom::Peer);
            break Join::Ready(joining.restored(from.unwrap_or(own_store(from_store))));
        }
        if waited >= ENDURANCE {
            tracing::warn!("gossip works but no RPC answers: ready without the others' table");
            break Join::Degraded(joining.restored(own_store(from_store)));
        }
        tokio::time::sleep(RETRY).await;
    };
    tracing::info!(
        ?join,
        took_ms = joining.started.elapsed().as_millis(),
        "joined"
    );
    joining.node.join.send_replace(join);
    joining.node.outbox.wake.notify_one();
}

/// What a lone node starts with.
pub(crate) const fn own_store(had_held_keys: bool) -> RestoredFrom {
    if had_held_keys {
        RestoredFrom::Store
    } else {
        RestoredFrom::Nothing
    }
}

struct Joining {
    node: Arc<Node>,
    started: Instant,
    /// Until then only the leader is asked for its table.
    leader_until: Option<Instant>,
    /// Lives of starting peers whose tables are here.
    exchanged: BTreeSet<NodeId>,
    /// A starting peer that knew something new.
    brought: Option<NodeId>,
    /// Some RPC was answered.
    answered: bool,
}

impl Joining {
    /// Asks whoever is known. Gives the giver if one gave.
    async fn round(&mut self) -> Option<RestoredFrom> {
        let targets = self.known_peers();
        let mut heard = Heard::default();
        let mut asked: FuturesUnordered<_> =
            targets.iter().map(|t| introduce(&self.node, t)).collect();
        // Every answer comes within BRIEF; once somebody has the table, the others are not waited for.
        let mut until = Instant::now() + BRIEF * 2;
        while let Ok(Some((target, introduction))) =
            tokio::time::timeout_at(until.into(), asked.next()).await
        {
            let Ok(introduction) = introduction else {
                continue;
            };
            self.answered = true;
            if introduction.ready && !heard.ready {
                until = Instant::now() + LEADER_NAMED;
            }
            heard.take(target, introduction);
            if heard.ready && heard.names_leader_of(&self.node.options.region) {
                break;
            }
        }
        drop(asked);
        if heard.ready {
            return self.take_from(heard.nodes.into_values().collect()).await;
        }
        for peer in heard.starting {
            self.exchange_with_starting(&peer).await;
        }
        None
    }

    fn known_peers(&self) -> Vec<Target> {
        let roster = self.node.roster();
        let peers = roster.peers.values().filter(|peer| peer.may_answer());
        // Who has the table first, then by id.
        let (ready, starting): (Vec<_>, Vec<_>) = peers.partition(|peer| peer.facts.ready);
        let in_order = ready.into_iter().chain(starting);
        in_order.take(MAX_ASKED).map(target).collect()
    }

    /// Takes the table from the first in order that gives it.
    async fn take_from(&mut self, nodes: Vec<Acquaintance>) -> Option<RestoredFrom> {
        let options = &self.node.options;
        let givers = in_order(nodes, &options.node_id, &options.region);
        for giver in givers {
            let leads_here = giver.leads && giver.region == options.region;
            let with = Target {
                node_id: giver.node_id.clone(),
                address: giver.rpc_address.clone(),
            };
            match exchange(&self.node, &with, Kind::Both).await {
                Ok(exchanged) => {
                    self.node
                        .tell_all(exchanged.news, &exchanged.news_documents);
                    return Some(if giver.leads {
                        RestoredFrom::Leader(giver.node_id)
                    } else {
                        RestoredFrom::Peer(giver.node_id)
                    });
                }
                Err(error) => {
                    tracing::debug!(peer = %giver.node_id, %error, "no table from there");
                    let until = *self
                        .leader_until
                        .get_or_insert_with(|| Instant::now() + LEADER_FIRST);
                    if leads_here && matches!(error, CallError::Late) && Instant::now() < until {
                        return None;
                    }
                }
            }
        }
        None
    }

    async fn exchange_with_starting(&mut self, peer: &Target) {
        if self.exchanged.contains(&peer.node_id) {
            return;
        }
        if let Ok(exchanged) = exchange(&self.node, peer, Kind::Both).await {
            self.exchanged.insert(peer.node_id.clone());
            if exchanged.changed > 0 {
                self.brought = Some(peer.node_id.clone());
            }
        }
    }

    /// Nobody is known, or all that are known are starting too and have been asked.
    fn nobody_else_to_ask(&self) -> bool {
        let roster = self.node.roster();
        let mut alive = roster.alive().peekable();
        alive.peek().is_none() || self.answered && alive.all(|peer| !peer.facts.ready)
    }

    fn restored(&self, from: RestoredFrom) -> Restored {
        Restored {
            at: self.node.state.wall(),
            from,
            held: self.node.state.held_count(),
        }
    }
}

/// What the introductions of one round said.
#[derive(Default)]
struct Heard {
    /// Somebody has the table.
    ready: bool,
    starting: Vec<Target>,
    nodes: BTreeMap<NodeId, Acquaintance>,
}

impl Heard {
    fn take(&mut self, from: &Target, introduction: Introduction) {
        if introduction.ready {
            self.ready = true;
        } else {
            self.starting.push(from.clone());
        }
        for node in introduction.nodes {
            match self.nodes.entry(node.node_id.clone()) {
                Entry::Vacant(unknown) => {
                    unknown.insert(node);
                }
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.ready |= node.ready;
                    if node.leads {
                        (known.leads, known.acting) = (true, node.acting);
                    }
                }
            }
        }
    }

    fn names_leader_of(&self, region: &Region) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| node.leads && node.ready && node.region == *region)
    }
}

async fn introduce<'a>(
    node: &Node,
    target: &'a Target,
) -> (&'a Target, Result<Introduction, CallError>) {
    let request = Request::Introduce;
    let answer = node
        .calls
        .call(target, Purpose::Tables, &request, BRIEF)
        .await;
    let introduction = answer.and_then(|body| match body {
        AnswerBody::Introduction(introduction) => Ok(introduction),
        AnswerBody::Done
        | AnswerBody::Digests(_)
        | AnswerBody::Tables(_)
        | AnswerBody::Raft(_)
        | AnswerBody::Told(_)
        | AnswerBody::Refused(_) => Err(CallError::Refused("another answer".to_owned())),
    });
    (target, introduction)
}

/// Those that have their table, the best giver first.
fn in_order(nodes: Vec<Acquaintance>, own: &NodeId, region: &Region) -> Vec<Acquaintance> {
    let mut givers: Vec<_> = nodes
        .into_iter()
        .filter(|node| node.ready && node.node_id != *own)
        .collect();
    givers.sort_by_key(|giver| {
        let here = giver.region == *region;
        let rank = match (here, giver.leads) {
            (true, true) => u8::from(giver.acting),
            (true, false) => 2,
            (false, true) => 3,
            (false, false) => 4,
        };
        (rank, giver.node_id.clone())
    });
    givers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, region: &str, leads: bool, acting: bool, ready: bool) -> Acquaintance {
        Acquaintance {
            node_id: id.into(),
            region: region.into(),
            rpc_address: String::new(),
            ready,
            leads,
            acting,
        }
    }

    #[test]
    fn givers_stand_in_order() {
        let nodes = vec![
            node("a", "west", false, false, true),
            node("b", "west", true, false, true),
            node("c", "east", false, false, true),
            node("d", "east", true, false, false),
            node("e", "east", true, true, true),
            node("me", "east", false, false, true),
        ];
        let order = in_order(nodes, &"me".into(), &"east".into());
        let order: Vec<_> = order.iter().map(|giver| giver.node_id.as_str()).collect();
        assert_eq!(
            order,
            ["e", "c", "b", "a"],
            "who starts too and the asker give nothing"
        );
    }
}
