//! A provider that answers byte for byte what a test says, and remembers what reached it.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::eventually;

/// One request that reached the provider.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// What stood behind `Bearer`, empty if nothing did.
    pub(crate) key: String,
}

impl Call {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What the provider does, step by step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    /// Goes on once the test says so.
    Await(CancellationToken),
    /// Nothing more, until the peer closes.
    Silence,
    Close,
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Play(Vec<Step>);

impl Play {
    /// A whole JSON answer.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::whole(
            status,
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        )
    }

    pub(crate) fn whole(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let length = body.len().to_string();
        let mut out = head(status, &[headers, &[("content-length", &length)]].concat());
        out.extend_from_slice(body);
        Self(vec![Step::Send(out)])
    }

    /// A served chat completion.
    pub(crate) fn served(text: &str) -> Self {
        Self::json(200, &completion(text))
    }

    /// An error in OpenAI's shape.
    pub(crate) fn error(status: u16, kind: &str, code: &str, message: &str) -> Self {
        let error = json!({"message": message, "type": kind, "code": code, "param": null});
        Self::json(status, &json!({"error": error}))
    }

    pub(crate) fn bad_key() -> Self {
        Self::error(
            401,
            "invalid_request_error",
            "invalid_api_key",
            "Incorrect API key provided.",
        )
    }

    pub(crate) fn rate_limited(retry_after: &str) -> Self {
        let error = json!({"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}});
        let headers = [
            ("content-type", "application/json"),
            ("retry-after", retry_after),
        ];
        Self::whole(429, &headers, error.to_string().as_bytes())
    }

    pub(crate) fn unavailable() -> Self {
        Self::error(
            503,
            "server_error",
            "unavailable",
            "The server is overloaded.",
        )
    }

    /// Takes the request and says nothing.
    pub(crate) fn silence() -> Self {
        Self(vec![Step::Silence])
    }

    /// The head of an event stream.
    pub(crate) fn stream() -> Self {
        let headers = [
            ("content-type", "text/event-stream"),
            ("transfer-encoding", "chunked"),
        ];
        Self(vec![Step::Send(head(200, &headers))])
    }

    /// One event.
    pub(crate) fn event(self, data: &Value) -> Self {
        self.bytes(format!("data: {data}\n\n").as_bytes())
    }

    /// A piece of text as a chat chunk.
    pub(crate) fn text(self, text: &str) -> Self {
        self.event(&chunk(&json!({"content": text}), None))
    }

    pub(crate) fn role(self) -> Self {
        self.event(&chunk(&json!({"role": "assistant", "content": ""}), None))
    }

    pub(crate) fn finish(self) -> Self {
        self.event(&chunk(&json!({}), Some("stop")))
    }

    pub(crate) fn done(self) -> Self {
        self.bytes(b"data: [DONE]\n\n").end()
    }

    /// Raw bytes as one HTTP chunk.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
        self.0.push(Step::Send(out));
        self
    }

    /// The same bytes as many HTTP chunks in one write.
    pub(crate) fn burst(mut self, bytes: &[u8], count: usize) -> Self {
        let one = Self::default().bytes(bytes);
        if let [Step::Send(chunk)] = &one.0[..] {
            self.0.push(Step::Send(chunk.repeat(count)));
        }
        self
    }

    /// The regular end of a chunked body.
    pub(crate) fn end(mut self) -> Self {
        self.0.push(Step::Send(b"0\r\n\r\n".to_vec()));
        self
    }

    pub(crate) fn pause(mut self, ms: u64) -> Self {
        self.0.push(Step::Pause(Duration::from_millis(ms)));
        self
    }

    /// These steps, then those.
    pub(crate) fn and(mut self, then: Self) -> Self {
        self.0.extend(then.0);
        self
    }

    /// What follows comes once `go` is cancelled.
    pub(crate) fn awaiting(mut self, go: &CancellationToken) -> Self {
        self.0.push(Step::Await(go.clone()));
        self
    }

    /// The same answer with other bytes in what it sends.
    pub(crate) fn replacing(mut self, old: &[u8], new: &[u8]) -> Self {
        for step in &mut self.0 {
            if let Step::Send(bytes) = step
                && let Some(at) = bytes.windows(old.len()).position(|w| w == old)
            {
                bytes.splice(at..at + old.len(), new.iter().copied());
            }
        }
        self
    }

    pub(crate) fn then_silence(mut self) -> Self {
        self.0.push(Step::Silence);
        self
    }

    pub(crate) fn then_close(mut self) -> Self {
        self.0.push(Step::Close);
        self
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    write!(out, "HTTP/1.1 {status} Played\r\n").unwrap();
    for (name, value) in headers {
        write!(out, "{name}: {value}\r\n").unwrap();
    }
    out.extend_from_slice(b"\r\n");
    out
}

pub(crate) fn completion(text: &str) -> Value {
    json!({
        "id": "c-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    })
}

pub(crate) fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })
}

type Script = Box<dyn FnMut(&Call) -> Play + Send>;

/// The provider.
pub(crate) struct Mock {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

struct Shared {
    script: Mutex<Script>,
    calls: Mutex<Vec<Call>>,
    /// Connections that the gateway closed while an answer was not finished.
    left: Mutex<usize>,
}

impl Mock {
    /// Answers every call with what the script says.
    pub(crate) async fn start(script: impl FnMut(&Call) -> Play + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Mutex::new(Box::new(script)),
            calls: Mutex::default(),
            left: Mutex::default(),
        });
        let to_serve = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&to_serve)));
            }
        });
        Self {
            address,
            shared,
            accepting,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn play(&self, script: impl FnMut(&Call) -> Play + Send + 'static) {
        *self.shared.script.lock().unwrap() = Box::new(script);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap().clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.calls().into_iter().map(|c| c.key).collect()
    }

    pub(crate) async fn wait_for_calls(&self, count: usize) {
        eventually("calls at the provider", || {
            (self.calls().len() >= count).then_some(())
        })
        .await;
    }

    /// Until the gateway has closed this many connections in the middle of an answer.
    pub(crate) async fn wait_for_left(&self, count: usize) {
        let left = || (*self.shared.left.lock().unwrap() >= count).then_some(());
        eventually("the upstream call to end", left).await;
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    while let Some(call) = read_call(&mut stream, &mut buffer).await {
        let play = (shared.script.lock().unwrap())(&call);
        shared.calls.lock().unwrap().push(call);
        for step in play.0 {
            if !perform(&mut stream, step).await {
                *shared.left.lock().unwrap() += 1;
                return;
            }
        }
    }
}

/// False when the peer is gone, or the script wants it to be.
async fn perform(stream: &mut TcpStream, step: Step) -> bool {
    let mut byte = [0];
    match step {
        Step::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
        Step::Pause(pause) => tokio::select! {
            () = tokio::time::sleep(pause) => true,
            _ = stream.read(&mut byte) => false,
        },
        Step::Await(go) => tokio::select! {
            () = go.cancelled() => true,
            _ = stream.read(&mut byte) => false,
        },
        Step::Silence => {
            let _ = stream.read(&mut byte).await;
            false
        }
        Step::Close => false,
    }
}

async fn read_call(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Call> {
    let mut part = vec![0; 16 << 10];
    loop {
        if let Some((call, length)) = parse_call(buffer) {
            buffer.drain(..length);
            return Some(call);
        }
        match stream.read(&mut part).await {
            Ok(read @ 1..) => buffer.extend_from_slice(&part[..read]),
            Ok(0) | Err(_) => return None,
        }
    }
}

fn parse_call(buffer: &[u8]) -> Option<(Call, usize)> {
    let end = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = text.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers
        .get("content-length")
        .map_or(0, |v| v.parse().unwrap());
    let body = buffer.get(end..end + length)?.to_vec();
    let authorization = headers.get("authorization").map(String::as_str);
    let key = authorization
        .and_then(|a| a.strip_prefix("Bearer "))
        .unwrap_or_default()
        .to_owned();
    let call = Call {
        path,
        headers,
        body,
        key,
    };
    Some((call, end + length))
}
