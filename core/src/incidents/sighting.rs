//! What one node saw of one trouble: a plain record, kept and sent as it is.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::{FailureClass, Reason};
use crate::holds::{Subject, SubjectScope};
use crate::ids::{KeyId, ModelId, NodeId, ProviderId, Region};
use crate::time::{Hlc, WallMs};

/// Turns that a sighting remembers: the first ones tell how it began, the last ones how it stands.
const MAX_TURNS: usize = 24;
const FIRST_TURNS: usize = 4;

/// Models that a sighting of a whole key names.
const MAX_MODELS: usize = 50;

/// What a trouble is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entity {
    /// A key, for all its models.
    Key {
        /// Its provider.
        provider: ProviderId,
        /// The key.
        key: KeyId,
    },
    /// A key for one model.
    Route {
        /// Its provider.
        provider: ProviderId,
        /// The model.
        model: ModelId,
        /// The key.
        key: KeyId,
    },
    /// A provider for one model.
    Direction {
        /// The provider.
        provider: ProviderId,
        /// The model.
        model: ModelId,
    },
}

/// Which kind of [`Entity`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// A key on a model.
    KeyModel,
    /// A provider and model.
    Direction,
    /// A key across all models.
    Key,
}

/// Why it is in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The provider refused the key.
    Refused(Reason),
    /// Too many of its requests fail.
    Failing,
    /// Some of its requests fail, or it is much slower than usual.
    Degraded,
}

/// How bad it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worst {
    /// It served, badly.
    Degraded,
    /// It was out.
    Failed,
}

/// How a trouble stands on the node that saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It goes on.
    Standing,
    /// It is over, and traffic is proving so.
    Recovering,
    /// It is over, and no traffic comes that could prove so.
    Waiting,
    /// Traffic has proved that it is over.
    Resolved,
    /// The node lost sight of it before it was over.
    Unobserved,
}

/// How a trouble stands for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// An operator must act: it does not heal by itself, or nothing else serves what it served.
    Attention,
    /// See [`Phase::Recovering`].
    Recovering,
    /// It goes on, heals by itself, and another key or provider serves meanwhile.
    Mitigated,
    /// See [`Phase::Waiting`].
    Waiting,
    /// See [`Phase::Resolved`].
    Resolved,
    /// See [`Phase::Unobserved`].
    Unobserved,
}

/// What happened to a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// The provider refused the key, and it is held.
    Held,
    /// It was refused again after its wait had run out.
    RefusedAgain,
    /// A check said nothing.
    Unsettled,
    /// The hold is over.
    Released,
    /// It fails.
    Failed,
    /// It serves badly.
    Degraded,
    /// The trouble is over; see [`Phase::Recovering`].
    Recovering,
    /// See [`Phase::Waiting`].
    Waiting,
    /// See [`Phase::Resolved`].
    Resolved,
    /// See [`Phase::Unobserved`].
    Unobserved,
    /// It came back.
    Reopened,
}

/// One turn, with its time and place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: WallMs,
    /// Who found out.
    pub node: String,
    /// What happened.
    pub turn: Turn,
    /// Why, where a refusal is what happened.
    pub class: Option<FailureClass>,
}

/// What one node saw of one trouble.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sighting {
    /// The same on every node that saw the same hold; of its own node otherwise.
    pub id: String,
    /// Who saw it.
    pub node: NodeId,
    /// Where.
    pub region: Region,
    /// What it is about.
    pub entity: Entity,
    /// Why, as of the last turn.
    pub cause: Cause,
    /// How it stands.
    pub phase: Phase,
    /// While it stands: another key or provider serves what it served.
    pub contained: bool,
    /// How bad it got.
    pub worst: Worst,
    /// When it began: of a hold, the first refusal.
    pub opened_at: WallMs,
    /// When the trouble was over, while or after it recovers.
    pub calmed_at: Option<WallMs>,
    /// When it was resolved, or lost sight of.
    pub ended_at: Option<WallMs>,
    /// When anything about it changed.
    pub changed_at: WallMs,
    /// The release that the present hold came after: tells one hold from the next.
    pub hold: Option<Hlc>,
    /// Failed checks of the present hold.
    pub rung: u8,
    /// It was refused again after a wait had run out.
    pub refused_again: bool,
    /// Requests that named the failing provider and stayed there.
    pub pinned_kept_failed: u64,
    /// How often it came back.
    pub reopened: u32,
    /// The models it is about.
    pub models: BTreeSet<ModelId>,
    /// What people call the key.
    pub key_name: String,
    /// The provider's words, scrubbed and cut; empty where there are none.
    pub words: String,
    /// The HTTP status of the refusal; 0 where there is none.
    pub status_code: u16,
    /// What happened, in order; of many, the first and the last.
    pub timeline: Vec<Event>,
}

impl Entity {
    /// What a hold is about.
    #[must_use]
    pub fn of(subject: &Subject) -> Self {
        let (provider, key) = (subject.provider.clone(), subject.key.clone());
        match &subject.scope {
            SubjectScope::Key => Self::Key { provider, key },
            SubjectScope::Model(model) => Self::Route {
                provider,
                model: model.clone(),
                key,
            },
        }
    }

    /// Which kind it is.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        match self {
            Self::Key { .. } => Extent::Key,
            Self::Route { .. } => Extent::KeyModel,
            Self::Direction { .. } => Extent::Direction,
        }
    }

    /// Whose.
    #[must_use]
    pub const fn provider(&self) -> &ProviderId {
        match self {
            Self::Key { provider, .. }
            | Self::Route { provider, .. }
            | Self::Direction { provider, .. } => provider,
        }
    }

    /// The key, unless it is about all of them.
    #[must_use]
    pub const fn key(&self) -> Option<&KeyId> {
        match self {
            Self::Key { key, .. } | Self::Route { key, .. } => Some(key),
            Self::Direction { .. } => None,
        }
    }

    /// The model, unless it is about all of them.
    #[must_use]
    pub const fn model(&self) -> Option<&ModelId> {
        match self {
            Self::Key { .. } => None,
            Self::Route { model, .. } | Self::Direction { model, .. } => Some(model),
        }
    }

    /// A name for one trouble of it, of 16 hexadecimal digits. Every part is length-prefixed, so no two
    /// troubles hash the same bytes.
    #[must_use]
    pub(super) fn trouble_id(&self, parts: &[&[u8]]) -> String {
        let mut hash = Sha256::new();
        hash.update(b"holdline incident v1");
        for part in [self.to_string().as_bytes()].iter().chain(parts) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        format!("{:016x}", u64::from_be_bytes(first))
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { provider, key } => write!(out, "key:{provider}:{key}"),
            Self::Route {
                provider,
                model,
                key,
            } => write!(out, "route:{provider}:{model}:{key}"),
            Self::Direction { provider, model } => write!(out, "direction:{provider}:{model}"),
        }
    }
}

impl Extent {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::KeyModel, Self::Direction, Self::Key];

    /// As the API names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyModel => "key_model",
            Self::Direction => "direction",
            Self::Key => "key",
        }
    }
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Refused(Reason::Credential),
        Self::Refused(Reason::Quota),
        Self::Refused(Reason::ModelAccess),
        Self::Refused(Reason::ModelGone),
        Self::Refused(Reason::RegionBlocked),
        Self::Refused(Reason::RateLimit),
        Self::Failing,
        Self::Degraded,
    ];

    /// The words people see.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Refused(reason) => reason.words(),
            Self::Failing => "Failing requests",
            Self::Degraded => "Errors or latency",
        }
    }

    /// Its short name: the class of the refusal, where it is one.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused(reason) => reason.class().as_str(),
            Self::Failing => "failing",
            Self::Degraded => "degraded",
        }
    }

    /// The class of the refusal. Measured health knows no class.
    #[must_use]
    pub const fn class(self) -> Option<FailureClass> {
        match self {
            Self::Refused(reason) => Some(reason.class()),
            Self::Failing | Self::Degraded => None,
        }
    }

    /// Whether it passes without anybody doing anything: a rate limit refills and an outage ends, but a
    /// rejected key, an empty account, a missing or retired model and a blocked region stay what they are.
    #[must_use]
    pub const fn heals(self) -> bool {
        match self {
            Self::Refused(reason) => match reason {
                Reason::RateLimit => true,
                Reason::Credential
                | Reason::Quota
                | Reason::ModelAccess
                | Reason::ModelGone
                | Reason::RegionBlocked => false,
            },
            Self::Failing | Self::Degraded => true,
        }
    }
}

impl Worst {
    /// As the API names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

impl Phase {
    /// Whether it is not over for good.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Standing | Self::Recovering | Self::Waiting => true,
            Self::Resolved | Self::Unobserved => false,
        }
    }
}

impl Status {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::Attention,
        Self::Recovering,
        Self::Mitigated,
        Self::Waiting,
        Self::Resolved,
        Self::Unobserved,
    ];

    /// As the API names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Recovering => "recovering",
            Self::Mitigated => "mitigated",
            Self::Waiting => "waiting",
            Self::Resolved => "resolved",
            Self::Unobserved => "unobserved",
        }
    }

    /// Whether it is not over for good.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Attention | Self::Recovering | Self::Mitigated | Self::Waiting => true,
            Self::Resolved | Self::Unobserved => false,
        }
    }
}

impl Turn {
    /// As the API names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::RefusedAgain => "refused_again",
            Self::Unsettled => "unsettled",
            Self::Released => "released",
            Self::Failed => "failed",
            Self::Degraded => "degraded",
            Self::Recovering => "recovering",
            Self::Waiting => "waiting",
            Self::Resolved => "resolved",
            Self::Unobserved => "unobserved",
            Self::Reopened => "reopened",
        }
    }
}

impl Sighting {
    /// How it stands for people, by this node alone.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self.phase {
            Phase::Standing if self.cause.heals() && self.contained => Status::Mitigated,
            Phase::Standing => Status::Attention,
            Phase::Recovering => Status::Recovering,
            Phase::Waiting => Status::Waiting,
            Phase::Resolved => Status::Resolved,
            Phase::Unobserved => Status::Unobserved,
        }
    }

    /// As it is told of a node that cannot be asked any more: what was open there is lost sight of.
    #[must_use]
    pub fn out_of_sight(mut self, since: WallMs) -> Self {
        if self.phase.is_open() {
            self.phase = Phase::Unobserved;
            self.ended_at = Some(since.max(self.changed_at));
        }
        self
    }

    /// The instant that its retention counts from; none while it goes on.
    #[must_use]
    pub fn last_at(&self) -> Option<WallMs> {
        match self.phase {
            Phase::Standing | Phase::Recovering => None,
            Phase::Waiting => self.calmed_at,
            Phase::Resolved | Phase::Unobserved => self.ended_at,
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.changed_at = self.changed_at.max(event.at);
        if self.timeline.len() >= MAX_TURNS {
            self.timeline.remove(FIRST_TURNS);
        }
        self.timeline.push(event);
    }

    pub(super) fn name_models<'a>(&mut self, models: impl IntoIterator<Item = &'a ModelId>) {
        for model in models {
            if self.models.len() >= MAX_MODELS {
                return;
            }
            self.models.insert(model.clone());
        }
    }
}
