//! A small HTTP client for the loopback: plain text, a limit on every call, whole answers.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// No answer of a node or mock is larger.
const LARGEST_ANSWER_BYTES: usize = 64 << 20;

/// Shared by everything that asks; clones share the connections.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: StatusCode,
    /// The answer's headers.
    pub headers: HeaderMap,
    /// The whole body; of a stream, all its events.
    pub body: Bytes,
}

impl Http {
    /// A client with no connection yet.
    #[must_use]
    pub fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(5))
            .build(connector);
        Self { client }
    }

    /// One call; `limit` covers it up to the last byte of the answer.
    ///
    /// # Errors
    /// When no whole HTTP answer came in time. A bad status is an answer.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
        limit: Duration,
    ) -> anyhow::Result<Reply> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let bytes = body.map_or_else(Bytes::new, |json| json.to_string().into());
        let request = request
            .body(Full::new(bytes))
            .context("a request that cannot be built")?;
        let call = async {
            let answer = self.client.request(request).await?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, LARGEST_ANSWER_BYTES).collect().await;
            let body = body
                .map_err(|error| anyhow!("the answer broke off: {error}"))?
                .to_bytes();
            anyhow::Ok(Reply {
                status: parts.status,
                headers: parts.headers,
                body,
            })
        };
        tokio::time::timeout(limit, call)
            .await
            .map_err(|_| anyhow!("no whole answer within {limit:?}"))?
            .with_context(|| format!("{url} did not answer"))
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl Reply {
    /// The body as JSON of a known shape.
    ///
    /// # Errors
    /// When the status is not 2xx, or the body is something else.
    pub fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        if !self.status.is_success() {
            return Err(anyhow!("{}: {}", self.status, self.text()));
        }
        serde_json::from_slice(&self.body)
            .with_context(|| format!("not as expected: {}", self.text()))
    }

    /// The start of the body, for people.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body)
            .chars()
            .take(400)
            .collect()
    }
}
