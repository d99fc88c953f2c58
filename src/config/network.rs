//! `network_config`: where a provider lives, how long to wait for it, how often to try again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use holdline_core::routing::{BudgetRule, RetryPolicy};
use http::{HeaderName, HeaderValue, Uri};

use super::catalog::Network;
use super::defaults;
use super::proxy;
use super::reader::Object;
use super::secret::Secret;

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
    let mut network = Network {
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
        header_secrets: Vec::new(),
        allow_private_network,
        http2: block.bool("enforce_http2").unwrap_or(false),
        skip_verify: block.bool("insecure_skip_verify").unwrap_or(false),
        ca_pem: proxy::certificates(&block),
        proxy: None,
    };
    network.header_secrets = credentials(&network.extra_headers).collect();
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

/// What in these headers is a credential, by their names; without its scheme.
fn credentials(headers: &[(HeaderName, HeaderValue)]) -> impl Iterator<Item = Secret> {
    const TELLTALE: [&str; 7] = [
        "auth",
        "cookie",
        "credential",
        "key",
        "password",
        "secret",
        "token",
    ];
    let tells = |name: &HeaderName| TELLTALE.iter().any(|part| name.as_str().contains(part));
    let secret = headers.iter().filter(move |(name, _)| tells(name));
    let values = secret.filter_map(|(_, value)| value.to_str().ok()?.split_whitespace().last());
    values.map(|value| Secret::from(value.to_owned()))
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
    let has_bad_port = uri.authority().is_some_and(|authority| {
        let behind = authority
            .as_str()
            .rsplit_once(host)
            .map(|(_, behind)| behind);
        behind.is_some_and(|port| !port.is_empty()) && uri.port_u16().is_none_or(|port| port == 0)
    });
    if has_bad_port {
        return refuse("has a port that is not a number from 1 to 65535");
    }
    if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
        return refuse("must not contain a user or password: use a key or extra_headers");
    }
    if uri.query().is_some() || text.contains('#') {
        return refuse("must end with the path: no query, no fragment");
    }
    match host.trim_matches(['[', ']']).parse::<IpAddr>().map(reach) {
        Ok(Reach::Never) => refuse(
            "is link-local (169.254.0.0/16, fe80::/10) or a cloud's metadata service, which is never called: it is where clouds keep credentials",
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
    /// Where clouds serve credentials: link-local, and what some have instead.
    Never,
}

/// Metadata services that are not link-local: of Alibaba, Oracle and Azure.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// The same of AWS, by IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Judges an address; also for addresses that a name resolved to.
pub(crate) fn reach(address: IpAddr) -> Reach {
    match plain(address) {
        IpAddr::V4(v4) if v4.is_link_local() || METADATA_V4.contains(&v4) => Reach::Never,
        IpAddr::V4(v4) if is_near(v4) => Reach::Private,
        IpAddr::V6(v6) if v6.is_unicast_link_local() || v6 == METADATA_V6 => Reach::Never,
        IpAddr::V6(v6) if v6.is_unique_local() || v6.is_unspecified() => Reach::Private,
        IpAddr::V4(_) | IpAddr::V6(_) => Reach::Anywhere,
    }
}

/// RFC 1918, the carriers' shared range, "this network", and what is not assigned to anybody.
fn is_near(v4: Ipv4Addr) -> bool {
    let [first, second, third, _] = v4.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_special = first == 0 || first >= 224 || (first, second, third) == (192, 0, 0);
    v4.is_private() || is_shared || is_special
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, behind NAT64, or by 6to4.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let last = |[.., a, b, c, d]: [u8; 16]| IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => last(v6.octets()),
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => last(v6.octets()),
        [0x2002, high, low, ..] => {
            let bits = (u32::from(high) << 16) | u32::from(low);
            IpAddr::V4(Ipv4Addr::from_bits(bits))
        }
        _ => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
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
            "0.1.2.3",
            "::",
            "240.0.0.1",
            "255.255.255.255",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
        ] {
            assert_eq!(judged(near), Reach::Private, "{near}");
        }
        for never in [
            "169.254.169.254",
            "fe80::1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::",
            "fd00:ec2::254",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
        ] {
            assert_eq!(judged(never), Reach::Never, "{never}");
        }
    }
}
