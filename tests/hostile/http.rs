//! Hostile clients on the HTTP port: each is refused with its status, and the node serves on.

use std::time::{Duration, Instant};

use holdline_chaos::mock::Mock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::node::{self, Node, Place};
use crate::wire::{exchange, request, sized, statuses};

const BODY: &[u8] = br#"{"model":"openai/gpt-4o","messages":[{"role":"user","content":"hi"}]}"#;
/// Heads that stop or drip are closed after 15 s.
const HEAD_LIMIT: Duration = Duration::from_secs(15);

async fn start() -> (Mock, Place, Node) {
    let mock = node::mock(Duration::ZERO).await;
    let place = Place::new();
    place.write_config(&node::config(&mock).to_string());
    let node = place.start(place.serve()).await;
    (mock, place, node)
}

fn calls(mock: &Mock) -> usize {
    mock.calls("sk-key-a", 0).len() + mock.calls("sk-key-b", 0).len()
}

#[tokio::test]
async fn broken_http_is_refused_and_smuggles_nothing() {
    let (mock, place, node) = start().await;
    let chunked = [
        format!("{:x}\r\n", BODY.len()).as_bytes(),
        BODY,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    let length = format!("content-length: {}", BODY.len());
    let broken = [
        ("two hosts", sized(&["host: other"], BODY)),
        (
            "two lengths",
            request(&[&length, "content-length: 5"], BODY),
        ),
        ("a signed length", request(&["content-length: +5"], BODY)),
        ("a negative length", request(&["content-length: -1"], BODY)),
        (
            "a chunk size in words",
            request(&["transfer-encoding: chunked"], b"zz\r\nno\r\n0\r\n\r\n"),
        ),
        (
            "a chunk size beyond 64 bits",
            request(&["transfer-encoding: chunked"], b"fffffffffffffffff\r\n{}"),
        ),
        (
            "another encoding behind chunked",
            request(&["transfer-encoding: chunked, identity"], &chunked),
        ),
        (
            "a length beside chunks",
            sized(&["transfer-encoding: chunked"], &chunked),
        ),
        (
            "an unknown encoding",
            request(&["transfer-encoding: xchunked"], &chunked),
        ),
        ("a bare line feed", sized(&["x-a: 1\nx-b: 2"], BODY)),
        ("a folded header", sized(&["x-a: 1\r\n 2"], BODY)),
        ("the same length twice", sized(&[&length], BODY)),
        ("no host", b"GET /health HTTP/1.1\r\n\r\n".to_vec()),
        ("a nul in a header", sized(&["x-a: a\0b"], BODY)),
        ("a header without a name", sized(&[": x"], BODY)),
        ("noise", vec![0x80; 300]),
        ("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec()),
    ];
    let mut accepted = Vec::new();
    for (what, mut bytes) in broken {
        bytes.extend(sized(&["x-hidden: 1"], BODY));
        let answers = statuses(&exchange(place.ports.http, &bytes).await);
        if answers != [400] {
            accepted.push((what, answers));
        }
    }
    assert!(
        accepted.is_empty(),
        "not just refused with 400: {accepted:?}"
    );
    assert_eq!(calls(&mock), 0);
    node.is_unhurt().await;
}

#[tokio::test]
async fn a_refused_head_is_told_why_and_where_a_path_climbs_nothing_is_found() {
    let (_mock, place, node) = start().await;
    let answer = exchange(place.ports.http, &sized(&["host: other"], BODY)).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.contains("two Host headers") && text.contains("\"error\""),
        "{text}"
    );
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/v1/../../etc/passwd",
        "/..\\..\\etc\\passwd",
        "/%00",
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = exchange(place.ports.http, head.as_bytes()).await;
        let found = statuses(&answer);
        assert!(found == [404] || found == [400], "{path}: {found:?}");
    }
    node.is_unhurt().await;
}

#[tokio::test]
async fn header_bombs_are_refused() {
    let (mock, place, node) = start().await;
    let long = format!("x-long: {}", "y".repeat(2 << 20));
    let many: Vec<String> = (0..20_000).map(|number| format!("x-{number}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (what, bytes) in [
        ("one long header", sized(&[&long], BODY)),
        ("many headers", sized(&many, BODY)),
    ] {
        let answers = statuses(&exchange(place.ports.http, &bytes).await);
        // None: the node closed while the client still wrote, and the kernel dropped the answer.
        assert!(
            answers.is_empty() || answers == [431],
            "{what}: {answers:?}"
        );
    }
    assert_eq!(calls(&mock), 0);
    node.is_unhurt().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_sent() {
    let (mock, place, node) = start().await;
    // The limit of this config is 1 MB: the announced length is enough to refuse it.
    let announced = request(&["content-length: 1048577"], b"{");
    assert_eq!(
        statuses(&exchange(place.ports.http, &announced).await),
        [413]
    );
    let endless = [b"100000\r\n".as_slice(), &vec![b' '; 0x10_0000], b"\r\n"].concat();
    let unannounced = request(&["transfer-encoding: chunked"], &endless.repeat(2));
    assert_eq!(
        statuses(&exchange(place.ports.http, &unannounced).await),
        [413]
    );
    assert_eq!(calls(&mock), 0);
    node.is_unhurt().await;
}

#[tokio::test]
async fn json_that_is_nested_too_deeply_or_no_json_is_refused() {
    let (mock, place, node) = start().await;
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!("{{\"model\":\"openai/gpt-4o\",\"messages\":[],\"x\":{open}{close}}}").into_bytes()
    };
    for (what, body) in [
        ("200 levels", deep(200)),
        ("100,000 levels", deep(100_000)),
        ("no JSON", b"model=gpt-4o".to_vec()),
        ("no end", BODY[..20].to_vec()),
        (
            "no UTF-8",
            b"{\"model\":\"openai/\xff\",\"messages\":[]}".to_vec(),
        ),
        ("nothing", Vec::new()),
    ] {
        let bytes = sized(&["connection: close"], &body);
        let answer = exchange(place.ports.http, &bytes).await;
        assert_eq!(statuses(&answer), [400], "{what}");
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("\"error\""), "{what}: {text}");
    }
    assert_eq!(calls(&mock), 0);
    node.is_unhurt().await;
}

#[tokio::test]
async fn heads_that_stop_or_drip_are_closed_and_hinder_nobody() {
    let (_mock, place, node) = start().await;
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..100 {
        waiting.spawn(closed_after(place.ports.http, number % 2 == 0));
    }
    for _ in 0..10 {
        node.serves().await;
    }
    while let Some(closed) = waiting.join_next().await {
        let after = closed.unwrap();
        let expected = HEAD_LIMIT.saturating_sub(Duration::from_secs(1))..HEAD_LIMIT * 2;
        assert!(expected.contains(&after), "closed after {after:?}");
    }
    node.is_unhurt().await;
}

/// Begins a head and waits for the node to give up; `drips` sends a byte of it each second.
async fn closed_after(port: u16, drips: bool) -> Duration {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let start = Instant::now();
    let head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: node\r\nx-slow: ";
    stream.write_all(head).await.unwrap();
    let mut byte = [0; 1024];
    while start.elapsed() < HEAD_LIMIT * 3 {
        match tokio::time::timeout(Duration::from_secs(1), stream.read(&mut byte)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0) | Err(_)) => break,
            Err(_) if drips && stream.write_all(b"y").await.is_err() => break,
            Err(_) => {}
        }
    }
    start.elapsed()
}
