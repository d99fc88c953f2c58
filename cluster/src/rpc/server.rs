//! Answers the calls of other nodes, within bounds.

use std::sync::Arc;
use std::time::Duration;

use holdline_core::ids::NodeId;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::BULKY;
use super::channel::{Channel, ChannelError};
use super::message::{Answer, AnswerBody, Blob, Request, Tables, aged, incoming};
use crate::ask;
use crate::codec::{self, MESSAGE_LIMIT};
use crate::node::Node;

/// A stranger must prove the secret within this time.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// Callers drop idle connections far earlier.
const IDLE: Duration = Duration::from_secs(60);

/// Who has not proved the secret yet cannot keep members out: they have slots of their own.
const MAX_STRANGERS: usize = 128;
const MAX_MEMBERS: usize = 512;

/// Accepts until it is aborted; its connections end with it.
pub(crate) async fn serve(node: Arc<Node>, listener: TcpListener) {
    let strangers = Arc::new(Semaphore::new(MAX_STRANGERS));
    let members = Arc::new(Semaphore::new(MAX_MEMBERS));
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: it must not become a busy loop.
                    tracing::warn!(%error, "cannot accept an RPC connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
        };
        let Ok(slot) = Arc::clone(&strangers).try_acquire_owned() else {
            node.tally.rpcs_refused.add(1);
            continue;
        };
        let (node, members) = (Arc::clone(&node), Arc::clone(&members));
        connections.spawn(async move {
            let answered = Channel::answer(stream, &node.keys, &node.options.node_id);
            let (channel, from) = match timeout(HANDSHAKE, answered).await {
                Ok(Ok((channel, hello))) => (channel, hello.from),
                Ok(Err(error)) => return refuse(&node, &error),
                Err(_) => return node.tally.rpcs_refused.add(1),
            };
            drop(slot);
            let Ok(_slot) = members.try_acquire() else {
                return node.tally.rpcs_refused.add(1);
            };
            if let Err(error) = converse(&node, channel, &from).await {
                refuse(&node, &error);
            }
        });
    }
}

fn refuse(node: &Node, error: &ChannelError) {
    if !matches!(error, ChannelError::Io(_)) {
        tracing::debug!(%error, "refused an RPC connection");
    }
    node.tally.rpcs_refused.add(1);
}

/// Question and answer in turn, until the caller hangs up or stays silent.
async fn converse(
    node: &Arc<Node>,
    mut channel: Channel,
    from: &NodeId,
) -> Result<(), ChannelError> {
    loop {
        match timeout(IDLE, channel.wait()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false) | Err(_)) | Err(_) => return Ok(()),
        }
        let Ok(question) = timeout(BULKY, channel.receive(MESSAGE_LIMIT)).await else {
            return Ok(());
        };
        let request: Request = codec::decode::<Request, MESSAGE_LIMIT>(&question?)?;
        let answer = Answer {
            body: answer(node, from, request).await,
            wall: node.state.wall(),
        };
        let bytes = codec::encode::<MESSAGE_LIMIT>(&answer)?;
        match timeout(BULKY, channel.send(&bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Ok(()), // the caller has gone
        }
    }
}

async fn answer(node: &Arc<Node>, from: &NodeId, request: Request) -> AnswerBody {
    match request {
        Request::Ping => AnswerBody::Done,
        Request::Push(records) => {
            node.tally
                .records_received_by_push
                .add(records.len() as u64);
            node.merge_records(incoming(records)).await;
            AnswerBody::Done
        }
        Request::PushDocuments(documents) => {
            node.merge_documents(documents);
            AnswerBody::Done
        }
        Request::Introduce => AnswerBody::Introduction(node.introduction()),
        Request::Digests => AnswerBody::Digests(node.digests()),
        Request::Exchange(tables) => AnswerBody::Tables(exchange(node, tables).await),
        Request::Goodbye { boot } => {
            node.note_goodbye(from, boot);
            AnswerBody::Done
        }
        Request::Raft { to, message } => raft(node, to, &message.0).await,
        Request::Ask(question) => ask::answer(node, from, question.0).await,
    }
}

/// Gives its own of the same kinds, whole, and takes in what is given. What it gives is what it had
/// before, so that the caller can tell what was news here.
async fn exchange(node: &Arc<Node>, given: Tables) -> Tables {
    let mut back = Tables::default();
    if let Some(records) = given.records {
        back.records = Some(aged(node.state.export_records()));
        node.merge_records(incoming(records)).await;
    }
    if let Some(documents) = given.documents {
        back.documents = Some(node.state.export_documents());
        node.merge_documents(documents);
    }
    back
}

async fn raft(node: &Arc<Node>, to: u64, message: &[u8]) -> AnswerBody {
    if to != node.options.raft_id {
        return AnswerBody::Refused(format!("raft node {to} does not live here"));
    }
    match node.duty.answer(message).await {
        Ok(answer) => AnswerBody::Raft(Blob(answer)),
        Err(error) => AnswerBody::Refused(error.to_string()),
    }
}
