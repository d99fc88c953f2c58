//! `GET /v1/models`: what the configured keys can serve, in the shape of OpenAI's list.

use std::collections::BTreeSet;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use holdline_core::routing::{KeySpec, ModelRule};

use super::error::ApiError;
use crate::config::{Catalog, Provider};
use crate::server::Body;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
    name: &'a str,
}

/// Answers the list, of one provider where the query names one.
pub(super) fn list(catalog: &Catalog, query: Option<&str>) -> Response<Body> {
    let only = query.and_then(wanted_provider);
    if let Some(only) = only
        && !catalog.providers.contains_key(only)
    {
        let message = format!("the provider \"{only}\" is not configured");
        return ApiError::caller(StatusCode::BAD_REQUEST, message).into_response();
    }
    let providers = catalog.providers.values();
    let wanted = providers.filter(|p| only.is_none_or(|only| p.id.as_str() == only));
    let data = wanted.flat_map(|provider| models_of(provider)).collect();
    let list = List {
        object: "list",
        data,
    };
    let body = serde_json::to_vec(&list).expect("it holds only strings and numbers");
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn wanted_provider(query: &str) -> Option<&str> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix("provider="))
}

fn models_of(provider: &Provider) -> impl Iterator<Item = Model<'_>> {
    let keys = provider.keys.iter().filter(|k| k.spec.enabled);
    let names: BTreeSet<&str> = keys.flat_map(|k| names_of(&k.spec)).collect();
    names.into_iter().map(|name| Model {
        id: format!("{}/{name}", provider.id),
        object: "model",
        created: 0,
        owned_by: provider.id.as_str(),
        name,
    })
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
