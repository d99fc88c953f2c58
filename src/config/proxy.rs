//! `proxy_config`: through whom a provider is reached.

mod environment;

use std::sync::Arc;

use http::Uri;

use super::reader::Object;
use super::secret::Secret;
pub use environment::Environment;

/// What stands between the gateway and a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Through whom.
    pub through: Through,
    /// Certificates in PEM form that are trusted beside the public ones: of a proxy that opens TLS.
    pub ca_pem: Option<Arc<str>>,
}

/// Who is asked for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Through {
    /// Always the same.
    One(Hop),
    /// As the environment says for the address that is called.
    Environment(Environment),
}

/// One proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// What it speaks.
    pub kind: ProxyKind,
    /// Scheme, host and port.
    pub url: Uri,
    /// Name and password.
    pub login: Option<(String, Secret)>,
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP, asked to CONNECT, also to providers without TLS.
    Http,
    /// SOCKS5; the proxy resolves names.
    Socks5,
}

impl Proxy {
    /// The proxy that stands before this address; none where it is called directly.
    #[must_use]
    pub fn before(&self, target: &Uri) -> Option<&Hop> {
        match &self.through {
            Through::One(hop) => Some(hop),
            Through::Environment(environment) => environment.before(target),
        }
    }
}

/// Reads the block.
pub(crate) fn read(block: &Object<'_, '_>) -> Option<Arc<Proxy>> {
    let kind = match block.text("type") {
        Some("none") => {
            block.accept(&["url", "username", "password", "ca_cert_pem"]);
            block.warn_unknown();
            return None;
        }
        Some("environment") => {
            block.without_effect(&["url", "username", "password"]);
            let through = Through::Environment(Environment::read(block));
            let ca_pem = certificates(block);
            block.warn_unknown();
            return Some(Arc::new(Proxy { through, ca_pem }));
        }
        Some("http") => Some(ProxyKind::Http),
        Some("socks5") => Some(ProxyKind::Socks5),
        Some(_) | None => {
            block.error(
                "type",
                "must be \"none\", \"http\", \"socks5\" or \"environment\"",
            );
            None
        }
    };
    let url = url(block, kind);
    let user = block.text("username").filter(|name| !name.is_empty());
    let password = block.get("password").filter(|value| *value != "");
    let login = user.map(|name| {
        let password = password.and_then(|value| block.reader.secret(&block.at("password"), value));
        (
            name.to_owned(),
            password.unwrap_or_else(|| Secret::from(String::new())),
        )
    });
    let ca_pem = certificates(block);
    block.warn_unknown();
    let hop = Hop {
        kind: kind?,
        url: url?,
        login,
    };
    Some(Arc::new(Proxy {
        through: Through::One(hop),
        ca_pem,
    }))
}

fn url(block: &Object<'_, '_>, kind: Option<ProxyKind>) -> Option<Uri> {
    let scheme = match kind {
        Some(ProxyKind::Socks5) => "socks5",
        Some(ProxyKind::Http) | None => "http",
    };
    let Some(text) = block.text("url").filter(|text| !text.is_empty()) else {
        block.error("url", format!("is missing: write \"{scheme}://host:port\""));
        return None;
    };
    let uri = text.trim_end_matches('/').parse::<Uri>().ok();
    let uri = uri.filter(|uri| {
        let schemes = [Some(scheme), Some("socks5h").filter(|_| scheme == "socks5")];
        let bare = |uri: &Uri| matches!(uri.path(), "" | "/") && uri.query().is_none();
        schemes.contains(&uri.scheme_str())
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.authority().is_some_and(|a| !a.as_str().contains('@'))
            && (scheme == "http" || uri.port().is_some())
            && bare(uri)
    });
    if uri.is_none() {
        // Never repeated: it may hold a password.
        let message = format!(
            "must be \"{scheme}://host:port\"; name and password go into username and password"
        );
        block.error("url", message);
    }
    uri
}

/// `ca_cert_pem`: certificates that are trusted beside the public ones.
pub(crate) fn certificates(block: &Object<'_, '_>) -> Option<Arc<str>> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let text = block
        .text("ca_cert_pem")
        .filter(|text| !text.trim().is_empty())?;
    let mut roots = rustls::RootCertStore::empty();
    let mut found = CertificateDer::pem_slice_iter(text.as_bytes());
    let fits = found.all(|certificate| certificate.is_ok_and(|c| roots.add(c).is_ok()));
    if !fits || roots.is_empty() {
        block.error(
            "ca_cert_pem",
            "holds no certificate in PEM form, or a broken one",
        );
        return None;
    }
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::reader::Reader;
    use super::*;

    fn read_from(block: &Value) -> (Option<Arc<Proxy>>, Vec<String>) {
        let reader = Reader::new(&|name| (name == "P").then(|| "hush".to_owned()));
        let proxy = read(&reader.object("proxy_config", block).unwrap());
        let (errors, _) = reader.finish();
        (proxy, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_proxy_is_read_with_its_login() {
        let block = json!({"type": "http", "url": "http://proxy:3128/", "username": "me", "password": "env.P"});
        let (proxy, errors) = read_from(&block);
        assert_eq!(errors, Vec::<String>::new());
        let proxy = proxy.unwrap();
        let hop = proxy.before(&Uri::from_static("http://h")).unwrap();
        assert_eq!(
            (hop.kind, hop.url.port_u16()),
            (ProxyKind::Http, Some(3128))
        );
        assert_eq!(hop.login.as_ref().unwrap().1.expose(), "hush");
        assert!(read_from(&json!({"type": "none"})).0.is_none());
    }

    #[test]
    fn mistakes_name_the_field_and_repeat_no_password() {
        for (block, path) in [
            (json!({}), "type"),
            (json!({"type": "https", "url": "https://p:1"}), "type"),
            (json!({"type": "http"}), "url"),
            (json!({"type": "http", "url": "https://p:1"}), "url"),
            (json!({"type": "http", "url": "http://me:hush@p:1"}), "url"),
            (json!({"type": "socks5", "url": "http://p:1"}), "url"),
            (json!({"type": "http", "url": "http://p:1/x"}), "url"),
            (
                json!({"type": "http", "url": "http://p:1", "ca_cert_pem": "x"}),
                "ca_cert_pem",
            ),
        ] {
            let (_, errors) = read_from(&block);
            let path = format!("proxy_config.{path}:");
            assert!(
                errors.iter().any(|e| e.starts_with(&path)),
                "{block} {errors:?}"
            );
            assert!(!errors.join(" ").contains("hush"));
        }
    }
}
