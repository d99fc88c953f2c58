//! A provider that costs little: fixed answers, whole or as a stream of many chunks.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// What stands before the number of chunks that a body asks for.
pub(crate) const CHUNKS: &str = "\"max_tokens\":";
/// Between two chunks: each is a read of its own at whoever passes it on.
const CHUNK_GAP: Duration = Duration::from_millis(2);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A running upstream; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    port: u16,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct Answers {
    whole: Bytes,
    chunk: Bytes,
    last: Bytes,
}

impl Upstream {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let accepting = tokio::spawn(accept(listener, answers()));
        Ok(Self { port, accepting })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, answers: Answers) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if socket.set_nodelay(true).is_err() {
            continue;
        }
        let answers = answers.clone();
        let service = service_fn(move |request| answer(request, answers.clone()));
        connections.spawn(async move {
            // A caller that goes away is not the upstream's affair.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    answers: Answers,
) -> Result<Response<Body>, Infallible> {
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let (kind, body) = if let Some(chunks) = chunks_wanted(&body) {
        ("text/event-stream", streamed(answers, chunks))
    } else {
        ("application/json", Full::new(answers.whole).boxed_unsync())
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    Ok(response)
}

/// None where no stream is wanted.
fn chunks_wanted(body: &[u8]) -> Option<usize> {
    let at = memmem::find(body, CHUNKS.as_bytes())?;
    let number = body.get(at + CHUNKS.len()..)?;
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
    std::str::from_utf8(&number[..digits.count()])
        .ok()?
        .parse()
        .ok()
}

/// The first chunk goes out with the head: how soon it arrives is the work of those between.
fn streamed(answers: Answers, chunks: usize) -> Body {
    let frames = futures_util::stream::unfold(0, move |sent| {
        let answers = answers.clone();
        async move {
            if sent > chunks {
                return None;
            }
            if sent > 0 {
                tokio::time::sleep(CHUNK_GAP).await;
            }
            let frame = if sent == chunks {
                answers.last
            } else {
                answers.chunk
            };
            Some((Ok(Frame::data(frame)), sent + 1))
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn answers() -> Answers {
    let chunk = |delta: serde_json::Value, finish: Option<&str>| {
        let chunk = json!({
            "id": "chatcmpl-figures", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "gpt-4o",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        });
        format!("data: {chunk}\n\n")
    };
    let whole = json!({
        "id": "chatcmpl-figures", "object": "chat.completion", "created": 1_700_000_000,
        "model": "gpt-4o",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": "It tells ships where the land is. ".repeat(20) },
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 160, "completion_tokens": 160, "total_tokens": 320 },
    });
    let last = chunk(json!({}), Some("stop"));
    Answers {
        whole: whole.to_string().into(),
        chunk: chunk(json!({ "content": " lighthouse" }), None).into(),
        last: format!("{last}data: [DONE]\n\n").into(),
    }
}
