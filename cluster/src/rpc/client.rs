//! Calls to other nodes: connections kept for a short while, one set per purpose, so that a heartbeat
//! never waits behind a table.
//!
//! Every call has a time limit. What the last call met is the state of the link, and every answer's
//! clock is compared with the own one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holdline_core::ids::NodeId;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::channel::{Channel, ChannelError};
use super::message::{Answer, AnswerBody, Hello, Request};
use crate::codec::{self, MESSAGE_LIMIT};
use crate::seal::Keyring;
use crate::status::RpcLink;
use crate::store::State;

/// A host that does not answer the first packets is asked again by the next call.
const CONNECT: Duration = Duration::from_millis(400);
const HANDSHAKE: Duration = Duration::from_millis(1_000);

/// Well below the patience of the other side, so that it never hangs up on a call.
const IDLE: Duration = Duration::from_secs(10);

/// Per node and purpose.
const MAX_IDLE: usize = 4;

/// A better sample of a clock is kept for so long.
const SAMPLE_LIFE: Duration = Duration::from_secs(60);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Push,
    Tables,
    Raft,
    Ask,
}

/// Whom to call, and where it lives at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) node_id: NodeId,
    pub(crate) address: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Nobody listens there, or the connection broke.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// Nothing came in time.
    #[error("no answer in time")]
    Late,
    /// Somebody listens who does not know the secret, is another node, or does not want to.
    #[error("refused: {0}")]
    Refused(String),
}

/// All connections of this node to others.
pub(crate) struct Calls {
    own: NodeId,
    keys: Arc<Keyring>,
    state: Arc<dyn State>,
    idle: Mutex<BTreeMap<(NodeId, Purpose), Vec<Idle>>>,
    links: Mutex<BTreeMap<NodeId, Contact>>,
}

struct Idle {
    channel: Channel,
    address: String,
    since: Instant,
}

#[derive(Debug, Default)]
struct Contact {
    link: Option<RpcLink>,
    clock: Option<Sample>,
}

/// How far another node's wall clock is ahead of the own one.
#[derive(Clone, Copy, Debug)]
struct Sample {
    ahead_ms: i64,
    round_trip: Duration,
    at: Instant,
}

impl Calls {
    pub(crate) fn new(own: NodeId, keys: Arc<Keyring>, state: Arc<dyn State>) -> Self {
        Self {
            own,
            keys,
            state,
            idle: Mutex::default(),
            links: Mutex::default(),
        }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When there is none within this time, or it is a refusal.
    pub(crate) async fn call(
        &self,
        target: &Target,
        purpose: Purpose,
        request: &Request,
        within: Duration,
    ) -> Result<AnswerBody, CallError> {
        let question = codec::encode::<MESSAGE_LIMIT>(request)
            .map_err(|error| CallError::Refused(error.to_string()))?;
        let asked = timeout(within, self.ask(target, purpose, &question)).await;
        let result = asked.unwrap_or(Err(CallError::Late));
        self.note_link(&target.node_id, purpose, &result);
        match result? {
            AnswerBody::Refused(why) => Err(CallError::Refused(why)),
            body @ (AnswerBody::Done
            | AnswerBody::Introduction(_)
            | AnswerBody::Digests(_)
            | AnswerBody::Tables(_)
            | AnswerBody::Raft(_)
            | AnswerBody::Told(_)) => Ok(body),
        }
    }

    /// The state of the link, as the last call found it.
    pub(crate) fn link(&self, node: &NodeId) -> Option<RpcLink> {
        lock(&self.links).get(node)?.link
    }

    /// How far that node's wall clock is ahead of the own one, if it was ever measured.
    pub(crate) fn clock_ahead_ms(&self, node: &NodeId) -> Option<i64> {
        Some(lock(&self.links).get(node)?.clock?.ahead_ms)
    }

    /// Forgets nodes that are no longer listed.
    pub(crate) fn keep_only(&self, listed: impl Fn(&NodeId) -> bool) {
        lock(&self.links).retain(|node, _| listed(node));
        lock(&self.idle).retain(|(node, _), idle| {
            idle.retain(|one| one.since.elapsed() < IDLE);
            listed(node) && !idle.is_empty()
        });
    }

    /// An idle connection may lead to a process that is gone: then a new one is tried.
    async fn ask(
        &self,
        target: &Target,
        purpose: Purpose,
        question: &[u8],
    ) -> Result<AnswerBody, CallError> {
        if let Some(channel) = self.take_idle(target, purpose)
            && let Ok(body) = self.ask_over(channel, target, purpose, question).await
        {
            return Ok(body);
        }
        let channel = self.dial(target).await?;
        let asked = self.ask_over(channel, target, purpose, question).await;
        asked.map_err(|error| CallError::Unreachable(error.to_string()))
    }

    async fn ask_over(
        &self,
        mut channel: Channel,
        target: &Target,
        purpose: Purpose,
        question: &[u8],
    ) -> Result<AnswerBody, ChannelError> {
        let (asked, asked_wall) = (Instant::now(), self.state.wall().0);
        let bytes = channel.ask(question).await?;
        let round_trip = asked.elapsed();
        let answer: Answer = codec::decode::<Answer, MESSAGE_LIMIT>(&bytes)?;
        self.note_clock(&target.node_id, asked_wall, answer.wall.0, round_trip);
        self.keep_idle(channel, target, purpose);
        Ok(answer.body)
    }

    /// Connects, with each accepted secret in turn.
    async fn dial(&self, target: &Target) -> Result<Channel, CallError> {
        let hello = Hello {
            from: self.own.clone(),
            to: target.node_id.clone(),
        };
        let mut refusal = CallError::Late;
        for secret in 0..self.keys.len() {
            let stream = timeout(CONNECT, TcpStream::connect(&target.address))
                .await
                .map_err(|_| CallError::Late)?
                .map_err(|error| CallError::Unreachable(error.to_string()))?;
            let shaken = timeout(HANDSHAKE, Channel::call(stream, &self.keys, secret, &hello));
            match shaken.await.map_err(|_| CallError::Late)? {
                Ok(channel) => return Ok(channel),
                Err(error @ (ChannelError::Secret | ChannelError::Sealed)) => {
                    refusal = CallError::Refused(error.to_string());
                }
                Err(error @ (ChannelError::WrongNode(_) | ChannelError::Foreign)) => {
                    return Err(CallError::Refused(error.to_string()));
                }
                Err(
                    error @ (ChannelError::Io(_) | ChannelError::TooLarge | ChannelError::Codec(_)),
                ) => {
                    return Err(CallError::Unreachable(error.to_string()));
                }
            }
        }
        Err(refusal)
    }

    fn take_idle(&self, target: &Target, purpose: Purpose) -> Option<Channel> {
        let mut all = lock(&self.idle);
        let idle = all.get_mut(&(target.node_id.clone(), purpose))?;
        idle.retain(|one| one.since.elapsed() < IDLE && one.address == target.address);
        Some(idle.pop()?.channel)
    }

    fn keep_idle(&self, channel: Channel, target: &Target, purpose: Purpose) {
        let mut all = lock(&self.idle);
        let idle = all.entry((target.node_id.clone(), purpose)).or_default();
        if idle.len() < MAX_IDLE {
            idle.push(Idle {
                channel,
                address: target.address.clone(),
                since: Instant::now(),
            });
        }
    }

    fn note_link(&self, node: &NodeId, purpose: Purpose, result: &Result<AnswerBody, CallError>) {
        let link = match result {
            Ok(_) => RpcLink::Ok,
            // These give up far too early to tell.
            Err(_) if matches!(purpose, Purpose::Raft | Purpose::Ask) => return,
            Err(CallError::Unreachable(_) | CallError::Late) => RpcLink::Unreachable,
            Err(CallError::Refused(_)) => RpcLink::Refused,
        };
        let mut links = lock(&self.links);
        let contact = links.entry(node.clone()).or_default();
        if contact.link != Some(link) {
            tracing::info!(peer = %node, ?link, "RPC link changed");
        }
        contact.link = Some(link);
    }

    /// The answer was written somewhere between question and arrival: half the round trip is the error.
    fn note_clock(&self, node: &NodeId, asked_wall: u64, answered_wall: u64, trip: Duration) {
        let half_ms = i64::try_from(trip.as_millis() / 2).unwrap_or(i64::MAX);
        let sample = Sample {
            ahead_ms: signed(answered_wall)
                .saturating_sub(signed(asked_wall))
                .saturating_sub(half_ms),
            round_trip: trip,
            at: Instant::now(),
        };
        let mut links = lock(&self.links);
        let contact = links.entry(node.clone()).or_default();
        let worse = contact.clock.is_some_and(|known| {
            known.round_trip < sample.round_trip && known.at.elapsed() < SAMPLE_LIFE
        });
        if !worse {
            contact.clock = Some(sample);
        }
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
