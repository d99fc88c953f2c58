//! What holds and their releases do to health.

use super::*;

#[test]
fn a_released_key_recovers_for_every_model_known_of_it() {
    let mut world = World::keys(2);
    let other = ModelId::from("other");
    Arc::make_mut(
        world
            .view
            .providers
            .get_mut(&ProviderId::from("p"))
            .unwrap(),
    )
    .keys = ["a", "b"]
        .map(|id| {
            Arc::new(key(id).with(|spec| {
                spec.models = ModelRule::Only([MODEL.to_owned(), "other".to_owned()].into())
            }))
        })
        .into();
    world.configure();
    world.requests("a", 5, SERVED);
    world.recompute();
    world.hold("a", true);
    assert_eq!(
        world.state("a"),
        State::Recovering,
        "waits at the start of its ramp"
    );
    world.recompute();
    world.hold("a", false);
    let id = ProviderId::from("p");
    for model in [&model(), &other] {
        let measured = world.book.measured(&id, 0, model);
        assert_eq!(measured.health.state, State::Recovering, "{model}");
        assert!(measured.health.weight < FULL_WEIGHT / 5.0);
    }
    world.requests("a", 1, SERVED);
    world.recompute();
    let growing = world.weight("a");
    assert!(growing > FULL_WEIGHT / 5.0 && growing < FULL_WEIGHT);
    world.requests("a", 1, SERVED);
    world.recompute();
    assert_eq!(
        (world.state("a"), world.weight("a")),
        (State::Healthy, FULL_WEIGHT)
    );
    assert_eq!(
        world.book.measured(&id, 0, &other).health.state,
        State::Recovering
    );
}

#[test]
fn a_hold_and_its_release_between_two_recomputes_are_not_missed() {
    let mut world = World::keys(2);
    world.requests("a", 50, SERVED);
    world.recompute();
    world.hold("a", true);
    world.hold("a", false);
    assert_eq!(world.state("a"), State::Recovering);
    world.requests("a", 1, FAILED);
    world.recompute();
    assert_eq!(world.state("a"), State::Failed);
}

#[test]
fn a_held_route_stays_out_however_long_and_shows_its_errors() {
    let mut world = World::keys(2);
    world.requests("a", 1, FAILED);
    world.hold("a", true);
    for _ in 0..10 {
        world.recompute();
        assert_eq!(world.state("a"), State::Recovering);
        assert!(world.weight("a") < FULL_WEIGHT / 5.0);
    }
    world.request("p", "a", FAILED);
    world.recompute();
    assert!(world.measured("a").error_rate > 0.0);
}

#[test]
fn what_was_sent_before_a_release_does_not_fail_the_key_after_it() {
    let mut world = World::keys(2);
    let early: Vec<Ticket> = (0..8)
        .map(|_| world.launch("p", Some("a")).unwrap())
        .collect();
    world.hold("a", true);
    world.now = world.now.plus_ms(10);
    world.hold("a", false);
    for ticket in early {
        world.end("p", Some("a"), ticket, FAILED);
    }
    world.recompute();
    assert_eq!(world.state("a"), State::Recovering);
    assert_eq!(world.measured("a").in_flight, 0);
}

#[test]
fn a_hold_of_one_model_leaves_the_others_alone() {
    let mut world = World::keys(1);
    let id = ProviderId::from("p");
    world.requests("a", 5, SERVED);
    let held = crate::holds::KeyHolds {
        key: None,
        models: [(ModelId::from("other"), hold(1_000_000))].into(),
    };
    world.view = world.view.with_holds(&id, &KeyId::from("a"), held);
    world.see_holds();
    assert_eq!(world.state("a"), State::Healthy);
    let other = world.book.measured(&id, 0, &ModelId::from("other"));
    assert_eq!(other.health.state, State::Recovering);
    assert!(!other.health.tried);
}

#[test]
fn a_model_first_asked_for_while_the_key_is_held_recovers_too() {
    let mut world = World::new([provider(
        "p",
        [key("a").with(|spec| spec.models = ModelRule::All)],
    )]);
    world.hold("a", true);
    world.requests("a", 1, SERVED);
    world.hold("a", false);
    assert_eq!(world.state("a"), State::Recovering);
}
