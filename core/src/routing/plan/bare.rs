//! Requests that name no provider: one is chosen for them, the other healthy ones stand behind.

use rand_core::RngCore;

use super::{Because, Candidate, PlanError, Planning, Pool};
use crate::trail;

impl<'a, R: RngCore> Planning<'a, R> {
    pub(super) fn bare(&mut self) -> Result<(), PlanError> {
        let mut pool = Pool::of(self.view, self.model(), self.now);
        let fit = self.fit(&pool)?;
        if !self.view.adaptive || !self.view.settings.direction_selection_enabled {
            self.begin_at(&fit.first_by_name());
            self.leave_own_fallbacks();
            return Ok(());
        }
        let chosen = self.choose(fit);
        self.begin_at(&chosen);
        self.manage_own_fallbacks(None, None);
        pool.shuffle_equals(self.rng);
        self.append(pool.usable());
        Ok(())
    }

    fn begin_at(&mut self, candidate: &Candidate<'a>) {
        let Candidate {
            provider, model, ..
        } = *candidate;
        let key = self.pin().and_then(|pin| pin.find(provider, model));
        self.first_leg(provider, model, key.map(|key| key.spec.id.clone()));
    }

    /// The providers that could take the first leg: those with the pinned key, where there is a pin.
    fn fit(&self, pool: &Pool<'a>) -> Result<Pool<'a>, PlanError> {
        let Some(best) = pool.candidates.first() else {
            return Err(PlanError::UnknownModel(self.model().clone()));
        };
        let fit = self.facts.fit(pool.clone());
        match self.pin() {
            Some(pin) if fit.candidates.is_empty() => {
                let (provider, model) = (best.provider, best.model);
                Err(PlanError::unknown_pin(pin, pin.header(), provider, model))
            }
            Some(_) | None => Ok(fit),
        }
    }

    /// Where the request begins: as the draw says, unless its session is served somewhere.
    fn choose(&mut self, fit: Pool<'a>) -> Candidate<'a> {
        let count = fit.candidates.len();
        let bound = self.bound(&fit);
        let usable = fit.usable;
        let (drawn, because, fit) = self.drawn(fit, bound.is_none() && self.may_prove());
        let chosen = bound.unwrap_or(drawn);
        let left_out = |candidate: &&Candidate<'_>| {
            usable > 0 && candidate.failing() && candidate.provider.id != chosen.provider.id
        };
        for candidate in fit.candidates.iter().filter(left_out) {
            let line = trail::provider_left_out(candidate.route(), candidate.held());
            self.plan.notes.push(line);
        }
        if because == Because::Check {
            let line = trail::provider_checked(drawn.route(), drawn.held());
            self.plan.notes.push(line);
        } else if count > 1 {
            let line = trail::provider_chosen(drawn.route(), count, because, drawn.direction);
            self.plan.notes.push(line);
        }
        if bound.is_some() && chosen.provider.id != drawn.provider.id {
            let line = trail::session_stays(chosen.route(), self.model(), drawn.route());
            self.plan.notes.push(line);
        }
        chosen
    }

    /// The usable provider that serves the request's session; tells where it is none any more.
    fn bound(&mut self, fit: &Pool<'a>) -> Option<Candidate<'a>> {
        let bound = self.session().filter(|_| fit.candidates.len() > 1)?;
        let is_bound = |candidate: &&Candidate<'_>| {
            candidate.provider.id == bound.provider && *candidate.model == bound.model
        };
        let found = fit.candidates.iter().find(is_bound).copied();
        match found {
            Some(candidate) if !candidate.failing() => return Some(candidate),
            Some(candidate) => {
                let line = trail::session_leaves(candidate.route(), self.model(), candidate.held());
                self.plan.notes.push(line);
            }
            None => {}
        }
        None
    }

    /// Draws a provider, and takes its check or turn where that is what it was drawn for; what another
    /// request took first is nobody's reason any more.
    fn drawn(&mut self, mut fit: Pool<'a>, may_prove: bool) -> (Candidate<'a>, Because, Pool<'a>) {
        loop {
            let (at, because) = fit
                .draw(may_prove, self.rng)
                .expect("a request that nobody can take was refused before");
            let drawn = fit.candidates[at];
            let lost = match because {
                Because::Check => !self.take_check(drawn.provider, drawn.model),
                Because::Proof => drawn.turn && !self.take_turn(&drawn),
                Because::Best | Because::Drawn(_) | Because::LeastBad => false,
            };
            if !lost {
                return (drawn, because, fit);
            }
            fit.candidates[at].check = false;
            fit.candidates[at].turn = false;
        }
    }
}
