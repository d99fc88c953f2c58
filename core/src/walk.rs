//! One request's machine of retries, rotation and fallbacks: the only place that decides "same key,
//! other key, wait, next leg, stop".

use std::sync::Arc;

use rand_core::RngCore;

use crate::failure::FailureClass;
use crate::holds::{CheckGuard, Token};
use crate::ids::{ModelId, ProviderId};
use crate::routing::{KeySpec, Plan, View};
use crate::time::Mono;
use crate::trail::{AttemptEntry, LogLine};

/// What to do now.
#[derive(Debug)]
pub enum Step {
    /// Send this.
    Call(Box<Attempt>),
    /// Nothing until then.
    Wait(Mono),
    /// The request is over.
    Done(Ending),
}

/// One call to make.
#[derive(Debug)]
pub struct Attempt {
    /// From 0, over the whole request: the caller keeps each attempt's error under this number.
    pub number: u32,
    /// 0 for the primary, 1 for the first fallback.
    pub fallback_index: u32,
    /// Where.
    pub provider: ProviderId,
    /// What.
    pub model: ModelId,
    /// With which key; none for keyless providers and callers' own keys.
    pub key: Option<Arc<KeySpec>>,
    /// The caller's own key is to be used.
    pub direct_key: bool,
    /// What the answer is settled against.
    pub token: Option<Token>,
    /// Held while this attempt is the check of a held key.
    pub check: Option<CheckGuard>,
}

/// How an attempt ended, as far as the walk cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Nothing: it served.
    pub failure: Option<Failure>,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it means.
    pub class: FailureClass,
    /// The status, real or synthetic (502 network, 504 timeout, 499 cancelled).
    pub status: u16,
    /// The provider's error type, where it is a bare identifier; else the class's own label.
    pub label: String,
    /// Clamped hint.
    pub retry_after_ms: Option<u64>,
    /// The caller's own deadline ran out: no fallback runs.
    pub callers_deadline: bool,
}

/// How the request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The last attempt served.
    Served,
    /// Answer with the error of this attempt.
    Failed {
        /// Its number.
        attempt: u32,
    },
    /// Answer 502 `upstream_credentials_exhausted`.
    CredentialsExhausted {
        /// Whose keys.
        attempt: u32,
    },
    /// No attempt could be made: every leg was skipped.
    NothingToCall,
}

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Charged attempts over all legs.
    pub max_attempts: u32,
}

/// The machine.
#[derive(Debug)]
pub struct Walk {}

impl Walk {
    /// Starts a request.
    #[must_use]
    pub fn new(_plan: Plan, _limits: Limits) -> Self {
        unimplemented!()
    }

    /// What to do now. After [`Step::Call`], call [`Walk::observe`] before this again.
    pub fn next<R: RngCore>(&mut self, _view: &View, _now: Mono, _rng: &mut R) -> Step {
        unimplemented!()
    }

    /// How the last attempt ended.
    pub fn observe(&mut self, _outcome: Outcome, _now: Mono) {
        unimplemented!()
    }

    /// Adds a line that only the caller can know (what the ledger made of an answer).
    pub fn note(&mut self, _line: LogLine) {
        unimplemented!()
    }

    /// One entry per attempt so far.
    #[must_use]
    pub fn attempts(&self) -> &[AttemptEntry] {
        unimplemented!()
    }

    /// Lines not yet taken: the caller stamps them with the time and keeps them.
    pub fn take_lines(&mut self) -> Vec<LogLine> {
        unimplemented!()
    }
}
