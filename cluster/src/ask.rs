//! Questions that the cluster only carries: opaque bytes from node to node, bounded in size, time and number.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdline_core::ids::{NodeId, Region};

use crate::node::{self, Node};
use crate::rpc::client::Purpose;
use crate::rpc::message::{AnswerBody, Blob, Request};
use crate::status::MemberState;

/// The longest question.
pub const MAX_QUESTION_BYTES: usize = 1 << 20;

/// The longest answer.
pub const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Questions that a node answers at once; each may wait for its disk.
pub(crate) const MAX_AT_ONCE: usize = 8;

/// What the other nodes said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Of those that answered, in the order of their answers.
    pub answers: Vec<Answered>,
    /// Those that are down, or did not answer in time, in the order of their ids. A node that said
    /// goodbye is not one of them.
    pub missing: Vec<NodeId>,
}

/// What one node said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Who.
    pub node_id: NodeId,
    /// Where.
    pub region: Region,
    /// Its answer.
    pub answer: Vec<u8>,
}

/// Asks all nodes that may answer, at once.
pub(crate) async fn all(node: &Node, question: Vec<u8>, within: Duration) -> Asked {
    let roster = node.roster();
    let dead = roster
        .peers
        .values()
        .filter(|peer| peer.state == MemberState::Dead);
    let mut asked = Asked {
        answers: Vec::new(),
        missing: dead.map(|peer| peer.node_id.clone()).collect(),
    };
    let request = Request::Ask(Blob(question));
    let asking = roster.peers.values().filter(|peer| peer.may_answer());
    let mut answers: FuturesUnordered<_> = asking
        .map(|peer| {
            let (request, target) = (&request, node::target(peer));
            async move {
                let called = node.calls.call(&target, Purpose::Ask, request, within);
                (peer, called.await)
            }
        })
        .collect();
    while let Some((peer, answer)) = answers.next().await {
        let node_id = peer.node_id.clone();
        match answer {
            Ok(AnswerBody::Told(Blob(answer))) => asked.answers.push(Answered {
                node_id,
                region: peer.facts.region.clone(),
                answer,
            }),
            Ok(
                AnswerBody::Done
                | AnswerBody::Introduction(_)
                | AnswerBody::Digests(_)
                | AnswerBody::Tables(_)
                | AnswerBody::Raft(_)
                | AnswerBody::Refused(_),
            )
            | Err(_) => asked.missing.push(node_id),
        }
    }
    asked.missing.sort();
    asked
}

/// Lets the node above answer, where it may wait.
pub(crate) async fn answer(node: &Arc<Node>, from: &NodeId, question: Vec<u8>) -> AnswerBody {
    if question.len() > MAX_QUESTION_BYTES {
        return AnswerBody::Refused("the question is too long".to_owned());
    }
    let Ok(_slot) = node.answering.try_acquire() else {
        return AnswerBody::Refused("too many questions at once".to_owned());
    };
    let (state, from) = (Arc::clone(&node.state), from.clone());
    let answered = tokio::task::spawn_blocking(move || state.answer(&from, &question)).await;
    match answered {
        Ok(Some(answer)) if answer.len() <= MAX_ANSWER_BYTES => AnswerBody::Told(Blob(answer)),
        Ok(Some(_)) => AnswerBody::Refused("the answer is too long".to_owned()),
        Ok(None) => AnswerBody::Refused("the question makes no sense here".to_owned()),
        Err(error) => AnswerBody::Refused(error.to_string()),
    }
}
