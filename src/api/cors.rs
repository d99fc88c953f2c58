//! Which web pages may call: their origins, and the headers they may send.
//!
//! Pages on this machine always may. `client.allowed_origins` names others; `*` opens inference to all
//! pages, but never the admin API, which a node without a login trusts to whoever is near.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};

use super::error::ApiError;
use super::paths;
use crate::server::Body;

/// Headers that pages may send whatever is configured, in lower case; those that end with a dash stand
/// for all that begin so.
const HEADERS: [&str; 13] = [
    "accept",
    "anthropic-",
    "api-key",
    "authorization",
    "content-type",
    "openai-",
    "x-api-key",
    "x-bf-",
    "x-goog-",
    "x-request-id",
    "x-requested-with",
    "x-stainless-",
    "user-agent",
];
const METHODS: HeaderValue =
    HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS");
/// How long a browser remembers what it was told, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The rules of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Cors {
    origins: Vec<String>,
    headers: Vec<String>,
}

/// The page that a request comes from, if it may call.
pub(super) struct Page(Option<HeaderValue>);

impl Cors {
    pub(super) fn new(origins: &[String], headers: &[String]) -> Self {
        let lower = |text: &String| text.trim().trim_end_matches('/').to_ascii_lowercase();
        Self {
            origins: origins.iter().map(lower).collect(),
            headers: headers.iter().map(lower).collect(),
        }
    }

    /// The answer to a browser that asks before it calls; `None` for every other request.
    pub(super) fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let headers = request.headers();
        let asks = *request.method() == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !asks {
            return None;
        }
        let page = self.page(request);
        if page.0.is_none() {
            let refusal = ApiError::caller(
                StatusCode::FORBIDDEN,
                "pages of this origin may not call: name it in client.allowed_origins",
            );
            return Some(refusal.into_response());
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let told = response.headers_mut();
        told.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        told.insert(ACCESS_CONTROL_ALLOW_HEADERS, self.allowed(headers));
        told.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        page.mark(&mut response);
        Some(response)
    }

    /// Where the request comes from.
    pub(super) fn page<B>(&self, request: &Request<B>) -> Page {
        let origin = request.headers().get(ORIGIN);
        let is_admin = request.uri().path().starts_with(paths::ADMIN_PREFIX);
        let allowed = origin.filter(|origin| {
            let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            is_near(&text) || self.names(&text, is_admin)
        });
        Page(allowed.cloned())
    }

    fn names(&self, origin: &str, is_admin: bool) -> bool {
        self.origins.iter().any(|pattern| match pattern.as_str() {
            "*" => !is_admin,
            pattern => matches(pattern, origin),
        })
    }

    /// Of the headers that the page wants to send, those it may.
    fn allowed(&self, asked: &HeaderMap) -> HeaderValue {
        let asked = asked.get(ACCESS_CONTROL_REQUEST_HEADERS);
        let asked = asked
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let may = |name: &str| {
            self.headers.iter().any(|own| own == "*" || own == name)
                || HEADERS.iter().any(|known| {
                    known == &name || (known.ends_with('-') && name.starts_with(known))
                })
        };
        let names = asked
            .split(',')
            .map(|name| name.trim().to_ascii_lowercase());
        let allowed: Vec<String> = names.filter(|name| may(name)).collect();
        HeaderValue::try_from(allowed.join(", ")).unwrap_or(HeaderValue::from_static(""))
    }
}

impl Page {
    /// Lets the page read the answer.
    pub(super) fn mark(self, response: &mut Response<Body>) {
        let Some(origin) = self.0 else {
            return;
        };
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
}

/// Whether the page is of this machine.
fn is_near(origin: &str) -> bool {
    let host = origin.parse::<Uri>().ok();
    let host = host.as_ref().and_then(Uri::host);
    host.is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host))
}

/// `https://app.example.com`, `https://*.example.com`, `*.example.com` (any scheme).
fn matches(pattern: &str, origin: &str) -> bool {
    let Some((scheme, domain)) = pattern.split_once("*.") else {
        return pattern == origin;
    };
    let Some(rest) = origin.strip_prefix(scheme) else {
        return false;
    };
    let host = rest.split_once("://").map_or(rest, |(_, host)| host);
    let within = host
        .strip_suffix(domain)
        .and_then(|sub| sub.strip_suffix('.'));
    within.is_some_and(|sub| !sub.is_empty() && !sub.contains(['/', '@']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(origins: &[&str], origin: &str, path: &str) -> bool {
        let origins: Vec<String> = origins.iter().map(|o| (*o).to_owned()).collect();
        let request = Request::builder()
            .uri(path)
            .header(ORIGIN, origin)
            .body(())
            .unwrap();
        Cors::new(&origins, &[]).page(&request).0.is_some()
    }

    #[test]
    fn only_named_origins_and_this_machine_may_call() {
        let named = [
            "https://app.example.com",
            "https://*.corp.example",
            "*.any.example",
        ];
        for (origin, allowed) in [
            ("http://localhost:5173", true),
            ("https://127.0.0.1", true),
            ("http://[::1]:3000", true),
            ("https://APP.example.com", true),
            ("http://app.example.com", false),
            ("https://app.example.com.evil.net", false),
            ("https://app.example.com:8443", false),
            ("https://a.b.corp.example", true),
            ("http://a.corp.example", false),
            ("https://corp.example", false),
            ("https://evilcorp.example", false),
            ("http://x.any.example", true),
            ("http://localhost.evil.net", false),
            ("http://evil.net/localhost", false),
            ("null", false),
        ] {
            assert_eq!(may(&named, origin, "/v1/models"), allowed, "{origin}");
        }
    }

    #[test]
    fn a_star_does_not_open_the_admin_api() {
        assert!(may(&["*"], "https://evil.net", "/v1/models"));
        assert!(!may(&["*"], "https://evil.net", "/api/providers"));
        assert!(may(
            &["https://ops.example"],
            "https://ops.example",
            "/api/providers"
        ));
    }

    #[test]
    fn a_browser_is_told_which_headers_it_may_send() {
        let ask = |own: &[String]| {
            let request = Request::builder()
                .method("OPTIONS")
                .header(ORIGIN, "http://localhost")
                .header(ACCESS_CONTROL_REQUEST_METHOD, "POST")
                .header(
                    ACCESS_CONTROL_REQUEST_HEADERS,
                    "Authorization,x-stainless-os, x-own",
                )
                .body(())
                .unwrap();
            let answer = Cors::new(&[], own).preflight(&request).unwrap();
            answer.headers()[ACCESS_CONTROL_ALLOW_HEADERS].clone()
        };
        assert_eq!(ask(&[]), "authorization, x-stainless-os");
        assert_eq!(
            ask(&["X-Own".to_owned()]),
            "authorization, x-stainless-os, x-own"
        );
        assert_eq!(
            ask(&["*".to_owned()]),
            "authorization, x-stainless-os, x-own"
        );
    }
}
