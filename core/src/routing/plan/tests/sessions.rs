//! What keeps a session where it is served, and what moves it.

use super::*;
use crate::health::State::{Failed, Healthy, Recovering};
use crate::routing::session::Bound;

fn bound(provider: &str, key: &str) -> Bound {
    Bound {
        provider: ProviderId::from(provider),
        model: ModelId::from(MODEL),
        key: Some(KeyId::from(key)),
    }
}

fn in_session(asked: &str, provider: &str) -> RequestFacts {
    RequestFacts {
        session: Some(bound(provider, &format!("k-{provider}"))),
        ..request(asked, &[])
    }
}

fn session_keys(plan: &Plan) -> Vec<Option<&str>> {
    let keys = plan.legs.iter().map(|leg| leg.session_key.as_ref());
    keys.map(|key| key.map(KeyId::as_str)).collect()
}

/// Better ones are proposed, and the session stays.
#[test]
fn a_session_keeps_its_provider_and_key() {
    let view = view([
        provider("alpha", [key("k-alpha")]).does(Healthy, 0.2),
        provider("beta", [key("k-beta")]).does(Healthy, 0.9),
        provider("gamma", [key("k-gamma")]).does(Healthy, 0.5),
    ]);
    let plan = planned(&view, &in_session(MODEL, "alpha"), 1);
    assert_eq!(legs(&plan), ["alpha", "beta", "gamma"]);
    assert_eq!(session_keys(&plan), [Some("k-alpha"), None, None]);
    insta::assert_snapshot!(lines(&plan));
}

#[test]
fn a_session_leaves_a_provider_that_is_held_failing_or_gone() {
    let failing = view([
        provider("alpha", [key("k-alpha")]).does(Failed, 0.2),
        provider("beta", [key("k-beta")]),
    ]);
    let held = held(three(), &["alpha"], LATER);
    for view in [failing, held] {
        let plan = planned(&view, &in_session(MODEL, "alpha"), 1);
        assert_ne!(plan.legs[0].provider.as_str(), "alpha");
        assert!(lines(&plan).contains("Session leaves alpha/gpt-4o for gpt-4o"));
    }
    let gone = planned(&three(), &in_session(MODEL, "delta"), 1);
    assert!(session_keys(&gone).iter().all(Option::is_none));
}

/// A request that follows its session is not the one that finds things out.
#[test]
fn checks_and_turns_are_left_to_requests_without_a_session() {
    let due = held(three(), &["beta"], 1_000);
    let plan = planned(&due, &in_session(MODEL, "alpha"), 1);
    assert_eq!(plan.legs[0].provider.as_str(), "alpha");
    assert!(plan.check.is_none());
    assert!(planned(&due, &request(MODEL, &[]), 1).check.is_some());
    let recovering = view([
        provider("alpha", [key("k-alpha")]),
        provider("beta", [key("k-beta")]).does(Recovering, 0.5),
    ]);
    assert_eq!(always(&recovering, &in_session(MODEL, "alpha"))[0], "alpha");
    let free = planned(&recovering, &request(MODEL, &[]), 1);
    assert_eq!(free.legs[0].provider.as_str(), "beta");
}

#[test]
fn pins_and_own_keys_come_before_sessions() {
    let view = three();
    let pinned = RequestFacts {
        pin: Some(Pin::Id(KeyId::from("k-beta"))),
        ..in_session(MODEL, "alpha")
    };
    assert_eq!(legs(&planned(&view, &pinned, 1))[0], "beta@k-beta");
    let own = RequestFacts {
        direct_key: true,
        ..in_session("alpha/gpt-4o", "alpha")
    };
    assert_eq!(session_keys(&planned(&view, &own, 1)), [None]);
}

/// Named requests keep their provider; a session gives them a key there only.
#[test]
fn a_named_request_keeps_its_key_and_is_not_moved() {
    let view = view([
        provider("alpha", [key("k-alpha"), key("k-2")]),
        provider("beta", [key("k-beta")]),
    ]);
    let plan = planned(&view, &in_session("alpha/gpt-4o", "alpha"), 1);
    assert_eq!(session_keys(&plan), [Some("k-alpha")]);
    let elsewhere = planned(&view, &in_session("alpha/gpt-4o", "beta"), 1);
    assert_eq!(legs(&elsewhere), ["alpha"]);
    assert_eq!(session_keys(&elsewhere), [None]);
}
