//! One node's table of dry routes.

use std::collections::BTreeMap;

use super::{Backoff, LONGEST_MS, Level, SHORTEST_MS, Signal};
use crate::holds::ledger::MAX_MODEL_NAME_BYTES;
use crate::holds::{Body, Record, Register, RouteKey, Selector, SubjectScope};
use crate::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use crate::time::{Hlc, Mono};

/// The most routes that are tracked: what does not fit is as if its headers had not been read.
pub const MAX_BACKOFFS: usize = 4_096;

/// The most releases that are remembered against what is older than they are. The most silent goes.
const MAX_CLEARS: usize = 1_024;

/// An end that moves by less, in milliseconds, is not worth telling: a busy dry route says it with every
/// answer.
const NEWS_MS: u64 = 2_000;

/// What has run dry, and what was released since. Owned by one caller; every method is a function of the
/// state and its arguments. Merging is commutative and idempotent: the newest word on a route counts,
/// unless a newer release names it.
#[derive(Clone, Debug, Default)]
pub struct Table {
    routes: BTreeMap<RouteKey, Entry>,
    clears: BTreeMap<Selector, Clear>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    stamp: Hlc,
    wait_ms: u64,
    until: Mono,
    /// When this node heard of it.
    heard: Mono,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clear {
    stamp: Hlc,
    /// When this node heard of it.
    heard: Mono,
}

impl Table {
    /// Whether what an answer says is news: then it is worth a [`Backoff`]. `sent` is when its request
    /// was; what was sent before a release or before the route ran dry says nothing about now.
    #[must_use]
    pub fn is_news(&self, route: &RouteKey, level: Level, sent: Mono, now: Mono) -> bool {
        let known = self.routes.get(route).filter(|entry| entry.until > now);
        let differs = match (level, known) {
            (Level::Dry { .. }, None) => true,
            (Level::Dry { wait_ms }, Some(known)) => is_new_end(known.until, wait_ms, now),
            (Level::Ample, None) => false,
            (Level::Ample, Some(known)) => known.heard <= sent,
        };
        let released =
            |(what, clear): (&Selector, &Clear)| names(what, route) && clear.heard > sent;
        differs
            && route.model.as_str().len() <= MAX_MODEL_NAME_BYTES
            && !self.clears.iter().any(released)
    }

    /// Takes in a signal, made here or elsewhere, of this age in unscaled milliseconds. Returns the
    /// routes that changed.
    pub fn merge(&mut self, signal: Signal, age_ms: u64, now: Mono) -> Vec<RouteKey> {
        match signal {
            Signal::Backoff(backoff) => self.merge_backoff(backoff, age_ms, now),
            Signal::Clear { what, stamp } => self.clear(what, stamp, age_ms, now),
        }
    }

    /// Learns of a change to a hold: a release, by whomever, also ends the backoff of what it names.
    /// Returns the routes that changed.
    pub fn follow(&mut self, record: &Record, age_ms: u64, now: Mono) -> Vec<RouteKey> {
        let Register { release, body, .. } = record.register;
        if matches!(body, Body::Held { .. }) || release == Hlc::default() {
            return Vec::new();
        }
        let (provider, key) = (record.subject.provider.clone(), record.subject.key.clone());
        let what = match &record.subject.scope {
            SubjectScope::Key => Selector::Key(provider, key),
            SubjectScope::Model(model) => Selector::Model(provider, key, model.clone()),
        };
        self.clear(what, release, age_ms, now)
    }

    /// The models of one key that are dry, and until when.
    #[must_use]
    pub fn dry(
        &self,
        provider: &ProviderId,
        key: &KeyId,
        fingerprint: Fingerprint,
        now: Mono,
    ) -> BTreeMap<ModelId, Mono> {
        let first = RouteKey {
            provider: provider.clone(),
            key: key.clone(),
            fingerprint,
            model: ModelId::from(""),
        };
        let is_of_key = |route: &RouteKey| {
            route.provider == *provider && route.key == *key && route.fingerprint == fingerprint
        };
        self.routes
            .range(first..)
            .take_while(|(route, _)| is_of_key(route))
            .filter(|(_, entry)| entry.until > now)
            .map(|(route, entry)| (route.model.clone(), entry.until))
            .collect()
    }

    /// Every route that is dry.
    pub fn routes(&self, now: Mono) -> impl Iterator<Item = &RouteKey> {
        let dry = self
            .routes
            .iter()
            .filter(move |(_, entry)| entry.until > now);
        dry.map(|(route, _)| route)
    }

    /// Forgets what can matter no more. Returns the routes whose backoff is over.
    pub fn prune(&mut self, now: Mono) -> Vec<RouteKey> {
        self.clears.retain(|_, clear| !is_past(clear.heard, now));
        let past: Vec<RouteKey> = self
            .routes
            .iter()
            .filter(|(_, entry)| is_past(entry.heard, now))
            .map(|(route, _)| route.clone())
            .collect();
        for route in &past {
            self.routes.remove(route);
        }
        past
    }

    fn merge_backoff(&mut self, backoff: Backoff, age_ms: u64, now: Mono) -> Vec<RouteKey> {
        let Backoff {
            route,
            stamp,
            wait_ms,
        } = backoff;
        let wait_ms = wait_ms.min(LONGEST_MS);
        let is_old = age_ms >= LONGEST_MS;
        let released =
            |(what, clear): (&Selector, &Clear)| names(what, &route) && clear.stamp >= stamp;
        if !stamp.is_plausible()
            || is_old
            || route.model.as_str().len() > MAX_MODEL_NAME_BYTES
            || self.clears.iter().any(released)
        {
            return Vec::new();
        }
        match self.routes.get(&route) {
            Some(known) if (known.stamp, known.wait_ms) >= (stamp, wait_ms) => return Vec::new(),
            Some(_) => {}
            None if self.routes.len() < MAX_BACKOFFS => {}
            None => {
                self.prune(now);
                if self.routes.len() >= MAX_BACKOFFS {
                    return Vec::new();
                }
            }
        }
        let entry = Entry {
            stamp,
            wait_ms,
            until: now.plus_ms(wait_ms.saturating_sub(age_ms)),
            heard: now,
        };
        self.routes.insert(route.clone(), entry);
        vec![route]
    }

    fn clear(&mut self, what: Selector, stamp: Hlc, age_ms: u64, now: Mono) -> Vec<RouteKey> {
        let known = self.clears.get(&what);
        // What an old release ended has ended by itself.
        let is_old = age_ms >= LONGEST_MS || known.is_some_and(|known| known.stamp >= stamp);
        if is_old || !stamp.is_plausible() {
            return Vec::new();
        }
        let ended: Vec<RouteKey> = self
            .routes
            .iter()
            .filter(|(route, entry)| names(&what, route) && entry.stamp <= stamp)
            .map(|(route, _)| route.clone())
            .collect();
        for route in &ended {
            self.routes.remove(route);
        }
        if known.is_none() && self.clears.len() >= MAX_CLEARS {
            self.prune(now);
            self.forget_a_clear();
        }
        self.clears.insert(what, Clear { stamp, heard: now });
        ended
    }

    /// Makes room for one.
    fn forget_a_clear(&mut self) {
        if self.clears.len() < MAX_CLEARS {
            return;
        }
        let oldest = self.clears.iter().min_by_key(|(_, clear)| clear.heard);
        if let Some(what) = oldest.map(|(what, _)| what.clone()) {
            self.clears.remove(&what);
        }
    }
}

impl Backoff {
    /// What an answer of now says of its route.
    #[must_use]
    pub fn new(route: RouteKey, level: Level, stamp: Hlc) -> Self {
        let wait_ms = match level {
            Level::Dry { wait_ms } => wait_ms.clamp(SHORTEST_MS, LONGEST_MS),
            Level::Ample => 0,
        };
        Self {
            route,
            stamp,
            wait_ms,
        }
    }
}

/// Whether a route that is dry until then is worth another word.
#[must_use]
pub const fn is_new_end(until: Mono, wait_ms: u64, now: Mono) -> bool {
    now.plus_ms(wait_ms).0.abs_diff(until.0) >= NEWS_MS
}

/// No backoff of before is alive, so nothing has to be kept from coming back.
const fn is_past(heard: Mono, now: Mono) -> bool {
    now.since_ms(heard) >= LONGEST_MS
}

fn names(what: &Selector, route: &RouteKey) -> bool {
    match what {
        Selector::All => true,
        Selector::Provider(provider) => route.provider == *provider,
        Selector::Key(provider, key) => route.provider == *provider && route.key == *key,
        Selector::Model(provider, key, model) => {
            route.provider == *provider && route.key == *key && route.model == *model
        }
    }
}

#[cfg(test)]
mod tests;
