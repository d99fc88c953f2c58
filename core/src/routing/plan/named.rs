//! Requests that name their provider: left as they are, unless a setting says otherwise.

use rand_core::RngCore;

use super::{Leg, PlanError, Planning};
use crate::ids::ProviderId;
use crate::routing::settings::RerouteTarget;
use crate::routing::view::ProviderView;
use crate::trail::{self, Route};

impl<'a, R: RngCore> Planning<'a, R> {
    pub(super) fn named(&mut self, id: &ProviderId) -> Result<(), PlanError> {
        let (model, settings) = (self.model(), &self.view.settings);
        let Some(provider) = self.view.provider(id) else {
            return Err(PlanError::UnknownProvider(id.clone()));
        };
        if !self.facts.direct_key && provider.serves(model).is_none() {
            return Err(PlanError::NoKeyServes {
                provider: id.clone(),
                model: model.clone(),
            });
        }
        let pin = match self.pin() {
            Some(pin) => match pin.find(provider, model) {
                Some(key) => Some(key.spec.id.clone()),
                None => return Err(PlanError::unknown_pin(pin, provider, model)),
            },
            None => None,
        };
        let moved = settings.reroute_failed_directions
            && !self.is_open(provider, model)
            && self.move_away(provider);
        if moved {
            return Ok(());
        }
        self.first_leg(provider, pin);
        self.own_fallbacks(settings.append_fallbacks_to_pinned, None);
        if settings.append_fallbacks_to_pinned {
            let open = self.open_providers(model);
            self.append(&open);
        }
        Ok(())
    }

    /// Plans a request whose provider is held on every key: as that provider's check, or elsewhere with
    /// the named provider last. False where nobody else could take it.
    fn move_away(&mut self, named: &ProviderView) -> bool {
        let model = self.model();
        let mut pool = self.open_providers(model);
        let own = match self.view.settings.reroute_target {
            RerouteTarget::Fallbacks => self.first_open_fallback(),
            RerouteTarget::Pool => None,
        };
        let from = Route {
            provider: &named.id,
            model,
        };
        let elsewhere = own.or_else(|| Some(Leg::new(&pool.first()?.id, model)));
        let Some(to) = elsewhere else {
            return false;
        };
        if self.take_check(named) {
            self.plan.notes.push(trail::provider_checked(from));
            self.first_leg(named, None);
            self.own_fallbacks(true, None);
            self.append(&pool);
            return true;
        }
        self.plan.notes.push(trail::redirected(from, to.route()));
        pool.retain(|provider| provider.id != to.provider || *model != to.model);
        self.redirected_leg(to.clone());
        self.own_fallbacks(true, Some(&to));
        self.append(&pool);
        self.plan.legs.push(Leg::new(&named.id, model));
        true
    }

    /// The first own fallback whose provider serves its model and is not held on every key.
    fn first_open_fallback(&self) -> Option<Leg> {
        let facts = self.facts;
        facts.fallbacks.iter().find_map(|target| {
            let provider = self.view.provider(target.provider.as_ref()?)?;
            let open =
                provider.serves(&target.model).is_some() && self.is_open(provider, &target.model);
            open.then(|| Leg::new(&provider.id, &target.model))
        })
    }

    /// The first leg after a move takes over the caller's pin and own key; where it goes does not have
    /// the pinned key, it is left out.
    fn redirected_leg(&mut self, mut leg: Leg) {
        leg.direct_key = self.facts.direct_key;
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
