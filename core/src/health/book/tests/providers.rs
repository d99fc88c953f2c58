//! Providers, this node's own network, and what is bounded or gone.

use super::*;

#[test]
fn providers_that_err_or_recover_or_are_slow_score_below_a_clean_one() {
    let names = ["clean", "errs", "slow", "back"];
    let mut world = World::new(names.map(|name| provider(name, [key("a")])));
    for turn in 0..60_u32 {
        world.request("clean", "a", served(50.0));
        world.request(
            "errs",
            "a",
            if turn.is_multiple_of(20) {
                FAILED
            } else {
                served(50.0)
            },
        );
        world.request("slow", "a", served(150.0));
        world.request("back", "a", FAILED);
    }
    world.recompute();
    world.recompute();
    for name in ["clean", "errs", "slow"] {
        world.request(name, "a", served(if name == "slow" { 150.0 } else { 50.0 }));
    }
    world.recompute();
    let [clean, errs, slow, back] = names.map(|name| world.score(name));
    assert!(clean > 0.95, "{clean}");
    for worse in [errs, slow, back] {
        assert!(worse < 0.9 * clean && worse > 0.0, "{errs} {slow} {back}");
    }
}

#[test]
fn a_provider_is_as_good_as_the_keys_that_get_its_traffic() {
    let mut world = World::new([provider("p", [key("a"), key("b")])]);
    for _ in 0..3 {
        world.period(200, &mut |key| if key == "a" { FAILED } else { SERVED });
    }
    assert!(world.score("p") > 0.9, "{}", world.score("p"));
}

#[test]
fn no_route_fails_for_this_nodes_own_network() {
    let unreachable = Ended::Failed(Reach::NotConnected);
    let mut world = World::new([provider("p", [key("a")]), provider("q", [key("b")])]);
    world.request("p", "a", SERVED);
    world.recompute();
    for _ in 0..3 {
        for _ in 0..20 {
            world.request("p", "a", unreachable);
            world.request("q", "b", unreachable);
            world.request("q", "b", Ended::Failed(Reach::Silent));
        }
        assert!(world.recompute().own_network_out);
        assert_eq!(world.state("a"), State::Healthy);
    }
    assert_eq!(world.measured("a").error_rate, 0.0);
    world.request("p", "a", SERVED);
    world.requests("a", 20, unreachable);
    assert!(
        !world.recompute().own_network_out,
        "one host alone is not the network"
    );
    assert_eq!(world.state("a"), State::Failed);
}

#[test]
fn a_host_that_was_reached_since_rules_the_own_network_out() {
    let unreachable = Ended::Failed(Reach::NotConnected);
    let mut world = World::new(["p", "q", "r"].map(|name| provider(name, [key("a")])));
    for _ in 0..20 {
        world.request("p", "a", unreachable);
        world.request("q", "a", unreachable);
    }
    world.request("r", "a", FAILED);
    assert!(!world.recompute().own_network_out, "an error is an answer");
    assert_eq!(world.state("a"), State::Failed);
}

#[test]
fn tracked_models_are_bounded_and_the_oldest_idle_one_goes_first() {
    let mut world = World::keys(1);
    let (id, key_id) = (ProviderId::from("p"), KeyId::from("a"));
    let busy = world.launch("p", Some("a")).unwrap();
    for number in 0..3 * MODELS_PER_KEY {
        world.now = world.now.plus_ms(1);
        let model = ModelId::from(format!("m{number}"));
        let attempted = Attempted {
            provider: &id,
            key: Some((&key_id, Fingerprint(1))),
            model: &model,
        };
        let ticket = world.book.launched(attempted, world.now).unwrap();
        world.book.ended(attempted, ticket, SERVED, world.now);
    }
    let models = world.book.models(&id);
    assert_eq!(models.len(), MODELS_PER_KEY);
    assert!(models.contains(&model()), "it is in flight");
    assert!(!models.contains(&ModelId::from("m0")));
    world.end("p", Some("a"), busy, SERVED);
    world.now = world.now.plus_ms(IDLE_FORGOTTEN_MS);
    world.recompute();
    assert!(world.book.models(&id).is_empty());
}

#[test]
fn an_edited_or_deleted_key_takes_its_health_along() {
    let mut world = World::keys(2);
    world.requests("a", 10, FAILED);
    world.requests("b", 10, SERVED);
    let old = world.launch("p", Some("a")).unwrap();
    world.recompute();
    let provider = Arc::make_mut(
        world
            .view
            .providers
            .get_mut(&ProviderId::from("p"))
            .unwrap(),
    );
    provider.keys.remove(0);
    provider.keys.push(Arc::new(
        key("a").with(|spec| spec.fingerprint = Fingerprint(2)),
    ));
    world.configure();
    assert_eq!(world.measured("b").requests, 10);
    assert_eq!(world.measured("a"), Measured::default());
    world.end("p", Some("a"), old, FAILED);
    assert_eq!(
        world.launch("p", Some("a")),
        None,
        "the key as it was is gone"
    );
    world.view.providers.clear();
    world.configure();
    assert!(world.book.models(&ProviderId::from("p")).is_empty());
}

#[test]
fn a_provider_without_keys_has_a_health_too() {
    let mut world = World::new([provider("p", []).keyless()]);
    for _ in 0..10 {
        let ticket = world.launch("p", None).unwrap();
        world.end("p", None, ticket, FAILED);
    }
    let recomputed = world.recompute();
    assert_eq!(recomputed.changes[0].key, None);
    let direction = |world: &World| {
        let provider = world.view.provider(&ProviderId::from("p")).unwrap();
        world.view.direction(provider, &model(), world.now).state
    };
    assert_eq!(direction(&world), State::Failed);
    world.recompute();
    world.recompute();
    assert_eq!(direction(&world), State::Recovering);
}
