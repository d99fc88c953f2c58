//! Azure OpenAI: deployments at the key's own endpoint, with `api-key` or a token of Entra ID.

use bytes::Bytes;
use http::{HeaderName, Request, Uri};

use holdline_core::time::WallMs;

use super::{
    Adapter, Call, Credential, Form, Grant, NotCallable, Reshape, join, openai, percent_encoded,
};
use crate::config::vendor::{AzureKey, Vendor};
use crate::protocols::Protocol;
use crate::protocols::kept::Collection;

/// Used where neither key nor alias names one: the newest that is generally available.
const API_VERSION: &str = "2024-10-21";

/// The first version that takes `stream_options`.
const TELLS_USAGE: &str = "2024-09-01";

/// Where tokens for Azure's public cloud are granted.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// What tokens are for.
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";

const KEY_HEADER: HeaderName = HeaderName::from_static("api-key");

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Azure;

fn config<'a>(call: &Call<'a>) -> Option<&'a AzureKey> {
    match &call.key?.vendor {
        Vendor::Azure(azure) => Some(azure),
        Vendor::None | Vendor::Bedrock(_) | Vendor::Vertex(_) => None,
    }
}

fn version<'a>(call: &Call<'a>) -> &'a str {
    let of_alias = call.alias.and_then(|alias| alias.api_version.as_deref());
    of_alias
        .or_else(|| config(call)?.api_version.as_deref())
        .unwrap_or(API_VERSION)
}

/// At the resource itself, where dated versions are not known.
fn undated(base: &Uri, path: &str, version: &str) -> Result<Uri, NotCallable> {
    let query = match version {
        "preview" | "latest" | "v1" => format!("?api-version={version}"),
        _ => String::new(),
    };
    join(base, &format!("/openai/v1{path}{query}"))
}

impl Adapter for Azure {
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable> {
        let of_alias = call.alias.and_then(|alias| alias.endpoint.as_ref());
        let base = of_alias.unwrap_or_else(|| call.base());
        let version = version(call);
        if call.protocol == Protocol::Responses {
            // Not at a deployment: the body names it.
            let path = openai::path(call.protocol, call.operation)?;
            return undated(base, path, version);
        }
        let target = format!(
            "/openai/deployments/{}{}?api-version={}",
            percent_encoded(call.model),
            openai::path(call.protocol, call.operation)?,
            percent_encoded(version),
        );
        join(base, &target)
    }

    fn collection(
        &self,
        call: &Call<'_>,
        collection: Collection,
        behind: &str,
    ) -> Result<Uri, NotCallable> {
        let version = config(call).and_then(|azure| azure.api_version.as_deref());
        let path = format!("{}{behind}", collection.path());
        undated(call.base(), &path, version.unwrap_or(API_VERSION))
    }

    fn reshape<'a>(&self, call: &Call<'a>) -> Reshape<'a> {
        let version = version(call);
        let is_dated = version.starts_with(|first: char| first.is_ascii_digit());
        Reshape {
            without_stream_options: call.protocol != Protocol::Responses
                && is_dated
                && version < TELLS_USAGE,
            ..Reshape::default()
        }
    }

    fn grant(&self, call: &Call<'_>, _now: WallMs) -> Result<Option<Grant>, NotCallable> {
        let Some(entra) = config(call).and_then(|azure| azure.entra.as_ref()) else {
            return Ok(None);
        };
        let authority = entra.authority.clone();
        let authority = authority.unwrap_or_else(|| Uri::from_static(AUTHORITY));
        let path = format!("/{}/oauth2/v2.0/token", percent_encoded(&entra.tenant_id));
        let scopes = if entra.scopes.is_empty() {
            SCOPE.to_owned()
        } else {
            entra.scopes.join(" ")
        };
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope={}",
            percent_encoded(&entra.client_id),
            percent_encoded(entra.client_secret.expose()),
            percent_encoded(&scopes),
        );
        Ok(Some(Grant::Token(Form {
            uri: join(&authority, &path)?,
            form,
        })))
    }

    fn sign(
        &self,
        _call: &Call<'_>,
        credential: Credential<'_>,
        _now: WallMs,
        request: &mut Request<Bytes>,
    ) -> Result<(), NotCallable> {
        credential.put(request.headers_mut(), Some(KEY_HEADER))
    }
}
