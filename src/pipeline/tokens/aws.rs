//! Keys of AWS that last for a while only: those of a role, and those of where the gateway runs, which
//! are looked for where AWS's own tools look: the environment, a cluster's token, a container's metadata,
//! an instance's.

use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use serde::Deserialize;

use super::{Trouble, World, is_metadata, read_file};
use crate::config::Secret;
use crate::providers::aws::{self, AwsKeys, Granted, Metadata, Source};

/// Where an instance's metadata is.
const INSTANCE: &str = "http://169.254.169.254";

/// Where a container's metadata is.
const CONTAINER: &str = "http://169.254.170.2";

/// The keys of a source.
pub(super) async fn keys(source: Source, world: World<'_>) -> Result<Granted, Trouble> {
    let sts = world.variable("AWS_ENDPOINT_URL_STS");
    let own = match source.keys {
        Some(keys) => Granted {
            keys,
            expires: None,
        },
        None => world.own_keys(&source.region, sts.as_deref()).await?,
    };
    let Some(role) = source.role else {
        return Ok(own);
    };
    let request = aws::assume_role(&role, &own.keys, &source.region, sts.as_deref(), world.now);
    world.ask_sts(request?).await
}

impl World<'_> {
    /// The keys of where the gateway runs.
    async fn own_keys(&self, region: &str, sts: Option<&str>) -> Result<Granted, Trouble> {
        let named = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        if let [Some(access_key), Some(secret_key)] = named.map(|name| self.variable(name)) {
            let session_token = self.variable("AWS_SESSION_TOKEN").map(Secret::from);
            let keys = AwsKeys {
                access_key: Secret::from(access_key),
                secret_key: Secret::from(secret_key),
                session_token,
            };
            return Ok(Granted {
                keys,
                expires: None,
            });
        }
        let named = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"];
        if let [Some(file), Some(role)] = named.map(|name| self.variable(name)) {
            let token = read_file(&file).await?;
            let session = self.variable("AWS_ROLE_SESSION_NAME");
            let session = session.as_deref().unwrap_or("holdline");
            let request = aws::assume_role_with_token(&role, session, token.trim(), region, sts);
            return self.ask_sts(request?).await;
        }
        if let Some(uri) = self.container()? {
            return self.container_keys(uri).await;
        }
        self.instance_keys().await
    }

    async fn ask_sts(&self, request: Request<Bytes>) -> Result<Granted, Trouble> {
        let (status, headers, body) = super::send(self.upstream, self.network, request).await?;
        if !(200..300).contains(&status) {
            return Err(refused(status, headers, &body));
        }
        aws::read_sts(&body).ok_or_else(|| Trouble::unreadable("AWS STS"))
    }

    /// Where this container's keys are, if it has any.
    fn container(&self) -> Result<Option<Uri>, Trouble> {
        let relative = self.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let relative = relative.map(|path| format!("{CONTAINER}{path}"));
        let full = || self.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let Some(text) = relative.or_else(full) else {
            return Ok(None);
        };
        let uri = text.parse::<Uri>().ok().filter(is_metadata);
        uri.map(Some).ok_or_else(|| {
            Trouble::misconfigured(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI must lead to this machine or to the metadata of its container",
            )
        })
    }

    async fn container_keys(&self, uri: Uri) -> Result<Granted, Trouble> {
        let authorization = match self.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(file) => Some(read_file(&file).await?),
            None => self.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        };
        let request = aws::container_keys(uri, authorization.as_deref())?;
        let body = self.metadata(request).await?;
        aws::read_metadata(&body).ok_or_else(|| Trouble::unreadable("the container's metadata"))
    }

    async fn instance_keys(&self) -> Result<Granted, Trouble> {
        let off = self.variable("AWS_EC2_METADATA_DISABLED");
        if off.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Err(Trouble::misconfigured(NO_KEYS));
        }
        let base = self.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let base = base.as_deref().unwrap_or(INSTANCE).parse::<Uri>();
        let base = base.ok().filter(is_metadata).ok_or_else(|| {
            Trouble::misconfigured(
                "AWS_EC2_METADATA_SERVICE_ENDPOINT must lead to this machine or to its metadata",
            )
        })?;
        let metadata = Metadata { base };
        let nowhere = |_| Trouble::misconfigured(NO_KEYS);
        let token = self.metadata(metadata.token()?).await.map_err(nowhere)?;
        let token = text(&token);
        let role = self.metadata(metadata.role(&token, "")?).await;
        let role = text(&role.map_err(nowhere)?);
        // One a line; an instance has one.
        let role = role.lines().next().unwrap_or_default();
        let body = self.metadata(metadata.role(&token, role)?).await?;
        aws::read_metadata(&body).ok_or_else(|| Trouble::unreadable("the instance's metadata"))
    }

    async fn metadata(&self, request: Request<Bytes>) -> Result<Bytes, Trouble> {
        let (status, headers, body) = super::ask_metadata(self.upstream, request).await?;
        if !(200..300).contains(&status) {
            return Err(refused(status, headers, &body));
        }
        Ok(body)
    }
}

const NO_KEYS: &str = "no keys of AWS are at hand: give access_key and secret_key in bedrock_key_config, a value (an API key of Bedrock), or run the gateway where a role is attached";

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).trim().to_owned()
}

/// A refusal by AWS in words that are understood: of its XML the code and the message.
fn refused(status: u16, headers: HeaderMap, body: &[u8]) -> Trouble {
    #[derive(Deserialize)]
    struct Response {
        #[serde(rename = "Error")]
        error: Told,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Told {
        code: String,
        message: String,
    }
    let told = std::str::from_utf8(body).ok();
    let told = told.and_then(|text| quick_xml::de::from_str::<Response>(text).ok());
    let (status, body) = match told {
        Some(Response { error }) => {
            let slow = error.code.contains("Throttl");
            let message = format!("AWS STS: {}: {}", error.code, error.message);
            let body = serde_json::json!({ "message": message }).to_string();
            (if slow { 429 } else { status }, Bytes::from(body))
        }
        None => (status, Bytes::copy_from_slice(body)),
    };
    Trouble::Refused {
        status,
        headers: Box::new(headers),
        body,
    }
}

#[cfg(test)]
mod tests;
