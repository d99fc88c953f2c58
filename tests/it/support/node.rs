//! A whole node in this process: store, pipeline, HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use holdline::api::{self, Gateway};
use holdline::config::Config;
use holdline::node::place::{Overrides, Place};
use holdline::node::{self, Node, Running};
use holdline::server::{Limits, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::eventually;

/// A key `ID` whose value is `sk-ID`.
pub(crate) fn key(id: &str) -> Value {
    json!({"id": id, "name": format!("{id}-name"), "value": format!("sk-{id}"), "models": ["*"], "weight": 1})
}

/// A custom provider at this address with these keys; `network` on top of its address.
pub(crate) fn provider(url: &str, keys: &[&str], network: &Value) -> Value {
    let mut network = network.clone();
    network["base_url"] = json!(url);
    json!({
        "keys": keys.iter().map(|id| key(id)).collect::<Vec<_>>(),
        "network_config": network,
        "custom_provider_config": {"base_provider_type": "openai", "is_key_less": keys.is_empty()},
    })
}

/// A running node.
pub(crate) struct TestNode {
    pub(crate) node: Arc<Node>,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    shutdown: CancellationToken,
    serving: Option<JoinHandle<usize>>,
    running: Option<Running>,
    _data: TempDir,
}

impl TestNode {
    pub(crate) async fn start(config: &Value) -> Self {
        Self::start_with(config, &[], None).await
    }

    /// One that was configured where these variables are set.
    pub(crate) async fn start_in(config: &Value, env: &[(&str, String)]) -> Self {
        Self::start_with(config, env, None).await
    }

    /// One whose clients speak TLS; its own `client` does not.
    pub(crate) async fn start_tls(config: &Value, acceptor: TlsAcceptor) -> Self {
        Self::start_with(config, &[], Some(acceptor)).await
    }

    async fn start_with(config: &Value, env: &[(&str, String)], tls: Option<TlsAcceptor>) -> Self {
        let variable = |name: &str| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        };
        let loaded = Config::parse(&config.to_string(), &variable).unwrap();
        let flags = Overrides {
            node_id: Some("n1".to_owned()),
            ..Overrides::default()
        };
        let place = Place::resolve(&loaded.config.cluster, flags).unwrap();
        let data = TempDir::new().unwrap();
        let running = node::start(loaded.config, place, data.path())
            .await
            .unwrap();
        let node = Arc::clone(&running.node);
        let mut server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Limits::default())
            .await
            .unwrap();
        if let Some(acceptor) = tls {
            server = server.with_tls(acceptor);
        }
        let address = server.local_addr();
        let router = api::router(Arc::clone(&node));
        let gateway = Gateway::new(Arc::clone(&node), router);
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(server.serve(gateway, shutdown.clone()));
        Self {
            node,
            address,
            client: Client::new(address),
            shutdown,
            serving: Some(serving),
            running: Some(running),
            _data: data,
        }
    }

    /// The finished record of a request.
    pub(crate) async fn record(&self, id: &str) -> Value {
        eventually("the request's record", || {
            let found = self.node.store().find_log(id).unwrap()?;
            Some(serde_json::from_str(found.get()).unwrap())
        })
        .await
    }

    /// Classes of the attempts of a request; a served one has none.
    pub(crate) async fn classes(&self, id: &str) -> Vec<String> {
        let record = self.record(id).await;
        let attempts = record["attempt_trail"].as_array().unwrap();
        let class = |a: &Value| a["failure_class"].as_str().unwrap_or("served").to_owned();
        attempts.iter().map(class).collect()
    }

    /// Ids of the keys that are held.
    pub(crate) fn held(&self) -> Vec<String> {
        let rows = self.node.held();
        rows.iter()
            .map(|row| row.record.subject.key.as_str().to_owned())
            .collect()
    }

    /// Lets the node's time pass until every held key may be checked.
    pub(crate) fn until_due(&self) {
        let last = self.node.held().iter().map(|row| row.due).max();
        let clock = &self.node.clock;
        clock.skip(last.unwrap().since_ms(clock.now()));
    }

    /// Lines of the routing log of a request.
    pub(crate) async fn lines(&self, id: &str) -> Vec<String> {
        let record = self.record(id).await;
        let lines = record["routing_engine_logs"].as_array().unwrap();
        lines
            .iter()
            .map(|l| l["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// SIGTERM's way: no new connections, requests in flight are finished, then the node stops.
    pub(crate) async fn drain(&mut self) -> usize {
        self.shutdown.cancel();
        let cut_off = self.serving.take().unwrap().await.unwrap();
        self.running.take().unwrap().stop().await;
        cut_off
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
