//! What a node says in gossip: facts about itself, the records it made or adopted, and what it knows of
//! token limits.
//!
//! One key per fact, text values, set only when they change. A record's key is `h/` and a hash of its
//! subject; its value is base64 of a versioned bincode message. A release is a `set` like any other
//! record, never a delete: a deletion would not reach those who do not listen at that moment.
//! A backoff stands under `t/`, its region and a hash of its route, so that nodes of other regions do not
//! hear of it; a release of backoffs under `c/` and a hash of what it names, for everybody.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use chitchat::NodeState;
use holdline_core::holds::{Record, Subject};
use holdline_core::ids::Region;
use holdline_core::time::WallMs;
use holdline_core::tpm::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::codec::{self, CodecError, GOSSIP_LIMIT};

/// Of record keys.
pub(crate) const RECORDS: &str = "h/";

/// Of the keys of releases that end backoffs.
pub(crate) const CLEARS: &str = "c/";

const REGION: &str = "region";
const RPC: &str = "rpc";
const HTTP: &str = "http";
const GOSSIP: &str = "gossip";
const RAFT: &str = "raft";
const GROUP: &str = "group";
const DIGEST: &str = "digest";
const HELD: &str = "held";
const DOCUMENTS: &str = "docs";
const VERSION: &str = "version";
const STARTED: &str = "started";
const BOOT: &str = "boot";
const READY: &str = "ready";
const LEFT: &str = "left";
const LEADS: &str = "leads";

/// Of the hash in a key.
const HASH_BYTES: usize = 16;

/// Chitchat writes lengths as 16 bits and would corrupt longer texts; ours are far shorter.
const MAX_VALUE_BYTES: usize = 6_000;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) region: Region,
    pub(crate) rpc_address: String,
    pub(crate) http_address: String,
    pub(crate) gossip_address: String,
    pub(crate) version: String,
    pub(crate) raft_id: u64,
    pub(crate) group_uid: Option<u64>,
    pub(crate) digest: u128,
    pub(crate) held: usize,
    pub(crate) documents: u64,
    /// By its own clock.
    pub(crate) started_at: WallMs,
    /// Drawn at its start: tells this life from every other.
    pub(crate) boot: u64,
    /// Has its table.
    pub(crate) ready: bool,
    /// Said goodbye.
    pub(crate) left: bool,
    /// Leads its region.
    pub(crate) leads: Option<Claim>,
}

/// A node's word that it leads its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Of its raft group.
    pub(crate) term: u64,
    /// Without an election.
    pub(crate) acting: bool,
}

impl Facts {
    /// Sets what has changed.
    pub(crate) fn write(&self, state: &mut NodeState) {
        for (key, value) in self.texts() {
            if value.len() <= MAX_VALUE_BYTES {
                state.set(key, value);
            }
        }
    }

    /// For a state that is not there yet.
    pub(crate) fn texts(&self) -> Vec<(String, String)> {
        let leads = self.leads.map_or_else(String::new, |claim| {
            format!(
                "{} {}",
                claim.term,
                if claim.acting { "acting" } else { "elected" }
            )
        });
        let group = self
            .group_uid
            .map_or_else(String::new, |uid| uid.to_string());
        [
            (REGION, self.region.to_string()),
            (RPC, self.rpc_address.clone()),
            (HTTP, self.http_address.clone()),
            (GOSSIP, self.gossip_address.clone()),
            (VERSION, self.version.clone()),
            (RAFT, self.raft_id.to_string()),
            (GROUP, group),
            (DIGEST, format!("{:x}", self.digest)),
            (HELD, self.held.to_string()),
            (DOCUMENTS, format!("{:x}", self.documents)),
            (STARTED, self.started_at.0.to_string()),
            (BOOT, format!("{:x}", self.boot)),
            (READY, u8::from(self.ready).to_string()),
            (LEFT, u8::from(self.left).to_string()),
            (LEADS, leads),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .to_vec()
    }

    /// None while the facts that make a member have not arrived.
    pub(crate) fn read(state: &NodeState) -> Option<Self> {
        let text = |key| state.get(key).unwrap_or_default();
        Some(Self {
            region: state.get(REGION)?.into(),
            rpc_address: state.get(RPC)?.to_owned(),
            http_address: text(HTTP).to_owned(),
            gossip_address: text(GOSSIP).to_owned(),
            version: text(VERSION).to_owned(),
            raft_id: state.get(RAFT)?.parse().ok()?,
            group_uid: text(GROUP).parse().ok(),
            digest: u128::from_str_radix(text(DIGEST), 16).unwrap_or_default(),
            held: text(HELD).parse().unwrap_or_default(),
            documents: u64::from_str_radix(text(DOCUMENTS), 16).unwrap_or_default(),
            started_at: WallMs(text(STARTED).parse().unwrap_or_default()),
            boot: u64::from_str_radix(state.get(BOOT)?, 16).ok()?,
            ready: text(READY) == "1",
            left: text(LEFT) == "1",
            leads: claim(text(LEADS)),
        })
    }
}

fn claim(text: &str) -> Option<Claim> {
    let (term, how) = text.split_once(' ')?;
    Some(Claim {
        term: term.parse().ok()?,
        acting: how == "acting",
    })
}

/// A record in gossip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Posted {
    /// When its state was made, by the clock of the node that posts it: that node's clock is the one
    /// that others can measure.
    pub(crate) settled_at: WallMs,
    /// The record.
    pub(crate) record: Record,
}

/// What is known of a token limit, in gossip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// By the clock of the node that posts it.
    pub(crate) made_at: WallMs,
    /// What it says.
    pub(crate) signal: Signal,
}

/// As a value. None if it is too large, which the bounds of names rule out.
pub(crate) fn to_value(message: &impl Serialize) -> Option<String> {
    let bytes = codec::encode::<GOSSIP_LIMIT>(message).ok()?;
    let value = BASE64.encode(bytes);
    (value.len() <= MAX_VALUE_BYTES).then_some(value)
}

/// From a value.
///
/// # Errors
/// When it is none.
pub(crate) fn from_value<M: DeserializeOwned>(value: &str) -> Result<M, CodecError> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(CodecError::Size);
    }
    let bytes = BASE64.decode(value).map_err(|_| CodecError::Malformed)?;
    codec::decode::<M, GOSSIP_LIMIT>(&bytes)
}

/// The key of a subject's record: short, and the same on every node.
pub(crate) fn record_key(subject: &Subject) -> String {
    format!("{RECORDS}{}", hash(subject))
}

/// Of the keys of backoffs in this region. None for a name that chitchat could not carry in a key.
pub(crate) fn backoffs(region: &Region) -> Option<String> {
    let prefix = format!("t/{region}/");
    (prefix.len() <= MAX_VALUE_BYTES).then_some(prefix)
}

/// The key of a signal from a node of this region.
pub(crate) fn signal_key(signal: &Signal, region: &Region) -> Option<String> {
    match signal {
        Signal::Backoff(backoff) => {
            backoffs(region).map(|prefix| format!("{prefix}{}", hash(&backoff.route)))
        }
        Signal::Clear { what, .. } => Some(format!("{CLEARS}{}", hash(what))),
    }
}

/// Whether this is what [`signal_key`] puts behind a prefix, and not the rest of a longer one: a region
/// may be called like the beginning of another.
pub(crate) fn is_hash(rest: &str) -> bool {
    rest.len() == 2 * HASH_BYTES && rest.bytes().all(|b| b.is_ascii_hexdigit())
}

fn hash(name: &impl Serialize) -> String {
    let bytes = codec::encode::<GOSSIP_LIMIT>(name).unwrap_or_default();
    let digest = Sha256::digest(bytes);
    let mut hash = [0; HASH_BYTES];
    hash.copy_from_slice(&digest[..HASH_BYTES]);
    format!("{:032x}", u128::from_be_bytes(hash))
}
