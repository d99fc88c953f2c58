//! One request's machine of retries, rotation and fallbacks: the only place that decides "same key,
//! other key, wait, next leg, stop".
//!
//! A leg is one provider with its own retry budget. An attempt is charged to that budget unless a
//! permanent refusal of its key grants it back. `chain` leads from leg to leg, `verdict` says what a
//! failure means for its leg, `rotation` which key comes next, `backoff` how long to wait before it.

mod backoff;
mod chain;
mod rotation;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use rand_core::RngCore;

use crate::failure::FailureClass;
use crate::holds::{CheckGuard, Token};
use crate::ids::{ModelId, ProviderId};
use crate::routing::{KeySpec, Leg, Legs, Plan, PlannedCheck, RetryBudget, RetryPolicy, View};
use crate::time::Mono;
use crate::trail::{self, AttemptEntry, LogLine, RetryKey};

pub use backoff::wait_ms as backoff_ms;
use chain::{Primary, cause_of};
use rotation::{Call, Rotation};
use verdict::After;

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
    /// What the answer is settled against; none where nothing may be held for it.
    pub token: Option<Token>,
    /// Held while this attempt is the check of a held key. Once the answer is settled and the view
    /// replaced, call [`CheckGuard::settled`]; where the caller left, [`CheckGuard::abandon`].
    pub check: Option<CheckGuard>,
    /// Held keys that were passed over for this one.
    pub skipped: u32,
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
pub struct Walk {
    legs: Legs,
    check: Option<PlannedCheck>,
    limits: Limits,
    /// The leg that is under way or comes next.
    at: usize,
    rotation: Rotation,
    state: State,
    attempts: Vec<AttemptEntry>,
    /// Attempts that count against the limit.
    charged: u32,
    /// Legs that made an attempt.
    begun: u32,
    /// The first leg that made an attempt: what its failure means for the caller.
    primary: Option<Primary>,
    lines: Vec<LogLine>,
}

/// Where the machine stands.
#[derive(Debug)]
enum State {
    /// The leg begins.
    Begin,
    /// An attempt is out.
    Calling,
    /// It failed, and nothing is decided yet.
    Failed(Failure, Mono),
    /// The next attempt of the leg follows, not before.
    Waiting(Mono, Call),
    /// Over.
    Done(Ending),
}

impl Walk {
    /// Starts a request.
    #[must_use]
    pub fn new(plan: Plan, limits: Limits) -> Self {
        Self {
            legs: plan.legs,
            check: plan.check,
            limits,
            at: 0,
            rotation: Rotation::default(),
            state: State::Begin,
            attempts: Vec::new(),
            charged: 0,
            begun: 0,
            primary: None,
            lines: plan.notes,
        }
    }

    /// What to do now. After [`Step::Call`], call [`Walk::observe`] before this again: an attempt that
    /// was never observed counts as cancelled.
    pub fn next<R: RngCore>(&mut self, view: &View, now: Mono, rng: &mut R) -> Step {
        loop {
            match std::mem::replace(&mut self.state, State::Begin) {
                State::Done(ending) => {
                    self.state = State::Done(ending);
                    return Step::Done(ending);
                }
                State::Waiting(until, call) if now < until => {
                    self.state = State::Waiting(until, call);
                    return Step::Wait(until);
                }
                State::Waiting(_, call) => {
                    if let Some(attempt) = self.call(call, view, now, rng) {
                        return Step::Call(attempt);
                    }
                }
                State::Begin => {
                    if let Some(attempt) = self.begin(view, now, rng) {
                        return Step::Call(attempt);
                    }
                }
                State::Calling => self.failed(cancelled(), now),
                State::Failed(failure, failed_at) => self.decide(failure, failed_at, view, rng),
            }
        }
    }

    /// How the last attempt ended. Without an attempt that is out, this changes nothing.
    pub fn observe(&mut self, outcome: Outcome, now: Mono) {
        if !matches!(self.state, State::Calling) {
            return;
        }
        match outcome.failure {
            None => self.served(),
            Some(failure) => self.failed(failure, now),
        }
    }

    /// Adds a line that only the caller can know (what the ledger made of an answer).
    pub fn note(&mut self, line: LogLine) {
        self.lines.push(line);
    }

    /// One entry per attempt so far.
    #[must_use]
    pub fn attempts(&self) -> &[AttemptEntry] {
        &self.attempts
    }

    /// Attempts so far that were not the first of their leg: what a fallback begins with is none.
    #[must_use]
    pub fn retries(&self) -> u32 {
        count(self.attempts.len()) - self.begun
    }

    /// Those of the last leg that made an attempt.
    #[must_use]
    pub const fn retries_of_leg(&self) -> u32 {
        self.rotation.attempts().saturating_sub(1)
    }

    /// Lines not yet taken: the caller stamps them with the time and keeps them.
    pub fn take_lines(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.lines)
    }

    /// Makes the next attempt of the leg; where no key is left, ends the leg.
    fn call<R: RngCore>(
        &mut self,
        call: Call,
        view: &View,
        now: Mono,
        rng: &mut R,
    ) -> Option<Box<Attempt>> {
        if self.charged >= self.limits.max_attempts {
            self.lines
                .push(trail::attempts_exhausted(self.limits.max_attempts));
            self.stop_at_limit();
            return None;
        }
        let leg = &self.legs[self.at];
        let check = if self.at == 0 {
            self.check.take()
        } else {
            None
        };
        let next = view.provider(&leg.provider).and_then(|provider| {
            self.rotation
                .next(leg, provider, call, check, view, now, rng)
        });
        let Some(mut next) = next else {
            self.end_leg(view);
            return None;
        };
        self.tell_of_retry(&next.key, view);
        self.lines.append(&mut next.lines);
        let number = count(self.attempts.len());
        self.attempts.push(AttemptEntry {
            attempt: number,
            key_id: next.key.as_ref().map(|key| key.id.clone()),
            key_name: next.key.as_ref().map(|key| key.name.clone()),
            fail_reason: None,
            failure_class: None,
            status_code: None,
            triggered_rotation: false,
            retry_after_ms: None,
        });
        if self.rotation.attempts() == 0 {
            self.begun += 1;
            if let Some(budget) = retry_budget(view, &self.legs[self.at]) {
                budget.earn(now);
            }
        }
        self.charged += 1;
        self.primary.get_or_insert(Primary {
            leg: self.at,
            ending: None,
        });
        self.rotation.sent(next.key.as_ref());
        self.state = State::Calling;
        let leg = &self.legs[self.at];
        Some(Box::new(Attempt {
            number,
            fallback_index: count(self.at),
            provider: leg.provider.clone(),
            model: leg.model.clone(),
            key: next.key,
            direct_key: leg.direct_key,
            token: next.token,
            check: next.check,
            skipped: next.skipped,
        }))
    }

    /// Marks and tells a retry, before its attempt is entered.
    fn tell_of_retry(&mut self, key: &Option<Arc<KeySpec>>, view: &View) {
        if self.rotation.attempts() == 0 {
            return;
        }
        let Some(previous) = self.attempts.last_mut() else {
            return;
        };
        let leg = &self.legs[self.at];
        let rotated = key.as_ref().map(|key| &key.id) != previous.key_id.as_ref();
        previous.triggered_rotation = rotated;
        let key = match key {
            Some(key) if rotated => RetryKey::Rotated(&key.name),
            Some(key) => RetryKey::Same(&key.name),
            None => RetryKey::Keyless,
        };
        let of = policy(view, leg)
            .max_retries
            .saturating_add(self.rotation.granted());
        let line = trail::retry(
            self.rotation.attempts(),
            of,
            leg.route(),
            cause_of(previous),
            key,
        );
        self.lines.push(line);
    }

    fn failed(&mut self, failure: Failure, now: Mono) {
        if let Some(entry) = self.attempts.last_mut() {
            entry.fail_reason =
                (failure.class != FailureClass::Cancelled).then(|| failure.label.clone());
            entry.failure_class = Some(failure.class);
            entry.status_code = Some(failure.status);
            entry.retry_after_ms = failure.retry_after_ms;
        }
        self.state = State::Failed(failure, now);
    }

    /// What follows a failure within the leg.
    fn decide<R: RngCore>(&mut self, failure: Failure, at: Mono, view: &View, rng: &mut R) {
        let policy = policy(view, &self.legs[self.at]);
        let attempt = count(self.attempts.len()).saturating_sub(1);
        match self.rotation.failed(failure, attempt, policy) {
            After::AtOnce { granted, call } => {
                if granted {
                    self.charged = self.charged.saturating_sub(1);
                }
                self.state = State::Waiting(at, call);
            }
            After::Backoff { .. } if !self.may_retry(view, at) => self.end_leg(view),
            After::Backoff { retry, call } => {
                let wait_ms = backoff::wait_ms(policy, retry, rng);
                self.state = State::Waiting(at.plus_ms(wait_ms), call);
            }
            After::LegOver => self.end_leg(view),
        }
    }

    /// Asks the provider's retry budget, and tells where it refuses.
    fn may_retry(&mut self, view: &View, now: Mono) -> bool {
        let leg = &self.legs[self.at];
        let refused = retry_budget(view, leg).is_some_and(|budget| !budget.spend(now));
        if refused && let Some(last) = self.attempts.last() {
            let line = trail::retry_over_budget(leg.route(), cause_of(last));
            self.lines.push(line);
        }
        !refused
    }
}

impl Outcome {
    /// It served.
    #[must_use]
    pub const fn served() -> Self {
        Self { failure: None }
    }

    /// It failed.
    #[must_use]
    pub const fn failed(failure: Failure) -> Self {
        Self {
            failure: Some(failure),
        }
    }
}

fn cancelled() -> Failure {
    Failure {
        class: FailureClass::Cancelled,
        status: 499,
        label: crate::failure::label(FailureClass::Cancelled, None),
        retry_after_ms: None,
        callers_deadline: false,
    }
}

fn policy(view: &View, leg: &Leg) -> RetryPolicy {
    view.provider(&leg.provider)
        .map_or_else(RetryPolicy::default, |provider| provider.retry)
}

fn retry_budget<'a>(view: &'a View, leg: &Leg) -> Option<&'a dyn RetryBudget> {
    view.provider(&leg.provider)?.retry_budget.as_deref()
}

/// Legs and attempts are few: a plan holds at most as many legs as a request body can name.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
