//! What nodes ask of one another.

use std::fmt;

use holdline_core::holds::{Incoming, Record};
use holdline_core::ids::{NodeId, Region};
use holdline_core::replica::Document;
use holdline_core::time::WallMs;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first sealed message of a connection: who calls whom, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}

/// Its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Welcome {
    /// Go on.
    Welcome,
    /// Somebody else lives here.
    WrongNode(NodeId),
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Are you there?
    Ping,
    /// Records made just now.
    Push(Vec<Aged>),
    /// Documents written just now.
    PushDocuments(Vec<Document>),
    /// Whom do you know, and who leads?
    Introduce,
    /// Are your tables like mine? What gossip says of them may be old.
    Digests,
    /// Here is all of mine: give me all of yours.
    Exchange(Tables),
    /// The sender of this boot number goes.
    Goodbye {
        /// Tells the life that ends.
        boot: u64,
    },
    /// For the raft node with this id, and no other that may live here.
    Raft {
        /// The raft id.
        to: u64,
        /// Raft's own.
        message: Blob,
    },
    /// What only the node above the cluster can answer.
    Ask(Blob),
}

/// An answer, with the answerer's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// When it was written: callers measure the offset of the clock by it.
    pub(crate) wall: WallMs,
    /// The answer.
    pub(crate) body: AnswerBody,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AnswerBody {
    /// It is done.
    Done,
    /// To [`Request::Introduce`].
    Introduction(Introduction),
    /// To [`Request::Digests`].
    Digests(Digests),
    /// To [`Request::Exchange`].
    Tables(Tables),
    /// To [`Request::Raft`].
    Raft(Blob),
    /// No, and why.
    Refused(String),
    /// To [`Request::Ask`].
    Told(Blob),
}

/// Of the whole tables of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digests {
    pub(crate) records: u128,
    pub(crate) documents: u64,
}

/// Bytes that are written in one piece, not one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob(pub(crate) Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(BlobVisitor)
    }
}

struct BlobVisitor;

impl Visitor<'_> for BlobVisitor {
    type Value = Blob;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("bytes")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
        Ok(Blob(bytes.to_vec()))
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
        Ok(Blob(bytes))
    }
}

/// Records and documents: all of a node's, or one kind only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tables {
    /// None: not asked for.
    pub(crate) records: Option<Vec<Aged>>,
    /// None: not asked for.
    pub(crate) documents: Option<Vec<Document>>,
}

/// A record and how old its state was when it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Aged {
    /// Unscaled milliseconds.
    pub(crate) age_ms: u64,
    /// The record.
    pub(crate) record: Record,
}

/// What a joiner needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Introduction {
    /// The answerer has its table.
    pub(crate) ready: bool,
    /// Live nodes, the answerer included.
    pub(crate) nodes: Vec<Acquaintance>,
}

/// A live node as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acquaintance {
    pub(crate) node_id: NodeId,
    pub(crate) region: Region,
    pub(crate) rpc_address: String,
    pub(crate) ready: bool,
    pub(crate) leads: bool,
    pub(crate) acting: bool,
}

impl From<Incoming> for Aged {
    fn from(incoming: Incoming) -> Self {
        Self {
            age_ms: incoming.age_ms,
            record: incoming.record,
        }
    }
}

impl From<Aged> for Incoming {
    fn from(aged: Aged) -> Self {
        Self {
            record: aged.record,
            age_ms: aged.age_ms,
        }
    }
}

/// For the wire.
pub(crate) fn aged(records: Vec<Incoming>) -> Vec<Aged> {
    records.into_iter().map(Aged::from).collect()
}

/// From the wire.
pub(crate) fn incoming(records: Vec<Aged>) -> Vec<Incoming> {
    records.into_iter().map(Incoming::from).collect()
}
