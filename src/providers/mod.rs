//! Providers: where each is called and how, one short file per kind. No retries, no routing, no choice
//! of keys, no I/O; what is said there is [`crate::protocols`]' business.
//!
//! An [`Adapter`] answers three questions about a [`Call`]: which address, which credentials, and where
//! a token comes from if the key is no plain secret. Which protocols a provider speaks stands in its row
//! of [`crate::config::builtin`]: a provider like OpenAI is one row and no file here.
//!
//! # To add a kind
//! A file with a unit struct and its `impl Adapter`, a variant of [`Kind`], rows in `builtin.rs`. Fields of
//! its `*_key_config` are read in `src/config/vendor.rs`.

pub mod anthropic;
pub mod aws;
pub mod azure;
pub mod bedrock;
pub mod cohere;
pub mod gemini;
pub mod google;
pub mod openai;
pub mod vertex;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};

use holdline_core::time::WallMs;

use crate::config::vendor::Alias;
use crate::config::{Key, Provider, Secret};
use crate::protocols::kept::Collection;
use crate::protocols::{Operation, Protocol};

/// What kind of provider one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// OpenAI, and all who are called like it.
    OpenAi,
    /// Azure OpenAI: deployments at the key's own endpoint.
    Azure,
    /// Anthropic.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Amazon Bedrock: signed calls in a region.
    Bedrock,
    /// Cohere.
    Cohere,
    /// Google Cloud's Vertex AI: models of many, in a project and a region.
    Vertex,
    /// Known by name, but not called yet: requests get a clear 501.
    Unspoken,
}

impl Kind {
    /// How it is called; none where it is not.
    #[must_use]
    pub fn adapter(self) -> Option<&'static dyn Adapter> {
        match self {
            Self::OpenAi => Some(&openai::OpenAi),
            Self::Azure => Some(&azure::Azure),
            Self::Anthropic => Some(&anthropic::Anthropic),
            Self::Gemini => Some(&gemini::Gemini),
            Self::Bedrock => Some(&bedrock::Bedrock),
            Self::Cohere => Some(&cohere::Cohere),
            Self::Vertex => Some(&vertex::Vertex),
            Self::Unspoken => None,
        }
    }

    /// What is spoken of a model: what the provider's row says, unless that depends on whose model it is.
    #[must_use]
    pub fn speaks(
        self,
        row: &'static [Protocol],
        model: &str,
        alias: Option<&Alias>,
    ) -> &'static [Protocol] {
        match self {
            Self::Vertex => vertex::speaks(model, alias),
            Self::OpenAi
            | Self::Azure
            | Self::Anthropic
            | Self::Gemini
            | Self::Bedrock
            | Self::Cohere
            | Self::Unspoken => row,
        }
    }

    /// Whether it lists its models somewhere. Azure lists models instead of deployments, Vertex all that there
    /// are instead of those that the project may use.
    #[must_use]
    pub const fn lists(self) -> bool {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Gemini | Self::Bedrock | Self::Cohere => true,
            Self::Azure | Self::Vertex | Self::Unspoken => false,
        }
    }

    /// Whether what only passes is passed to it: one that has no such endpoint says so itself.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::OpenAi | Self::Azure)
    }
}

/// One call, as far as it is known before it is built.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Whom.
    pub provider: &'a Provider,
    /// With which key; none where the provider wants none, or the caller brought its own.
    pub key: Option<&'a Key>,
    /// What the provider is spoken to in.
    pub protocol: Protocol,
    /// What is asked for.
    pub operation: Operation,
    /// The answer is to be streamed.
    pub stream: bool,
    /// The provider's own name of the model.
    pub model: &'a str,
    /// What the key's alias for the model says besides that name.
    pub alias: Option<&'a Alias>,
    /// Those of the client's headers that some provider knows: see [`CLIENT_HEADERS`].
    pub client: &'a HeaderMap,
}

impl<'a> Call<'a> {
    /// The key's own address, else the provider's.
    #[must_use]
    pub fn base(&self) -> &'a Uri {
        let own = self.key.and_then(|key| key.base_url.as_ref());
        own.unwrap_or(&self.provider.base_url)
    }
}

/// Headers of clients that mean something to the provider whose SDK sends them. They are kept for the
/// adapters and passed on by nobody else.
pub static CLIENT_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
    HeaderName::from_static("openai-beta"),
];

/// What proves that a call may be made.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// Nothing: the provider wants nothing.
    None,
    /// The key's value, or the caller's own.
    Secret(&'a Secret),
    /// A token that was granted for the key: see [`Adapter::grant`].
    Token(&'a Secret),
    /// Keys of AWS that were granted for the key: see [`Adapter::grant`].
    Aws(&'a aws::AwsKeys),
}

impl Credential<'_> {
    /// Puts it into headers: a key's value into `key_header` where the provider has one, all else behind
    /// `Authorization: Bearer`. Keys of AWS stand in none: they sign.
    ///
    /// # Errors
    /// When it cannot stand in a header.
    pub fn put(
        self,
        headers: &mut HeaderMap,
        key_header: Option<HeaderName>,
    ) -> Result<(), NotCallable> {
        let (name, prefix, secret) = match (self, key_header) {
            (Self::None | Self::Aws(_), _) => return Ok(()),
            (Self::Secret(secret), Some(name)) => (name, "", secret),
            (Self::Secret(secret) | Self::Token(secret), _) => (AUTHORIZATION, "Bearer ", secret),
        };
        if secret.expose().is_empty() {
            return Ok(());
        }
        let value = HeaderValue::try_from(format!("{prefix}{}", secret.expose()));
        let mut value = value.map_err(|_| "the key's value cannot stand in a header")?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    }
}

/// How what proves a call is come by, where the key is no plain secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// A token.
    Token(Form),
    /// Keys of AWS that last for a while only.
    Aws(aws::Source),
    /// A token of Google's.
    Google(google::Source),
}

/// How a token is asked for: a form is posted, the answer is `{"access_token", "expires_in"}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Form {
    /// Where.
    pub uri: Uri,
    /// `application/x-www-form-urlencoded`, with secrets.
    pub form: String,
}

impl fmt::Debug for Form {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Form({})", self.uri)
    }
}

/// What becomes of a body whose provider wants it a little different from the protocol's author. Every
/// other byte stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reshape<'a> {
    /// `model` is taken out: the address names it.
    pub without_model: bool,
    /// `stream_options` is taken out: the provider refuses it.
    pub without_stream_options: bool,
    /// `anthropic_version` is put in, unless the client did.
    pub anthropic_version: Option<Cow<'a, str>>,
}

/// The configuration does not let the call be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotCallable(pub Cow<'static, str>);

impl From<&'static str> for NotCallable {
    fn from(message: &'static str) -> Self {
        Self(message.into())
    }
}

/// One kind of provider.
pub trait Adapter: Sync {
    /// Where the call goes.
    ///
    /// # Errors
    /// When the configuration names no usable address.
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable>;

    /// Where something is that the provider keeps: `behind` the address of its collection.
    ///
    /// # Errors
    /// When it keeps no such things.
    fn collection(
        &self,
        _call: &Call<'_>,
        collection: Collection,
        _behind: &str,
    ) -> Result<Uri, NotCallable> {
        Err(NotCallable(
            format!("it keeps no {}", collection.words()).into(),
        ))
    }

    /// The model's name where the body has it.
    fn body_model<'a>(&self, call: &Call<'a>) -> Cow<'a, str> {
        Cow::Borrowed(call.model)
    }

    /// The built-in provider whose ways it has in this call.
    fn like<'a>(&self, call: &Call<'a>) -> &'a str {
        call.provider.like()
    }

    /// What the body needs besides.
    fn reshape<'a>(&self, _call: &Call<'a>) -> Reshape<'a> {
        Reshape::default()
    }

    /// How the key gets its token or its keys of AWS, where it is no plain secret. They are kept until shortly before
    /// they expire, per key.
    ///
    /// # Errors
    /// When the configuration lacks something.
    fn grant(&self, _call: &Call<'_>, _now: WallMs) -> Result<Option<Grant>, NotCallable> {
        Ok(None)
    }

    /// Where it lists its models; nowhere where it does not, or lists others than those that can be asked.
    ///
    /// # Errors
    /// When the configuration names no usable address.
    fn lists(&self, _call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
        Ok(Vec::new())
    }

    /// Puts credentials and the provider's own headers on a request that is otherwise complete, its
    /// body included: signatures cover it. Keys are bearer tokens unless the provider has its own way.
    ///
    /// # Errors
    /// When a credential cannot stand where it must.
    fn sign(
        &self,
        _call: &Call<'_>,
        credential: Credential<'_>,
        _now: WallMs,
        request: &mut Request<Bytes>,
    ) -> Result<(), NotCallable> {
        credential.put(request.headers_mut(), None)
    }
}

/// Where a call goes: where its provider's configuration says that such requests go, else where such providers
/// take them.
///
/// # Errors
/// When that is no usable address.
pub fn address(adapter: &dyn Adapter, call: &Call<'_>) -> Result<Uri, NotCallable> {
    let kind = call.protocol.request_type(call.operation, call.stream);
    match call.provider.custom.place(kind) {
        Some(place) => place.of_model(call.base(), call.model),
        None => adapter.endpoint(call),
    }
}

/// A path behind a base URL. A base URL that ends in a version which the path begins with (`/v1`) has
/// that part already; its query stays.
///
/// # Errors
/// When the base URL has no host.
pub fn join(base: &Uri, path: &str) -> Result<Uri, NotCallable> {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let root = base.path().trim_end_matches('/');
    let version = path.split('/').nth(1).filter(|_| path.starts_with('/'));
    let doubled = version.filter(|v| is_version(v) && root.rsplit('/').next() == Some(*v));
    let bare = doubled.and_then(|v| root.strip_suffix(v)?.strip_suffix('/'));
    let mut target = format!("{}{path}", bare.unwrap_or(root));
    let queries = [base.query(), query];
    for (n, query) in queries.into_iter().flatten().enumerate() {
        target.push(if n == 0 { '?' } else { '&' });
        target.push_str(query);
    }
    let mut parts = base.clone().into_parts();
    let no_host = || NotCallable::from("the provider's base URL has no host");
    parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| no_host())?);
    Uri::from_parts(parts).map_err(|_| no_host())
}

fn is_version(segment: &str) -> bool {
    let digits = segment.strip_prefix('v');
    digits.is_some_and(|d| d.bytes().next().is_some_and(|b| b.is_ascii_digit()))
}

/// Text as one segment of a path, or one value of a query or form.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a String takes all");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_not_doubled_and_queries_stay() {
        for (base, path, expected) in [
            ("https://h", "/v1/chat", "https://h/v1/chat"),
            ("https://h/v1/", "/v1/chat", "https://h/v1/chat"),
            (
                "http://[::1]:81/at/one",
                "/v1/chat",
                "http://[::1]:81/at/one/v1/chat",
            ),
            (
                "http://h/x?k=1",
                "/v1/chat?a=2",
                "http://h/x/v1/chat?k=1&a=2",
            ),
            ("http://h/paas/v4", "/chat", "http://h/paas/v4/chat"),
            (
                "http://h/v1beta",
                "/v1beta/models",
                "http://h/v1beta/models",
            ),
        ] {
            let joined = join(&base.parse().unwrap(), path).unwrap();
            assert_eq!(joined.to_string(), expected);
        }
    }

    #[test]
    fn segments_are_encoded() {
        assert_eq!(percent_encoded("a b/ü:x"), "a%20b%2F%C3%BC%3Ax");
    }
}
