//! The accept loop over real sockets.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// Longer than a busy machine ever holds a test up.
const FOREVER: Duration = Duration::from_secs(60);

async fn start(limits: Limits) -> (SocketAddr, CancellationToken, oneshot::Receiver<usize>) {
    start_telling(limits, Arc::default()).await
}

/// Tells when a request has begun.
async fn start_telling(
    limits: Limits,
    begun: Arc<Notify>,
) -> (SocketAddr, CancellationToken, oneshot::Receiver<usize>) {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), limits)
        .await
        .unwrap();
    let (address, stop) = (server.local_addr(), CancellationToken::new());
    let (tell, cut_off) = oneshot::channel();
    let token = stop.clone();
    tokio::spawn(async move {
        let service = service_fn(move |request| {
            begun.notify_one();
            answer(request)
        });
        let _ = tell.send(server.serve(service, token).await);
    });
    (address, stop, cut_off)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    match request.uri().path() {
        "/slow" => tokio::time::sleep(Duration::from_millis(200)).await,
        "/never" => std::future::pending().await,
        _ => {}
    }
    let mut response = Response::new(Body::from("hello"));
    if let Some(bad) = request.extensions().get::<BadHead>() {
        *response.status_mut() = bad.status;
    }
    Ok(response)
}

async fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn requests_are_answered() {
    let (address, _stop, _) = start(Limits::default()).await;
    let answer = send(address, GET).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
        "{answer}"
    );
}

#[tokio::test]
async fn accepted_sockets_do_not_wait_for_more_bytes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    assert!(accept(&listener).await.nodelay().unwrap());
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = Server::bind("127.0.0.1:0".parse().unwrap(), Limits::default())
        .await
        .unwrap();
    let error = Server::bind(taken.local_addr(), Limits::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&taken.local_addr().port().to_string()),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1);
}

#[tokio::test]
async fn heads_beyond_reason_are_refused() {
    let (address, _stop, _) = start(Limits::default()).await;
    let long = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "y".repeat(70_000)
    );
    let answer = send(address, long.as_bytes()).await;
    // Closed while it is still being sent, the answer may get lost on its way.
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let many = format!(
        "GET / HTTP/1.1\r\nhost: x\r\n{}\r\n",
        "a: b\r\n".repeat(500)
    );
    assert!(
        send(address, many.as_bytes())
            .await
            .starts_with("HTTP/1.1 431")
    );
}

/// What two proxies could read in two ways is refused, and nothing behind it is served.
#[tokio::test]
async fn smuggled_requests_are_not_served() {
    let (address, _stop, _) = start(Limits::default()).await;
    for lines in [
        "content-length: 3\r\ncontent-length: 5\r\n",
        "content-length: +3\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "content-length : 3\r\n",
        ": x\r\n",
        "content-length: 3\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 3\r\n",
        "host: y\r\n",
        "x: 1\n",
        "x: 1\r\n folded\r\n",
        "content-length: 3\r\ncontent-length: 3\r\n",
    ] {
        let bad = format!("POST / HTTP/1.1\r\nhost: x\r\n{lines}\r\nabc");
        let answer = send(address, &[bad.as_bytes(), GET].concat()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{lines:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{lines:?}: {answer}");
    }
}

#[tokio::test]
async fn heads_that_never_end_are_closed() {
    let limits = Limits {
        head_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let (address, _stop, _) = start(limits).await;
    for started in ["", "GET / HT"] {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(started.as_bytes()).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
        assert!(
            begun.elapsed() >= Duration::from_millis(100),
            "{started:?} was closed at once"
        );
    }
}

#[tokio::test]
async fn a_connection_between_two_requests_may_idle_longer_than_a_head_may() {
    let limits = Limits {
        head_timeout: Duration::from_millis(100),
        idle_timeout: FOREVER,
        ..Limits::default()
    };
    let (address, _stop, _) = start(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..2 {
        is_served(&mut stream).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    is_served(&mut stream).await;
}

#[tokio::test]
async fn a_connection_that_idles_is_closed_without_a_word() {
    let limits = Limits {
        head_timeout: FOREVER,
        idle_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let (address, _stop, _) = start(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    is_served(&mut stream).await;
    let mut rest = Vec::new();
    let end = tokio::time::timeout(FOREVER / 2, stream.read_to_end(&mut rest));
    assert_eq!(end.await.unwrap().unwrap(), 0, "{rest:?}");
}

/// One request on a connection that goes on.
async fn is_served(stream: &mut TcpStream) {
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = [0; 1024];
    let mut read = 0;
    while !answer[..read].ends_with(b"hello") {
        let more = stream.read(&mut answer[read..]).await.unwrap();
        assert!(more > 0, "closed instead of served");
        read += more;
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_head_that_breaks_off_behind_a_request_is_told_so() {
    let limits = Limits {
        head_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let (address, _stop, _) = start(limits).await;
    let both = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\nGET / HT";
    let answer = send(address, both).await;
    let at = |status: &str| answer.find(&format!("HTTP/1.1 {status}"));
    assert!(at("200").is_some() && at("200") < at("408"), "{answer}");
}

#[tokio::test]
async fn requests_may_follow_each_other_without_waiting() {
    let (address, _stop, _) = start(Limits::default()).await;
    let chunked =
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let sized = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc\r\n";
    let all = [sized.as_slice(), chunked, chunked, sized, GET].concat();
    assert_eq!(send(address, &all).await.matches("HTTP/1.1 200").count(), 5);
    let mut stream = TcpStream::connect(address).await.unwrap();
    for byte in &all {
        stream.write_all(&[*byte]).await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 5, "{answer}");
}

#[tokio::test]
async fn connections_over_the_cap_wait_their_turn() {
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let (address, _stop, _) = start(limits).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    first
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    first.read_exact(&mut [0; 12]).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(GET).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(100), second.read_u8()).await;
    assert!(
        early.is_err(),
        "the second connection was served beside the first"
    );
    drop(first);
    assert_eq!(second.read_u8().await.unwrap(), b'H');
}

#[tokio::test]
async fn http2_with_prior_knowledge_is_served() {
    let (address, _stop, _) = start(Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream
        .write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat())
        .await
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the first frame is SETTINGS");
}

#[tokio::test]
async fn requests_in_flight_are_finished() {
    let begun = Arc::new(Notify::new());
    let (address, stop, cut_off) = start_telling(Limits::default(), Arc::clone(&begun)).await;
    let slow =
        tokio::spawn(async move { send(address, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await });
    begun.notified().await;
    stop.cancel();
    assert!(slow.await.unwrap().ends_with("hello"));
    assert_eq!(cut_off.await.unwrap(), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn the_drain_has_an_end() {
    let limits = Limits {
        drain: Duration::from_millis(50),
        ..Limits::default()
    };
    let begun = Arc::new(Notify::new());
    let (address, stop, cut_off) = start_telling(limits, Arc::clone(&begun)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    begun.notified().await;
    stop.cancel();
    assert_eq!(cut_off.await.unwrap(), 1);
}
