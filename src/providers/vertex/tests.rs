//! Where calls go, what proves them, what bodies become.

use std::sync::Arc;

use holdline_core::replica::Documents;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::config::{Catalog, Config, Key, Secret};
use crate::providers::google::tests::ACCOUNT;

fn catalog(keys: &Value, base_url: Option<&str>) -> Catalog {
    let mut provider = json!({"keys": keys});
    if let Some(url) = base_url {
        provider["network_config"] = json!({"base_url": url});
    }
    let config = json!({"providers": {"vertex": provider}});
    let loaded = Config::parse(&config.to_string(), &|_| None).unwrap();
    Catalog::build_with(&loaded.config, &Documents::default(), &|_| None)
}

fn key(more: &Value) -> Value {
    let mut key = json!({"name": "k", "models": ["*"],
        "vertex_key_config": {"project_id": "p-1", "region": "us-central1"}});
    for (name, value) in more.as_object().unwrap() {
        match value.as_object() {
            Some(fields) if name == "vertex_key_config" => {
                let block = key[name].as_object_mut().unwrap();
                block.extend(fields.clone());
            }
            Some(_) | None => key[name] = value.clone(),
        }
    }
    key
}

/// What is asked of a model.
#[derive(Clone, Copy)]
struct Asked<'a> {
    model: &'a str,
    protocol: Protocol,
    operation: Operation,
    stream: bool,
}

impl<'a> Asked<'a> {
    const fn of(model: &'a str, protocol: Protocol) -> Self {
        Self {
            model,
            protocol,
            operation: Operation::Answer,
            stream: false,
        }
    }

    fn call<T>(self, catalog: &Catalog, with_key: bool, f: impl FnOnce(&Call<'_>) -> T) -> T {
        let provider = catalog.providers.values().next().unwrap();
        let key: &Arc<Key> = &provider.keys[0];
        let mut client = HeaderMap::new();
        client.insert("anthropic-beta", HeaderValue::from_static("b-1"));
        client.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        f(&Call {
            provider,
            key: with_key.then_some(key),
            protocol: self.protocol,
            operation: self.operation,
            stream: self.stream,
            model: self.model,
            alias: key.alias_details.get(self.model),
            client: &client,
        })
    }

    fn endpoint(self, key: &Value, base_url: Option<&str>) -> String {
        let catalog = catalog(&json!([key]), base_url);
        self.call(&catalog, true, |call| Vertex.endpoint(call).unwrap())
            .to_string()
    }
}

const US: &str =
    "https://us-central1-aiplatform.googleapis.com/v1/projects/p-1/locations/us-central1";

const fn streamed(asked: Asked<'static>) -> Asked<'static> {
    Asked {
        stream: true,
        ..asked
    }
}

const fn counted(asked: Asked<'static>) -> Asked<'static> {
    Asked {
        operation: Operation::CountTokens,
        ..asked
    }
}

fn are_at<const N: usize>(expected: [(Asked<'static>, &str); N]) {
    let plain = key(&json!({}));
    for (asked, path) in expected {
        assert_eq!(asked.endpoint(&plain, None), format!("{US}/{path}"));
    }
}

#[test]
fn googles_models_have_a_verb_for_each_use() {
    const GOOGLE: &str = "publishers/google/models";
    let gemini = Asked::of("google/gemini-2.5-pro", Protocol::Generate);
    let pro = |verb: &str| format!("{GOOGLE}/gemini-2.5-pro:{verb}");
    are_at([
        (gemini, &pro("generateContent")),
        (streamed(gemini), &pro("streamGenerateContent?alt=sse")),
        (counted(gemini), &pro("countTokens")),
    ]);
    let predict = Asked::of("text-embedding-005", Protocol::Predict);
    let embed = Asked::of("gemini-embedding-2", Protocol::EmbedContent);
    let odd = Asked::of("odd ?#%", Protocol::Generate);
    are_at([
        (
            predict,
            "publishers/google/models/text-embedding-005:predict",
        ),
        (
            embed,
            "publishers/google/models/gemini-embedding-2:embedContent",
        ),
        (
            odd,
            "publishers/google/models/odd%20%3F%23%25:generateContent",
        ),
        (
            Asked::of("471100", Protocol::Generate),
            "endpoints/471100:generateContent",
        ),
    ]);
}

#[test]
fn others_models_are_where_their_publishers_are() {
    let claude = Asked::of("claude-sonnet-4-5@20250929", Protocol::Messages);
    let sonnet =
        |verb: &str| format!("publishers/anthropic/models/claude-sonnet-4-5@20250929:{verb}");
    are_at([
        (claude, &sonnet("rawPredict")),
        (streamed(claude), &sonnet("streamRawPredict")),
        (
            counted(claude),
            "publishers/anthropic/models/count-tokens:rawPredict",
        ),
    ]);
    let mistral = Asked::of("mistral-small-2503", Protocol::Chat);
    let small = |verb: &str| format!("publishers/mistralai/models/mistral-small-2503:{verb}");
    are_at([
        (mistral, &small("rawPredict")),
        (streamed(mistral), &small("streamRawPredict")),
        (
            Asked::of("meta/llama-4-maas", Protocol::Chat),
            "endpoints/openapi/chat/completions",
        ),
        (
            Asked::of("intfloat/e5-maas", Protocol::Embeddings),
            "endpoints/openapi/embeddings",
        ),
    ]);
}

#[test]
fn regions_are_hosts_and_places() {
    let gemini = Asked::of("g", Protocol::Generate);
    let newest = Asked::of("claude-opus-4-7", Protocol::Messages);
    for (asked, region, forced, host, place) in [
        (gemini, "global", false, "aiplatform", "global"),
        (
            gemini,
            "europe-west4",
            false,
            "europe-west4-aiplatform",
            "europe-west4",
        ),
        (gemini, "us", false, "aiplatform.us.rep", "us"),
        (gemini, "eu", false, "aiplatform.eu.rep", "eu"),
        (newest, "us-east5", false, "aiplatform.us.rep", "us"),
        (newest, "europe-west1", false, "aiplatform.eu.rep", "eu"),
        (newest, "us-east5", true, "us-east5-aiplatform", "us-east5"),
        (
            newest,
            "asia-east1",
            false,
            "asia-east1-aiplatform",
            "asia-east1",
        ),
        (newest, "global", false, "aiplatform", "global"),
    ] {
        let block = json!({"vertex_key_config": {"region": region, "force_single_region": forced}});
        let at = asked.endpoint(&key(&block), None);
        let expected = format!("https://{host}.googleapis.com/v1/projects/p-1/locations/{place}/");
        assert!(at.starts_with(&expected), "{at}");
    }
}

#[test]
fn a_configured_address_takes_the_hosts_place() {
    let gemini = Asked::of("g", Protocol::Generate);
    let path = "projects/p-1/locations/us-central1/publishers/google/models/g:generateContent";
    for (base, expected) in [
        ("http://127.0.0.1:81/at/x", "http://127.0.0.1:81/at/x/v1"),
        ("http://127.0.0.1:81/v1", "http://127.0.0.1:81/v1"),
        ("http://127.0.0.1:81/v1beta1", "http://127.0.0.1:81/v1beta1"),
    ] {
        let at = gemini.endpoint(&key(&json!({})), Some(base));
        assert_eq!(at, format!("{expected}/{path}"));
    }
}

#[test]
fn an_alias_has_a_project_a_region_and_an_address_of_its_own() {
    let aliases = json!({
        "far": {"model_id": "g", "region": "asia-east1", "project_id": "p-2"},
        "opus-4-7": {"model_id": "claude-opus-4-7", "model_family": "anthropic", "force_single_region": true},
        "near": {"model_id": "g", "endpoint": "http://127.0.0.1:82"},
        "471100": {"model_id": "471100", "project_number": 12},
    });
    let key = key(&json!({"aliases": aliases}));
    for (alias, protocol, expected) in [
        (
            "far",
            Protocol::Generate,
            "https://asia-east1-aiplatform.googleapis.com/v1/projects/p-2/locations/asia-east1/publishers/google/models/far",
        ),
        (
            "opus-4-7",
            Protocol::Messages,
            "https://us-central1-aiplatform.googleapis.com/v1/projects/p-1/locations/us-central1/publishers/anthropic/models/opus-4-7",
        ),
        (
            "near",
            Protocol::Generate,
            "http://127.0.0.1:82/v1/projects/p-1/locations/us-central1/publishers/google/models/near",
        ),
        (
            "471100",
            Protocol::Generate,
            "https://us-central1-aiplatform.googleapis.com/v1/projects/12/locations/us-central1/endpoints/471100",
        ),
    ] {
        let at = Asked::of(alias, protocol).endpoint(&key, None);
        assert!(at.starts_with(expected), "{at}");
    }
}

#[test]
fn what_is_spoken_depends_on_whose_model_it_is() {
    let catalog = catalog(&json!([key(&json!({}))]), None);
    let provider = catalog.providers.values().next().unwrap();
    let spoken =
        |protocol, model: &str| provider.protocol_for(protocol, Operation::Answer, model, None);
    use Protocol::{
        BatchEmbedContents, Chat, EmbedContent, Embeddings, Generate, Messages, Predict, Responses,
    };
    for (asked, model, expected) in [
        (Chat, "gemini-2.5-pro", Some(Generate)),
        (Messages, "gemini-2.5-pro", Some(Generate)),
        (Messages, "claude-opus-4-1", Some(Messages)),
        (Responses, "anthropic/claude-opus-4-1", Some(Messages)),
        (Generate, "mistral-small-2503", Some(Chat)),
        (Chat, "meta/llama-4-maas", Some(Chat)),
        (Embeddings, "claude-opus-4-1", None),
        (Embeddings, "text-embedding-005", Some(Predict)),
        (EmbedContent, "gemini-embedding-001", Some(Predict)),
        (BatchEmbedContents, "gemini-embedding-001", Some(Predict)),
        (EmbedContent, "gemini-embedding-2", Some(EmbedContent)),
        (Embeddings, "gemini-embedding-2", Some(EmbedContent)),
        (EmbedContent, "intfloat/e5-maas", Some(Embeddings)),
    ] {
        assert_eq!(spoken(asked, model), expected, "{asked:?} {model}");
    }
    let counted = provider.protocol_for(Chat, Operation::CountTokens, "gemini-2.5-pro", None);
    assert_eq!(counted, None);
}

#[test]
fn bodies_for_anthropics_models_have_a_version_and_no_model() {
    let aliases = json!({"own": {"model_id": "own", "model_family": "anthropic", "anthropic_version": "v-2"}});
    let catalog = catalog(&json!([key(&json!({"aliases": aliases}))]), None);
    let reshaped = |asked: Asked<'_>| {
        asked.call(&catalog, true, |call| {
            let reshape = Vertex.reshape(call);
            let version = reshape.anthropic_version.map(Cow::into_owned);
            (reshape.without_model, version)
        })
    };
    let claude = Asked::of("claude-opus-4-1", Protocol::Messages);
    let version = Some(ANTHROPIC_VERSION.to_owned());
    assert_eq!(reshaped(claude), (true, version.clone()));
    assert_eq!(reshaped(counted(claude)), (false, version));
    let own = Asked::of("own", Protocol::Messages);
    assert_eq!(reshaped(own), (true, Some("v-2".to_owned())));
    assert_eq!(reshaped(Asked::of("g", Protocol::Generate)), (false, None));
}

/// What is granted for a key, and the headers of a call that its value or the caller's proves.
fn proof(more: &Value, callers: Option<&str>) -> (Option<Grant>, HeaderMap) {
    let catalog = catalog(&json!([key(more)]), None);
    Asked::of("claude-opus-4-1", Protocol::Messages).call(&catalog, callers.is_none(), |call| {
        let grant = Vertex.grant(call, WallMs(0)).unwrap();
        let own = callers.map(|text| Secret::from(text.to_owned()));
        let value = own.unwrap_or_else(|| call.key.unwrap().value.clone());
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Vertex.endpoint(call).unwrap();
        Vertex
            .sign(call, Credential::Secret(&value), WallMs(0), &mut request)
            .unwrap();
        (grant, request.headers().clone())
    })
}

#[test]
fn accounts_are_granted_tokens_and_values_are_shown() {
    let account = json!({"value": "unused", "vertex_key_config": {"auth_credentials": ACCOUNT}});
    let (grant, _) = proof(&account, None);
    assert!(matches!(
        grant,
        Some(Grant::Google(google::Source::Given(_)))
    ));
    let (grant, headers) = proof(&json!({}), None);
    assert_eq!(grant, Some(Grant::Google(google::Source::Here)));
    assert!(!headers.contains_key(KEY_HEADER) && !headers.contains_key(AUTHORIZATION));
    let (grant, headers) = proof(&json!({"value": "AIza-1"}), None);
    assert_eq!(grant, None);
    assert_eq!(headers[KEY_HEADER], "AIza-1");
    assert!(headers[KEY_HEADER].is_sensitive());
    let (_, headers) = proof(&json!({}), Some("ya29.callers"));
    assert_eq!(headers[AUTHORIZATION], "Bearer ya29.callers");
    assert_eq!(headers["anthropic-beta"], "b-1");
    assert!(
        !headers.contains_key("anthropic-version"),
        "the body has it"
    );
}

#[test]
fn secrets_of_the_account_are_known_as_such() {
    let account = json!({"vertex_key_config": {"auth_credentials": ACCOUNT}});
    let catalog = catalog(&json!([key(&account)]), None);
    let provider = catalog.providers.values().next().unwrap();
    let mut secrets = provider.keys[0].vendor.secrets();
    assert!(secrets.next().unwrap().expose().contains("PRIVATE KEY"));
    let shown = format!("{provider:?}");
    assert!(
        !shown.contains("PRIVATE KEY") && shown.contains("Account("),
        "{shown}"
    );
}
