//! `GET /v1/models`: what the configured keys can serve, in a shape that OpenAI's and Anthropic's clients
//! both read.

use std::collections::BTreeSet;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode, Uri};
use serde::Serialize;

use holdline_core::ids::ModelId;
use holdline_core::routing::{KeySpec, ModelRule};

use super::error::ApiError;
use super::{paths, routes};
use crate::config::{Key, Provider};
use crate::node::Live;
use crate::protocols::Protocol;
use crate::server::Body;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
    data: Vec<Model<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    display_name: &'a str,
    created_at: &'static str,
}

/// Whether models are told of here.
pub(super) fn are_at(path: &str) -> bool {
    is_list(path) || is_one(path) || of_googles(path).is_some()
}

/// Tells of them, in the shape that is read there.
pub(super) fn answer(live: &Live, at: &Uri) -> Response<Body> {
    let path = at.path();
    if is_list(path) {
        list(live, at.query())
    } else if is_one(path) {
        one(live, path)
    } else {
        googles(live, path)
    }
}

fn is_list(path: &str) -> bool {
    matches!(
        path,
        paths::MODELS | paths::OPENAI_MODELS | paths::OPENAI_MODELS_BARE | paths::ANTHROPIC_MODELS
    )
}

/// Answers the list, of one provider where the query names one.
fn list(live: &Live, query: Option<&str>) -> Response<Body> {
    let catalog = &live.catalog;
    let only = query.and_then(wanted_provider);
    if let Some(only) = only
        && !catalog.providers.contains_key(only)
    {
        let message = format!("the provider \"{only}\" is not configured");
        return ApiError::caller(StatusCode::BAD_REQUEST, message).into_response();
    }
    let providers = catalog.providers.values();
    let wanted = providers.filter(|p| only.is_none_or(|only| p.id.as_str() == only));
    let data: Vec<Model<'_>> = wanted
        .flat_map(|provider| models_of(provider, live))
        .collect();
    let list = List {
        object: "list",
        has_more: false,
        first_id: data.first().map(|model| model.id.clone()),
        last_id: data.last().map(|model| model.id.clone()),
        data,
    };
    json(serde_json::to_vec(&list).expect("it holds only strings and numbers"))
}

/// Whether OpenAI's or Anthropic's SDKs look for one model here.
pub(super) fn is_one(path: &str) -> bool {
    wanted(path).is_some()
}

/// What stands behind the slash, and whose models those without a provider are there.
fn wanted(path: &str) -> Option<(&str, Option<&'static str>)> {
    let places = [
        (paths::MODELS, None),
        (paths::OPENAI_MODELS, Some("openai")),
        (paths::OPENAI_MODELS_BARE, Some("openai")),
        (paths::ANTHROPIC_MODELS, Some("anthropic")),
    ];
    places.into_iter().find_map(|(place, family)| {
        let name = path.strip_prefix(place)?.strip_prefix('/')?;
        (!name.is_empty()).then_some((name, family))
    })
}

/// Answers one model, by its id or, behind a vendor's prefix, by that vendor's own name for it.
fn one(live: &Live, path: &str) -> Response<Body> {
    let (name, family) = wanted(path).unwrap_or_default();
    let name = routes::percent_decoded(name);
    let providers = live.catalog.providers.values();
    let mut all = providers.flat_map(|provider| models_of(provider, live));
    let found = all
        .find(|model| model.id == name || (family == Some(model.owned_by) && model.name == name));
    match found {
        Some(model) => json(serde_json::to_vec(&model).expect("it holds only strings and numbers")),
        None => {
            let shown: String = name.chars().take(200).collect();
            let message = format!(
                "no key lists {shown}: GET {} names all that are listed",
                paths::MODELS
            );
            let mut refusal = ApiError::caller(StatusCode::NOT_FOUND, message);
            refusal.error.code = Some("model_not_found".to_owned());
            refusal.into_response_in(routes::dialect(path))
        }
    }
}

fn json(body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// What Google's SDKs look for: nothing for all models, or one behind a slash.
fn of_googles(path: &str) -> Option<&str> {
    let behind = routes::google_models(path.strip_prefix(paths::GENAI)?)?;
    (behind.is_empty() || behind.starts_with('/')).then_some(behind)
}

#[derive(Serialize)]
struct GoogleList {
    models: Vec<GoogleModel>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GoogleModel {
    name: String,
    display_name: String,
    supported_generation_methods: [&'static str; 3],
}

/// Answers Google's list of all models, or one of them. Gemini's own have bare names, others their
/// provider before them: so they are asked for on this route.
fn googles(live: &Live, path: &str) -> Response<Body> {
    let providers = live.catalog.providers.values();
    let all = providers
        .flat_map(|provider| models_of(provider, live))
        .map(|model| {
            let name = if model.owned_by == "gemini" {
                model.name
            } else {
                &model.id
            };
            GoogleModel {
                name: format!("models/{name}"),
                display_name: model.name.to_owned(),
                supported_generation_methods: [
                    "generateContent",
                    "streamGenerateContent",
                    "countTokens",
                ],
            }
        });
    let wanted = of_googles(path).and_then(|behind| behind.strip_prefix('/'));
    let body = match wanted.filter(|name| !name.is_empty()) {
        None => serde_json::to_vec(&GoogleList {
            models: all.collect(),
        }),
        Some(name) => {
            let name = format!("models/{}", routes::percent_decoded(name));
            let Some(found) = all.into_iter().find(|model| model.name == name) else {
                let message =
                    format!("no key lists {name}: GET {path} without it names all that are listed");
                let refusal = ApiError::caller(StatusCode::NOT_FOUND, message);
                return refusal.into_response_in(Protocol::Generate);
            };
            serde_json::to_vec(&found)
        }
    };
    json(body.expect("it holds only strings"))
}

fn wanted_provider(query: &str) -> Option<&str> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix("provider="))
}

fn models_of<'a>(provider: &'a Provider, live: &'a Live) -> impl Iterator<Item = Model<'a>> {
    let keys = provider.keys.iter().filter(|k| k.spec.enabled);
    let mut names: BTreeSet<&str> = keys.flat_map(|k| names_of(&k.spec)).collect();
    names.extend(listed(provider, live));
    names.into_iter().map(|name| Model {
        id: format!("{}/{name}", provider.id),
        object: "model",
        created: 0,
        owned_by: provider.id.as_str(),
        name,
        kind: "model",
        display_name: name,
        // Nobody keeps it; clients want a time.
        created_at: "1970-01-01T00:00:00Z",
    })
}

/// What the provider lists itself, where some key is open to it.
fn listed<'a>(provider: &'a Provider, live: &'a Live) -> impl Iterator<Item = &'a str> {
    let open = |name: &str| {
        let mut keys = provider.keys.iter();
        let is_open = |key: &Key| key.spec.models == ModelRule::All && key.spec.serves(name);
        provider.keyless || keys.any(|key| is_open(key))
    };
    let seen = live.view.provider(&provider.id);
    let names = seen.into_iter().flat_map(|seen| seen.names.listed());
    names.map(ModelId::as_str).filter(move |name| open(name))
}

fn names_of(spec: &KeySpec) -> impl Iterator<Item = &str> {
    let listed = match &spec.models {
        ModelRule::Only(names) => Some(names.iter().map(String::as_str)),
        ModelRule::All => None,
    };
    let aliases = spec.aliases.keys().map(String::as_str);
    listed
        .into_iter()
        .flatten()
        .chain(aliases)
        .filter(|name| !spec.blocked.contains(*name))
}
