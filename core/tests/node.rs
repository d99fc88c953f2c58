//! Requests on one node, from the plan to the ledger: what planning, walking and holding make together.
//!
//! Requests interleave as on a node under load: one is under way while others begin.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdline_core::failure::{FailureClass, label};
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::{Answer, Body, KeyHolds, Ledger, Refusal};
use holdline_core::ids::{Fingerprint, KeyId, ModelId, ProviderId};
use holdline_core::routing::{
    KeySpec, KeyView, ModelRule, Pin, ProviderView, RequestFacts, RetryPolicy, Settings, Target,
    View, plan,
};
use holdline_core::time::{Mono, WallMs};
use holdline_core::walk::{Attempt, Ending, Failure, Limits, Outcome, Step, Walk};
use rand::SeedableRng;
use rand::rngs::StdRng;

const MODEL: &str = "gpt-4o";

struct Node {
    ledger: Ledger,
    view: View,
    now: Mono,
    rng: StdRng,
    /// `provider key`, as called.
    calls: Vec<String>,
}

/// A request under way.
struct Request {
    walk: Walk,
    attempt: Option<Box<Attempt>>,
}

impl Node {
    fn new(providers: &[(&str, &[&str])]) -> Self {
        let provider = |(id, keys): &(&str, &[&str])| {
            let view = ProviderView {
                id: ProviderId::from(*id),
                keys: keys.iter().map(|key| Arc::new(key_view(key))).collect(),
                keyless: false,
                retry: RetryPolicy::default(),
                retry_budget: None,
                health: Arc::default(),
                names: Arc::default(),
            };
            (view.id.clone(), Arc::new(view))
        };
        Self {
            ledger: Ledger::new("n1".into(), "r".into(), 1),
            view: View {
                providers: providers.iter().map(provider).collect(),
                settings: Arc::new(Settings::default()),
                adaptive: true,
            },
            now: Mono(1_000),
            rng: StdRng::seed_from_u64(3),
            calls: vec![],
        }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.view.settings));
        self
    }

    /// A request that has its first call out.
    fn start(&mut self, asked: &str, pin: Option<&str>) -> Request {
        let view = self.view.clone();
        self.start_seeing(&view, asked, pin)
    }

    /// A request that read the view a moment ago.
    fn start_seeing(&mut self, view: &View, asked: &str, pin: Option<&str>) -> Request {
        let (provider, model) = match asked.split_once('/') {
            Some((provider, model)) => (Some(ProviderId::from(provider)), model),
            None => (None, asked),
        };
        let facts = RequestFacts {
            pin: pin.map(|id| Pin::Id(KeyId::from(id))),
            ..RequestFacts::new(Target {
                provider,
                model: ModelId::from(model),
            })
        };
        let plan = plan(view, &facts, &mut self.rng, self.now).unwrap();
        let mut walk = Walk::new(plan, Limits { max_attempts: 200 });
        let Step::Call(attempt) = walk.next(view, self.now, &mut self.rng) else {
            panic!("no first call");
        };
        self.called(&attempt);
        Request {
            walk,
            attempt: Some(attempt),
        }
    }

    fn called(&mut self, attempt: &Attempt) {
        let key = &attempt.key.as_ref().unwrap().id;
        self.calls.push(format!("{} {key}", attempt.provider));
    }

    /// The provider answers the call that is out; the request goes on to its next call, or ends.
    fn answer(&mut self, request: &mut Request, said: Option<FailureClass>) -> Option<Ending> {
        let mut attempt = request.attempt.take().unwrap();
        self.settle(&attempt, said);
        if let Some(check) = attempt.check.take() {
            check.settled();
        }
        request.walk.observe(outcome(said), self.now);
        match request.walk.next(&self.view, self.now, &mut self.rng) {
            Step::Call(next) => {
                self.called(&next);
                request.attempt = Some(next);
                None
            }
            Step::Wait(_) => panic!("nothing waits here"),
            Step::Done(ending) => Some(ending),
        }
    }

    fn settle(&mut self, attempt: &Attempt, said: Option<FailureClass>) {
        let spec = attempt.key.as_ref().unwrap();
        let route = RouteKey {
            provider: attempt.provider.clone(),
            key: spec.id.clone(),
            fingerprint: spec.fingerprint,
            model: attempt.model.clone(),
        };
        let refused = |reason| {
            Answer::Refused(Refusal {
                reason,
                stated_ms: None,
                words: String::new(),
                status: 400,
            })
        };
        let answer = said.map_or(Answer::Served, |class| {
            class.reason().map_or(Answer::Inconclusive, refused)
        });
        let (token, wall) = (attempt.token.unwrap(), WallMs(self.now.0));
        self.ledger.settle(&route, &token, &answer, self.now, wall);
        let holds = self
            .ledger
            .key_holds(&route.provider, &route.key, route.fingerprint);
        self.view = self.view.with_holds(&route.provider, &route.key, holds);
    }

    /// One whole request; `said` tells what each key answers.
    fn request(
        &mut self,
        asked: &str,
        pin: Option<&str>,
        said: impl Fn(&str) -> Option<FailureClass>,
    ) -> Ending {
        let mut request = self.start(asked, pin);
        self.finish(&mut request, said)
    }

    fn finish(
        &mut self,
        request: &mut Request,
        said: impl Fn(&str) -> Option<FailureClass>,
    ) -> Ending {
        loop {
            let attempt = request.attempt.as_ref().unwrap();
            let key = attempt.key.as_ref().unwrap().id.to_string();
            if let Some(ending) = self.answer(request, said(&key)) {
                return ending;
            }
        }
    }

    /// Holds a key by a pinned request that is refused.
    fn hold(&mut self, provider: &str, key: &str) {
        let asked = format!("{provider}/{MODEL}");
        self.request(&asked, Some(key), |_| Some(FailureClass::Credential));
        self.calls.clear();
    }

    fn wait_until_due(&mut self) {
        let rows = self.ledger.held(self.now);
        let due = rows.iter().map(|row| row.due).max().unwrap();
        self.now = self.now.max(due);
    }

    fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|made| *made == call).count()
    }

    /// The rung of the only hold.
    fn rung(&self) -> u8 {
        let rows = self.ledger.held(self.now);
        match rows[0].record.register.body {
            Body::Held { rung, .. } => rung,
            Body::Free { .. } => panic!("a free row is not held"),
        }
    }
}

fn key_view(id: &str) -> KeyView {
    KeyView {
        spec: Arc::new(KeySpec {
            id: KeyId::from(id),
            name: id.to_owned(),
            fingerprint: Fingerprint(7),
            weight: 1.0,
            enabled: true,
            models: ModelRule::Only([MODEL.to_owned()].into()),
            blocked: BTreeSet::new(),
            aliases: BTreeMap::new(),
        }),
        holds: Arc::new(KeyHolds::default()),
        dry: Arc::default(),
    }
}

fn outcome(said: Option<FailureClass>) -> Outcome {
    said.map_or_else(Outcome::served, |class| {
        Outcome::failed(Failure {
            class,
            status: 400,
            label: label(class, None),
            retry_after_ms: None,
            callers_deadline: false,
        })
    })
}

fn two_keys() -> Node {
    Node::new(&[("p", &["a", "b"])])
}

fn two_providers() -> Node {
    Node::new(&[("alpha", &["k-alpha"]), ("beta", &["k-beta"])])
}

/// Every key serves but this one, which is rejected.
fn rejects(key: &'static str) -> impl Fn(&str) -> Option<FailureClass> {
    move |called| (called == key).then_some(FailureClass::Credential)
}

/// LB-025, AR-098.
#[test]
fn a_refused_key_is_not_called_again_before_it_is_due() {
    let mut node = two_keys();
    let refused = node.request("p/gpt-4o", Some("a"), rejects("a"));
    assert_eq!(refused, Ending::Failed { attempt: 0 });
    for _ in 0..100 {
        assert_eq!(node.request("p/gpt-4o", None, |_| None), Ending::Served);
    }
    assert_eq!((node.count("p a"), node.count("p b")), (1, 100));
}

/// AR-067, AR-090, AR-091, AR-093.
#[test]
fn of_fifty_requests_one_checks_a_due_key() {
    for serves in [true, false] {
        let mut node = two_keys();
        node.hold("p", "a");
        node.wait_until_due();
        let mut requests: Vec<Request> = (0..50).map(|_| node.start("p/gpt-4o", None)).collect();
        assert_eq!(node.count("p a"), 1);
        for request in &mut requests {
            let ending = node.finish(request, |key| {
                (key == "a" && !serves).then_some(FailureClass::Credential)
            });
            assert_eq!(ending, Ending::Served);
        }
        assert_eq!(node.count("p a"), 1);
        assert_eq!(node.ledger.held_count(), usize::from(!serves));
        if !serves {
            assert_eq!(node.rung(), 1);
        }
    }
}

/// A request that read the view before the check was answered must not check once more.
#[test]
fn an_answered_check_is_not_repeated_from_an_older_view() {
    let mut node = two_keys();
    node.hold("p", "a");
    node.wait_until_due();
    let before = node.view.clone();
    assert_eq!(node.request("p/gpt-4o", None, rejects("a")), Ending::Served);
    for _ in 0..20 {
        node.start_seeing(&before, "p/gpt-4o", None);
    }
    assert_eq!(node.count("p a"), 1);
}

/// AR-099, CF-005, CF-021.
#[test]
fn where_every_key_is_held_refusals_change_nothing_until_one_is_due() {
    let mut node = Node::new(&[("p", &["a"])]);
    node.hold("p", "a");
    for _ in 0..5 {
        node.request("p/gpt-4o", None, rejects("a"));
    }
    assert_eq!((node.count("p a"), node.rung()), (5, 0));
    node.wait_until_due();
    node.request("p/gpt-4o", None, rejects("a"));
    assert_eq!(node.rung(), 1);
    assert_eq!(node.request("p/gpt-4o", None, |_| None), Ending::Served);
    assert_eq!(node.ledger.held_count(), 0);
}

/// AR-100.
#[test]
fn a_provider_held_on_every_key_is_left_out() {
    let mut node = two_providers();
    node.hold("alpha", "k-alpha");
    for _ in 0..40 {
        assert_eq!(node.request(MODEL, None, |_| None), Ending::Served);
    }
    assert_eq!(node.count("beta k-beta"), 40);
}

/// AR-101, AR-102: bare, and named with redirecting on.
#[test]
fn one_of_forty_requests_checks_a_due_provider_and_is_served_behind_it() {
    for asked in [MODEL, "alpha/gpt-4o"] {
        let mut node = two_providers().set(|s| s.reroute_failed_directions = true);
        node.hold("alpha", "k-alpha");
        node.wait_until_due();
        let mut requests: Vec<Request> = (0..40).map(|_| node.start(asked, None)).collect();
        for request in &mut requests {
            assert_eq!(node.finish(request, rejects("k-alpha")), Ending::Served);
        }
        assert_eq!(node.count("alpha k-alpha"), 1);
        assert_eq!(node.count("beta k-beta"), 40);
        assert_eq!(node.rung(), 1);
    }
}

/// AR-096: nobody probes a hung key one after another.
#[test]
fn a_check_whose_caller_left_keeps_its_slot() {
    let mut node = two_keys();
    node.hold("p", "a");
    node.wait_until_due();
    let mut left = node.start("p/gpt-4o", None);
    let check = left.attempt.take().unwrap().check.unwrap();
    check.abandon(node.now.plus_ms(30_000));
    node.request("p/gpt-4o", None, |_| None);
    assert_eq!((node.count("p a"), node.count("p b")), (1, 1));
    node.now = node.now.plus_ms(30_000);
    node.request("p/gpt-4o", None, |_| None);
    assert_eq!(node.count("p a"), 2);
}

/// A request that is dropped before it calls gives the check back.
#[test]
fn a_request_that_never_called_leaves_the_check_to_the_next() {
    let mut node = two_providers();
    node.hold("alpha", "k-alpha");
    node.wait_until_due();
    drop(node.start(MODEL, None));
    node.calls.clear();
    assert_eq!(node.request(MODEL, None, |_| None), Ending::Served);
    assert_eq!(node.calls, ["alpha k-alpha"]);
}
