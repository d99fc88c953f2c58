//! Headers and model names.

use holdline_core::replica::Documents;
use serde_json::json;

use super::*;
use crate::config::Config;

fn catalog(allow_direct_keys: bool) -> Catalog {
    let key = json!({"id": "k-1", "name": "one", "value": "sk", "models": ["*"], "weight": 1});
    let provider = json!({"keys": [key]});
    let listing = json!({"keys": [key, {"id": "k-2", "name": "two", "value": "sk", "models": ["mistral/listed"],
        "aliases": {"xai/alias": "x"}}]});
    let config = json!({
        "client": {"allow_direct_keys": allow_direct_keys},
        "providers": {"openai": provider, "openrouter": listing},
    });
    let loaded = Config::parse(&config.to_string(), &|_| None).unwrap();
    Catalog::build(&loaded.config, &Documents::default())
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        })
        .collect()
}

fn chat() -> Route {
    crate::api::routes::find("/v1/chat/completions").unwrap()
}

fn admit(pairs: &[(&'static str, &'static str)], body: &'static str) -> Result<Inbound, ApiError> {
    let body = Bytes::from_static(body.as_bytes());
    Inbound::parse(
        chat(),
        &headers(pairs),
        body,
        &catalog(true),
        Instant::now(),
    )
}

const BODY: &str = r#"{"model":"openai/m"}"#;

#[test]
fn models_split_once_and_only_behind_a_provider() {
    let catalog = catalog(false);
    for (name, provider, model) in [
        ("openai/gpt-4o", Some("openai"), "gpt-4o"),
        (
            "openrouter/openrouter/auto",
            Some("openrouter"),
            "openrouter/auto",
        ),
        (
            "openrouter/anthropic/x:free",
            Some("openrouter"),
            "anthropic/x:free",
        ),
        ("vendor/model", None, "vendor/model"),
        ("mistral/large", Some("mistral"), "large"),
        ("mistral/listed", None, "mistral/listed"),
        ("xai/alias", None, "xai/alias"),
        ("gpt-4o", None, "gpt-4o"),
    ] {
        let target = split(name, &catalog);
        let found = target.provider.as_ref().map(ProviderId::as_str);
        assert_eq!((found, target.model.as_str()), (provider, model));
    }
    assert!(admit(&[], r#"{"model":"openai/"}"#).is_err());
}

#[test]
fn request_ids_are_taken_over_if_sane() {
    assert_eq!(
        request_id(&headers(&[("x-request-id", "mine-1")])),
        "mine-1"
    );
    let long = HeaderMap::from_iter([(
        HeaderName::from_static("x-request-id"),
        HeaderValue::try_from("x".repeat(MAX_ID + 1)).unwrap(),
    )]);
    for bad in [headers(&[]), headers(&[("x-request-id", "a b")]), long] {
        assert_eq!(request_id(&bad).len(), 36);
    }
}

#[test]
fn pins_are_read_and_the_id_wins() {
    let pin = |pairs| admit(pairs, BODY).map(|i| i.facts.pin);
    assert_eq!(pin(&[]).unwrap(), None);
    let both = pin(&[("x-bf-api-key", "name"), ("x-bf-api-key-id", "k-1")]).unwrap();
    assert_eq!(both, Some(Pin::Id(KeyId::from("k-1"))));
    assert_eq!(
        pin(&[("x-bf-api-key", "name")]).unwrap(),
        Some(Pin::Name("name".to_owned()))
    );
    let refused = pin(&[("x-bf-api-key-id", " ")]).unwrap_err();
    assert!(refused.error.message.contains("x-bf-api-key-id"));
}

#[test]
fn deadlines_are_positive_numbers() {
    let deadline = |value| admit(&[("x-bf-request-timeout-ms", value)], BODY).map(|i| i.deadline);
    assert!(deadline("700").unwrap().is_some());
    for bad in ["0", "-1", "soon", "99999999999"] {
        assert_eq!(deadline(bad).unwrap_err().status_code, 400, "{bad}");
    }
}

#[test]
fn extra_headers_pass_without_credentials() {
    let given = [
        ("x-bf-eh-x-team", "blue"),
        ("x-bf-eh-cookie", "a"),
        ("x-bf-eh-x-goog-api-key", "a"),
        ("x-bf-eh-authorization", "a"),
        ("x-bf-eh-x-bf-vk", "a"),
        ("x-bf-eh-host", "a"),
        ("x-bf-eh-proxy-authorization", "a"),
        ("x-team", "red"),
    ];
    let inbound = admit(&given, BODY).unwrap();
    let expected = [(
        HeaderName::from_static("x-team"),
        HeaderValue::from_static("blue"),
    )];
    assert_eq!(inbound.extra_headers, expected);
}

#[test]
fn direct_keys_come_only_where_allowed() {
    let asked = ("x-bf-direct-key", "true");
    let key = |pairs: &[(&'static str, &'static str)]| {
        let inbound = admit(pairs, BODY).unwrap();
        inbound.direct_key.map(|k| k.expose().to_owned())
    };
    assert_eq!(key(&[("authorization", "Bearer sk-1")]), None);
    assert_eq!(
        key(&[asked, ("authorization", "Bearer sk-1")]).as_deref(),
        Some("sk-1")
    );
    let virtual_first = [
        asked,
        ("authorization", "Bearer sk-bf-1"),
        ("x-api-key", "sk-2"),
    ];
    assert_eq!(key(&virtual_first).as_deref(), Some("sk-2"));
    assert_eq!(admit(&[asked], BODY).unwrap_err().status_code, 400);

    let body = Bytes::from_static(BODY.as_bytes());
    let given = headers(&[asked, ("authorization", "Bearer sk-1")]);
    let closed = catalog(false);
    let inbound = Inbound::parse(chat(), &given, body, &closed, Instant::now()).unwrap();
    assert!(inbound.direct_key.is_none() && !inbound.facts.direct_key);
}
