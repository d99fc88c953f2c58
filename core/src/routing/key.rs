//! Which key of a provider an attempt uses: weighted chance among those that serve, are not held and
//! have not failed.

use std::sync::Arc;

use rand_core::RngCore;

use super::view::{KeyView, ProviderView, View};
use crate::health::tuning::{ALIKE, BUSIER};
use crate::health::{InFlight, ModelHealth, RouteHealth, State};
use crate::holds::CheckGuard;
use crate::holds::view::Standing;
use crate::ids::{KeyId, ModelId};
use crate::time::Mono;

/// What a choice depends on beside the provider.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The model, as the request names it.
    pub model: &'a ModelId,
    /// Whether holds count.
    pub holds: bool,
    /// Whether weights are those of measured health; else those of the configuration.
    pub health: bool,
    /// Keys that this request is done with, for good.
    pub dead: &'a [KeyId],
    /// Keys that this request has tried in this round.
    pub used: &'a [KeyId],
}

/// A key, and why.
#[derive(Debug)]
pub struct Pick<'a> {
    /// The key.
    pub key: &'a Arc<KeyView>,
    /// How it came to be picked.
    pub how: How,
    /// Keys that may serve the model.
    pub serving: usize,
    /// Those of them that are held, the picked one included.
    pub held: usize,
}

/// How a key came to be picked.
#[derive(Debug)]
pub enum How {
    /// It is free.
    Free,
    /// It is due, and this request checks it.
    Check(CheckGuard),
    /// Every key is held; it is due soonest.
    DueSoonest,
}

/// Picks a key: one that is due and unchecked first, then by weight among the free ones (of two drawn the
/// one that is not clearly busier), then of those
/// that health calls Failed the one that has rested longest; where every key that serves is held, the one
/// due soonest. `None` where no key is left.
///
/// A held key is used unchecked only where no serving key is free, those the request is done with
/// included: a request that runs out of free keys of its own must not try the held ones for it. A Failed
/// key is the last resort, not none.
///
/// One pass, nothing allocated.
pub fn pick<'a, R: RngCore>(
    provider: &'a ProviderView,
    wanted: Wanted<'_>,
    now: Mono,
    rng: &mut R,
) -> Option<Pick<'a>> {
    let (mut serving, mut held, mut free) = (0, 0, 0);
    let mut draw = Draw::default();
    let mut check = None;
    let mut soonest: Option<(Mono, &Arc<KeyView>)> = None;
    let health = Health::of(provider, wanted.model, wanted.health);
    for (index, key) in provider.keys.iter().enumerate() {
        if !key.spec.serves(wanted.model.as_str()) {
            continue;
        }
        serving += 1;
        let standing = if wanted.holds {
            key.holds.standing(wanted.model, now)
        } else {
            Standing::Free
        };
        let left = !wanted.dead.contains(&key.spec.id) && !wanted.used.contains(&key.spec.id);
        let due = match standing {
            Standing::Free => {
                free += 1;
                if left {
                    draw.enter(health, (index, key), now, rng);
                }
                continue;
            }
            Standing::Held { due } => due,
            Standing::Due | Standing::Checking => now,
        };
        held += 1;
        if !left {
            continue;
        }
        if standing == Standing::Due && check.is_none() {
            check = key
                .holds
                .try_check(wanted.model, now)
                .map(|guard| (key, guard));
        }
        if soonest.is_none_or(|(earliest, _)| due < earliest) {
            soonest = Some((due, key));
        }
    }
    let (key, how) = match (check, draw.winner()) {
        (Some((key, guard)), _) => (key, How::Check(guard)),
        (None, Some(key)) => (key, How::Free),
        (None, None) if free == 0 => (soonest?.1, How::DueSoonest),
        (None, None) => return None,
    };
    Some(Pick {
        key,
        how,
        serving,
        held,
    })
}

/// The key to stay with, if it may still serve the model and no hold covers it.
#[must_use]
pub fn stay<'a>(
    provider: &'a ProviderView,
    key: &KeyId,
    model: &ModelId,
    holds: bool,
    now: Mono,
) -> Option<&'a Arc<KeyView>> {
    provider.keys.iter().find(|candidate| {
        candidate.spec.id == *key
            && candidate.spec.serves(model.as_str())
            && (!holds || candidate.holds.standing(model, now) == Standing::Free)
    })
}

/// Where weights come from.
#[derive(Clone, Copy)]
enum Health<'a> {
    /// Configured.
    Static,
    /// Measured, where anything was.
    Measured(&'a ModelId, Option<&'a ModelHealth>),
}

/// What a key brings to the draw.
enum Weight {
    Some(f64),
    /// None, since then.
    Failed(Mono),
}

impl<'a> Health<'a> {
    fn of(provider: &'a ProviderView, model: &'a ModelId, measured: bool) -> Self {
        if measured {
            Self::Measured(model, provider.health.get(model))
        } else {
            Self::Static
        }
    }

    /// Whether anything was measured: before, every key has nothing in flight.
    fn is_measured(self) -> bool {
        matches!(self, Self::Measured(_, Some(_)))
    }

    fn in_flight(self, index: usize) -> u32 {
        match self {
            Self::Measured(_, Some(health)) => {
                health.in_flight.get(index).map_or(0, InFlight::count)
            }
            Self::Static | Self::Measured(_, None) => 0,
        }
    }

    /// A key that is configured with weight 0 is a spare: it has none by measurement either. One whose
    /// token limit is dry brings less.
    fn weight(self, index: usize, key: &KeyView, now: Mono) -> Weight {
        let (model, health) = match self {
            Self::Static => return Weight::Some(key.spec.weight),
            Self::Measured(model, health) => (model, health),
        };
        let route = health.and_then(|health| health.routes.get(index));
        let route = route.unwrap_or(&RouteHealth::UNMEASURED);
        match route.state {
            State::Failed => Weight::Failed(route.since),
            State::Healthy | State::Degraded | State::Recovering if key.spec.weight > 0.0 => {
                Weight::Some(route.weight * key.tpm_factor(model, now))
            }
            State::Healthy | State::Degraded | State::Recovering => Weight::Some(0.0),
        }
    }
}

/// The share of the provider's requests for a model that each of its keys is to get, in their order:
/// what [`pick`] comes to while no check is due and nothing is tried twice. All 0 where no key is free.
#[must_use]
pub fn shares(view: &View, provider: &ProviderView, model: &ModelId, now: Mono) -> Vec<f64> {
    let health = Health::of(provider, model, view.picks_by_health());
    let weights: Vec<Option<Weight>> = (provider.keys.iter().enumerate())
        .map(|(index, key)| {
            let serves = key.spec.serves(model.as_str());
            let free = !view.adaptive || key.holds.standing(model, now) == Standing::Free;
            (serves && free).then(|| health.weight(index, key, now))
        })
        .collect();
    let drawn = |weight: &Option<Weight>| match weight {
        Some(Weight::Some(weight)) => Some(*weight),
        Some(Weight::Failed(_)) | None => None,
    };
    let total: f64 = weights.iter().filter_map(drawn).sum();
    let spares = weights.iter().filter_map(drawn).count();
    let resting = weights.iter().enumerate().filter_map(|(index, weight)| {
        let Some(Weight::Failed(since)) = weight else {
            return None;
        };
        Some((*since, index))
    });
    let rested = resting.min().map(|(_, index)| index);
    let share = |(index, weight): (usize, &Option<Weight>)| match drawn(weight) {
        Some(weight) if total > 0.0 => weight / total,
        #[expect(clippy::cast_precision_loss, reason = "keys are few")]
        Some(_) => 1.0 / spares as f64,
        None if spares == 0 && rested == Some(index) => 1.0,
        None => 0.0,
    };
    weights.iter().enumerate().map(share).collect()
}

/// The free keys of a pick, as they come.
#[derive(Default)]
struct Draw<'a> {
    first: Lot<'a>,
    second: Lot<'a>,
    /// Of those that health calls Failed, the one that has rested longest.
    rested: Option<(Mono, &'a Arc<KeyView>)>,
}

impl<'a> Draw<'a> {
    fn enter<R: RngCore>(
        &mut self,
        health: Health<'_>,
        (index, key): (usize, &'a Arc<KeyView>),
        now: Mono,
        rng: &mut R,
    ) {
        match health.weight(index, key, now) {
            Weight::Some(weight) => {
                let entry = Entry {
                    key,
                    weight,
                    in_flight: health.in_flight(index),
                };
                self.first.enter(entry, rng);
                if health.is_measured() {
                    self.second.enter(entry, rng);
                }
            }
            Weight::Failed(since) => {
                if self.rested.is_none_or(|(earliest, _)| since < earliest) {
                    self.rested = Some((since, key));
                }
            }
        }
    }

    fn winner(self) -> Option<&'a Arc<KeyView>> {
        let drawn = match (self.first.winner, self.second.winner) {
            (Some(first), Some(other)) if first.is_busier(&other) => Some(other),
            (first, _) => first,
        };
        drawn
            .map(|entry| entry.key)
            .or(self.rested.map(|(_, key)| key))
    }
}

/// A key that may be drawn.
#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a Arc<KeyView>,
    weight: f64,
    in_flight: u32,
}

/// A draw by weight over keys that come one after another. Keys of weight 0 count only among
/// themselves.
#[derive(Default)]
struct Lot<'a> {
    winner: Option<Entry<'a>>,
    total: f64,
    weightless: u32,
}

impl Entry<'_> {
    /// Whether it has clearly more to do than one that is worth about the same.
    fn is_busier(&self, other: &Self) -> bool {
        let alike = self.weight <= other.weight * ALIKE && other.weight <= self.weight * ALIKE;
        let load =
            |entry: &Self, one_more: u32| f64::from(entry.in_flight + one_more) / entry.weight;
        alike && load(self, 0) > BUSIER * load(other, 1)
    }
}

impl<'a> Lot<'a> {
    fn enter<R: RngCore>(&mut self, entry: Entry<'a>, rng: &mut R) {
        let weight = entry.weight;
        if weight > 0.0 {
            self.total += weight;
            // The first of all needs no draw.
            if self.total <= weight || uniform(rng) * self.total < weight {
                self.winner = Some(entry);
            }
        } else if self.total <= 0.0 {
            self.weightless += 1;
            if self.weightless == 1 || uniform(rng) * f64::from(self.weightless) < 1.0 {
                self.winner = Some(entry);
            }
        }
    }
}

/// A number in `[0, 1)`.
pub(crate) fn uniform<R: RngCore>(rng: &mut R) -> f64 {
    f64::from(rng.next_u32()) / (f64::from(u32::MAX) + 1.0)
}

/// A number below `end`, each as likely as the next to within 2^-32 of `end`.
pub(crate) fn below<R: RngCore>(end: usize, rng: &mut R) -> usize {
    let scaled = (u64::from(rng.next_u32()) * end as u64) >> 32;
    usize::try_from(scaled).expect("it is below `end`, a usize")
}

#[cfg(test)]
mod tests;
