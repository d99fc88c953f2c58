//! Models that have other names at other providers.

use std::sync::Arc;

use super::*;
use crate::routing::ProviderView;
use crate::routing::naming::{Names, Naming};

/// A provider whose one key lists these models, and which names models in this way.
fn naming(id: &str, naming: Naming, models: &[&str], listed: &[&str]) -> ProviderView {
    let serves = key(&format!("k-{id}")).with(|spec| {
        spec.models = match models {
            ["*"] => ModelRule::All,
            models => ModelRule::Only(models.iter().map(ToString::to_string).collect()),
        };
    });
    let ids = |names: &[&str]| {
        names
            .iter()
            .map(|name| ModelId::from(*name))
            .collect::<Vec<_>>()
    };
    let keyed = ids(models).into_iter().filter(|name| name.as_str() != "*");
    let names = Names::new(naming, keyed, ids(listed).into_iter().collect());
    ProviderView {
        names: Arc::new(names),
        ..provider(id, [serves])
    }
}

fn routers() -> View {
    view([
        naming("openai", Naming::Plain, &["gpt-4o"], &[]),
        naming("router", Naming::Vendor, &["openai/gpt-4o"], &[]),
        naming("other", Naming::Plain, &["mini"], &[]),
    ])
}

/// AR-053.
#[test]
fn a_bare_model_is_found_under_the_names_of_its_providers() {
    let mut legs = legs(&planned(&routers(), &request("gpt-4o", &[]), 1));
    legs.sort();
    assert_eq!(legs, ["openai", "router/openai/gpt-4o"]);
}

/// AR-053, LB-085, both ways.
#[test]
fn added_and_redirected_legs_ask_for_the_other_providers_name() {
    let append = routers().set(|s| s.append_fallbacks_to_pinned = true);
    let named = |asked| always(&append, &request(asked, &[]));
    assert_eq!(named("openai/gpt-4o"), ["openai", "router/openai/gpt-4o"]);
    assert_eq!(
        named("router/openai/gpt-4o"),
        ["router/openai/gpt-4o", "openai"]
    );
    let own = always(&append, &request("openai/gpt-4o", &["router/gpt-4o"]));
    assert_eq!(own, ["openai", "router/openai/gpt-4o"]);
    let mut failing = redirect(routers());
    failing.hold_key("router", &KeyId::from("k-router"), LATER);
    assert_eq!(
        always(&failing, &request("router/openai/gpt-4o", &[])),
        ["openai", "router/openai/gpt-4o"]
    );
}

/// LB-082: without a setting the names that the caller gave stay.
#[test]
fn own_fallbacks_keep_their_names_unless_fallbacks_are_managed() {
    let left = always(&routers(), &request("openai/gpt-4o", &["router/gpt-4o"]));
    assert_eq!(left, ["openai", "router"]);
}

/// What a provider lists is as good as what its keys name.
#[test]
fn a_listed_model_of_an_open_key_is_a_named_one() {
    let view = view([
        naming("open", Naming::Plain, &["*"], &["gpt-4o"]),
        naming("unknown", Naming::Plain, &["*"], &[]),
        naming("router", Naming::Vendor, &["*"], &["openai/gpt-4o"]),
    ]);
    let legs = legs(&planned(&view, &request("gpt-4o", &[]), 1));
    assert_eq!(legs[2], "unknown");
    assert!(
        legs[..2].contains(&"router/openai/gpt-4o".to_owned()),
        "{legs:?}"
    );
}
