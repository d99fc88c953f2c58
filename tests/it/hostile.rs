//! Errors of providers that mean harm, or do it: a well-formed error within bounds of memory and time.

use std::time::{Duration, Instant};

use holdline_core::holds::Selector;
use serde_json::{Value, json};

use crate::support::{Mock, Play, TestNode, chat, provider, stream};

async fn start(mock: &Mock) -> TestNode {
    let one = provider(&mock.url(), &["k-a"], &json!({}));
    TestNode::start(&json!({"providers": {"one": one}})).await
}

/// What the client is told: it must be an error in the one shape, soon.
async fn told(node: &TestNode, id: &str) -> (u16, Value) {
    let begun = Instant::now();
    let answer = node.client.chat(id, chat("one/m")).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{id}");
    let body = answer.json();
    assert_eq!(body["status_code"], answer.status, "{id}: {body}");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.chars().count() <= 256, "{id}: {message}");
    (answer.status, body["extra_fields"]["failure_class"].clone())
}

/// An answer whose body begins and goes on, chunked.
fn begun(status: u16) -> Play {
    let head = format!("HTTP/1.1 {status} Played");
    Play::stream().replacing(b"HTTP/1.1 200 Played", head.as_bytes())
}

#[tokio::test]
async fn odd_bodies_are_understood_as_far_as_they_go() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock).await;
    let json_head = [("content-type", "application/json")];
    let html = format!("<html><body>{}</body></html>", "rate limit ".repeat(20_000));
    let deep = "[".repeat(60_000);
    let wide = format!(
        "{{\"error\":{{\"message\":\"{}\"}}}}",
        "x ".repeat(2_000_000)
    );
    let bodies: [(&[u8], u16, &str); 7] = [
        (b"", 400, "unknown"),
        (html.as_bytes(), 503, "transient"),
        (deep.as_bytes(), 400, "unknown"),
        (wide.as_bytes(), 500, "transient"),
        (&[0xff, 0xfe, 0x00, 0x80], 500, "transient"),
        (
            b"{\"error\":{\"message\":\"Your credit balance is",
            400,
            "quota",
        ),
        (b"{\"error\":\"\\u0000\\ud800\"}", 400, "caller_fault"),
    ];
    for (n, (body, status, class)) in bodies.into_iter().enumerate() {
        let play = Play::whole(status, &json_head, body);
        mock.play(move |_| play.clone());
        assert_eq!(
            told(&node, &format!("r-{n}")).await,
            (status, json!(class)),
            "{n}"
        );
        node.node.release(&Selector::All).unwrap();
    }
}

#[tokio::test]
async fn an_endless_error_is_cut() {
    let mock = Mock::start(|_| begun(503).burst(&[b'x'; 65_536], 800).then_silence()).await;
    let node = start(&mock).await;
    assert_eq!(told(&node, "r-1").await, (503, json!("transient")));
    mock.wait_for_left(1).await;
}

/// What came before counts: here it tells an empty account from a rate limit.
#[tokio::test]
async fn an_error_that_never_ends_is_read_as_far_as_it_came() {
    let error = json!({"error": {"type": "insufficient_quota", "message": "pay"}});
    let mock = Mock::start(move |_| {
        begun(429)
            .bytes(error.to_string().as_bytes())
            .then_silence()
    })
    .await;
    let node = start(&mock).await;
    assert_eq!(told(&node, "r-1").await.1, json!("quota"));
}

#[tokio::test]
async fn a_head_without_end_is_an_outage() {
    let mock = Mock::start(|_| {
        let lines = "x-h: 1\r\n".repeat(400_000);
        Play::whole(500, &[], b"").replacing(b"\r\n", format!("\r\n{lines}").as_bytes())
    })
    .await;
    let node = start(&mock).await;
    assert_eq!(told(&node, "r-1").await, (502, json!("transient")));
}

/// Plain JSON where events were promised, and a wait in the stream's headers.
#[tokio::test]
async fn an_error_in_a_stream_is_read_however_it_stands_there() {
    let pretty = serde_json::to_vec_pretty(&json!([{"error": {"code": 429, "message": "slow"}}]));
    let (pretty, event) = (
        pretty.unwrap(),
        json!({"error": {"code": 429, "message": "slow"}}),
    );
    let plays = [
        Play::stream().bytes(b": hello\n\n").bytes(&pretty).end(),
        Play::stream().bytes(b": hello\n\n").event(&event).end(),
    ];
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock).await;
    for (n, play) in plays.into_iter().enumerate() {
        let play = play.replacing(b"\r\n\r\n", b"\r\nretry-after: 20\r\n\r\n");
        mock.play(move |_| play.clone());
        let id = format!("r-{n}");
        let answer = node.client.chat(&id, stream("one/m")).await;
        let extra = &answer.json()["extra_fields"];
        assert_eq!(answer.status, 429, "{n}");
        assert_eq!(
            (&extra["failure_class"], &extra["retry_after_ms"]),
            (&json!("rate_limit"), &json!(20_000))
        );
        node.node.release(&Selector::All).unwrap();
    }
}

/// What an operator has sent with every call may be a credential: providers' words are cleaned of it too.
#[tokio::test]
async fn credentials_in_extra_headers_do_not_come_back() {
    let mock = Mock::start(|call| {
        let (token, team) = (&call.headers["x-gateway-token"], &call.headers["x-team"]);
        let words = format!("{token} of {team} is not known");
        let error = json!({"error": {"message": words, "type": "invalid_request_error"}});
        let headers = [
            ("content-type", "application/json"),
            ("openai-echo", token.as_str()),
        ];
        Play::whole(400, &headers, error.to_string().as_bytes())
    })
    .await;
    let network =
        json!({"extra_headers": {"x-gateway-token": "Bearer quite-secret-1", "x-team": "blue"}});
    let one = provider(&mock.url(), &["k-a"], &network);
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let answer = node.client.chat("r-1", chat("one/m")).await;
    let told = format!("{:?} {:?}", answer.headers, answer.body);
    assert!(!told.contains("quite-secret-1"), "{told}");
    assert!(told.contains("of blue is not known"), "{told}");
}
