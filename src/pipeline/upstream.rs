//! Connections to providers: warm pools, `TCP_NODELAY`, TLS, and which addresses may be dialled.
//!
//! Link-local addresses (cloud metadata) are never dialled, private ones only where the provider's
//! `allow_private_network` says so, loopback always. The address that is judged is the one that is
//! dialled: a name is judged after it was resolved.

mod guard;
pub(super) mod sent;
mod trust;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::config::Network;
use crate::config::proxy::Proxy;

pub(super) use guard::Forbidden;
use guard::{GuardedConnector, GuardedResolver};
use sent::Sent;

/// To the machine that the gateway runs on: nothing is judged, for nothing else is dialled with it.
type Local = Client<HttpConnector, Full<Bytes>>;

type Pool = Client<HttpsConnector<GuardedConnector>, Sent>;

/// Idle connections kept per host, whatever `max_conns_per_host` says.
const MAX_IDLE: usize = 512;

/// Pools with different settings. Settings change by hand only, so few are ever needed.
const MAX_POOLS: usize = 64;

/// All pools of a node.
#[derive(Debug)]
pub(super) struct Upstream {
    /// Of providers that say nothing of their own.
    tls: rustls::ClientConfig,
    pools: ArcSwap<Vec<(PoolKey, Pool)>>,
    local: OnceLock<Local>,
}

/// What providers must agree on to share a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PoolKey {
    connect_timeout: Duration,
    keep_alive: Duration,
    max_idle: usize,
    allow_private_network: bool,
    http2: bool,
    skip_verify: bool,
    ca_pem: Option<Arc<str>>,
    proxy: Option<Arc<Proxy>>,
}

impl PoolKey {
    fn of(network: &Network) -> Self {
        Self {
            connect_timeout: network.connect_timeout,
            keep_alive: network.keep_alive,
            max_idle: network.max_connections.min(MAX_IDLE),
            allow_private_network: network.allow_private_network,
            http2: network.http2,
            skip_verify: network.skip_verify,
            ca_pem: network.ca_pem.clone(),
            proxy: network.proxy.clone(),
        }
    }
}

impl Upstream {
    /// No connections yet.
    pub(super) fn new() -> Self {
        Self {
            tls: trust::client(&[], false),
            pools: ArcSwap::default(),
            local: OnceLock::new(),
        }
    }

    /// Sends a request, on a warm connection where there is one.
    pub(super) async fn send(
        &self,
        network: &Network,
        request: Request<impl Into<Sent>>,
    ) -> Result<Response<Incoming>, Error> {
        self.pool(network).request(request.map(Into::into)).await
    }

    /// Asks the metadata of the machine that the gateway runs on. Only for addresses that stand in the
    /// gateway itself or were judged by it: link-local ones are dialled here.
    pub(super) async fn metadata(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        let local = self.local.get_or_init(|| {
            let mut http = HttpConnector::new();
            http.set_connect_timeout(Some(Duration::from_secs(1)));
            Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(0)
                .build(http)
        });
        local.request(request).await
    }

    fn pool(&self, network: &Network) -> Pool {
        let key = PoolKey::of(network);
        let find = |pools: &[(PoolKey, Pool)]| {
            let found = pools.iter().find(|(k, _)| *k == key);
            found.map(|(_, pool)| pool.clone())
        };
        if let Some(pool) = find(&self.pools.load()) {
            return pool;
        }
        let made = self.connect_with(&key);
        self.pools.rcu(|pools| {
            let mut pools = Vec::clone(pools);
            if find(&pools).is_none() {
                if pools.len() == MAX_POOLS {
                    pools.remove(0);
                }
                pools.push((key.clone(), made.clone()));
            }
            pools
        });
        find(&self.pools.load()).unwrap_or(made)
    }

    fn connect_with(&self, key: &PoolKey) -> Pool {
        let of_proxy = key.proxy.as_ref().and_then(|proxy| proxy.ca_pem.as_deref());
        let own: Vec<&str> = key.ca_pem.as_deref().into_iter().chain(of_proxy).collect();
        let tls = if own.is_empty() && !key.skip_verify {
            self.tls.clone()
        } else {
            trust::client(&own, key.skip_verify)
        };
        let builder = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        let connector = connector(key);
        let connector = if key.http2 {
            builder.enable_http2().wrap_connector(connector)
        } else {
            builder.enable_http1().wrap_connector(connector)
        };
        Client::builder(TokioExecutor::new())
            .http2_only(key.http2)
            .pool_idle_timeout(key.keep_alive)
            .pool_max_idle_per_host(key.max_idle)
            .pool_timer(TokioTimer::new())
            .build(connector)
    }
}

fn connector(key: &PoolKey) -> GuardedConnector {
    let dials = |allow_private| {
        let resolver = GuardedResolver::new(allow_private);
        let mut http = HttpConnector::new_with_resolver(resolver);
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(key.connect_timeout));
        http.set_keepalive(Some(Duration::from_secs(30)));
        http
    };
    let near = key.allow_private_network;
    // A proxy is where its operator put it, which is mostly near.
    let proxy = key.proxy.clone().map(|proxy| (proxy, dials(true)));
    GuardedConnector::new(dials(near), near, proxy)
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use tokio::net::TcpListener;
    use tower_service::Service;

    use super::*;

    async fn dial(target: &str, allow_private: bool) -> Result<bool, String> {
        let mut connector = connector(&PoolKey::of(&Network {
            connect_timeout: Duration::from_millis(300),
            allow_private_network: allow_private,
            ..Network::default()
        }));
        let uri: Uri = target.parse().unwrap();
        match connector.call(uri).await {
            Ok(stream) => Ok(stream.inner().nodelay().unwrap()),
            Err(error) => Err(Forbidden::among(&*error)
                .map_or_else(|| format!("other: {error}"), |f| format!("forbidden: {f}"))),
        }
    }

    #[tokio::test]
    async fn sockets_do_not_wait_for_more_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(dial(&format!("http://{address}"), false).await, Ok(true));
        let named = format!("http://localhost:{}", address.port());
        assert_eq!(dial(&named, false).await, Ok(true));
    }

    #[tokio::test]
    async fn forbidden_addresses_are_not_dialled() {
        let never = [
            "http://169.254.169.254/latest",
            "http://[::ffff:169.254.169.254]:80",
            "http://[fe80::1]",
            "http://[fd00:ec2::254]",
            // As a resolver reads them.
            "http://2852039166",
            "http://0xa9fea9fe",
        ];
        for target in never {
            for allow in [false, true] {
                let refused = dial(target, allow).await.unwrap_err();
                assert!(refused.starts_with("forbidden"), "{target}: {refused}");
            }
        }
        for target in [
            "http://10.255.255.1:9",
            "http://192.168.255.1:9",
            "http://[fd00::1]:9",
        ] {
            let refused = dial(target, false).await.unwrap_err();
            assert!(
                refused.contains("allow_private_network"),
                "{target}: {refused}"
            );
            let allowed = dial(target, true).await;
            assert!(
                !format!("{allowed:?}").contains("forbidden"),
                "{target}: {allowed:?}"
            );
        }
    }

    #[tokio::test]
    async fn providers_with_the_same_settings_share_a_pool() {
        let upstream = Upstream::new();
        let network = Network::default();
        let _ = (upstream.pool(&network), upstream.pool(&network));
        assert_eq!(upstream.pools.load().len(), 1);
        for seconds in 1..200 {
            upstream.pool(&Network {
                connect_timeout: Duration::from_secs(seconds),
                ..Network::default()
            });
        }
        assert_eq!(upstream.pools.load().len(), MAX_POOLS);
    }
}
