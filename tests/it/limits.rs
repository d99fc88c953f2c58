//! Bodies, heads and times beyond what is allowed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Mock, Play, TestNode, chat, provider, stream};

async fn start(mock: &Mock, network: Value) -> TestNode {
    let config = json!({
        "client": {"max_request_body_size_mb": 1},
        "providers": {
            "one": provider(&mock.url(), &["k-a", "k-b"], &network),
            "two": provider(&mock.url(), &["k-c"], &json!({})),
        },
    });
    TestNode::start(&config).await
}

/// GV-001
#[tokio::test]
async fn bad_bodies_are_refused_with_what_to_change() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock, json!({})).await;
    let deep = format!(
        r#"{{"model":"one/m","x":{}{}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    let large = format!(r#"{{"model":"one/m","x":"{}"}}"#, "x".repeat(1_200_000));
    for (body, status, word) in [
        ("{", 400, "JSON"),
        ("", 400, "JSON"),
        ("[]", 400, "object"),
        (r#"{"messages":[]}"#, 400, "model"),
        (r#"{"model":7}"#, 400, "model"),
        (r#"{"model":"one/"}"#, 400, "model"),
        (r#"{"model":"nobody-has-this/x","messages":[]}"#, 200, ""),
        (&deep, 400, "128"),
        (&large, 413, "max_request_body_size_mb"),
    ] {
        let answer = node.client.chat("mine", body.to_owned()).await;
        let shown: String = body.chars().take(60).collect();
        assert_eq!(answer.status, status, "{shown}");
        assert_eq!(answer.header("x-request-id"), "mine");
        if status != 200 {
            let message = answer.json()["error"]["message"].to_string();
            assert!(message.contains(word), "{shown}: {message}");
        }
    }
    let fits = format!(r#"{{"model":"one/m","x":"{}"}}"#, "x".repeat(900_000));
    assert_eq!(node.client.chat("r-1", fits).await.status, 200);
}

#[tokio::test]
async fn odd_paths_and_methods_are_refused_in_json() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock, json!({})).await;
    for (method, path, status) in [
        ("GET", "/v1/nope", 404),
        ("POST", "/v1/chat/completions/extra", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/health", 405),
        ("DELETE", "/metrics", 405),
        ("DELETE", "/v1/models", 405),
    ] {
        let answer = node.client.call(method, path).await;
        assert_eq!(
            (answer.status, &answer.json()["status_code"]),
            (status, &json!(status))
        );
    }
    for (path, status) in [
        ("/genai/v1beta/models/m:predict", 404),
        ("/genai/v1beta/models/m%3Apredict", 404),
        ("/genai/v1beta/models/m", 405),
    ] {
        let answer = node.client.call("POST", path).await;
        let told = &answer.json()["error"]["code"];
        assert_eq!((answer.status, told), (status, &json!(status)), "{path}");
    }
    for method in ["GET", "HEAD"] {
        assert_eq!(node.client.call(method, "/").await.status, 200);
    }
    assert_eq!(node.client.call("GET", "/health").await.status, 200);
    assert!(mock.calls().is_empty());
}

/// RF-048, RF-049
#[tokio::test]
async fn a_silent_provider_times_out_and_the_fallback_serves() {
    let mock = Mock::start(|call| {
        if call.key == "sk-k-c" {
            Play::served("two")
        } else {
            Play::silence()
        }
    })
    .await;
    let node = start(
        &mock,
        json!({"default_request_timeout_in_seconds": 1, "max_retries": 2}),
    )
    .await;
    let begun = Instant::now();
    let answer = node.client.chat("r-1", chat("one/m")).await;
    assert_eq!(
        (answer.status, node.classes("r-1").await),
        (504, vec!["timeout".to_owned()])
    );
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(
        node.record("r-1").await["attempt_trail"][0]["fail_reason"],
        "request_timed_out"
    );
    let body = r#"{"model":"one/m","fallbacks":["two/m"],"messages":[]}"#;
    assert_eq!(node.client.chat("r-2", body).await.status, 200);
    assert!(node.held().is_empty());
}

/// RF-048, RF-049
#[tokio::test]
async fn a_late_first_token_is_a_timeout() {
    for late in [Play::stream().role().then_silence(), Play::silence()] {
        let mock = Mock::start(move |_| late.clone()).await;
        let node = start(
            &mock,
            json!({"ttft_timeout_in_seconds": 1, "max_retries": 3}),
        )
        .await;
        let answer = node.client.chat("r-1", stream("one/m")).await;
        assert_eq!(answer.status, 504);
        assert_eq!(
            node.record("r-1").await["attempt_trail"][0]["fail_reason"],
            "ttft_timeout"
        );
        mock.wait_for_left(1).await;
    }
}

/// RF-048
#[tokio::test]
async fn a_whole_answer_has_no_first_token() {
    let mock = Mock::start(|_| Play::default().pause(1_300).and(Play::served("late"))).await;
    let node = start(&mock, json!({"ttft_timeout_in_seconds": 1})).await;
    assert_eq!(node.client.chat("r-1", chat("one/m")).await.status, 200);
}

/// RF-048
#[tokio::test]
async fn after_its_first_token_a_stream_may_take_its_time() {
    let play = Play::stream()
        .text("a")
        .pause(2_200)
        .text("b")
        .finish()
        .done();
    let mock = Mock::start(move |_| play.clone()).await;
    let network = json!({"ttft_timeout_in_seconds": 2, "default_request_timeout_in_seconds": 2});
    let node = start(&mock, network).await;
    let answer = node.client.chat("r-1", stream("one/m")).await;
    assert!(answer.text() == "ab" && answer.is_done() && answer.errors().is_empty());
}

/// The caller's own limit: no retry, no fallback, and no key is blamed.
#[tokio::test]
async fn a_callers_own_deadline_ends_the_request() {
    let mock = Mock::start(|_| Play::silence()).await;
    let node = start(&mock, json!({"max_retries": 3})).await;
    for (id, streamed) in [("r-1", false), ("r-2", true)] {
        let body = format!(
            r#"{{"model":"one/m","stream":{streamed},"fallbacks":["two/m"],"messages":[]}}"#
        );
        let limit = [("x-bf-request-timeout-ms", "1000")];
        let answer = node.client.chat_with(id, &limit, body).await;
        assert_eq!(
            (answer.status, node.classes(id).await),
            (504, vec!["timeout".to_owned()])
        );
        assert_eq!(
            node.record(id).await["attempt_trail"][0]["fail_reason"],
            "request_timed_out"
        );
    }
    assert_eq!(mock.calls().len(), 2);
    let text = node.client.call("GET", "/metrics").await.body;
    assert!(String::from_utf8_lossy(&text).contains(r#"error_type="provider_timeout""#));
}

#[tokio::test]
async fn silence_after_output_ends_the_stream_with_an_error() {
    let mock = Mock::start(|_| Play::stream().text("a").then_silence()).await;
    let node = start(&mock, json!({"stream_idle_timeout_in_seconds": 5})).await;
    let limit = [("x-bf-request-timeout-ms", "1000")];
    let answer = node.client.chat_with("r-1", &limit, stream("one/m")).await;
    assert_eq!((answer.text().as_str(), answer.errors().len()), ("a", 1));
    assert!(!answer.is_done());
    mock.wait_for_left(1).await;
}

/// GV-001. Nobody has to send, or wait, for a refusal that was certain from the head on.
#[tokio::test]
async fn a_body_that_is_announced_too_large_is_refused_at_once() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock, json!({})).await;
    for more in ["", "expect: 100-continue\r\n", "Expect: 100-Continue\r\n"] {
        let mut wire = TcpStream::connect(node.address).await.unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{more}content-length: 1048577\r\n\r\n"
        );
        wire.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 12];
        let read = tokio::time::timeout(Duration::from_secs(2), wire.read_exact(&mut answer));
        read.await.expect("an answer at once").unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413", "{more}");
    }
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn a_compressed_body_is_refused_in_words() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock, json!({})).await;
    for (coding, status) in [
        ("gzip", 415),
        ("zstd", 415),
        ("identity", 200),
        ("Identity", 200),
    ] {
        let headers = [("content-encoding", coding)];
        let answer = node.client.chat_with("r-1", &headers, chat("one/m")).await;
        assert_eq!(answer.status, status, "{coding}");
        if status != 200 {
            let message = answer.json()["error"]["message"].to_string();
            assert!(message.contains("Content-Encoding"), "{message}");
        }
    }
}
