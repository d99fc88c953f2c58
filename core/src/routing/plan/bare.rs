//! Requests that name no provider: one is chosen for them, the other open ones stand behind.

use rand_core::RngCore;

use super::{PlanError, Planning};
use crate::routing::provider::Standing;
use crate::routing::view::ProviderView;
use crate::trail::{self, Route};

impl<'a, R: RngCore> Planning<'a, R> {
    pub(super) fn bare(&mut self) -> Result<(), PlanError> {
        let candidates = self.candidates()?;
        if !self.view.adaptive || !self.view.settings.direction_selection_enabled {
            self.begin_at(candidates[0]);
            self.own_fallbacks(false, None);
            return Ok(());
        }
        let open = self.open_providers(self.model());
        let chosen = self.choose(&candidates, &open);
        self.begin_at(chosen);
        self.own_fallbacks(true, None);
        self.append(&open);
        Ok(())
    }

    fn begin_at(&mut self, provider: &ProviderView) {
        let key = self.pin().and_then(|pin| pin.find(provider, self.model()));
        self.first_leg(provider, key.map(|key| key.spec.id.clone()));
    }

    /// Every provider that could take the first leg, held ones included: those with the pinned key,
    /// where there is a pin.
    fn candidates(&self) -> Result<Vec<&'a ProviderView>, PlanError> {
        let model = self.model();
        let serving = self.view.serving(model);
        let Some((_, first)) = serving.first() else {
            return Err(PlanError::UnknownModel(model.clone()));
        };
        let first = *first;
        let pin = self.pin();
        let fit: Vec<_> = serving
            .into_iter()
            .map(|(_, provider)| provider)
            .filter(|provider| pin.is_none_or(|pin| pin.find(provider, model).is_some()))
            .collect();
        match pin {
            Some(pin) if fit.is_empty() => Err(PlanError::unknown_pin(pin, first, model)),
            Some(_) | None => Ok(fit),
        }
    }

    /// The provider whose check this request takes, else the first open one, else the one due soonest.
    fn choose(
        &mut self,
        candidates: &[&'a ProviderView],
        open: &[&'a ProviderView],
    ) -> &'a ProviderView {
        let (model, now, count) = (self.model(), self.now, candidates.len());
        let mut soonest = None;
        for provider in candidates.iter().copied() {
            let Standing::HeldOnEveryKey { due } = self.view.standing(provider, model, now) else {
                continue;
            };
            let route = Route {
                provider: &provider.id,
                model,
            };
            if self.take_check(provider) {
                self.plan.notes.push(trail::provider_checked(route));
                return provider;
            }
            if !open.is_empty() {
                self.plan.notes.push(trail::provider_left_out(route));
            }
            if soonest.is_none_or(|(earliest, _)| due < earliest) {
                soonest = Some((due, provider));
            }
        }
        let is_candidate =
            |provider: &&&ProviderView| candidates.iter().any(|c| c.id == provider.id);
        let chosen = match (open.iter().find(is_candidate), soonest) {
            (Some(open), _) => *open,
            (None, Some((_, held))) => held,
            (None, None) => candidates[0],
        };
        if count > 1 {
            self.plan
                .notes
                .push(trail::provider_chosen(&chosen.id, model, count));
        }
        chosen
    }
}
