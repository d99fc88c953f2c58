//! What a node makes of what it sees.

use std::sync::Arc;

use super::*;
use crate::health::{ModelHealth, RouteHealth, State};
use crate::holds::{Answer, Ledger, Refusal, RouteKey, Selector};
use crate::incidents::{Phase, Status};
use crate::routing::fixture::{MODEL, key, model, provider};
use crate::routing::{KeyView, ProviderView};

/// A node with the provider `openai` (keys `k-a` and `k-b`), a ledger, and health that a test sets.
struct Stage {
    tracker: Tracker,
    ledger: Ledger,
    keys: Vec<KeyView>,
    health: Vec<State>,
    /// Of `k-a` for a model of its own.
    second_model: Option<State>,
    others: Vec<ProviderView>,
    traffic: Traffic,
    now: u64,
}

const WALL: u64 = 1_800_000_000_000;

impl Stage {
    fn new() -> Self {
        Self {
            tracker: Tracker::new("n1".into(), "us-east".into()),
            ledger: Ledger::new("n1".into(), "us-east".into(), 7),
            keys: vec![key("k-a"), key("k-b")],
            health: Vec::new(),
            second_model: None,
            others: Vec::new(),
            traffic: Traffic::default(),
            now: 0,
        }
    }

    fn at(&self) -> (Mono, WallMs) {
        (Mono(self.now), WallMs(WALL + self.now))
    }

    fn view(&self) -> View {
        let mut openai = provider("openai", self.keys.clone());
        for key in &mut openai.keys {
            let spec = &key.spec;
            let holds = self
                .ledger
                .key_holds(&openai.id, &spec.id, spec.fingerprint);
            *key = Arc::new(KeyView {
                holds: Arc::new(holds),
                ..KeyView::clone(key)
            });
        }
        if !self.health.is_empty() {
            let routes = self.health.iter().map(|state| RouteHealth {
                state: *state,
                weight: 1.0,
                tried: true,
                ..RouteHealth::default()
            });
            let health = ModelHealth {
                routes: routes.collect(),
                score: 1.0,
                ..ModelHealth::default()
            };
            let mut all = BTreeMap::from([(model(), health.clone())]);
            if let Some(state) = self.second_model {
                let mut second = health;
                second.routes.truncate(1);
                second.routes[0].state = state;
                all.insert("o1".into(), second);
            }
            openai.health = Arc::new(all);
        }
        let all = std::iter::once(openai).chain(self.others.clone());
        View {
            providers: all.map(|p| (p.id.clone(), Arc::new(p))).collect(),
            adaptive: true,
            ..View::default()
        }
    }

    fn answer(&mut self, key: &str, answer: &Answer) {
        let (now, wall) = self.at();
        let view = self.view();
        let found = &view.providers["openai"].keys;
        let found = found.iter().find(|k| k.spec.id.as_str() == key).unwrap();
        let route = RouteKey {
            provider: "openai".into(),
            key: key.into(),
            fingerprint: found.spec.fingerprint,
            model: model(),
        };
        let token = found.holds.token(&model(), now);
        for record in self.ledger.settle(&route, &token, answer, now, wall) {
            self.tracker
                .hold_changed(&record, &found.spec.name, now, wall);
        }
    }

    fn refuse(&mut self, key: &str, reason: Reason) {
        let refusal = Refusal {
            reason,
            stated_ms: None,
            words: "no".to_owned(),
            status: 401,
        };
        self.answer(key, &Answer::Refused(refusal));
    }

    fn release(&mut self) {
        let (now, wall) = self.at();
        for record in self.ledger.release(&Selector::All, wall, now) {
            self.tracker.hold_changed(&record, "", now, wall);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
        let (now, wall) = self.at();
        let traffic = self.traffic;
        self.tracker.observe(&self.view(), |_| traffic, now, wall);
    }

    fn serve(&mut self) {
        self.traffic.answered += 1;
        self.traffic.served += 1;
    }

    /// The sighting of this entity, open or changed last.
    fn sighting(&mut self, entity: &str) -> Sighting {
        let changed = self.tracker.take_changed();
        let open = self.tracker.sightings().cloned();
        open.chain(changed)
            .find(|s| s.entity.to_string() == entity)
            .unwrap_or_else(|| panic!("no sighting of {entity}"))
    }

    fn open(&self) -> Vec<String> {
        self.tracker.followed().map(ToString::to_string).collect()
    }
}

const KEY: &str = "key:openai:k-a";
const ROUTE: &str = "route:openai:gpt-4o:k-a";
const DIRECTION: &str = "direction:openai:gpt-4o";

fn turns(sighting: &Sighting) -> Vec<Turn> {
    sighting.timeline.iter().map(|event| event.turn).collect()
}

#[test]
fn a_refused_key_waits_for_traffic_after_its_release_and_is_resolved_by_it() {
    let mut stage = Stage::new();
    stage.pass(0);
    assert!(stage.open().is_empty());

    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    let seen = stage.sighting(KEY);
    assert_eq!(
        (seen.status(), seen.worst),
        (Status::Attention, Worst::Failed)
    );
    assert_eq!(
        (seen.opened_at, seen.key_name.as_str()),
        (WallMs(WALL), "K-A")
    );
    assert_eq!((seen.words.as_str(), seen.status_code), ("no", 401));
    assert_eq!(stage.open(), [KEY]);

    stage.release();
    stage.pass(100);
    assert_eq!(stage.sighting(KEY).status(), Status::Recovering);
    stage.pass(QUIET_MS - 1);
    assert_eq!(stage.sighting(KEY).status(), Status::Recovering);
    stage.pass(1);
    let waiting = stage.sighting(KEY);
    assert_eq!(waiting.status(), Status::Waiting);
    assert_eq!(waiting.calmed_at, Some(WallMs(WALL + 200)));

    stage.pass(60_000);
    stage.serve();
    stage.pass(100);
    let resolved = stage.sighting(KEY);
    assert_eq!(resolved.phase, Phase::Resolved);
    assert_eq!(
        resolved.ended_at, waiting.calmed_at,
        "it was over when it began to wait"
    );
    assert!(stage.open().is_empty());
    assert_eq!(
        turns(&resolved),
        [
            Turn::Held,
            Turn::Released,
            Turn::Recovering,
            Turn::Waiting,
            Turn::Recovering,
            Turn::Resolved
        ]
    );
}

#[test]
fn a_check_that_serves_proves_the_end() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::ModelAccess);
    stage.pass(31_000);
    assert_eq!(stage.open(), [ROUTE]);
    stage.serve();
    stage.answer("k-a", &Answer::Served);
    stage.pass(100);
    assert_eq!(stage.sighting(ROUTE).phase, Phase::Resolved);
}

#[test]
fn only_a_refusal_after_the_wait_is_refused_again() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::Credential);
    stage.pass(1_000);
    stage.refuse("k-a", Reason::Credential);
    stage.pass(1_000);
    assert!(
        !stage.sighting(KEY).refused_again,
        "its wait has not run out"
    );
    stage.pass(34_000);
    stage.refuse("k-a", Reason::Credential);
    stage.pass(1_000);
    let seen = stage.sighting(KEY);
    assert!(seen.refused_again);
    assert_eq!(
        (seen.rung, turns(&seen)),
        (1, vec![Turn::Held, Turn::RefusedAgain])
    );
}

#[test]
fn what_heals_by_itself_needs_attention_only_when_nothing_else_serves() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::RateLimit);
    stage.pass(100);
    assert_eq!(stage.sighting(ROUTE).status(), Status::Mitigated);

    stage.refuse("k-b", Reason::RateLimit);
    stage.pass(100);
    assert_eq!(stage.sighting(ROUTE).status(), Status::Attention);
    let down = stage.sighting(DIRECTION);
    assert_eq!(
        (down.status(), down.cause),
        (Status::Attention, Cause::Refused(Reason::RateLimit))
    );

    stage.others = vec![provider("azure", [key("k-z")])];
    stage.pass(100);
    assert_eq!(stage.sighting(ROUTE).status(), Status::Mitigated);
    assert_eq!(stage.sighting(DIRECTION).status(), Status::Mitigated);

    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    assert_eq!(
        stage.sighting(KEY).status(),
        Status::Attention,
        "another key serves, but nobody mends this one"
    );
}

#[test]
fn measured_health_opens_follows_and_resolves() {
    let mut stage = Stage::new();
    stage.health = vec![State::Degraded, State::Healthy];
    stage.pass(0);
    let seen = stage.sighting(ROUTE);
    assert_eq!(
        (seen.cause, seen.worst, seen.status()),
        (Cause::Degraded, Worst::Degraded, Status::Mitigated)
    );

    stage.health = vec![State::Failed, State::Healthy];
    stage.pass(5_000);
    let seen = stage.sighting(ROUTE);
    assert_eq!((seen.cause, seen.worst), (Cause::Failing, Worst::Failed));

    stage.health = vec![State::Recovering, State::Healthy];
    stage.serve();
    stage.pass(5_000);
    assert_eq!(
        stage.sighting(ROUTE).status(),
        Status::Recovering,
        "served, but still on its way back"
    );
    stage.serve();
    stage.pass(5_000);
    stage.health = vec![State::Healthy; 2];
    stage.pass(5_000);
    let resolved = stage.sighting(ROUTE);
    assert_eq!(
        (resolved.phase, resolved.worst),
        (Phase::Resolved, Worst::Failed)
    );
    assert_eq!(resolved.ended_at, Some(WallMs(WALL + 20_000)));
}

#[test]
fn what_is_measured_of_a_held_key_is_part_of_that_trouble() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::Credential);
    stage.health = vec![State::Failed, State::Healthy];
    stage.pass(100);
    assert_eq!(stage.open(), [KEY]);
    stage.release();
    stage.health = vec![State::Recovering, State::Healthy];
    stage.serve();
    stage.pass(100);
    assert_eq!(stage.open(), [KEY]);
    assert_eq!(stage.sighting(KEY).status(), Status::Recovering);
    stage.health = vec![State::Healthy; 2];
    stage.pass(100);
    assert_eq!(stage.sighting(KEY).phase, Phase::Resolved);
}

#[test]
fn one_model_proves_a_whole_key_and_one_in_trouble_does_not() {
    let mut stage = Stage::new();
    stage.keys[0] = key("k-a").with(|spec| spec.models = crate::routing::ModelRule::All);
    stage.refuse("k-a", Reason::Quota);
    stage.pass(100);
    stage.release();
    stage.health = vec![State::Recovering, State::Healthy];
    stage.second_model = Some(State::Recovering);
    stage.serve();
    stage.pass(100);
    assert_eq!(stage.sighting(KEY).status(), Status::Recovering);
    stage.health[0] = State::Healthy;
    stage.second_model = Some(State::Degraded);
    stage.pass(100);
    assert_eq!(stage.sighting(KEY).status(), Status::Recovering);
    stage.second_model = Some(State::Recovering);
    stage.pass(100);
    assert_eq!(
        stage.sighting(KEY).phase,
        Phase::Resolved,
        "nobody asks for the other model"
    );
}

#[test]
fn a_trouble_that_comes_back_soon_is_the_same_one() {
    let mut stage = Stage::new();
    let resolve = |stage: &mut Stage| {
        stage.release();
        stage.pass(100);
        stage.serve();
        stage.pass(100);
        assert!(stage.open().is_empty());
    };
    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    let first = stage.sighting(KEY);
    resolve(&mut stage);

    stage.pass(REOPEN_MS - 1_000);
    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    let second = stage.sighting(KEY);
    assert_eq!((&second.id, second.reopened), (&first.id, 1));
    assert_eq!((second.opened_at, second.ended_at), (first.opened_at, None));
    resolve(&mut stage);

    stage.pass(1_000);
    stage.refuse("k-a", Reason::Quota);
    stage.pass(100);
    let other_class = stage.sighting(KEY);
    assert_ne!(other_class.id, first.id);
    resolve(&mut stage);

    stage.pass(REOPEN_MS);
    stage.refuse("k-a", Reason::Quota);
    stage.pass(100);
    assert_ne!(
        stage.sighting(KEY).id,
        other_class.id,
        "it was over for long"
    );
}

#[test]
fn a_deleted_key_is_lost_sight_of() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    stage.keys.remove(0);
    stage.pass(100);
    let lost = stage.sighting(KEY);
    assert_eq!(
        (lost.phase, lost.ended_at),
        (Phase::Unobserved, Some(WallMs(WALL + 200)))
    );
}

#[test]
fn an_edited_key_is_free_and_proves_itself() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    stage.keys[0] = key("k-a").with(|spec| spec.fingerprint = crate::ids::Fingerprint(2));
    stage.pass(100);
    assert_eq!(stage.sighting(KEY).status(), Status::Recovering);
    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    let again = stage.sighting(KEY);
    assert_eq!(turns(&again), [Turn::Held, Turn::Recovering, Turn::Held]);
    assert_eq!(again.status(), Status::Attention);
}

#[test]
fn a_hold_goes_on_after_a_restart_and_what_was_measured_does_not() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::Credential);
    stage.health = vec![State::Healthy, State::Failed];
    stage.pass(100);
    let before = stage.tracker.take_changed();
    assert_eq!(
        before.len(),
        3,
        "the key, the other key's route, the provider with both out"
    );

    let mut tracker = Tracker::new("n1".into(), "us-east".into());
    tracker.restore(before.clone(), WallMs(WALL + 50_000), Mono(0));
    stage.tracker = tracker;
    stage.health.clear();
    stage.pass(60_000);
    let held = stage.sighting(KEY);
    let open = before.iter().find(|s| s.entity == held.entity).unwrap();
    assert_eq!((&held.id, &held.timeline), (&open.id, &open.timeline));
    assert_eq!((held.phase, held.words.as_str()), (Phase::Standing, "no"));

    stage
        .tracker
        .restore(before, WallMs(WALL + 50_000), Mono(0));
    stage.pass(1);
    assert_eq!(
        stage.open(),
        [KEY],
        "of the provider only one key is known to be out"
    );
    let lost = stage.sighting("route:openai:gpt-4o:k-b");
    assert_eq!(
        (lost.phase, lost.ended_at),
        (Phase::Unobserved, Some(WallMs(WALL + 50_000)))
    );
}

#[test]
fn a_hold_that_ended_while_the_node_was_down_waits_for_traffic() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    let before = stage.tracker.take_changed();
    let mut stage = Stage::new();
    stage.tracker.restore(before, WallMs(WALL + 100), Mono(0));
    stage.now = 1_000;
    stage.pass(0);
    assert_eq!(stage.sighting(KEY).status(), Status::Recovering);
    stage.pass(QUIET_MS);
    assert_eq!(stage.sighting(KEY).status(), Status::Waiting);
}

#[test]
fn requests_that_stay_on_a_failing_provider_are_counted_where_it_fails() {
    let mut stage = Stage::new();
    stage.keys.pop();
    let (openai, m) = (ProviderId::from("openai"), model());
    stage.tracker.kept_on_failing(&openai, &m, 2);
    stage.pass(100);
    assert!(stage.open().is_empty(), "it does not fail");

    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    assert_eq!(stage.open(), [KEY], "nobody asks for a model here");
    stage.tracker.kept_on_failing(&openai, &m, 3);
    stage.pass(100);
    assert_eq!(stage.sighting(DIRECTION).pinned_kept_failed, 3);
    assert_eq!(stage.sighting(KEY).pinned_kept_failed, 0);
}

#[test]
fn switched_off_everything_is_lost_sight_of() {
    let mut stage = Stage::new();
    stage.refuse("k-a", Reason::Credential);
    stage.pass(100);
    stage.tracker.switch_off(WallMs(WALL + 100));
    assert_eq!(stage.sighting(KEY).phase, Phase::Unobserved);
    assert!(stage.open().is_empty());
}

#[test]
fn what_is_followed_and_told_is_bounded() {
    let mut stage = Stage::new();
    for round in 0..100 {
        stage.health = vec![[State::Degraded, State::Failed][round % 2], State::Healthy];
        stage.pass(5_000);
    }
    let seen = stage.sighting(ROUTE);
    assert_eq!(seen.timeline.len(), 24);
    assert_eq!(
        seen.timeline[0].at,
        WallMs(WALL + 5_000),
        "how it began is kept"
    );
    assert_eq!(seen.timeline[23].at, WallMs(WALL + 500_000));

    let models: Vec<String> = (0..MAX_OPEN + 10).map(|n| format!("m{n}")).collect();
    let held = models
        .iter()
        .fold(key("k-a"), |key, model| key.held_for(model, 1));
    let view = View {
        providers: [(
            "p".into(),
            Arc::new(provider(
                "p",
                [held.with(|spec| {
                    spec.models = crate::routing::ModelRule::All;
                })],
            )),
        )]
        .into(),
        adaptive: true,
        ..View::default()
    };
    let mut tracker = Tracker::new("n1".into(), "us-east".into());
    tracker.observe(&view, |_| Traffic::default(), Mono(0), WallMs(WALL));
    assert_eq!(tracker.followed().count(), MAX_OPEN);
    assert!(tracker.overlooked() >= 10);
    assert_eq!(MODEL, "gpt-4o");
}
