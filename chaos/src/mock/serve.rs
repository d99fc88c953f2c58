//! The mock's HTTP server: one task per connection, all ended with the accept loop.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::record::{Call, Record};
use super::{answer, control};

/// Further connections wait in the kernel's queue.
const CONNECTIONS: usize = 4_096;
const LARGEST_BODY_BYTES: usize = 32 << 20;
/// Pause between two chunks of a stream.
const CHUNK_GAP: Duration = Duration::from_millis(2);
/// After a failed accept (too many open files): let some of them close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The part of a chat request that the mock looks at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    model: String,
    user: String,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Debug)]
struct Provider {
    record: Arc<Record>,
    latency: Duration,
    answers: AtomicU64,
}

pub(super) async fn accept(listener: TcpListener, record: Arc<Record>, latency: Duration) {
    let provider = Arc::new(Provider {
        record,
        latency,
        answers: AtomicU64::new(0),
    });
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((socket, _)) => {
                connections.spawn(connection(socket, Arc::clone(&provider)));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection(socket: TcpStream, provider: Arc<Provider>) {
    // Without this every chunk of a stream waits for the acknowledgement of the one before.
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let provider = Arc::clone(&provider);
        async move { Ok::<_, Infallible>(provider.answer(request).await) }
    });
    // A caller that goes away is not the mock's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

impl Provider {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let at_ms = self.record.now_ms();
        let (parts, body) = request.into_parts();
        let segments: Vec<&str> = parts
            .uri
            .path()
            .split('/')
            .filter(|s| !s.is_empty())
            .collect();
        match (&parts.method, segments.as_slice()) {
            (method, ["mock", rest @ ..]) => {
                let query = parts.uri.query().unwrap_or_default();
                let (status, json) = control::answer(&self.record, method, rest, query);
                whole(status, &json)
            }
            (&Method::GET, [provider, "v1", "models"]) => {
                whole(StatusCode::OK, &answer::models(provider))
            }
            (&Method::POST, [provider, "v1", "chat", "completions"]) => {
                let Ok(body) = Limited::new(body, LARGEST_BODY_BYTES).collect().await else {
                    return problem(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "the body is too large or broke off",
                    );
                };
                self.chat(at_ms, provider, &parts.headers, &body.to_bytes())
                    .await
            }
            _ => problem(
                StatusCode::NOT_FOUND,
                "a provider is at /NAME/v1/chat/completions and /NAME/v1/models",
            ),
        }
    }

    async fn chat(
        &self,
        at_ms: u64,
        provider: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response<Body> {
        let Ok(asked) = serde_json::from_slice::<Asked>(body) else {
            return problem(
                StatusCode::BAD_REQUEST,
                "the body is not the JSON of a chat request",
            );
        };
        let key = bearer(headers);
        let refusal = match key {
            Some(key) => self
                .record
                .fault(key)
                .map(|fault| fault.refusal(key, &asked.model)),
            None => return problem(StatusCode::UNAUTHORIZED, "You didn't provide an API key."),
        };
        let key = key.unwrap_or_default();
        let status = refusal
            .as_ref()
            .map_or(StatusCode::OK, |refusal| refusal.status);
        self.record.add(Call {
            at_ms,
            provider: provider.to_owned(),
            key: key.to_owned(),
            caller: asked.user.clone(),
            model: asked.model.clone(),
            status: status.as_u16(),
        });
        tokio::time::sleep(self.latency).await;
        let id = self.answers.fetch_add(1, Ordering::Relaxed);
        match refusal {
            Some(refusal) => {
                let mut response = whole(refusal.status, &refusal.body);
                if let Some(seconds) = refusal.retry_after_s {
                    response
                        .headers_mut()
                        .insert(header::RETRY_AFTER, seconds.into());
                }
                response
            }
            None if asked.stream => streamed(answer::events(
                id,
                &asked.model,
                asked.stream_options.include_usage,
            )),
            None => whole(StatusCode::OK, &answer::completion(id, &asked.model)),
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
}

fn problem(status: StatusCode, message: &str) -> Response<Body> {
    let (status, json) = control::problem(status, message);
    whole(status, &json)
}

fn whole(status: StatusCode, json: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(json.to_string())).boxed_unsync());
    *response.status_mut() = status;
    set_type(&mut response, "application/json");
    response
}

fn streamed(events: Vec<Bytes>) -> Response<Body> {
    let frames = stream::unfold(events.into_iter(), |mut events| async move {
        let event = events.next()?;
        tokio::time::sleep(CHUNK_GAP).await;
        Some((Ok::<_, Infallible>(Frame::data(event)), events))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    set_type(&mut response, "text/event-stream");
    response
}

fn set_type(response: &mut Response<Body>, value: &'static str) {
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, http::HeaderValue::from_static(value));
}
