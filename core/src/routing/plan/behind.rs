//! What stands behind the first leg: the request's own fallbacks, then the providers that are added.

use rand_core::RngCore;

use super::{Candidate, Leg, Planning, Pool, Target};
use crate::ids::ModelId;
use crate::trail;

impl<'a, R: RngCore> Planning<'a, R> {
    /// The request's own fallbacks as they are. Those whose provider is not configured stay: the walk
    /// tells of them where it gets there.
    pub(super) fn leave_own_fallbacks(&mut self) {
        let facts = self.facts;
        for target in &facts.fallbacks {
            let leg = match &target.provider {
                Some(provider) => Some(Leg::new(provider, &target.model)),
                None => self.fallback_for(&target.model),
            };
            self.push_fallback(target, leg);
        }
    }

    /// The request's own fallbacks, each with its provider's own name of the model; failing ones are
    /// left out where that is set. `first` is the one that the request begins with, `last` where it
    /// ends anyway.
    pub(super) fn manage_own_fallbacks(&mut self, first: Option<&Leg>, last: Option<&Leg>) {
        let facts = self.facts;
        let prune = self.view.settings.prune_failed_fallbacks;
        let mut begun = first;
        for target in &facts.fallbacks {
            let Some(leg) = self.managed(target) else {
                self.push_fallback(target, None);
                continue;
            };
            let same = |other: Option<&Leg>| {
                other.is_some_and(|other| leg.is_at(&other.provider, &other.model))
            };
            if same(last) {
                continue;
            }
            if same(begun) {
                // Once: a caller who asks for the same again means it.
                begun = None;
                continue;
            }
            let provider = self.view.provider(&leg.provider);
            let failing = provider
                .and_then(|provider| Candidate::new(self.view, provider, &leg.model, self.now))
                .filter(|candidate| prune && candidate.failing())
                .map(|candidate| candidate.held());
            match failing {
                Some(held) => {
                    let line = trail::fallback_pruned(leg.route(), held);
                    self.plan.notes.push(line);
                }
                None => self.push_fallback(target, Some(leg)),
            }
        }
    }

    fn push_fallback(&mut self, target: &Target, leg: Option<Leg>) {
        match leg {
            Some(leg) => self.plan.legs.push(leg),
            None => {
                let line = trail::fallback_nobody_serves(&target.model);
                self.plan.notes.push(line);
            }
        }
    }

    fn managed(&mut self, target: &'a Target) -> Option<Leg> {
        let Some(id) = &target.provider else {
            return self.fallback_for(&target.model);
        };
        let provider = self.view.provider(id);
        let offered = provider.and_then(|provider| provider.offer(&target.model));
        Some(Leg::new(id, offered.map_or(&target.model, |(_, own)| own)))
    }

    /// The leg of a fallback that names no provider: the best that serves it and that the request does
    /// not go to anyway.
    fn fallback_for(&mut self, model: &'a ModelId) -> Option<Leg> {
        let mut pool = Pool::of(self.view, model, self.now);
        pool.shuffle_equals(self.rng);
        let usable = pool.usable().iter();
        let fresh = |c: &&Candidate<'_>| !self.plan.goes_to(&c.provider.id, c.model);
        let chosen = usable.clone().find(fresh).or(pool.candidates.first());
        chosen.map(|candidate| Leg::new(&candidate.provider.id, candidate.model))
    }

    /// The best provider for a model that is not failing.
    pub(super) fn usable_for(&mut self, model: &'a ModelId) -> Option<Candidate<'a>> {
        let mut pool = Pool::of(self.view, model, self.now);
        pool.shuffle_equals(self.rng);
        pool.usable().first().copied()
    }

    /// Adds providers behind what is planned, best first, each once.
    pub(super) fn append(&mut self, candidates: &[Candidate<'_>]) {
        let before = self.plan.legs.len();
        for candidate in candidates {
            if !self.plan.goes_to(&candidate.provider.id, candidate.model) {
                let leg = Leg::new(&candidate.provider.id, candidate.model);
                self.plan.legs.push(leg);
            }
        }
        let added = &self.plan.legs[before..];
        if !added.is_empty() {
            let names = added.iter().map(|leg| &leg.provider);
            let line = trail::fallbacks_added(added.len(), self.model(), names);
            self.plan.notes.push(line);
        }
    }
}
