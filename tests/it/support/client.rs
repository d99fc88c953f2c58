//! An HTTP client that sends what it is told and reads to the end.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// The client.
pub(crate) struct Client {
    inner: legacy::Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

/// An answer as a whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The connection broke before the end.
    pub(crate) broken: bool,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            inner: legacy::Client::builder(TokioExecutor::new()).build(connector),
            address,
        }
    }

    pub(crate) async fn chat(&self, id: &str, body: impl Into<Bytes>) -> Answer {
        self.chat_with(id, &[], body).await
    }

    pub(crate) async fn chat_with(
        &self,
        id: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let headers = [headers, &[("x-request-id", id)]].concat();
        read(
            self.send("POST", "/v1/chat/completions", &headers, body)
                .await,
        )
        .await
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        read(self.send("POST", path, headers, body).await).await
    }

    pub(crate) async fn call(&self, method: &str, path: &str) -> Answer {
        read(self.send(method, path, &[], "").await).await
    }

    /// Up to the head of the answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.inner.request(request).await.unwrap()
    }
}

async fn read(response: Response<Incoming>) -> Answer {
    let (head, mut incoming) = response.into_parts();
    let (mut body, mut broken) = (Vec::new(), false);
    while let Some(frame) = incoming.frame().await {
        match frame {
            Ok(frame) => body.extend(frame.into_data().unwrap_or_default()),
            Err(_) => {
                broken = true;
                break;
            }
        }
    }
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: body.into(),
        broken,
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// The text of a stream.
    pub(crate) fn text(&self) -> String {
        let events = events(&self.body);
        let chunks = events
            .iter()
            .filter_map(|e| serde_json::from_str::<Value>(e).ok());
        chunks
            .filter_map(|c| Some(c["choices"][0]["delta"]["content"].as_str()?.to_owned()))
            .collect()
    }

    /// The error events of a stream.
    pub(crate) fn errors(&self) -> Vec<Value> {
        let events = events(&self.body);
        let chunks = events
            .iter()
            .filter_map(|e| serde_json::from_str::<Value>(e).ok());
        chunks.filter(|c| c["error"].is_object()).collect()
    }

    pub(crate) fn is_done(&self) -> bool {
        events(&self.body).last().is_some_and(|e| e == "[DONE]")
    }
}

/// The data of the events in these bytes.
pub(crate) fn events(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    text.split("\n\n")
        .filter_map(|block| Some(block.strip_prefix("data: ")?.to_owned()))
        .collect()
}
