//! Proxies that the environment names, as curl and its kind read it: `HTTPS_PROXY` and `HTTP_PROXY` by the
//! scheme of the address that is called, else `ALL_PROXY`; not for what `NO_PROXY` lists. Names in lower case
//! come first.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::uri::{Authority, PathAndQuery};
use hyper_util::client::proxy::matcher::Matcher;

use super::super::reader::Object;
use super::super::secret::Secret;
use super::{Hop, ProxyKind};
use crate::api::routes::percent_decoded;

/// What the environment said when the configuration was read.
#[derive(Clone)]
pub struct Environment {
    https: Option<Hop>,
    http: Option<Hop>,
    /// As it stands in `NO_PROXY`.
    without: String,
    /// Tells what that list has.
    matcher: Arc<Matcher>,
}

impl Environment {
    pub(super) fn read(block: &Object<'_, '_>) -> Self {
        let all = hop(block, "all_proxy", "ALL_PROXY");
        let https = hop(block, "https_proxy", "HTTPS_PROXY").or_else(|| all.clone());
        let http = hop(block, "http_proxy", "HTTP_PROXY").or(all);
        if https.is_none() && http.is_none() {
            block.warn(
                "type",
                "is \"environment\", but neither HTTPS_PROXY, HTTP_PROXY nor ALL_PROXY is set: the provider is called directly",
            );
        }
        let without = variable(block, "no_proxy", "NO_PROXY").map_or_else(String::new, |(_, v)| v);
        // A proxy for everything, so that only the list decides.
        let matcher = Matcher::builder()
            .all("http://proxy.invalid")
            .no(without.as_str())
            .build();
        Self {
            https,
            http,
            without,
            matcher: Arc::new(matcher),
        }
    }

    /// The proxy before an address.
    pub(super) fn before(&self, target: &Uri) -> Option<&Hop> {
        let hop = match target.scheme_str() {
            Some("https") => self.https.as_ref(),
            _ => self.http.as_ref(),
        };
        hop.filter(|_| self.matcher.intercept(target).is_some())
    }
}

impl PartialEq for Environment {
    fn eq(&self, other: &Self) -> bool {
        (&self.https, &self.http, &self.without) == (&other.https, &other.http, &other.without)
    }
}

impl Eq for Environment {}

impl fmt::Debug for Environment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Environment")
            .field("https", &self.https)
            .field("http", &self.http)
            .field("without", &self.without)
            .finish_non_exhaustive()
    }
}

/// The first of the two that is set, with its name.
fn variable(
    block: &Object<'_, '_>,
    lower: &'static str,
    upper: &'static str,
) -> Option<(&'static str, String)> {
    let found = [lower, upper].into_iter().find_map(|name| {
        let value = block.reader.variable(name)?;
        Some((name, value.trim().to_owned()))
    });
    found.filter(|(_, value)| !value.is_empty())
}

/// A proxy as such variables name one: `[scheme://][name:password@]host:port`.
fn hop(block: &Object<'_, '_>, lower: &'static str, upper: &'static str) -> Option<Hop> {
    let (name, value) = variable(block, lower, upper)?;
    let hop = parse(&value);
    if hop.is_none() {
        // Never repeated: it may hold a password.
        let message = format!(
            "is \"environment\", and the variable {name} is no proxy: set it to \"http://host:port\" or \"socks5://host:port\""
        );
        block.error("type", message);
    }
    hop
}

fn parse(text: &str) -> Option<Hop> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (kind, scheme) = match scheme {
        "http" => (ProxyKind::Http, "http"),
        "socks5" | "socks5h" => (ProxyKind::Socks5, "socks5"),
        _ => return None,
    };
    let rest = rest.trim_end_matches('/');
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, rest),
    };
    let authority: Authority = place.parse().ok()?;
    if kind == ProxyKind::Socks5 && authority.port().is_none() {
        return None;
    }
    let url = Uri::builder()
        .scheme(scheme)
        .authority(authority)
        .path_and_query(PathAndQuery::from_static("/"));
    let login = login.map(|login| {
        let (name, password) = login.split_once(':').unwrap_or((login, ""));
        let password = Secret::from(percent_decoded(password));
        (percent_decoded(name), password)
    });
    Some(Hop {
        kind,
        url: url.build().ok()?,
        login,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::reader::Reader;
    use super::*;

    /// What is read with these variables; errors and warnings.
    fn read(variables: &[(&str, &str)]) -> (Environment, String) {
        let env = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let reader = Reader::new(&env);
        let block = json!({"type": "environment"});
        let environment = Environment::read(&reader.object("p", &block).unwrap());
        let (errors, warnings) = reader.finish();
        let lines = errors.iter().chain(&warnings).map(ToString::to_string);
        (environment, lines.collect::<Vec<_>>().join("\n"))
    }

    fn before(environment: &Environment, target: &str) -> Option<String> {
        let hop = environment.before(&target.parse().unwrap())?;
        Some(hop.url.to_string())
    }

    #[test]
    fn variables_are_read_by_scheme_and_list() {
        let (environment, told) = read(&[
            ("HTTPS_PROXY", "http://secure:1"),
            ("https_proxy", "me:a%40b@lower:2"),
            ("ALL_PROXY", "socks5h://all:3/"),
            ("NO_PROXY", "near.example, 127.0.0.1,10.0.0.0/8,.inner"),
        ]);
        assert_eq!(told, "");
        let before = |target| before(&environment, target);
        assert_eq!(before("https://h/x").as_deref(), Some("http://lower:2/"));
        assert_eq!(before("http://h/x").as_deref(), Some("socks5://all:3/"));
        for direct in [
            "https://near.example",
            "https://deep.near.example:8443",
            "http://127.0.0.1:9",
            "http://10.2.3.4",
            "http://a.inner",
        ] {
            assert_eq!(before(direct), None, "{direct}");
        }
        assert!(before("http://farnear.example").is_some());
        let hop = environment.https.as_ref().unwrap();
        let (name, password) = hop.login.as_ref().unwrap();
        assert_eq!((name.as_str(), password.expose()), ("me", "a@b"));
        assert!(!format!("{environment:?}").contains("a@b"));
    }

    #[test]
    fn a_variable_that_is_no_proxy_is_named_and_not_repeated() {
        for value in [
            "https://p:1",
            "socks5://p",
            "http://me:hush@",
            "ftp://p:1",
            "a b",
        ] {
            let (_, told) = read(&[("HTTP_PROXY", value)]);
            assert!(
                told.starts_with("p.type: is \"environment\", and the variable HTTP_PROXY is no proxy: set it to \"http://host:port\" or \"socks5://host:port\""),
                "{value}: {told}"
            );
            assert!(!told.contains("hush"));
        }
        let (environment, told) = read(&[("http_proxy", " ")]);
        assert_eq!(before(&environment, "http://h"), None);
        assert_eq!(
            told,
            "p.type: is \"environment\", but neither HTTPS_PROXY, HTTP_PROXY nor ALL_PROXY is set: the provider is called directly"
        );
    }
}
