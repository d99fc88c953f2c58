//! One request's machine of retries, rotation and fallbacks: the only place that decides "same key,
//! other key, wait, next leg, stop".
//!
//! A leg is one provider with its own retry budget. An attempt is charged to that budget unless a
//! permanent refusal of its key grants it back. [`verdict`] says what a failure means for the leg,
//! [`rotation`] which key comes next, [`backoff`] how long to wait before it.

mod backoff;
mod rotation;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use rand_core::RngCore;

use crate::failure::FailureClass;
use crate::holds::{CheckGuard, Token};
use crate::ids::{ModelId, ProviderId};
use crate::routing::{KeySpec, Leg, Plan, PlannedCheck, RetryPolicy, View};
use crate::time::Mono;
use crate::trail::{self, AttemptEntry, Cause, LogLine, RetryKey};

use rotation::{Call, Rotation};
use verdict::{After, LegEnd};

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
    /// Held while this attempt is the check of a held key.
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
    legs: Vec<Leg>,
    check: Option<PlannedCheck>,
    limits: Limits,
    /// The leg that is under way or comes next.
    at: usize,
    rotation: Rotation,
    state: State,
    attempts: Vec<AttemptEntry>,
    /// Attempts that count against the limit.
    charged: u32,
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

#[derive(Clone, Copy, Debug)]
struct Primary {
    leg: usize,
    /// What the caller gets if no fallback serves; open while the leg is under way.
    ending: Option<Ending>,
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
                State::Calling => self.observe(Outcome::cancelled(), now),
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
            Some(failure) => {
                if let Some(entry) = self.attempts.last_mut() {
                    entry.fail_reason =
                        (failure.class != FailureClass::Cancelled).then(|| failure.label.clone());
                    entry.failure_class = Some(failure.class);
                    entry.status_code = Some(failure.status);
                    entry.retry_after_ms = failure.retry_after_ms;
                }
                self.state = State::Failed(failure, now);
            }
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

    /// Lines not yet taken: the caller stamps them with the time and keeps them.
    pub fn take_lines(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.lines)
    }

    /// Begins the next leg, or ends the request where there is none.
    fn begin<R: RngCore>(&mut self, view: &View, now: Mono, rng: &mut R) -> Option<Box<Attempt>> {
        let Some(leg) = self.legs.get(self.at) else {
            self.out_of_legs();
            return None;
        };
        let route = leg.route();
        if self.at > 0 {
            let skipped = match view.provider(&leg.provider) {
                None => Some(trail::fallback_without_provider(route)),
                Some(provider) if provider.serves(&leg.model).is_none() => {
                    Some(trail::fallback_without_key(route))
                }
                Some(_) => None,
            };
            if let Some(line) = skipped {
                self.lines.push(line);
                self.at += 1;
                return None;
            }
            let previous = self.attempts.last().map(cause_of);
            let line = trail::trying_fallback(self.at, self.legs.len() - 1, route, previous);
            self.lines.push(line);
        }
        self.rotation = Rotation::new(leg);
        self.call(Call::Any, view, now, rng)
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
            After::Backoff { retry, call } => {
                let wait_ms = backoff::wait_ms(policy, retry, rng);
                self.state = State::Waiting(at.plus_ms(wait_ms), call);
            }
            After::LegOver => self.end_leg(view),
        }
    }

    fn served(&mut self) {
        let (leg, fallbacks) = (&self.legs[self.at], self.legs.len() - 1);
        let retries = self.rotation.attempts().saturating_sub(1);
        if retries > 0 {
            self.lines
                .push(trail::retries_succeeded(leg.route(), retries));
        }
        if self.at > 0 {
            self.lines
                .push(trail::served_by_fallback(leg.route(), self.at, fallbacks));
        }
        self.state = State::Done(Ending::Served);
    }

    /// The leg is given up: the chain goes on, or ends with it.
    fn end_leg(&mut self, view: &View) {
        let (leg, fallbacks) = (&self.legs[self.at], self.legs.len() - 1);
        let route = leg.route();
        let provider = view.provider(&leg.provider);
        let Some(end) = self.rotation.end(leg, provider, policy(view, leg)) else {
            let line = if self.at == 0 {
                trail::primary_unusable(route)
            } else {
                trail::fallback_without_key(route)
            };
            self.lines.push(line);
            self.go_on();
            return;
        };
        let LegEnd {
            ending,
            last,
            retried,
        } = end;
        let cause = Cause {
            label: &last.label,
            status: last.status,
        };
        if let Some(attempts) = retried {
            self.lines
                .push(trail::retries_exhausted(route, attempts, cause));
        }
        let is_primary = self.primary.is_none_or(|primary| primary.leg == self.at);
        if last.class == FailureClass::Cancelled || last.callers_deadline {
            if !is_primary {
                self.lines.push(trail::fallback_halted(route, cause));
            }
            self.state = State::Done(ending);
            return;
        }
        if is_primary {
            self.primary = Some(Primary {
                leg: self.at,
                ending: Some(ending),
            });
            if last.class == FailureClass::CallerFault {
                self.state = State::Done(ending);
                return;
            }
            let left = fallbacks.saturating_sub(self.at);
            if left > 0 {
                self.lines.push(trail::primary_failed(route, cause, left));
            }
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        self.at += 1;
        self.state = State::Begin;
    }

    /// Every leg was tried.
    fn out_of_legs(&mut self) {
        let ending = self.primary_ending();
        let fallbacks = self.legs.len().saturating_sub(1);
        if let (Some(primary), true) = (self.primary, fallbacks > 0)
            && primary.leg < fallbacks
        {
            let line = trail::fallbacks_exhausted(fallbacks - primary.leg, self.cause_of(ending));
            self.lines.push(line);
        }
        self.state = State::Done(ending);
    }

    /// The request may make no further attempt.
    fn stop_at_limit(&mut self) {
        let last = count(self.attempts.len()).saturating_sub(1);
        let ending = match self.primary {
            None => Ending::NothingToCall,
            Some(Primary { ending: None, .. }) => Ending::Failed { attempt: last },
            Some(Primary {
                ending: Some(ending),
                ..
            }) => ending,
        };
        self.state = State::Done(ending);
    }

    fn primary_ending(&self) -> Ending {
        self.primary
            .and_then(|primary| primary.ending)
            .unwrap_or(Ending::NothingToCall)
    }

    fn cause_of(&self, ending: Ending) -> Cause<'_> {
        match ending {
            Ending::Failed { attempt } => self
                .attempts
                .iter()
                .find(|entry| entry.attempt == attempt)
                .map_or(EXHAUSTED, cause_of),
            Ending::CredentialsExhausted { .. } | Ending::NothingToCall | Ending::Served => {
                EXHAUSTED
            }
        }
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

    fn cancelled() -> Self {
        Self::failed(Failure {
            class: FailureClass::Cancelled,
            status: 499,
            label: crate::failure::label(FailureClass::Cancelled, None),
            retry_after_ms: None,
            callers_deadline: false,
        })
    }
}

/// What the caller gets when a provider's keys are all rejected.
const EXHAUSTED: Cause<'static> = Cause {
    label: "upstream_credentials_exhausted",
    status: 502,
};

fn cause_of(entry: &AttemptEntry) -> Cause<'_> {
    Cause {
        label: entry.fail_reason.as_deref().unwrap_or("request_cancelled"),
        status: entry.status_code.unwrap_or_default(),
    }
}

fn policy(view: &View, leg: &Leg) -> RetryPolicy {
    view.provider(&leg.provider)
        .map_or_else(RetryPolicy::default, |provider| provider.retry)
}

/// Legs and attempts are few: a plan holds at most as many legs as a request body can name.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
