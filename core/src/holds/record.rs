//! The replicated state: one register per subject, merged by maximum.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::{Reason, Scope};
use crate::ids::{Fingerprint, KeyId, ModelId, NodeId, ProviderId, Region};
use crate::time::{Hlc, WallMs};

/// The most a record may weigh on the wire: several must fit one datagram.
pub const MAX_RECORD_BYTES: usize = 600;

/// The most of a provider's words that is kept, in characters.
pub const MAX_WORDS_CHARS: usize = 256;

/// What a record weighs on the wire without its names and words, at most.
const FIXED_BYTES: usize = 160;

/// What is held: a key as it is configured now, whole or for one model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The provider that refused.
    pub provider: ProviderId,
    /// The key it refused.
    pub key: KeyId,
    /// The key's configuration when it was refused.
    pub fingerprint: Fingerprint,
    /// The whole key, or one model.
    pub scope: SubjectScope,
}

impl Subject {
    /// Adds the subject to a hash. Every part is length-prefixed, so no two subjects feed the same bytes.
    pub(super) fn feed(&self, hash: &mut Sha256) {
        let model = self.scope.model().map(ModelId::as_str);
        for part in [self.provider.as_str(), self.key.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(self.fingerprint.0.to_be_bytes());
        hash.update([u8::from(model.is_some())]);
        hash.update(model.unwrap_or_default());
    }

    /// Bytes of its names.
    fn names_len(&self) -> usize {
        self.provider.as_str().len()
            + self.key.as_str().len()
            + self.scope.model().map_or(0, |model| model.as_str().len())
    }
}

/// The whole key, or one model of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SubjectScope {
    /// Every model.
    Key,
    /// One model.
    Model(ModelId),
}

impl SubjectScope {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> Scope {
        match self {
            Self::Key => Scope::Key,
            Self::Model(_) => Scope::Model,
        }
    }

    /// The model, where it is one.
    #[must_use]
    pub const fn model(&self) -> Option<&ModelId> {
        match self {
            Self::Key => None,
            Self::Model(model) => Some(model),
        }
    }
}

/// A subject's state. The derived order is the merge: the greater register is the newer truth.
///
/// The order of fields and variants is the wire contract and the algorithm; see `holds` in
/// ARCHITECTURE.md before touching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Register {
    /// The last release that this state has seen.
    pub release: Hlc,
    /// Settled refusals and inconclusive checks since that release.
    pub seq: u32,
    /// Free or held.
    pub body: Body,
    /// When it was made: breaks ties, decides nothing else.
    pub stamp: Hlc,
}

/// Free sorts below held, an inconclusive check below a concurrent refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Body {
    /// Nothing held.
    Free {
        /// What a served request or a disproof released, so that a flapping key resumes its rung.
        memory: Option<(Reason, u8)>,
    },
    /// Out of rotation.
    Held {
        /// False after a check that said nothing.
        refused: bool,
        /// Failed checks so far.
        rung: u8,
        /// Why.
        reason: Reason,
        /// How long, without jitter.
        wait: Wait,
    },
}

/// The shared wait of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wait {
    /// Milliseconds, before each node's own jitter.
    pub ms: u64,
    /// The provider stated it: used as given, without jitter.
    pub stated: bool,
}

/// What travels beside a register and orders nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// The first refusal of this hold.
    pub held_at: WallMs,
    /// The answer that made this state.
    pub settled_at: WallMs,
    /// The last refusal.
    pub refused_at: WallMs,
    /// The provider's words: scrubbed of secrets and cut before they get here.
    pub words: String,
    /// The HTTP status of the refusal.
    pub status: u16,
    /// The node that found out.
    pub origin: String,
    /// Its region.
    pub origin_region: String,
}

/// A subject, its register and its details: what nodes tell one another, and what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What it is about.
    pub subject: Subject,
    /// Its state.
    pub register: Register,
    /// For people.
    pub details: Details,
}

/// A record from elsewhere, with what its carrier knows of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The record.
    pub record: Record,
    /// How old its state was when it arrived: carried by push, hand-over and store, or estimated from
    /// `settled_at`. In unscaled milliseconds. The ledger clamps it to what the wait allows.
    pub age_ms: u64,
}

impl Incoming {
    /// A record made this instant.
    #[must_use]
    pub const fn fresh(record: Record) -> Self {
        Self { record, age_ms: 0 }
    }
}

impl Register {
    /// The state of a subject that nobody ever refused.
    pub const NEVER: Self = Self {
        release: Hlc {
            ms: 0,
            counter: 0,
            node: 0,
        },
        seq: 0,
        body: Body::Free { memory: None },
        stamp: Hlc {
            ms: 0,
            counter: 0,
            node: 0,
        },
    };

    /// Whether the subject is out of rotation.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self.body, Body::Held { .. })
    }

    /// The rung, where it is held.
    #[must_use]
    pub const fn rung(&self) -> Option<u8> {
        match self.body {
            Body::Held { rung, .. } => Some(rung),
            Body::Free { .. } => None,
        }
    }

    /// Adds the register to a hash.
    pub(super) fn feed(&self, hash: &mut Sha256) {
        self.release.feed(hash);
        hash.update(self.seq.to_be_bytes());
        match self.body {
            Body::Free { memory: None } => hash.update([0]),
            Body::Free {
                memory: Some((reason, rung)),
            } => hash.update([1, reason as u8, rung]),
            Body::Held {
                refused,
                rung,
                reason,
                wait,
            } => {
                hash.update([2, u8::from(refused), rung, reason as u8]);
                hash.update(wait.ms.to_be_bytes());
                hash.update([u8::from(wait.stated)]);
            }
        }
        self.stamp.feed(hash);
    }
}

impl Record {
    /// Cuts the provider's words to what people are shown and to what a record may weigh. Done where
    /// a record is made, never in a merge: every node must keep the same record.
    pub(super) fn cut_words(&mut self) {
        let names =
            self.subject.names_len() + self.details.origin.len() + self.details.origin_region.len();
        let room = MAX_RECORD_BYTES.saturating_sub(FIXED_BYTES + names);
        let words = &mut self.details.words;
        let shown = words
            .char_indices()
            .nth(MAX_WORDS_CHARS)
            .map_or(words.len(), |(at, _)| at);
        words.truncate(words.floor_char_boundary(room.min(shown)));
    }
}

impl Details {
    /// Where it was found out.
    #[must_use]
    pub fn from_origin(origin: &NodeId, region: &Region) -> Self {
        Self {
            origin: origin.as_str().to_owned(),
            origin_region: region.as_str().to_owned(),
            ..Self::default()
        }
    }
}
