//! `network_config`: where a provider lives, how long to wait for it, how often to try again.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use holdline_core::routing::{BudgetRule, RetryPolicy};
use http::{HeaderName, HeaderValue, Uri};

use super::catalog::Network;
use super::defaults;
use super::proxy;
use super::reader::Object;

/// What `network_config` says; defaults where it says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkConfig {
    /// Without a trailing slash.
    pub base_url: Option<Uri>,
    pub network: Network,
    pub retry: RetryPolicy,
}

/// Headers that the gateway itself sets: an extra one would break the call.
const RESERVED_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Reads the block.
pub(crate) fn read(block: Object<'_, '_>) -> NetworkConfig {
    let default = defaults::network();
    let seconds = |field, otherwise: Duration| {
        block
            .duration_ms(field, 1_000)
            .map_or(otherwise, Duration::from_millis)
    };
    let allow_private_network = block.bool("allow_private_network").unwrap_or(false);
    let network = Network {
        connect_timeout: seconds("connect_timeout_in_seconds", default.connect_timeout),
        request_timeout: seconds(
            "default_request_timeout_in_seconds",
            default.request_timeout,
        ),
        first_token_timeout: block
            .duration_ms("ttft_timeout_in_seconds", 1_000)
            .map(Duration::from_millis),
        stream_idle_timeout: seconds(
            "stream_idle_timeout_in_seconds",
            default.stream_idle_timeout,
        ),
        keep_alive: seconds("keep_alive_timeout_in_seconds", default.keep_alive),
        max_connections: block
            .small("max_conns_per_host", 1..=10_000)
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(default.max_connections),
        extra_headers: extra_headers(&block),
        allow_private_network,
        http2: block.bool("enforce_http2").unwrap_or(false),
        skip_verify: block.bool("insecure_skip_verify").unwrap_or(false),
        ca_pem: proxy::certificates(&block),
        proxy: None,
    };
    if network.skip_verify && network.ca_pem.is_some() {
        block.error(
            "insecure_skip_verify",
            "believes every certificate, so ca_cert_pem has no meaning beside it: keep one of them",
        );
    } else if network.skip_verify {
        block.warn(
            "insecure_skip_verify",
            "believes every certificate: whoever is between can read the keys",
        );
    }
    let base_url = block
        .text("base_url")
        .and_then(|text| base_url(&block, "base_url", text, allow_private_network));
    let retry = retry(&block);
    block.without_effect(&["beta_header_overrides"]);
    block.finish();
    NetworkConfig {
        base_url,
        network,
        retry,
    }
}

fn retry(block: &Object<'_, '_>) -> RetryPolicy {
    let default = RetryPolicy::default();
    let retry = RetryPolicy {
        max_retries: block
            .small("max_retries", 0..=1_000)
            .unwrap_or(default.max_retries),
        backoff_initial_ms: block
            .duration_ms("retry_backoff_initial", 1)
            .unwrap_or(default.backoff_initial_ms),
        backoff_max_ms: block
            .duration_ms("retry_backoff_max", 1)
            .unwrap_or(default.backoff_max_ms),
        budget: block.object("retry_budget").map(retry_budget),
    };
    if retry.backoff_initial_ms > retry.backoff_max_ms {
        block.warn(
            "retry_backoff_initial",
            format!(
                "is above retry_backoff_max, so every backoff is {} ms",
                retry.backoff_max_ms
            ),
        );
    }
    retry
}

fn retry_budget(block: Object<'_, '_>) -> BudgetRule {
    let default = defaults::RETRY_BUDGET;
    let rule = BudgetRule {
        ratio_permille: block
            .permille("ratio", 10)
            .unwrap_or(default.ratio_permille),
        min_per_second: block
            .small("min_per_second", 0..=10_000)
            .unwrap_or(default.min_per_second),
    };
    block.finish();
    rule
}

fn extra_headers(block: &Object<'_, '_>) -> Vec<(HeaderName, HeaderValue)> {
    let Some(headers) = block.object("extra_headers") else {
        return Vec::new();
    };
    let mut read = Vec::new();
    for (name, path, value) in headers.entries() {
        let Ok(header) = HeaderName::try_from(name) else {
            headers.error(name, "is not a header name");
            continue;
        };
        if RESERVED_HEADERS.contains(&header.as_str()) {
            headers.error(name, "is set by the gateway itself: remove it");
            continue;
        }
        let Some(text) = block.reader.secret(&path, value) else {
            continue;
        };
        match HeaderValue::try_from(text.expose()) {
            Ok(mut value) => {
                value.set_sensitive(true);
                read.push((header, value));
            }
            Err(_) => headers.error(name, "has characters that no header may have"),
        }
    }
    read
}

/// Reads a base URL: `http` or `https`, a host, no credentials, no query, no trailing slash.
pub(crate) fn base_url(
    block: &Object<'_, '_>,
    field: &str,
    text: &str,
    allow_private: bool,
) -> Option<Uri> {
    let trimmed = text.trim_end_matches('/');
    let refuse = |message: &str| {
        block.error(field, message);
        None
    };
    let Ok(uri) = trimmed.parse::<Uri>() else {
        return refuse("is not a URL: write \"https://host\" or \"http://host:port/path\"");
    };
    let scheme = uri.scheme_str().unwrap_or_default();
    let Some(host) = uri.host().filter(|host| !host.is_empty()) else {
        return refuse("is not a URL: write \"https://host\" or \"http://host:port/path\"");
    };
    if scheme != "http" && scheme != "https" {
        return refuse("must start with http:// or https://");
    }
    if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
        return refuse("must not contain a user or password: use a key or extra_headers");
    }
    if uri.query().is_some() || text.contains('#') {
        return refuse("must end with the path: no query, no fragment");
    }
    match host.trim_matches(['[', ']']).parse::<IpAddr>().map(reach) {
        Ok(Reach::Never) => refuse(
            "is a link-local address (169.254.0.0/16, fe80::/10), which is never called: it is where clouds keep credentials",
        ),
        Ok(Reach::Private) if !allow_private => refuse(
            "is an address of a private network: set allow_private_network beside it if that is meant",
        ),
        Ok(Reach::Private | Reach::Anywhere) | Err(_) => Some(uri),
    }
}

/// How far away an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Public or loopback.
    Anywhere,
    /// Needs `allow_private_network`.
    Private,
    /// Link-local: where clouds serve credentials.
    Never,
}

/// Judges an address; also for addresses that a name resolved to.
pub(crate) fn reach(address: IpAddr) -> Reach {
    let v4 = |v4: Ipv4Addr| {
        let shared = v4.octets()[0] == 100 && (64..128).contains(&v4.octets()[1]);
        if v4.is_link_local() {
            Reach::Never
        } else if v4.is_private() || v4.is_unspecified() || shared {
            Reach::Private
        } else {
            Reach::Anywhere
        }
    };
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => v4(mapped),
            None if address.is_unicast_link_local() => Reach::Never,
            None if address.is_unique_local() || address.is_unspecified() => Reach::Private,
            None => Reach::Anywhere,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_judged_by_how_far_they_reach() {
        let judged = |text: &str| reach(text.parse().unwrap());
        for far in ["127.0.0.1", "::1", "8.8.8.8", "2606:4700::1"] {
            assert_eq!(judged(far), Reach::Anywhere, "{far}");
        }
        for near in [
            "10.1.2.3",
            "192.168.0.1",
            "172.16.9.9",
            "100.64.0.1",
            "fd00::1",
            "0.0.0.0",
        ] {
            assert_eq!(judged(near), Reach::Private, "{near}");
        }
        for never in ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"] {
            assert_eq!(judged(never), Reach::Never, "{never}");
        }
    }
}
