//! Whole requests, played against scripted providers; and what holds for any sequence of outcomes.

mod budget;
mod chain;
mod laws;
mod leg;

use std::collections::BTreeMap;

use rand::rngs::StdRng;

use super::*;
use crate::routing::fixture::{MODEL, key, provider, rng, view};
use crate::routing::{KeyView, ProviderView};

/// What a provider answers: a class, or nothing where it serves.
type Answer = Option<FailureClass>;

/// One request under test.
struct Play {
    view: View,
    walk: Walk,
    now: Mono,
    rng: StdRng,
    /// `provider key`, in order; `-` where there is no key.
    calls: Vec<String>,
    /// The waits before the calls, in milliseconds.
    waits: Vec<u64>,
    /// Whether refusals hold their key in the view, as the ledger would.
    holding: bool,
}

impl Play {
    /// Legs are written `provider`, `provider@pin` or `provider+own`.
    fn new(view: View, legs: &[&str]) -> Self {
        let legs = legs.iter().map(|text| leg(text)).collect();
        let plan = Plan {
            legs,
            ..Plan::default()
        };
        Self {
            view,
            walk: Walk::new(plan, Limits { max_attempts: 200 }),
            now: Mono(1_000),
            rng: rng(5),
            calls: vec![],
            waits: vec![],
            holding: false,
        }
    }

    fn seed(mut self, seed: u64) -> Self {
        self.rng = rng(seed);
        self
    }

    fn limit(mut self, max_attempts: u32) -> Self {
        self.walk.limits = Limits { max_attempts };
        self
    }

    fn holding(mut self) -> Self {
        self.holding = true;
        self
    }

    /// The next call, after all waits.
    fn call(&mut self) -> Result<Box<Attempt>, Ending> {
        loop {
            match self.walk.next(&self.view, self.now, &mut self.rng) {
                Step::Call(attempt) => {
                    let key = attempt.key.as_ref().map_or("-", |key| key.id.as_str());
                    self.calls.push(format!("{} {key}", attempt.provider));
                    return Ok(attempt);
                }
                Step::Wait(until) => {
                    assert!(until > self.now, "a wait that is over");
                    self.waits.push(until.since_ms(self.now));
                    self.now = until;
                }
                Step::Done(ending) => return Err(ending),
            }
        }
    }

    fn answer(&mut self, attempt: &Attempt, answer: Answer) {
        if let (true, Some(class), Some(key)) = (self.holding, answer, &attempt.key)
            && class.reason().is_some()
        {
            let due = self.now.plus_ms(30_000).0;
            self.view.hold_key(attempt.provider.as_str(), &key.id, due);
        }
        self.walk.observe(outcome(answer), self.now);
    }

    /// Plays to the end with these answers in order, the last for ever.
    fn run(&mut self, answers: &[Answer]) -> Ending {
        self.run_by(|_, number| answers[number.min(answers.len() - 1)])
    }

    fn run_by(&mut self, answer: impl Fn(&Attempt, usize) -> Answer) -> Ending {
        let mut number = 0;
        loop {
            let attempt = match self.call() {
                Ok(attempt) => attempt,
                Err(ending) => return ending,
            };
            let said = answer(&attempt, number);
            self.answer(&attempt, said);
            number += 1;
        }
    }

    fn lines(&mut self) -> String {
        let lines = self.walk.take_lines();
        let text: Vec<&str> = lines.iter().map(|line| line.message.as_str()).collect();
        text.join("\n")
    }

    /// How often each key was called.
    fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for call in &self.calls {
            *counts.entry(call.as_str()).or_default() += 1;
        }
        counts
    }
}

fn leg(text: &str) -> Leg {
    let model = ModelId::from(MODEL);
    let own = text.strip_suffix("+own");
    let (name, pin) = match own.unwrap_or(text).split_once('@') {
        Some((name, pin)) => (name, Some(pin.into())),
        None => (own.unwrap_or(text), None),
    };
    Leg {
        pin,
        direct_key: own.is_some(),
        ..Leg::new(&ProviderId::from(name), &model)
    }
}

/// A failure of a class, with the status that is usual for it.
fn failure(class: FailureClass) -> Failure {
    let status = match class {
        FailureClass::Credential => 401,
        FailureClass::Quota => 402,
        FailureClass::ModelAccess => 404,
        FailureClass::ModelGone => 410,
        FailureClass::RegionBlocked => 403,
        FailureClass::RateLimit => 429,
        FailureClass::Transient => 503,
        FailureClass::CallerFault => 400,
        FailureClass::Unknown => 405,
        FailureClass::Timeout => 504,
        FailureClass::Cancelled => 499,
    };
    Failure {
        class,
        status,
        label: crate::failure::label(class, None),
        retry_after_ms: None,
        callers_deadline: false,
    }
}

fn outcome(answer: Answer) -> Outcome {
    answer.map_or_else(Outcome::served, |class| Outcome::failed(failure(class)))
}

/// A provider `p` with so many keys `a`, `b` … and retries.
fn pool(keys: usize, retries: u32) -> ProviderView {
    let names = ["a", "b", "c", "d", "e"];
    provider("p", names[..keys].iter().map(|name| key(name))).retries(retries)
}

fn plain(providers: impl IntoIterator<Item = ProviderView>) -> View {
    let mut view = view(providers);
    view.adaptive = false;
    view
}
