//! Requests: which key they go to, what they take along, what comes of the answer.

use super::*;

impl World<'_> {
    pub(super) fn traffic(&mut self, node: usize) -> Result<(), Broken> {
        self.after(
            self.quiet_from / 500,
            self.quiet_from / 35,
            Event::Traffic(node),
        );
        if !self.nodes[node].is_up {
            return Ok(());
        }
        for _ in 0..self.rng.random_range(1..4) {
            self.send(node)?;
        }
        Ok(())
    }

    pub(super) fn send(&mut self, node: usize) -> Result<(), Broken> {
        let model = self.rng.random_range(0..MODELS);
        let first = self.rng.random_range(0..KEYS);
        let (key, why, check) = if self.rng.random_bool(0.15) {
            (first, Why::Pinned, None)
        } else {
            self.choose(node, model, first)
        };
        if let Some(check) = check {
            if self.rng.random_bool(0.05) {
                self.count("failed before it was sent");
                self.rules.fail_unsent(check);
                return laws::after_step(self, node);
            }
            return self.call(node, key, model, why, Some(check));
        }
        self.call(node, key, model, why, None)
    }

    /// A due key first, then one that is free, then the one due soonest.
    pub(super) fn choose(
        &self,
        node: usize,
        number: usize,
        first: usize,
    ) -> (usize, Why, Option<CheckGuard>) {
        let now = self.nodes[node].clocks(self.time).now;
        let routes: Vec<_> = [first, 1 - first]
            .map(|key| (key, self.nodes[node].holds(self.rules, key)))
            .into();
        let model = model(number);
        for (key, holds) in &routes {
            if let Some(check) = self.rules.try_check(holds, &model, now) {
                return (*key, Why::Check, Some(check));
            }
        }
        let standing = |at: usize| routes[at].1.standing(&model, now);
        if let Some(at) = (0..KEYS).find(|at| standing(*at) == Standing::Free) {
            return (routes[at].0, Why::Free, None);
        }
        let due = |at: usize| match standing(at) {
            Standing::Held { due } => due.0,
            Standing::Free | Standing::Due | Standing::Checking => 0,
        };
        let soonest = if due(0) <= due(1) { 0 } else { 1 };
        (routes[soonest].0, Why::EveryKeyHeld, None)
    }

    pub(super) fn call(
        &mut self,
        node: usize,
        key: usize,
        number: usize,
        why: Why,
        check: Option<CheckGuard>,
    ) -> Result<(), Broken> {
        let here = &self.nodes[node];
        let now = here.clocks(self.time).now;
        let holds = here.holds(self.rules, key);
        let route = RouteKey {
            provider: provider(),
            key: self::key(key),
            fingerprint: self.rules.fingerprint(here.config[key]),
            model: model(number),
        };
        let due = [holds.key.as_ref(), holds.models.get(&route.model)]
            .map(|hold| hold.is_some_and(|hold| hold.register.is_held() && hold.due <= now));
        let mut call = Call {
            node,
            life: here.life,
            why,
            key,
            model: number,
            configured: here.config[key],
            token: self.rules.token(&holds, &route.model, now),
            route,
            sent: self.time,
            launch: [None; 2],
            due,
            known: [Known::default(), Known::default()],
            check,
            answer: Answer::Cancelled,
        };
        for (at, scope) in SCOPES.into_iter().enumerate() {
            let subject = call.subject(scope);
            call.launch[at] = here.shown_id(&subject);
            call.known[at] = here.knows(&subject);
        }
        let number = usize::try_from(self.serial).expect("few events");
        self.note(format_args!(
            "n{node} sends #{number} to {:?} {} ({why:?})",
            call.route.key, call.route.model
        ));
        laws::at_call(self, number, &call)?;
        self.calls.insert(number, call);
        let delay = if self.rng.random_bool(0.1) {
            500_000
        } else {
            3_000
        };
        self.after(1, delay, Event::Arrive(number));
        Ok(())
    }

    pub(super) fn arrive(&mut self, number: usize) -> Option<usize> {
        let call = self.calls.get_mut(&number)?;
        call.answer = self
            .provider
            .answer(call.configured, call.model, &mut self.rng);
        if self.rng.random_bool(0.06) {
            call.answer = Answer::Cancelled;
        }
        self.after(1, 3_000, Event::Answer(number));
        None
    }

    pub(super) fn answered(&mut self, number: usize) -> Result<Option<usize>, Broken> {
        let Some(mut call) = self.calls.remove(&number) else {
            return Ok(None);
        };
        let node = call.node;
        let check = call.check.take();
        if !self.nodes[node].is_up || self.nodes[node].life != call.life {
            return Ok(None);
        }
        let clocks = self.nodes[node].clocks(self.time);
        self.note(format_args!("n{node} hears {:?} to #{number}", call.answer));
        let answer = call.answer.clone();
        let before = laws::Before::of(self, &call);
        let ledger = &mut self.nodes[node].ledger;
        let made = self
            .rules
            .settle(ledger, &call.route, &call.token, &answer, clocks);
        let launch = call.known.clone();
        for record in &made {
            let scope = record.subject.scope.kind();
            let known = launch[usize::from(scope == Scope::Model)].clone();
            self.made(node, record, known)?;
        }
        laws::at_answer(self, &call, &answer, &before, &made)?;
        let now = clocks.now;
        let until = (answer == Answer::Cancelled && check.is_some()).then(|| {
            let holds = self.nodes[node].holds(self.rules, call.key);
            holds.abandon_until(&call.route.model, now)
        });
        match (check, until) {
            (Some(check), Some(until)) => {
                self.count("check cancelled");
                let until_true = self.nodes[node].true_time(until);
                self.checks.end(number, Some(until_true));
                check.abandon(until);
            }
            (check, _) => {
                self.checks.end(number, None);
                drop(check);
            }
        }
        for record in &made {
            self.push(node, record);
        }
        Ok(Some(node))
    }
}
