//! The providers that serve a model, best first, and how likely each is to begin.
//!
//! A request begins at one of the best; the others stand behind it. Before that come those that must
//! find something out: a provider with a key due for its check, and a Recovering one, which gets the
//! part of its even share that it has earned back, and one request per recompute at least.

use std::cmp::Ordering;

use rand_core::RngCore;
use smallvec::SmallVec;

use crate::health::State;
use crate::ids::ModelId;
use crate::routing::key::uniform;
use crate::routing::provider::{Direction, Serves};
use crate::routing::view::{ProviderView, View};
use crate::time::Mono;
use crate::trail::{Because, Route};

/// Scores this near to each other are the same: what sets them apart is chance, and the best of them
/// alone would get every request until the next recompute.
pub(crate) const SAME_SCORE: f64 = 0.05;

/// Most nodes have fewer providers for a model than this: nothing is allocated then.
const FEW: usize = 8;

/// A provider that serves a model, as planning sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) provider: &'a ProviderView,
    /// The model as the provider's keys name it.
    pub(crate) model: &'a ModelId,
    pub(crate) serves: Serves,
    pub(crate) direction: Direction,
    /// One of its keys is due, and nobody checks it.
    pub(crate) check: bool,
    /// It is Recovering, and no request has started there since the last recompute.
    pub(crate) turn: bool,
}

/// How likely each candidate is to begin, in their order; they add up to 1.
pub(crate) type Odds = SmallVec<[f64; FEW]>;

/// The providers that serve a model, best first, failing ones last.
#[derive(Clone, Debug)]
pub(crate) struct Pool<'a> {
    pub(crate) candidates: SmallVec<[Candidate<'a>; FEW]>,
    /// How many of them are not failing.
    pub(crate) usable: usize,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(
        view: &View,
        provider: &'a ProviderView,
        model: &'a ModelId,
        now: Mono,
    ) -> Option<Self> {
        let (serves, model) = provider.offer(model)?;
        let direction = view.direction(provider, model, now);
        let recovering = direction.state == State::Recovering;
        Some(Self {
            provider,
            model,
            serves,
            direction,
            check: direction.check,
            turn: recovering
                && provider
                    .health
                    .get(model)
                    .is_some_and(|health| health.turn.is_free()),
        })
    }

    pub(crate) fn route(&self) -> Route<'a> {
        Route {
            provider: &self.provider.id,
            model: self.model,
        }
    }

    pub(crate) fn failing(&self) -> bool {
        self.direction.state == State::Failed
    }

    /// Every key is held.
    pub(crate) const fn held(&self) -> bool {
        self.direction.due.is_some()
    }

    fn class(&self) -> (bool, Serves, State) {
        let failing = self.failing();
        // Of failing ones, those that only err may serve all the same; those that refuse will not.
        let serves = if failing && self.held() {
            Serves::Any
        } else {
            self.serves
        };
        (failing, serves, self.direction.state)
    }

    fn does_as_well(&self, best: &Self) -> bool {
        self.class() == best.class() && best.direction.score - self.direction.score < SAME_SCORE
    }
}

fn best_first(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    let soonest = || a.direction.due.cmp(&b.direction.due);
    let score = || b.direction.score.total_cmp(&a.direction.score);
    a.class()
        .cmp(&b.class())
        .then_with(soonest)
        .then_with(score)
}

impl<'a> Pool<'a> {
    pub(crate) fn of(view: &'a View, model: &'a ModelId, now: Mono) -> Self {
        let candidates = view
            .providers
            .values()
            .filter_map(|provider| Candidate::new(view, provider, model, now));
        Self::sorted(candidates.collect())
    }

    fn sorted(mut candidates: SmallVec<[Candidate<'a>; FEW]>) -> Self {
        candidates.sort_by(best_first);
        let usable = candidates.partition_point(|candidate| !candidate.failing());
        Self { candidates, usable }
    }

    /// Only those that pass.
    pub(crate) fn only(&self, fit: impl Fn(&Candidate<'a>) -> bool) -> Self {
        let candidates = self.candidates.iter().copied();
        Self::sorted(candidates.filter(|candidate| fit(candidate)).collect())
    }

    /// Those that are not failing.
    pub(crate) fn usable(&self) -> &[Candidate<'a>] {
        &self.candidates[..self.usable]
    }

    /// The first by its name: of those that name the model, where there are any.
    pub(crate) fn first_by_name(&self) -> Candidate<'a> {
        let first = |a: &&Candidate<'_>, b: &&Candidate<'_>| {
            (a.serves, &a.provider.id).cmp(&(b.serves, &b.provider.id))
        };
        *self
            .candidates
            .iter()
            .min_by(first)
            .expect("a pool that is asked for its first has one")
    }

    /// How likely each is to begin. Nothing is found out by a request that `may_prove` nothing.
    pub(crate) fn odds(&self, may_prove: bool) -> (Odds, Because) {
        let mut odds = Odds::from_elem(0.0, self.candidates.len());
        if odds.is_empty() {
            return (odds, Because::LeastBad);
        }
        if let Some(checked) = self.candidates.iter().position(|c| may_prove && c.check) {
            odds[checked] = 1.0;
            return (odds, Because::Check);
        }
        if self.usable == 0 {
            odds[0] = 1.0;
            return (odds, Because::LeastBad);
        }
        let usable = self.usable();
        let recovering = |c: &Candidate<'_>| c.direction.state == State::Recovering;
        let mut left = 1.0;
        if may_prove && !usable.iter().all(recovering) {
            if let Some(turn) = usable.iter().position(|c| c.turn) {
                odds[turn] = 1.0;
                return (odds, Because::Proof);
            }
            for (at, candidate) in usable.iter().enumerate().filter(|(_, c)| recovering(c)) {
                #[expect(clippy::cast_precision_loss, reason = "providers are few")]
                let even = 1.0 / usable.len() as f64;
                odds[at] = even * candidate.direction.score.clamp(0.0, 1.0);
                left -= odds[at];
            }
        }
        let well = leading(usable);
        #[expect(clippy::cast_precision_loss, reason = "providers are few")]
        let share = left / well as f64;
        odds[..well].iter_mut().for_each(|odds| *odds = share);
        let because = if well == 1 {
            Because::Best
        } else {
            Because::Drawn(well)
        };
        (odds, because)
    }

    /// Which one begins, and why.
    pub(crate) fn draw<R: RngCore>(
        &self,
        may_prove: bool,
        rng: &mut R,
    ) -> Option<(usize, Because)> {
        let (odds, because) = self.odds(may_prove);
        let certain = odds.iter().position(|odds| *odds >= 1.0);
        let drawn = certain.or_else(|| {
            let mut left = uniform(rng);
            let drawn = odds.iter().position(|odds| {
                left -= odds;
                left < 0.0
            });
            // Rounding may leave a little over.
            drawn.or_else(|| odds.iter().rposition(|odds| *odds > 0.0))
        })?;
        let proves = self.proves(drawn, because);
        Some((drawn, if proves { Because::Proof } else { because }))
    }

    /// Whether one that begins does so because it is Recovering, and not because it does best.
    pub(crate) fn proves(&self, at: usize, because: Because) -> bool {
        let recovering = |at: usize| self.candidates[at].direction.state == State::Recovering;
        matches!(because, Because::Best | Because::Drawn(_)) && recovering(at) && !recovering(0)
    }

    /// Puts those that do equally well in an order of chance.
    pub(crate) fn shuffle_equals<R: RngCore>(&mut self, rng: &mut R) {
        let mut left = &mut self.candidates[..self.usable];
        while left.len() > 1 {
            let (equals, rest) = left.split_at_mut(leading(left));
            super::shuffle(equals, rng);
            left = rest;
        }
    }
}

/// How many of the first do as well as the very first.
fn leading(candidates: &[Candidate<'_>]) -> usize {
    let Some(best) = candidates.first() else {
        return 0;
    };
    candidates
        .iter()
        .take_while(|candidate| candidate.does_as_well(best))
        .count()
}
