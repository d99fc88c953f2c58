//! What AWS wants of every call: a signature, and the keys that it is made with where those last for a
//! while only. Requests for such keys are built here and their answers read; [`crate::pipeline`] sends them.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign as aws_sign};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method, Request, Uri};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use holdline_core::time::WallMs;

use super::{NotCallable, join, percent_encoded};
use crate::config::Secret;

/// Keys that sign.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// Told with every call, but with nothing else.
    pub access_key: Secret,
    /// Never told.
    pub secret_key: Secret,
    /// Told where the keys last for a while only.
    pub session_token: Option<Secret>,
}

impl fmt::Debug for AwsKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AwsKeys")
    }
}

impl AwsKeys {
    /// Each of them.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.access_key, &self.secret_key]
            .into_iter()
            .chain(&self.session_token)
    }
}

/// Where keys come from that are not simply configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The region whose services are asked.
    pub region: String,
    /// Configured keys; without them those of where the gateway runs.
    pub keys: Option<AwsKeys>,
    /// The role that is taken on with them.
    pub role: Option<Role>,
}

/// A role to take on.
#[derive(Clone, PartialEq, Eq)]
pub struct Role {
    /// `role_arn`.
    pub arn: String,
    /// `external_id`, which some roles want to hear.
    pub external_id: Option<Secret>,
    /// `session_name`: who took it on, in AWS's own logs.
    pub session_name: Option<String>,
}

impl fmt::Debug for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Role({})", self.arn)
    }
}

/// Keys that were granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The keys.
    pub keys: AwsKeys,
    /// When they end; never where nothing is said.
    pub expires: Option<WallMs>,
}

/// Signs a request that is otherwise complete. Of its headers only those are signed that nobody on the
/// way may change: the host, the content type, AWS's own.
///
/// # Errors
/// When a header or the address cannot be signed.
pub fn sign(
    request: &mut Request<Bytes>,
    keys: &AwsKeys,
    region: &str,
    service: &str,
    now: WallMs,
) -> Result<(), NotCallable> {
    let token = keys.session_token.as_ref();
    let identity = Credentials::new(
        keys.access_key.expose(),
        keys.secret_key.expose(),
        token.map(|token| token.expose().to_owned()),
        None,
        "holdline",
    )
    .into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(UNIX_EPOCH + Duration::from_millis(now.0))
        .settings(SigningSettings::default())
        .build()
        .expect("all its fields are given")
        .into();
    let uri = request.uri().to_string();
    let is_signed =
        |name: &HeaderName| *name == CONTENT_TYPE || name.as_str().starts_with("x-amz-");
    let headers = request.headers().iter();
    let headers = headers
        .filter(|(name, _)| is_signed(name))
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let body = SignableBody::Bytes(request.body());
    let unsignable = |_| NotCallable::from("the request cannot be signed for AWS");
    let signable = SignableRequest::new(request.method().as_str(), uri, headers, body);
    let signed = aws_sign(signable.map_err(unsignable)?, &params).map_err(unsignable)?;
    let (instructions, _) = signed.into_parts();
    instructions.apply_to_request_http1x(request);
    for name in [AUTHORIZATION.as_str(), "x-amz-security-token"] {
        if let Some(value) = request.headers_mut().get_mut(name) {
            value.set_sensitive(true);
        }
    }
    Ok(())
}

/// The domain that a region's services live in.
#[must_use]
pub fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    }
}

/// Whether text can be the name of a region, and so stand in an address.
#[must_use]
pub fn is_region(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.len() <= 32 && text.bytes().all(allowed)
}

/// Where roles are taken on: the region's own address unless another is given.
fn sts(region: &str, other: Option<&str>) -> Result<Uri, NotCallable> {
    let address = other.map_or_else(
        || format!("https://sts.{region}.{}", domain(region)),
        str::to_owned,
    );
    let base: Uri = address
        .parse()
        .map_err(|_| NotCallable::from("the address of AWS STS cannot be read"))?;
    join(&base, "/")
}

fn form(uri: Uri, fields: &[(&str, &str)]) -> Request<Bytes> {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", percent_encoded(value)));
    let body = fields.collect::<Vec<_>>().join("&");
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(ACCEPT, HeaderValue::from_static("text/xml"));
    request
}

/// Asks to take on a role, as whom the keys are.
///
/// # Errors
/// When the request cannot be addressed or signed.
pub fn assume_role(
    role: &Role,
    keys: &AwsKeys,
    region: &str,
    address: Option<&str>,
    now: WallMs,
) -> Result<Request<Bytes>, NotCallable> {
    let mut fields = vec![
        ("Action", "AssumeRole"),
        ("Version", "2011-06-15"),
        ("RoleArn", role.arn.as_str()),
        (
            "RoleSessionName",
            role.session_name.as_deref().unwrap_or("holdline"),
        ),
    ];
    let external_id = role.external_id.as_ref().map(Secret::expose);
    fields.extend(external_id.map(|id| ("ExternalId", id)));
    let mut request = form(sts(region, address)?, &fields);
    sign(&mut request, keys, region, "sts", now)?;
    Ok(request)
}

/// Asks to take on a role, as whom a token of the cluster that the gateway runs in names.
///
/// # Errors
/// When the request cannot be addressed.
pub fn assume_role_with_token(
    role_arn: &str,
    session_name: &str,
    token: &str,
    region: &str,
    address: Option<&str>,
) -> Result<Request<Bytes>, NotCallable> {
    let fields = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role_arn),
        ("RoleSessionName", session_name),
        ("WebIdentityToken", token),
    ];
    Ok(form(sts(region, address)?, &fields))
}

/// Asks where a container's own keys are.
///
/// # Errors
/// When the authorization cannot stand in a header.
pub fn container_keys(
    uri: Uri,
    authorization: Option<&str>,
) -> Result<Request<Bytes>, NotCallable> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = uri;
    if let Some(text) = authorization {
        let value = HeaderValue::try_from(text.trim());
        let mut value =
            value.map_err(|_| NotCallable::from("the container's token cannot be sent"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(request)
}

/// An instance's own metadata: first a token, then with it the name of the role, then its keys.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// `http://169.254.169.254`, or what stands in for it.
    pub base: Uri,
}

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

impl Metadata {
    /// Asks for the token without which nothing else is told.
    ///
    /// # Errors
    /// When the address has no host.
    pub fn token(&self) -> Result<Request<Bytes>, NotCallable> {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = join(&self.base, "/latest/api/token")?;
        let life = HeaderValue::from_static("300");
        let name = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
        request.headers_mut().insert(name, life);
        Ok(request)
    }

    /// Asks for the name of the instance's role, or for the keys of the role of this name.
    ///
    /// # Errors
    /// When the token or the name cannot be sent.
    pub fn role(&self, token: &str, name: &str) -> Result<Request<Bytes>, NotCallable> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = join(&self.base, &format!("{ROLES}{}", percent_encoded(name)))?;
        let value = HeaderValue::try_from(token);
        let value = value.map_err(|_| NotCallable::from("the metadata's token cannot be sent"))?;
        let header = HeaderName::from_static("x-aws-ec2-metadata-token");
        request.headers_mut().insert(header, value);
        Ok(request)
    }
}

/// Keys as XML of STS or JSON of metadata name them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireKeys {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "Token")]
    session_token: Option<String>,
    expiration: Option<String>,
}

impl WireKeys {
    fn granted(self) -> Option<Granted> {
        let expires = match self.expiration {
            Some(text) => {
                let at = OffsetDateTime::parse(text.trim(), &Rfc3339).ok()?;
                let ms = at.unix_timestamp().checked_mul(1_000)?;
                Some(WallMs(u64::try_from(ms).ok()?))
            }
            None => None,
        };
        Some(Granted {
            keys: AwsKeys {
                access_key: Secret::from(self.access_key_id),
                secret_key: Secret::from(self.secret_access_key),
                session_token: self.session_token.map(Secret::from),
            },
            expires,
        })
    }
}

/// Reads the answer of STS; none where it is another one.
#[must_use]
pub fn read_sts(body: &[u8]) -> Option<Granted> {
    #[derive(Deserialize)]
    struct Response {
        #[serde(alias = "AssumeRoleWithWebIdentityResult", rename = "AssumeRoleResult")]
        result: Taken,
    }
    #[derive(Deserialize)]
    struct Taken {
        #[serde(rename = "Credentials")]
        keys: WireKeys,
    }
    let response: Response = quick_xml::de::from_str(std::str::from_utf8(body).ok()?).ok()?;
    response.result.keys.granted()
}

/// Reads keys as metadata of containers and instances tell them; none where it tells something else.
#[must_use]
pub fn read_metadata(body: &[u8]) -> Option<Granted> {
    let keys: WireKeys = serde_json::from_slice(body).ok()?;
    keys.granted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(token: Option<&str>) -> AwsKeys {
        AwsKeys {
            access_key: Secret::from("AKIDEXAMPLE".to_owned()),
            secret_key: Secret::from("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
            session_token: token.map(|token| Secret::from(token.to_owned())),
        }
    }

    fn header<'a>(request: &'a Request<Bytes>, name: &str) -> &'a str {
        request.headers()[name].to_str().unwrap()
    }

    /// 30 August 2015, 12:36: the instant of AWS's own examples.
    const NOW: WallMs = WallMs(1_440_938_160_000);

    /// AWS's published example `get-vanilla`, with its signature.
    #[test]
    fn signatures_are_those_of_awss_own_examples() {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::from_static("https://example.amazonaws.com/");
        sign(&mut request, &keys(None), "us-east-1", "service", NOW).unwrap();
        assert_eq!(header(&request, "x-amz-date"), "20150830T123600Z");
        assert_eq!(
            header(&request, "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
        assert!(request.headers()["authorization"].is_sensitive());
    }

    /// The path of a model with a colon is encoded once on the wire and twice in what is signed; what
    /// proxies add or change is not signed.
    #[test]
    fn paths_and_headers_are_signed_as_aws_reads_them() {
        let signed = |path: &'static str, agent: &'static str, token| {
            let mut request = Request::new(Bytes::from_static(b"{}"));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = Uri::from_static(path);
            let headers = request.headers_mut();
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            headers.insert("user-agent", HeaderValue::from_static(agent));
            sign(&mut request, &keys(token), "eu-west-1", "bedrock", NOW).unwrap();
            request
        };
        let request = signed("http://h:81/model/x-v1%3A0/converse", "a", Some("TOKEN"));
        assert_eq!(request.uri().path(), "/model/x-v1%3A0/converse");
        assert_eq!(header(&request, "x-amz-security-token"), "TOKEN");
        let authorization = header(&request, "authorization");
        assert!(authorization.contains("/eu-west-1/bedrock/aws4_request"));
        assert!(
            authorization
                .contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,")
        );
        let same = signed("http://h:81/model/x-v1%3A0/converse", "b", Some("TOKEN"));
        assert_eq!(header(&same, "authorization"), authorization);
        let other = signed("http://h:81/model/x-v1:0/converse", "a", Some("TOKEN"));
        assert_ne!(header(&other, "authorization"), authorization);
    }

    #[test]
    fn a_role_is_asked_for_with_all_that_it_wants_to_hear() {
        let role = Role {
            arn: "arn:aws:iam::1:role/x".to_owned(),
            external_id: Some(Secret::from("e&d".to_owned())),
            session_name: None,
        };
        let request = assume_role(&role, &keys(None), "cn-north-1", None, NOW).unwrap();
        assert_eq!(
            request.uri().to_string(),
            "https://sts.cn-north-1.amazonaws.com.cn/"
        );
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        assert_eq!(
            body,
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx\
             &RoleSessionName=holdline&ExternalId=e%26d"
        );
        assert!(header(&request, "authorization").contains("/cn-north-1/sts/aws4_request"));
        assert_eq!(format!("{role:?}"), "Role(arn:aws:iam::1:role/x)");
    }

    #[test]
    fn granted_keys_are_read() {
        let xml = r#"<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
            <AssumeRoleResult>
              <AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/x/holdline</Arn></AssumedRoleUser>
              <Credentials>
                <AccessKeyId>ASIA1</AccessKeyId>
                <SecretAccessKey>a/b+c</SecretAccessKey>
                <SessionToken>tok&amp;en==</SessionToken>
                <Expiration>2015-08-30T13:36:00Z</Expiration>
              </Credentials>
            </AssumeRoleResult>
            <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>
          </AssumeRoleResponse>"#;
        let granted = read_sts(xml.as_bytes()).unwrap();
        let all: Vec<_> = granted.keys.secrets().map(Secret::expose).collect();
        assert_eq!(all, ["ASIA1", "a/b+c", "tok&en=="]);
        assert_eq!(granted.expires, Some(WallMs(NOW.0 + 3_600_000)));
        let web = xml.replace("AssumeRoleRes", "AssumeRoleWithWebIdentityRes");
        assert_eq!(read_sts(web.as_bytes()), Some(granted.clone()));
        let json = br#"{"Code":"Success","AccessKeyId":"ASIA1","SecretAccessKey":"a/b+c",
            "Token":"tok&en==","Expiration":"2015-08-30T13:36:00Z"}"#;
        assert_eq!(read_metadata(json), Some(granted));
        for other in [
            &b""[..],
            b"<html></html>",
            b"{}",
            b"\xff",
            b"<AssumeRoleResponse/>",
        ] {
            assert_eq!((read_sts(other), read_metadata(other)), (None, None));
        }
    }
}
