//! `GET /v1/models`: what the configured keys can serve, in a shape that OpenAI's and Anthropic's clients
//! both read.

use std::collections::BTreeSet;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
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

/// Answers the list, of one provider where the query names one.
pub(super) fn list(live: &Live, query: Option<&str>) -> Response<Body> {
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

fn json(body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// Whether Google's SDKs look for models here: for all, or for the one behind the slash.
pub(super) fn is_googles(path: &str) -> bool {
    of_googles(path).is_some()
}

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
pub(super) fn googles(live: &Live, path: &str) -> Response<Body> {
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
