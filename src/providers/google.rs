//! What Google wants of every call: a token of its OAuth 2.0, granted to a service account that signs for
//! itself, to a user, or to the machine that the gateway runs on. Requests for tokens are built here;
//! [`crate::pipeline`] sends them and keeps what is granted.
//!
//! The rules are those of <https://developers.google.com/identity/protocols/oauth2/service-account> and
//! <https://cloud.google.com/docs/authentication/application-default-credentials>.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Request, Uri};
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::Signer;
use serde::Serialize;
use serde_json::Value;

use holdline_core::time::WallMs;

use super::{Form, NotCallable, join, percent_encoded};
use crate::config::Secret;

/// What tokens are for: all of Google Cloud that the account itself may do.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Used where a file of credentials names no other place.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// How long an assertion is good for: the longest that Google takes.
const ASSERTION_SECONDS: u64 = 3_600;

/// Clocks that are a little late are forgiven.
const EARLY_SECONDS: u64 = 10;

/// Where the machine's own token is, at its metadata server.
const METADATA_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// Where tokens come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Credentials that are configured.
    Given(Arc<Identity>),
    /// Application Default Credentials: what is at hand where the gateway runs.
    Here,
}

/// Credentials as Google's JSON files hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// `service_account`.
    Account(Account),
    /// `authorized_user`: what `gcloud auth application-default login` leaves behind.
    User(User),
}

/// A service account, which signs for itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// `client_email`.
    email: String,
    /// `private_key_id`.
    key_id: Option<String>,
    /// `private_key`, in PEM form: an RSA key.
    key: Secret,
    /// `token_uri`.
    token_uri: Uri,
}

/// A user who once agreed.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    client_id: String,
    client_secret: Secret,
    refresh_token: Secret,
    token_uri: Uri,
}

impl fmt::Debug for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Account({})", self.email)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("User")
    }
}

/// Why text holds no credentials, and what to do about it. Repeats nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

impl Identity {
    /// Reads the text of one of Google's JSON files.
    ///
    /// # Errors
    /// When it is none, of another kind, or its key cannot sign.
    pub fn read(text: &str) -> Result<Self, Unusable> {
        let file: Value = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Unusable(format!(
                "is not the JSON of a service account (line {line}, column {column}): give the whole file's text"
            ))
        })?;
        match file.get("type").and_then(Value::as_str) {
            Some("service_account") => Ok(Self::Account(Account::read(&file)?)),
            Some("authorized_user") => Ok(Self::User(User::read(&file)?)),
            Some(_) => Err(Unusable(
                "is of a `type` that is not supported: give a service_account or an authorized_user".to_owned(),
            )),
            None => Err(Unusable(
                "has no `type`: give the JSON of a service account, as Google Cloud hands it out".to_owned(),
            )),
        }
    }

    /// Each of its secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        match self {
            Self::Account(account) => [Some(&account.key), None],
            Self::User(user) => [Some(&user.client_secret), Some(&user.refresh_token)],
        }
        .into_iter()
        .flatten()
    }

    /// How its token is asked for.
    ///
    /// # Errors
    /// When the account's key does not sign.
    pub fn form(&self, now: WallMs) -> Result<Form, NotCallable> {
        match self {
            Self::Account(account) => Ok(Form {
                uri: account.token_uri.clone(),
                form: format!(
                    "grant_type={}&assertion={}",
                    percent_encoded("urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    account.assertion(now)?,
                ),
            }),
            Self::User(user) => Ok(Form {
                uri: user.token_uri.clone(),
                form: format!(
                    "grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                    percent_encoded(&user.client_id),
                    percent_encoded(user.client_secret.expose()),
                    percent_encoded(user.refresh_token.expose()),
                ),
            }),
        }
    }
}

fn field(file: &Value, name: &str) -> Result<String, Unusable> {
    let text = file.get(name).and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty());
    text.map(str::to_owned)
        .ok_or_else(|| Unusable(format!("has no `{name}`: give the whole file's text")))
}

fn token_uri(file: &Value) -> Result<Uri, Unusable> {
    let text = file.get("token_uri").and_then(Value::as_str);
    let uri = text.unwrap_or(TOKEN_URI).parse::<Uri>().ok();
    let is_usable = |uri: &Uri| {
        let scheme = uri.scheme_str().unwrap_or_default();
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        let has_user = uri.authority().is_some_and(|a| a.as_str().contains('@'));
        matches!(scheme, "http" | "https") && has_host && !has_user
    };
    uri.filter(is_usable).ok_or_else(|| {
        Unusable(format!(
            "has a `token_uri` that is no address: Google's is {TOKEN_URI}"
        ))
    })
}

impl User {
    fn read(file: &Value) -> Result<Self, Unusable> {
        Ok(Self {
            client_id: field(file, "client_id")?,
            client_secret: field(file, "client_secret")?.into(),
            refresh_token: field(file, "refresh_token")?.into(),
            token_uri: token_uri(file)?,
        })
    }
}

#[derive(Serialize)]
struct Head<'a> {
    alg: &'static str,
    typ: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'static str,
    aud: String,
    iat: u64,
    exp: u64,
}

impl Account {
    fn read(file: &Value) -> Result<Self, Unusable> {
        // Shells and templates like to escape line ends once more.
        let key = field(file, "private_key")?.replace("\\n", "\n");
        let account = Self {
            email: field(file, "client_email")?,
            key_id: field(file, "private_key_id").ok(),
            key: key.into(),
            token_uri: token_uri(file)?,
        };
        let message = "has a `private_key` that is no RSA key of 2048 bits or more in PEM form";
        account
            .signer()
            .map(|_| account)
            .ok_or_else(|| Unusable(message.to_owned()))
    }

    fn signer(&self) -> Option<Box<dyn Signer>> {
        let key = PrivateKeyDer::from_pem_slice(self.key.expose().as_bytes()).ok()?;
        let key = any_supported_type(&key).ok()?;
        key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])
    }

    /// A token of its own, signed with its key, for which Google hands out one of Google's (RFC 7523).
    fn assertion(&self, now: WallMs) -> Result<String, NotCallable> {
        let head = Head {
            alg: "RS256",
            typ: "JWT",
            kid: self.key_id.as_deref(),
        };
        let iat = (now.0 / 1_000).saturating_sub(EARLY_SECONDS);
        let claims = Claims {
            iss: &self.email,
            scope: SCOPE,
            aud: self.token_uri.to_string(),
            iat,
            exp: iat + ASSERTION_SECONDS,
        };
        let mut text = encoded(&head);
        text.push('.');
        text.push_str(&encoded(&claims));
        let signed = self.signer().and_then(|s| s.sign(text.as_bytes()).ok());
        let signature = signed.ok_or("the service account's key does not sign")?;
        text.push('.');
        text.push_str(&URL_SAFE_NO_PAD.encode(signature));
        Ok(text)
    }
}

fn encoded(part: &impl Serialize) -> String {
    let json = serde_json::to_vec(part).expect("strings and numbers can be written");
    URL_SAFE_NO_PAD.encode(json)
}

/// Asks the machine that the gateway runs on for its own token. `base` is the address of its metadata
/// server.
///
/// # Errors
/// When the address has no host.
pub fn metadata_token(base: &Uri) -> Result<Request<Bytes>, NotCallable> {
    let path = format!("{METADATA_PATH}?scopes={}", percent_encoded(SCOPE));
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = join(base, &path)?;
    let flavor = HeaderValue::from_static("Google");
    request.headers_mut().insert("metadata-flavor", flavor);
    Ok(request)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Of an account that never was: its key was made for tests.
    pub(crate) const ACCOUNT: &str = include_str!("../../tests/fixtures/google-account.json");

    const NOW: WallMs = WallMs(1_796_036_400_123);

    fn changed(field: &str, value: Value) -> String {
        let mut file: Value = serde_json::from_str(ACCOUNT).unwrap();
        file[field] = value;
        file.to_string()
    }

    fn decoded(part: &str) -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn an_account_signs_for_itself() {
        let form = Identity::read(ACCOUNT).unwrap().form(NOW).unwrap();
        assert_eq!(form.uri.to_string(), TOKEN_URI);
        let (grant, assertion) = form.form.split_once("&assertion=").unwrap();
        assert_eq!(
            grant,
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        );
        let parts: Vec<&str> = assertion.split('.').collect();
        assert_eq!(
            decoded(parts[0]),
            json!({"alg": "RS256", "typ": "JWT", "kid": "kid-1"})
        );
        assert_eq!(
            decoded(parts[1]),
            json!({
                "iss": "gateway@holdline-test.iam.gserviceaccount.com",
                "scope": "https://www.googleapis.com/auth/cloud-platform",
                "aud": "https://oauth2.googleapis.com/token",
                "iat": 1_796_036_390_u64,
                "exp": 1_796_039_990_u64,
            })
        );
        // As `openssl dgst -sha256 -sign` signs the same text with the same key.
        assert_eq!(
            parts[2],
            include_str!("../../tests/fixtures/google-account.sig").trim()
        );
    }

    #[test]
    fn a_user_shows_what_was_agreed_to_once() {
        let file = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s/1",
            "refresh_token": "r"});
        let user = Identity::read(&file.to_string()).unwrap();
        let form = user.form(NOW).unwrap();
        assert_eq!(form.uri.to_string(), TOKEN_URI);
        assert_eq!(
            form.form,
            "grant_type=refresh_token&client_id=c&client_secret=s%2F1&refresh_token=r"
        );
        let secrets: Vec<&str> = user.secrets().map(Secret::expose).collect();
        assert_eq!(secrets, ["s/1", "r"]);
        assert!(!format!("{user:?} {form:?}").contains("s/1"));
    }

    #[test]
    fn keys_whose_line_ends_were_escaped_twice_are_read() {
        let file: Value = serde_json::from_str(ACCOUNT).unwrap();
        let escaped = file["private_key"].as_str().unwrap().replace('\n', "\\n");
        let again = Identity::read(&changed("private_key", json!(escaped)));
        assert_eq!(again, Identity::read(ACCOUNT));
    }

    #[test]
    fn what_is_wrong_with_credentials_is_told_and_nothing_of_them() {
        let elliptic = rcgen::KeyPair::generate().unwrap().serialize_pem();
        for (text, expected) in [
            ("secret-in-no-json".to_owned(), "line 1"),
            ("\"secret\"".to_owned(), "no `type`"),
            (changed("type", json!("external_secret")), "`type`"),
            (changed("client_email", json!("")), "`client_email`"),
            (changed("private_key", Value::Null), "`private_key`"),
            (changed("private_key", json!("secret")), "RSA"),
            (changed("private_key", json!(elliptic)), "RSA"),
            (changed("token_uri", json!("secret:/")), "`token_uri`"),
            (
                changed("token_uri", json!("https://a:secret@h/")),
                "`token_uri`",
            ),
            (
                json!({"type": "authorized_user", "client_id": "secret"}).to_string(),
                "`client_secret`",
            ),
        ] {
            let message = Identity::read(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            let repeated = message.replace("client_secret", "");
            assert!(!repeated.contains("secret"), "{message}");
        }
    }

    #[test]
    fn the_metadata_server_is_asked_for_a_token_for_the_cloud() {
        let request = metadata_token(&Uri::from_static("http://169.254.169.254")).unwrap();
        assert_eq!(
            request.uri().to_string(),
            "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token\
             ?scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform"
        );
        assert_eq!(request.headers()["metadata-flavor"], "Google");
    }
}
