//! Which of a provider's headers its clients see: those that stand in one list, and nothing else.
//!
//! `docs/protocols.md` has the same list. What a provider may invent (cookies, redirects, headers that steer
//! browsers and proxies) needs no row: it is not in it.

use http::header::{CONNECTION, HeaderName};
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

use super::failed::Judge;
use super::outgoing::REQUEST_ID;

/// By name, in lower case.
const NAMES: [&str; 39] = [
    // Requests, as a provider's support finds them.
    "request-id",
    "apim-request-id",
    "cf-ray",
    "mistral-correlation-id",
    "x-amz-request-id",
    "x-amzn-requestid",
    "x-correlation-id",
    "x-debug-trace-id",
    "x-ds-trace-id",
    "x-generation-id",
    "x-ms-client-request-id",
    "x-ms-request-id",
    "x-request-id",
    "x-trace-id",
    // When to come again, and whether.
    "ratelimit",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    // What the answer is, and for how long.
    "cache-control",
    "content-disposition",
    "content-language",
    "deprecation",
    "etag",
    "expires",
    "last-modified",
    "sunset",
    "warning",
    "x-api-warning",
    // How much of an upload there is.
    "x-goog-upload-chunk-granularity",
    "x-goog-upload-size-received",
    "x-goog-upload-status",
    // How it came about.
    "azureml-model-session",
    "server-timing",
    "x-amzn-errortype",
    "x-ms-deployment-name",
    "x-ms-rai-invoked",
    "x-ms-region",
    "x-data-retention",
    "x-zero-data-retention",
];

/// By how the name begins: each is a vendor's own corner or a well-known family.
const FAMILIES: [&str; 11] = [
    "anthropic-",
    "fireworks-",
    "openai-",
    "ratelimit-",
    "x-amzn-bedrock-",
    "x-cohere-",
    "x-groq-",
    "x-inference-",
    "x-metrics-",
    "x-rate-limit-",
    "x-ratelimit-",
];

/// The gateway answers its own id in `x-request-id`: the provider's stands here.
const UPSTREAM_ID: HeaderName = HeaderName::from_static("x-upstream-request-id");

/// What a client may see of a provider's headers. The type and the length of the body are whoever's who
/// writes it.
pub(super) fn of(headers: &HeaderMap, judge: &Judge) -> HeaderMap {
    let mut shown = HeaderMap::with_capacity(headers.len());
    let allowed = headers.iter().filter(|(name, value)| {
        is_listed(name.as_str()) && !is_hop_by_hop(name, headers) && is_clean(value, judge)
    });
    for (name, value) in allowed {
        let name = if name == REQUEST_ID {
            UPSTREAM_ID
        } else {
            name.clone()
        };
        shown.append(name, value.clone());
    }
    shown
}

fn is_listed(name: &str) -> bool {
    NAMES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether the provider says that a header is only for the connection (RFC 9110, section 7.6.1).
fn is_hop_by_hop(name: &HeaderName, headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| {
        let mut named = value.as_bytes().split(|b| *b == b',');
        named.any(|other| {
            other
                .trim_ascii()
                .eq_ignore_ascii_case(name.as_str().as_bytes())
        })
    })
}

/// Repeats nothing that proves a call.
fn is_clean(value: &HeaderValue, judge: &Judge) -> bool {
    let repeats = |secret: &str| memmem::find(value.as_bytes(), secret.as_bytes()).is_some();
    !judge.sent().any(repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_shown() {
        for shown in [
            "x-request-id",
            "request-id",
            "apim-request-id",
            "x-amzn-requestid",
            "x-ratelimit-limit-tokens",
            "anthropic-ratelimit-requests-remaining",
            "anthropic-organization-id",
            "openai-processing-ms",
            "x-amzn-bedrock-input-token-count",
            "retry-after",
            "retry-after-ms",
            "x-should-retry",
            "cache-control",
        ] {
            assert!(is_listed(shown), "{shown}");
        }
        for kept in [
            "set-cookie",
            "server",
            "location",
            "authorization",
            "api-key",
            "x-api-key",
            "x-goog-api-key",
            "x-bf-vk",
            "access-control-allow-origin",
            "content-type",
            "content-length",
            "content-encoding",
            "transfer-encoding",
            "alt-svc",
            "strict-transport-security",
            "x-made-up",
            "x-goog-upload-url",
            "x-goog-upload-control-url",
            "x-guploader-uploadid",
        ] {
            assert!(!is_listed(kept), "{kept}");
        }
    }

    #[test]
    fn names_are_in_lower_case_and_stand_once() {
        for (at, name) in NAMES.iter().enumerate() {
            assert_eq!(HeaderName::from_static(name).as_str(), *name);
            assert!(!NAMES[..at].contains(name), "{name}");
            let family = FAMILIES.iter().find(|family| name.starts_with(**family));
            assert_eq!(family, None, "{name}");
        }
    }

    #[test]
    fn the_docs_have_the_same_list() {
        let docs = include_str!("../../docs/protocols.md");
        let named = |text: &str| docs.contains(&format!("`{text}`"));
        for name in NAMES {
            assert!(named(name), "{name}");
        }
        for family in FAMILIES {
            assert!(named(&format!("{family}*")), "{family}*");
        }
    }

    #[test]
    fn what_the_connection_names_stays_on_it() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, "keep-alive, X-RateLimit-Hop".parse().unwrap());
        let hop = |name| is_hop_by_hop(&HeaderName::from_static(name), &headers);
        assert!(hop("x-ratelimit-hop"));
        assert!(!hop("x-ratelimit-limit"));
    }
}
