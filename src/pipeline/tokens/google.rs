//! Tokens of Google: with configured credentials, or with Application Default Credentials, which are looked
//! for where Google's own tools look: a file that a variable names, the file that `gcloud` leaves, the
//! machine's metadata.

use std::path::PathBuf;

use http::Uri;

use super::{Token, Trouble, World, ask_metadata, granted, is_metadata, read_file, token};
use crate::providers::google::{Identity, Source, metadata_token};

/// Where the metadata of a machine in Google Cloud are, also under the name `metadata.google.internal`.
const METADATA: &str = "http://169.254.169.254";

const NOTHING: &str = "no credentials of Google are at hand: give auth_credentials in vertex_key_config, a value (an API key), GOOGLE_APPLICATION_CREDENTIALS, or run the gateway where a service account is attached";

/// The token of a source.
pub(super) async fn token_of(source: Source, world: World<'_>) -> Result<Token, Trouble> {
    match source {
        Source::Given(identity) => token(identity.form(world.now)?, world).await,
        Source::Here => world.own_google_token().await,
    }
}

impl World<'_> {
    async fn own_google_token(&self) -> Result<Token, Trouble> {
        const NAME: &str = "GOOGLE_APPLICATION_CREDENTIALS";
        if let Some(path) = self.variable(NAME) {
            return self.token_of_file(&path, NAME).await;
        }
        if let Some(path) = self.left_by_gcloud() {
            let path = path.to_string_lossy();
            if tokio::fs::try_exists(&*path).await.unwrap_or(false) {
                return self.token_of_file(&path, "gcloud's own file").await;
            }
        }
        self.token_of_machine().await
    }

    async fn token_of_file(&self, path: &str, what: &str) -> Result<Token, Trouble> {
        let text = read_file(path).await?;
        let identity = Identity::read(&text);
        let identity = identity
            .map_err(|error| Trouble::misconfigured(format!("{what} ({path:?}) {error}")))?;
        token(identity.form(self.now)?, *self).await
    }

    fn left_by_gcloud(&self) -> Option<PathBuf> {
        const FILE: &str = "application_default_credentials.json";
        let own = self.variable("CLOUDSDK_CONFIG").map(PathBuf::from);
        let usual = || Some(PathBuf::from(self.variable("HOME")?).join(".config/gcloud"));
        Some(own.or_else(usual)?.join(FILE))
    }

    async fn token_of_machine(&self) -> Result<Token, Trouble> {
        if self
            .variable("NO_GCE_CHECK")
            .is_some_and(|text| text == "true")
        {
            return Err(Trouble::misconfigured(NOTHING));
        }
        let base = match self.variable("GCE_METADATA_HOST") {
            Some(host) if host == "metadata.google.internal" => METADATA.to_owned(),
            Some(host) => format!("http://{host}"),
            None => METADATA.to_owned(),
        };
        let base = base
            .parse::<Uri>()
            .ok()
            .filter(is_metadata)
            .ok_or_else(|| {
                Trouble::misconfigured(
                    "GCE_METADATA_HOST must lead to this machine or to its metadata",
                )
            })?;
        let asked = ask_metadata(self.upstream, metadata_token(&base)?).await;
        granted(asked.map_err(|_| Trouble::misconfigured(NOTHING))?)
    }
}

#[cfg(test)]
mod tests;
