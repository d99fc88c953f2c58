//! Which addresses may be dialled, judged on what is dialled.

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::config::network::{Reach, reach};
use crate::config::proxy::{Proxy, ProxyKind};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// An address that must not be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Forbidden {
    #[error("{0} is link-local or a cloud's metadata service: they are never dialled")]
    Metadata(IpAddr),
    #[error(
        "{0} is in a private network: set `network_config.allow_private_network` of the provider to dial it"
    )]
    Private(IpAddr),
}

impl Forbidden {
    /// The refusal among an error's causes, if it is one.
    pub(crate) fn among<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(forbidden) = error.downcast_ref::<Self>() {
                return Some(forbidden);
            }
            cause = error.source();
        }
        None
    }
}

fn judge(address: IpAddr, allow_private: bool) -> Result<(), Forbidden> {
    match reach(address) {
        Reach::Never => Err(Forbidden::Metadata(address)),
        Reach::Private if !allow_private => Err(Forbidden::Private(address)),
        Reach::Private | Reach::Anywhere => Ok(()),
    }
}

/// Resolves names and drops the addresses that must not be dialled.
#[derive(Clone)]
pub(super) struct GuardedResolver {
    inner: GaiResolver,
    allow_private: bool,
}

impl GuardedResolver {
    pub(super) fn new(allow_private: bool) -> Self {
        Self {
            inner: GaiResolver::new(),
            allow_private,
        }
    }
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (resolving, allow_private) = (self.inner.call(name), self.allow_private);
        Box::pin(async move {
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in resolving.await? {
                match judge(address.ip(), allow_private) {
                    Ok(()) => allowed.push(address),
                    Err(forbidden) => refused = Some(forbidden),
                }
            }
            match refused {
                Some(forbidden) if allowed.is_empty() => Err(forbidden.into()),
                Some(_) | None => Ok(allowed.into_iter()),
            }
        })
    }
}

/// Connects, through a proxy where one stands before the address; judges addresses that stand in the URL itself, which no
/// resolver sees. Names are resolved by the proxy, and judged by nobody.
#[derive(Clone)]
pub(super) struct GuardedConnector {
    inner: HttpConnector<GuardedResolver>,
    allow_private: bool,
    /// Proxies, and who dials them.
    proxy: Option<(Arc<Proxy>, HttpConnector<GuardedResolver>)>,
}

impl GuardedConnector {
    pub(super) fn new(
        inner: HttpConnector<GuardedResolver>,
        allow_private: bool,
        proxy: Option<(Arc<Proxy>, HttpConnector<GuardedResolver>)>,
    ) -> Self {
        Self {
            inner,
            allow_private,
            proxy,
        }
    }

    fn connect(&mut self, target: Uri) -> BoxFuture<TokioIo<TcpStream>> {
        let through = self.proxy.as_ref();
        let through = through.and_then(|(proxy, dials)| Some((proxy.before(&target)?, dials)));
        let Some((hop, dials)) = through else {
            let connecting = self.inner.call(target);
            return Box::pin(async move { connecting.await.map_err(Into::into) });
        };
        let (inner, at) = (dials.clone(), hop.url.clone());
        match hop.kind {
            ProxyKind::Http => {
                let mut tunnel = Tunnel::new(at, inner);
                if let Some((name, password)) = &hop.login {
                    tunnel = tunnel.with_auth(basic(name, password.expose()));
                }
                let connecting = tunnel.call(target);
                Box::pin(async move { connecting.await.map_err(Into::into) })
            }
            ProxyKind::Socks5 => {
                let mut socks = SocksV5::new(at, inner);
                if let Some((name, password)) = &hop.login {
                    socks = socks.with_auth(name.clone(), password.expose().to_owned());
                }
                let connecting = socks.call(target);
                Box::pin(async move { connecting.await.map_err(Into::into) })
            }
        }
    }
}

/// `Proxy-Authorization`.
fn basic(name: &str, password: &str) -> HeaderValue {
    let text = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
    HeaderValue::try_from(text).expect("base64 is plain ASCII")
}

impl Service<Uri> for GuardedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        if let Some(Err(forbidden)) = literal(&target).map(|ip| judge(ip, self.allow_private)) {
            return Box::pin(async move { Err(forbidden.into()) });
        }
        self.connect(target)
    }
}

fn literal(target: &Uri) -> Option<IpAddr> {
    let host = target.host()?;
    match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

impl fmt::Debug for GuardedConnector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("GuardedConnector")
    }
}
