//! From leg to leg: which failures move on, which end the request, and which error is told.

use rand_core::RngCore;

use super::rotation::{Call, Rotation};
use super::verdict::LegEnd;
use super::{Attempt, Ending, State, Walk, count, policy};
use crate::failure::FailureClass;
use crate::routing::View;
use crate::time::Mono;
use crate::trail::{self, AttemptEntry, Cause};

/// What the caller gets when a provider's keys are all rejected.
const EXHAUSTED: Cause<'static> = Cause {
    label: "upstream_credentials_exhausted",
    status: 502,
};

/// The first leg that made an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Primary {
    /// Its place.
    pub(super) leg: usize,
    /// What the caller gets if no fallback serves; open while the leg is under way.
    pub(super) ending: Option<Ending>,
}

impl Walk {
    /// Begins the next leg, or ends the request where there is none.
    pub(super) fn begin<R: RngCore>(
        &mut self,
        view: &View,
        now: Mono,
        rng: &mut R,
    ) -> Option<Box<Attempt>> {
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
                // With the same keys it would hear the same.
                Some(_) if self.legs[..self.at].contains(leg) => {
                    Some(trail::fallback_repeated(route))
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

    pub(super) fn served(&mut self) {
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
    pub(super) fn end_leg(&mut self, view: &View) {
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
    pub(super) fn stop_at_limit(&mut self) {
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

/// What is told of an attempt that failed.
pub(super) fn cause_of(entry: &AttemptEntry) -> Cause<'_> {
    Cause {
        label: entry.fail_reason.as_deref().unwrap_or("request_cancelled"),
        status: entry.status_code.unwrap_or_default(),
    }
}
