//! Requests that name their provider: left as they are, unless a setting says otherwise.

use rand_core::RngCore;

use super::{Candidate, Leg, PlanError, Planning, Pool};
use crate::holds::view::Standing;
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::routing::settings::RerouteTarget;
use crate::routing::view::ProviderView;
use crate::trail::{self, StaysBecause};

/// Where errors say that a rule's pin comes from.
const RULE_PIN: &str = "provider_key_name of a routing rule";

impl<'a, R: RngCore> Planning<'a, R> {
    pub(super) fn named(&mut self, id: &'a ProviderId) -> Result<(), PlanError> {
        let (view, asked) = (self.view, self.model());
        let Some(provider) = view.provider(id) else {
            return Err(PlanError::UnknownProvider(id.clone()));
        };
        let named = Candidate::new(view, provider, asked, self.now);
        if named.is_none() && !self.facts.direct_key {
            return Err(PlanError::NoKeyServes {
                provider: id.clone(),
                model: asked.clone(),
            });
        }
        let pins = self.pins(provider, named.as_ref())?;
        let failing = named.filter(Candidate::failing);
        let redirect = view.settings.reroute_failed_directions;
        if let Some(named) = failing.filter(|_| redirect)
            && self.move_away(&named, &pins)
        {
            return Ok(());
        }
        let model = named.map_or(asked, |named| named.model);
        self.first_leg(provider, model, pins.first);
        if let Some(named) = failing {
            self.kept(&named, redirect);
        }
        if view.settings.append_fallbacks_to_pinned || (redirect && failing.is_some()) {
            self.manage_own_fallbacks(None, None);
            let mut pool = Pool::of(view, common_name(provider, asked), self.now);
            pool.shuffle_equals(self.rng);
            self.append(pool.usable());
        } else {
            self.leave_own_fallbacks();
        }
        Ok(())
    }

    /// The keys that the first leg and the provider kept last are pinned to.
    fn pins(
        &self,
        provider: &ProviderView,
        named: Option<&Candidate<'_>>,
    ) -> Result<Pins, PlanError> {
        let Some(named) = named.filter(|_| !self.facts.direct_key) else {
            return Ok(Pins::default());
        };
        let find = |pin: &super::Pin, header| match pin.find(provider, named.model) {
            Some(key) => Ok(key.spec.id.clone()),
            None => Err(PlanError::unknown_pin(pin, header, provider, named.model)),
        };
        if let Some(rule) = &self.facts.rule_pin {
            let key = find(rule, RULE_PIN)?;
            return Ok(Pins {
                first: Some(key.clone()),
                last: Some(key),
            });
        }
        let first = self.pin().map(|pin| find(pin, pin.header())).transpose()?;
        Ok(Pins { first, last: None })
    }

    /// Tells and marks that a failing provider keeps its request.
    fn kept(&mut self, named: &Candidate<'_>, redirect: bool) {
        self.plan.kept_on_failing = !self.facts.direct_key;
        let because = if redirect {
            StaysBecause::NothingHealthier
        } else {
            StaysBecause::RedirectOff
        };
        let line = trail::kept_on_failing(named.route(), because);
        self.plan.notes.push(line);
    }

    /// Plans a request whose provider is failing: as that provider's check, or elsewhere with the named
    /// provider last. False where nobody else could take it.
    fn move_away(&mut self, named: &Candidate<'a>, pins: &Pins) -> bool {
        let (view, asked) = (self.view, self.model());
        let mut others = Pool::of(view, common_name(named.provider, asked), self.now)
            .only(|candidate| candidate.provider.id != named.provider.id);
        others.shuffle_equals(self.rng);
        let own = match view.settings.reroute_target {
            RerouteTarget::Fallbacks => self.first_working_fallback(),
            RerouteTarget::Pool => None,
        };
        let best = || {
            others
                .usable()
                .first()
                .map(|c| Leg::new(&c.provider.id, c.model))
        };
        let moved_to_pool = own.is_none();
        let Some(to) = own.or_else(best) else {
            return false;
        };
        let last = Leg {
            pin: pins.last.clone(),
            ..Leg::new(&named.provider.id, named.model)
        };
        if self.finds_out(named, pins) {
            let line = trail::provider_checked(named.route(), named.held());
            self.plan.notes.push(line);
            self.first_leg(named.provider, named.model, pins.first.clone());
            self.manage_own_fallbacks(None, None);
            self.append(others.usable());
            return true;
        }
        self.plan.moved_to_pool = moved_to_pool;
        let line = trail::redirected(named.route(), to.route(), named.held());
        self.plan.notes.push(line);
        self.redirected_leg(to.clone());
        self.manage_own_fallbacks(Some(&to), Some(&last));
        let beside = others.only(|c| !to.is_at(&c.provider.id, c.model));
        self.append(beside.usable());
        self.plan.legs.push(last);
        true
    }

    /// Whether this request is the check of a key of the named provider: of one that is due, or of the
    /// pinned one, whose check is taken when it is sent.
    fn finds_out(&mut self, named: &Candidate<'_>, pins: &Pins) -> bool {
        let Some(pinned) = &pins.first else {
            return self.take_check(named.provider, named.model);
        };
        named.provider.serving(named.model).any(|key| {
            key.spec.id == *pinned && key.holds.standing(named.model, self.now) == Standing::Due
        })
    }

    /// The first own fallback that is served and not failing, whatever its provider and model.
    fn first_working_fallback(&mut self) -> Option<Leg> {
        let facts = self.facts;
        facts.fallbacks.iter().find_map(|target| {
            let Some(id) = &target.provider else {
                return self
                    .usable_for(&target.model)
                    .map(|c| Leg::new(&c.provider.id, c.model));
            };
            let provider = self.view.provider(id)?;
            let candidate = Candidate::new(self.view, provider, &target.model, self.now)?;
            (!candidate.failing()).then(|| Leg::new(id, candidate.model))
        })
    }

    /// The first leg after a move takes over the caller's pin and own key; where it goes does not have
    /// the pinned key, it is left out.
    fn redirected_leg(&mut self, mut leg: Leg) {
        leg.direct_key = self.facts.direct_key;
        if leg.direct_key {
            self.plan.notes.push(trail::own_key_moved(leg.route()));
        }
        if let Some(pin) = self.pin() {
            let found = self
                .view
                .provider(&leg.provider)
                .and_then(|provider| pin.find(provider, &leg.model));
            let Some(key) = found else {
                self.plan.notes.push(trail::pin_not_there(leg.route()));
                return;
            };
            leg.pin = Some(key.spec.id.clone());
        }
        self.plan.legs.push(leg);
    }
}

/// What other providers are asked for when a request leaves this one.
pub(crate) fn common_name<'a>(provider: &'a ProviderView, asked: &'a ModelId) -> &'a ModelId {
    provider.names.common(asked).unwrap_or(asked)
}

/// Which keys legs at the named provider are pinned to.
#[derive(Default)]
struct Pins {
    /// Where the request begins there.
    first: Option<KeyId>,
    /// Where it was moved away, and ends there: a caller's pin has gone along with the move.
    last: Option<KeyId>,
}
