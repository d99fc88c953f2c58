//! Google Cloud's Vertex AI: models of Google and of others in a project and a region. Whose model it is
//! decides what is spoken and where: Google's own by generateContent, Anthropic's by messages, some by a
//! `rawPredict` of their own, all others at the endpoint that speaks like OpenAI.
//!
//! Paths are those of <https://cloud.google.com/vertex-ai/docs/reference/rest>, hosts those of
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations>.

mod named;

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderName, Request, Uri};

use holdline_core::time::WallMs;

use named::{How, Named};

use super::{
    Adapter, Call, Credential, Grant, NotCallable, Reshape, gemini, google, is_version, join,
    openai, percent_encoded,
};
use crate::config::vendor::{Alias, Vendor, VertexKey};
use crate::protocols::{Operation, Protocol};

/// Where all regions are asked together. A region's own host takes its place.
pub const ADDRESS: &str = "https://aiplatform.googleapis.com";

/// What Google's own models are asked in.
pub const OF_GOOGLE: &[Protocol] = &[Protocol::Generate, Protocol::Predict];

/// What Google's newer models of embeddings are asked in.
const OF_EMBEDDING: &[Protocol] = &[Protocol::Generate, Protocol::EmbedContent];

/// What Anthropic's models are asked in.
const OF_ANTHROPIC: &[Protocol] = &[Protocol::Messages];

/// What models are asked in that have an address of their own beside the one like OpenAI's.
const OF_RAW: &[Protocol] = &[Protocol::Chat];

/// What the endpoint that is like OpenAI's is asked in.
const OF_OPENAPI: &[Protocol] = &[Protocol::Chat, Protocol::Embeddings];

/// The version of messages that Vertex speaks, in the body instead of a header.
const ANTHROPIC_VERSION: &str = "vertex-2023-10-16";

/// How access tokens of Google begin. A value that is none is an API key.
const ACCESS_TOKEN: &str = "ya29.";

const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");
const BETA_HEADER: HeaderName = HeaderName::from_static("anthropic-beta");

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Vertex;

/// What is spoken of this model.
#[must_use]
pub fn speaks(model: &str, alias: Option<&Alias>) -> &'static [Protocol] {
    let named = Named::of(model, family(alias));
    match named.how {
        How::Google if named.embeds_content() => OF_EMBEDDING,
        How::Google | How::Endpoint => OF_GOOGLE,
        How::Anthropic => OF_ANTHROPIC,
        How::Raw => OF_RAW,
        How::OpenApi => OF_OPENAPI,
    }
}

fn family(alias: Option<&Alias>) -> Option<&str> {
    alias?.family.as_deref()
}

fn named<'a>(call: &Call<'a>) -> Named<'a> {
    Named::of(call.model, family(call.alias))
}

/// The key's block; for a key that the caller brought that of the provider's first.
fn config<'a>(call: &Call<'a>) -> Option<&'a VertexKey> {
    let own = call.key.into_iter();
    let of_provider = call.provider.keys.iter().map(|key| &**key);
    let mut keys = own.chain(of_provider.filter(|_| call.key.is_none()));
    keys.find_map(|key| match &key.vendor {
        Vendor::Vertex(vertex) => Some(vertex),
        Vendor::None | Vendor::Azure(_) | Vendor::Bedrock(_) => None,
    })
}

/// The alias's region, else the key's; the large one around it for models that are only there.
fn region<'a>(call: &Call<'a>, config: &'a VertexKey, named: &Named<'_>) -> &'a str {
    let of_alias = call.alias.and_then(|alias| alias.region.as_deref());
    let region = of_alias.unwrap_or(&config.region);
    let single = call.alias.and_then(|alias| alias.single_region);
    if single.unwrap_or(config.single_region) || !named.is_in_large_regions_only() {
        return region;
    }
    match region.split_once('-') {
        Some(("us", _)) => "us",
        Some(("europe", _)) => "eu",
        Some(_) | None => region,
    }
}

fn host(region: &str) -> String {
    match region {
        "global" => ADDRESS.to_owned(),
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com"),
        _ => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

/// As one segment of a path. Versions of models stand behind an `@`, which may stay.
fn segment(text: &str) -> String {
    percent_encoded(text).replace("%40", "@")
}

/// Behind the location.
fn resource(call: &Call<'_>, named: &Named<'_>) -> Result<String, NotCallable> {
    let models = |verb: &str| {
        let (publisher, model) = (segment(&named.publisher), segment(&named.model));
        format!("publishers/{publisher}/models/{model}:{verb}")
    };
    let raw = if call.stream {
        "streamRawPredict"
    } else {
        "rawPredict"
    };
    match named.how {
        How::Google => Ok(models(gemini::verb(call)?)),
        How::Endpoint => Ok(format!(
            "endpoints/{}:{}",
            segment(&named.model),
            gemini::verb(call)?
        )),
        How::Anthropic if call.operation == Operation::CountTokens => {
            Ok("publishers/anthropic/models/count-tokens:rawPredict".to_owned())
        }
        How::Anthropic | How::Raw => Ok(models(raw)),
        How::OpenApi if call.protocol == Protocol::Embeddings => {
            Ok("endpoints/openapi/embeddings".to_owned())
        }
        How::OpenApi => Ok("endpoints/openapi/chat/completions".to_owned()),
    }
}

impl Adapter for Vertex {
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable> {
        let named = named(call);
        let config = config(call).ok_or("no key of it has a vertex_key_config")?;
        let of_alias = |of: fn(&Alias) -> &Option<String>| of(call.alias?).as_deref();
        let region = region(call, config, &named);
        let id = of_alias(|alias| &alias.project_id).unwrap_or(&config.project_id);
        let number = of_alias(|alias| &alias.project_number);
        let number = number.or(config.project_number.as_deref());
        let project = match named.how {
            How::Endpoint => number.unwrap_or(id),
            How::Google | How::Anthropic | How::Raw | How::OpenApi => id,
        };
        let (project, resource) = (segment(project), resource(call, &named)?);
        let path = format!("/projects/{project}/locations/{region}/{resource}");
        let other = call.alias.and_then(|alias| alias.endpoint.as_ref());
        let base = other.unwrap_or_else(|| call.base());
        if base.host() != Uri::from_static(ADDRESS).host() {
            let last = base.path().trim_end_matches('/').rsplit('/').next();
            let version = last.filter(|last| is_version(last)).unwrap_or("v1");
            return join(base, &format!("/{version}{path}"));
        }
        let host: Uri = host(region)
            .parse()
            .map_err(|_| NotCallable::from("`region` is no name of a region"))?;
        join(&host, &format!("/v1{path}"))
    }

    fn body_model<'a>(&self, call: &Call<'a>) -> Cow<'a, str> {
        named(call).in_body()
    }

    fn like<'a>(&self, call: &Call<'a>) -> &'a str {
        if named(call).is_mistrals() {
            "mistral"
        } else {
            call.provider.like()
        }
    }

    fn reshape<'a>(&self, call: &Call<'a>) -> Reshape<'a> {
        if call.protocol != Protocol::Messages {
            return openai::reshape(self.like(call));
        }
        let of_alias = call.alias.and_then(|a| a.anthropic_version.as_deref());
        let version = Cow::Borrowed(of_alias.unwrap_or(ANTHROPIC_VERSION));
        Reshape {
            without_model: call.operation == Operation::Answer,
            anthropic_version: Some(version),
            ..Reshape::default()
        }
    }

    fn grant(&self, call: &Call<'_>, _now: WallMs) -> Result<Option<Grant>, NotCallable> {
        let given = config(call).and_then(|config| config.credentials.clone());
        let has_value = call.key.is_some_and(|key| !key.value.expose().is_empty());
        let source = match given {
            Some(identity) => google::Source::Given(identity),
            None if has_value || call.key.is_none() => return Ok(None),
            None => google::Source::Here,
        };
        Ok(Some(Grant::Google(source)))
    }

    fn sign(
        &self,
        call: &Call<'_>,
        credential: Credential<'_>,
        _now: WallMs,
        request: &mut Request<Bytes>,
    ) -> Result<(), NotCallable> {
        let headers = request.headers_mut();
        if call.protocol == Protocol::Messages {
            for beta in call.client.get_all(&BETA_HEADER) {
                headers.append(BETA_HEADER, beta.clone());
            }
        }
        let is_key = match credential {
            Credential::Secret(secret) => !secret.expose().starts_with(ACCESS_TOKEN),
            Credential::None | Credential::Token(_) | Credential::Aws(_) => false,
        };
        credential.put(headers, is_key.then_some(KEY_HEADER))
    }
}

#[cfg(test)]
mod tests;
