//! Which key each attempt of a leg uses, and what the leg's failures add up to.
//!
//! Two sets: dead keys are never used again by this request; used ones come again when every other
//! key was tried.

use std::sync::Arc;

use rand_core::RngCore;

use super::verdict::{self, After, LegEnd, Pool};
use super::{Ending, Failure};
use crate::failure::class::Retry;
use crate::health::State;
use crate::holds::view::Standing;
use crate::holds::{CheckGuard, Token};
use crate::ids::KeyId;
use crate::routing::key::{How, Pick, Wanted, pick, stay};
use crate::routing::{KeySpec, KeyView, Leg, PlannedCheck, ProviderView, RetryPolicy, View};
use crate::time::Mono;
use crate::trail::{self, LogLine};

/// Which key the next attempt wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// One that is left.
    Any,
    /// The last one, while it may be used.
    Same,
}

/// What the next attempt uses.
#[derive(Debug, Default)]
pub(super) struct Next {
    pub(super) key: Option<Arc<KeySpec>>,
    pub(super) token: Option<Token>,
    pub(super) check: Option<CheckGuard>,
    pub(super) skipped: u32,
    pub(super) lines: Vec<LogLine>,
}

/// A leg under way.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    one_key: bool,
    dead: Vec<KeyId>,
    used: Vec<KeyId>,
    current: Option<KeyId>,
    attempts: u32,
    granted: u32,
    /// Keys that died for the account's sake.
    rejected: usize,
    /// The last attempt that was refused for the model or the location.
    model_refusal: Option<u32>,
    last: Option<(u32, Failure)>,
    ran_dry: bool,
}

impl Rotation {
    pub(super) fn new(leg: &Leg) -> Self {
        Self {
            one_key: leg.pin.is_some() || leg.direct_key,
            ..Self::default()
        }
    }

    /// Attempts of this leg so far.
    pub(super) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Those of them that are not charged.
    pub(super) const fn granted(&self) -> u32 {
        self.granted
    }

    /// Notes that an attempt goes out.
    pub(super) fn sent(&mut self, key: Option<&Arc<KeySpec>>) {
        self.current = key.map(|key| key.id.clone());
        self.attempts += 1;
    }

    /// The next attempt's key. `None` where none is left.
    #[expect(
        clippy::too_many_arguments,
        reason = "a choice depends on all of them, once"
    )]
    pub(super) fn next<R: RngCore>(
        &mut self,
        leg: &Leg,
        provider: &ProviderView,
        call: Call,
        check: Option<PlannedCheck>,
        view: &View,
        now: Mono,
        rng: &mut R,
    ) -> Option<Next> {
        if leg.direct_key || provider.keyless {
            return Some(Next::default());
        }
        if let Some(pin) = &leg.pin {
            return pinned(leg, provider, pin, view.adaptive, now);
        }
        if let Some(planned) = check
            && let Some(key) = provider
                .serving(&leg.model)
                .find(|key| key.spec.id == planned.key)
        {
            return Some(checking(leg, key, planned.guard, now));
        }
        let mut left = None;
        if let Some(id) = leg.session_key.as_ref().filter(|_| self.attempts == 0) {
            match session_key(leg, provider, id, view.adaptive, now) {
                Ok(next) => return Some(next),
                Err(why) => left = Some(trail::session_key_leaves(id, leg.route(), why)),
            }
        }
        if let (Call::Same, Some(current)) = (call, &self.current)
            && let Some(key) = stay(provider, current, &leg.model, view.adaptive, now)
        {
            return Some(with_key(leg, key, view.adaptive, now));
        }
        let first = self.pick(leg, provider, view, now, rng);
        let picked = match first {
            Some(picked) => picked,
            None if self.used.is_empty() => {
                self.ran_dry = true;
                return None;
            }
            None => {
                self.used.clear();
                let again = self.pick(leg, provider, view, now, rng);
                self.ran_dry = again.is_none();
                again?
            }
        };
        let mut next = self.picked(leg, picked, view.adaptive, now);
        next.lines.splice(0..0, left);
        Some(next)
    }

    fn pick<'a, R: RngCore>(
        &self,
        leg: &Leg,
        provider: &'a ProviderView,
        view: &View,
        now: Mono,
        rng: &mut R,
    ) -> Option<Pick<'a>> {
        let wanted = Wanted {
            model: &leg.model,
            holds: view.adaptive,
            health: view.picks_by_health(),
            dead: &self.dead,
            used: &self.used,
        };
        pick(provider, wanted, now, rng)
    }

    fn picked(&self, leg: &Leg, picked: Pick<'_>, holds: bool, now: Mono) -> Next {
        let route = leg.route();
        let mut next = match picked.how {
            How::Free => with_key(leg, picked.key, holds, now),
            How::Check(guard) => checking(leg, picked.key, guard, now),
            How::DueSoonest => {
                let mut next = with_key(leg, picked.key, holds, now);
                next.lines.push(trail::every_key_held(
                    picked.serving,
                    &picked.key.spec.id,
                    route,
                ));
                return next;
            }
        };
        let passed_over = picked.held - usize::from(next.check.is_some());
        next.skipped = super::count(passed_over);
        if passed_over > 0 && self.attempts == 0 {
            let line = trail::skipping(passed_over, picked.serving, route);
            next.lines.insert(0, line);
        }
        next
    }

    /// Takes a failure in and says what follows.
    pub(super) fn failed(&mut self, failure: Failure, attempt: u32, policy: RetryPolicy) -> After {
        let class = failure.class;
        let retry = verdict::retry(class, self.pool());
        let stop = failure.callers_deadline;
        if verdict::is_model_or_region(class) {
            self.model_refusal = Some(attempt);
        }
        self.last = Some((attempt, failure));
        if stop {
            return After::LegOver;
        }
        if retry == Retry::NextKeyGranted {
            self.granted += 1;
            self.rejected += usize::from(verdict::is_account(class));
            self.dead.extend(self.current.clone());
            return After::AtOnce {
                granted: true,
                call: Call::Any,
            };
        }
        let charged = self.attempts - self.granted;
        let left = charged <= policy.max_retries;
        let call = match retry {
            Retry::NextKeyCharged => Call::Any,
            Retry::SameKey => Call::Same,
            Retry::NextKeyGranted | Retry::None => return After::LegOver,
        };
        if !left {
            return After::LegOver;
        }
        if call == Call::Any {
            self.used.extend(self.current.clone());
        }
        After::Backoff {
            retry: charged.saturating_sub(1),
            call,
        }
    }

    /// What the leg's failures add up to. `None` where it made no attempt.
    pub(super) fn end(
        &mut self,
        leg: &Leg,
        provider: Option<&ProviderView>,
        policy: RetryPolicy,
    ) -> Option<LegEnd> {
        let (attempt, last) = self.last.take()?;
        let keys = provider.map_or(0, |provider| provider.serving(&leg.model).count());
        let budget = usize::try_from(policy.max_retries).unwrap_or(usize::MAX);
        let ending = match self.model_refusal {
            Some(refused) if self.ran_dry => Ending::Failed { attempt: refused },
            Some(_) | None
                if self.ran_dry && self.rejected > 0 && self.rejected == keys && keys <= budget =>
            {
                Ending::CredentialsExhausted { attempt }
            }
            Some(_) | None => Ending::Failed { attempt },
        };
        let came_to_its_end = verdict::retry(last.class, self.pool()) != Retry::None;
        Some(LegEnd {
            ending,
            last,
            retried: (self.attempts > 1 && came_to_its_end).then_some(self.attempts),
        })
    }

    const fn pool(&self) -> Pool {
        if self.one_key {
            Pool::OneKey
        } else if self.current.is_none() {
            Pool::Keyless
        } else {
            Pool::Keys
        }
    }
}

/// The pinned key, held or not. Where its check is free, this request is it.
fn pinned(leg: &Leg, provider: &ProviderView, pin: &KeyId, holds: bool, now: Mono) -> Option<Next> {
    let key = provider
        .serving(&leg.model)
        .find(|key| key.spec.id == *pin)?;
    if !holds {
        return Some(with_key(leg, key, holds, now));
    }
    if let Some(guard) = key.holds.try_check(&leg.model, now) {
        return Some(checking(leg, key, guard, now));
    }
    let mut next = with_key(leg, key, holds, now);
    if key.holds.standing(&leg.model, now) != Standing::Free {
        next.lines
            .push(trail::pinned_key_held(&key.spec.id, leg.route()));
    }
    Some(next)
}

/// The key that the leg's session was served with, or why it is left.
fn session_key(
    leg: &Leg,
    provider: &ProviderView,
    id: &KeyId,
    holds: bool,
    now: Mono,
) -> Result<Next, &'static str> {
    let at = provider.keys.iter().position(|key| key.spec.id == *id);
    let Some(at) = at.filter(|at| provider.keys[*at].spec.serves(leg.model.as_str())) else {
        return Err("it does not serve the model any more");
    };
    let key = &provider.keys[at];
    if holds && key.holds.standing(&leg.model, now) != Standing::Free {
        return Err("the provider refused it");
    }
    if provider.route_state(at, &leg.model) == State::Failed {
        return Err("it is failing");
    }
    let mut next = with_key(leg, key, holds, now);
    let line = trail::session_key_stays(&key.spec.name, leg.route());
    next.lines.push(line);
    Ok(next)
}

fn checking(leg: &Leg, key: &KeyView, guard: CheckGuard, now: Mono) -> Next {
    let mut next = with_key(leg, key, true, now);
    next.check = Some(guard);
    next.lines.push(trail::checking(&key.spec.id, leg.route()));
    next
}

fn with_key(leg: &Leg, key: &KeyView, holds: bool, now: Mono) -> Next {
    Next {
        key: Some(Arc::clone(&key.spec)),
        token: holds.then(|| key.holds.token(&leg.model, now)),
        ..Next::default()
    }
}
