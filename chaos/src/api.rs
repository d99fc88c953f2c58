//! What a node says about itself and what it can be asked, over its HTTP API.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Http, Reply};

/// Limit of one admin call.
const ADMIN_LIMIT: Duration = Duration::from_secs(10);
/// Limit of one inference call.
const CHAT_LIMIT: Duration = Duration::from_secs(30);

/// One node over HTTP.
#[derive(Clone)]
pub struct Api {
    http: Http,
    url: String,
    /// `Bearer …`
    authorization: Option<String>,
}

/// One held key as a node shows it.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// The provider's name.
    pub provider: String,
    /// The key's id.
    pub key_id: String,
    /// `key` or `model`.
    pub scope: String,
    /// The model, when only that is held.
    #[serde(default)]
    pub model: Option<String>,
    /// Class of the refusal.
    pub failure_class: String,
    /// How often a check has failed.
    pub rung: u32,
    /// The shared wait, before a node's own jitter.
    pub wait_ms: u64,
    /// `held`, `due` or `checking`: the node's own.
    pub state: String,
    /// The node that saw the refusal.
    pub origin_node: String,
    /// That node's region.
    pub origin_region: String,
    /// Names this state of the subject; the same on every node.
    pub version: String,
}

/// The held-key view of a node.
#[derive(Clone, Debug, Deserialize)]
pub struct Conditions {
    /// Who answers.
    pub node_id: String,
    /// Hash of the replicated table: equal digests mean equal tables.
    pub digest: String,
    /// The held keys.
    pub conditions: Vec<Condition>,
}

/// The cluster as one node sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterStatus {
    /// Who answers.
    pub node_id: String,
    /// Region to leader; a region without one has null or is missing.
    #[serde(default)]
    pub leaders: BTreeMap<String, Option<String>>,
    /// Every node it knows.
    pub nodes: Vec<Member>,
    /// What it took over when it started.
    #[serde(default)]
    pub restored: Option<Restored>,
}

/// One row of [`ClusterStatus`].
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// The node's id.
    pub node_id: String,
    /// Its region.
    pub region: String,
    /// `alive`, `suspect`, `dead` or `left`.
    pub state: String,
}

/// Where a node's first table came from.
#[derive(Clone, Debug, Deserialize)]
pub struct Restored {
    /// `leader:ID`, `peer:ID`, `store` or `nothing`.
    pub from: String,
    /// Held keys that came with it.
    #[serde(default)]
    pub held: u64,
}

/// One request to a model.
#[derive(Clone, Copy, Debug)]
pub struct Chat<'a> {
    /// `provider/model`, or a bare model name.
    pub model: &'a str,
    /// Who asks: OpenAI's `user` field, which the mock writes down.
    pub user: &'a str,
    /// Only this key (its id), if given.
    pub pin: Option<&'a str>,
    /// Ask for a stream of events.
    pub stream: bool,
}

impl Condition {
    /// What must be the same on every node, without what each draws for itself.
    #[must_use]
    pub fn shared(&self) -> Self {
        Self {
            state: String::new(),
            ..self.clone()
        }
    }
}

impl Api {
    /// The node at `url`, without a slash at its end.
    #[must_use]
    pub fn new(http: Http, url: String) -> Self {
        Self {
            http,
            url,
            authorization: None,
        }
    }

    /// The same with a token for the admin API.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        Self {
            authorization: Some(format!("Bearer {token}")),
            ..self
        }
    }

    /// The node's base URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// # Errors
    /// When the node does not answer, or answers that it is not ready.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let url = format!("{}/ready", self.url);
        let reply = self
            .http
            .send(Method::GET, &url, &[], None, Duration::from_secs(2))
            .await?;
        anyhow::ensure!(reply.status == 200, "{}: {}", reply.status, reply.text());
        Ok(())
    }

    /// # Errors
    /// When the node does not answer as expected.
    pub async fn conditions(&self) -> anyhow::Result<Conditions> {
        self.admin(Method::GET, "/api/adaptive-routing/conditions", None)
            .await?
            .json()
    }

    /// The condition of this key, if the node holds it.
    ///
    /// # Errors
    /// When the node does not answer as expected.
    pub async fn held(&self, key_id: &str) -> anyhow::Result<Option<Condition>> {
        let view = self.conditions().await?;
        Ok(view.conditions.into_iter().find(|c| c.key_id == key_id))
    }

    /// # Errors
    /// When the node does not answer as expected.
    pub async fn cluster(&self) -> anyhow::Result<ClusterStatus> {
        self.admin(Method::GET, "/api/cluster/status", None)
            .await?
            .json()
    }

    /// The incidents of the cluster that a query finds, as they are answered.
    ///
    /// # Errors
    /// When the node does not answer as expected.
    pub async fn issues(&self, query: &str) -> anyhow::Result<Value> {
        let path = format!("/api/adaptive-routing/history/issues?{query}");
        self.admin(Method::GET, &path, None).await?.json()
    }

    /// An operator's release of one key; the number of holds that it ended.
    ///
    /// # Errors
    /// When the node does not acknowledge it.
    pub async fn release(&self, provider: &str, key_id: &str) -> anyhow::Result<u64> {
        let body = json!({ "provider": provider, "key_id": key_id });
        let path = "/api/adaptive-routing/conditions/clear";
        let answer: Value = self.admin(Method::POST, path, Some(&body)).await?.json()?;
        Ok(answer["count"].as_u64().unwrap_or(0))
    }

    /// # Errors
    /// When no whole answer came. A refusal is an answer.
    pub async fn chat(&self, chat: Chat<'_>) -> anyhow::Result<Reply> {
        let mut body = json!({
            "model": chat.model,
            "user": chat.user,
            "messages": [{ "role": "user", "content": "Say hello." }],
        });
        if chat.stream {
            body["stream"] = true.into();
        }
        let pin = chat.pin.map(|id| ("x-bf-api-key-id", id));
        let url = format!("{}/v1/chat/completions", self.url);
        self.http
            .send(Method::POST, &url, pin.as_slice(), Some(&body), CHAT_LIMIT)
            .await
    }

    async fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let url = format!("{}{path}", self.url);
        let token = self
            .authorization
            .as_deref()
            .map(|value| ("authorization", value));
        self.http
            .send(method, &url, token.as_slice(), body, ADMIN_LIMIT)
            .await
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
