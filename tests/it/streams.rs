//! Streams: recovered before the first real output, honest after it, passed on at once.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::support::mock::chunk;
use crate::support::{Answer, Mock, Play, TestNode, events, provider, stream};

async fn two_keys(mock: &Mock, network: Value) -> TestNode {
    let mut one = provider(&mock.url(), &["k-a", "k-b"], &network);
    one["keys"][1]["weight"] = json!(0);
    TestNode::start(&json!({"providers": {"one": one}})).await
}

async fn played(play: Play) -> (Answer, Mock, TestNode) {
    let mock = Mock::start(move |_| play.clone()).await;
    let node = two_keys(&mock, json!({"stream_idle_timeout_in_seconds": 5})).await;
    let answer = node.client.chat("r-1", stream("one/m")).await;
    (answer, mock, node)
}

fn limit_event() -> Value {
    json!({"error": {"message": "You exceeded the token rate limit", "type": "tokens", "code": "rate_limit_exceeded"}})
}

#[tokio::test]
async fn a_stream_is_passed_on_and_recorded() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}});
    let play = Play::stream()
        .role()
        .text("a")
        .text("b")
        .finish()
        .event(&usage)
        .done();
    let (answer, mock, node) = played(play).await;
    assert_eq!((answer.status, answer.text()), (200, "ab".to_owned()));
    assert!(answer.is_done() && answer.errors().is_empty());
    assert!(
        answer
            .header("content-type")
            .starts_with("text/event-stream")
    );
    assert_eq!(
        mock.calls()[0].json()["stream_options"],
        json!({"include_usage": true})
    );
    let events = events(&answer.body);
    assert_eq!(
        events.len(),
        5,
        "the chunk of usage alone was not asked for"
    );
    let last: Value = serde_json::from_str(&events[3]).unwrap();
    assert_eq!(last["extra_fields"]["provider"], "one");
    let record = node.record("r-1").await;
    assert_eq!(
        (&record["status"], &record["is_stream"]),
        (&json!("success"), &json!(true))
    );
    assert_eq!(record["token_usage"]["total_tokens"], 12);
}

#[tokio::test]
async fn usage_is_shown_to_who_asked() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    let mock = Mock::start(move |_| Play::stream().text("a").finish().event(&usage).done()).await;
    let node = two_keys(&mock, json!({})).await;
    let body =
        r#"{"model":"one/m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    let answer = node.client.chat("r-1", body).await;
    let shown = events(&answer.body)
        .iter()
        .any(|e| e.contains(r#""total_tokens":2"#));
    assert!(shown && answer.is_done());
}

/// RF-051, RF-057
#[tokio::test]
async fn an_error_before_output_goes_to_the_next_key() {
    let mock = Mock::start(|call| {
        if call.key == "sk-k-a" {
            Play::stream().role().event(&limit_event()).end()
        } else {
            Play::stream().text("served by b").finish().done()
        }
    })
    .await;
    let node = two_keys(
        &mock,
        json!({"max_retries": 1, "retry_backoff_initial": 100}),
    )
    .await;
    let answer = node.client.chat("r-1", stream("one/m")).await;
    assert_eq!(
        (answer.text(), mock.keys()),
        (
            "served by b".to_owned(),
            vec!["sk-k-a".to_owned(), "sk-k-b".to_owned()]
        )
    );
    assert!(
        answer.errors().is_empty() && !String::from_utf8_lossy(&answer.body).contains("assistant")
    );
    assert_eq!(node.held(), ["k-a"]);
}

/// Whatever stands in an event that is named an error.
#[tokio::test]
async fn an_event_named_error_ends_a_stream_as_one() {
    let broke = |play: Play| play.bytes(b"event: error\ndata: something broke\n\n").end();
    let (answer, _mock, node) = played(broke(Play::stream().text("a"))).await;
    assert_eq!((answer.text(), answer.errors().len()), ("a".to_owned(), 1));
    assert!(!answer.is_done());
    assert_eq!(node.classes("r-1").await, ["transient"]);
    let (answer, _mock, _node) = played(broke(Play::stream().role())).await;
    assert_eq!(answer.status, 500);
}

/// Its last event lacks the blank line, and so does every other.
#[tokio::test]
async fn a_stream_without_blank_lines_is_read_to_its_end() {
    let line = |text: &str, end: Option<&str>| {
        let delta = if text.is_empty() {
            json!({})
        } else {
            json!({"content": text})
        };
        format!("data: {}\n", chunk(&delta, end))
    };
    let cut = [line("a", None), line("b", None)].concat();
    let (answer, _mock, node) = played(Play::stream().bytes(cut.as_bytes()).end()).await;
    assert_eq!((answer.text(), answer.errors().len()), ("ab".to_owned(), 1));
    assert_eq!(node.classes("r-1").await, ["transient"]);
    let whole = [cut, line("", Some("stop")), "data: [DONE]\n".to_owned()].concat();
    let (answer, _mock, _node) = played(Play::stream().bytes(whole.as_bytes()).end()).await;
    assert!(answer.text() == "ab" && answer.is_done() && answer.errors().is_empty());
}

/// RF-055
#[tokio::test]
async fn an_error_before_output_that_no_key_mends_is_a_plain_refusal() {
    let fault = json!({"error": {"message": "Invalid value for 'temperature'.", "type": "invalid_request_error", "code": "invalid_value"}});
    let (answer, mock, _node) = played(Play::stream().role().event(&fault).end()).await;
    assert_eq!((answer.status, mock.calls().len()), (400, 1));
    assert!(
        answer.json()["error"]["message"]
            .to_string()
            .contains("temperature")
    );
}

/// RF-056
#[tokio::test]
async fn startup_chunks_are_replayed_in_order() {
    let id = |n: usize, delta: &Value| {
        let mut chunk = chunk(delta, None);
        chunk["id"] = json!(format!("n{n}"));
        chunk
    };
    let mut play = Play::stream();
    for n in 0..5 {
        play = play.event(&id(n, &json!({})));
    }
    let play = play.event(&id(5, &json!({"content": "x"}))).finish().done();
    let (answer, ..) = played(play).await;
    let events = events(&answer.body);
    let ids = events[..6]
        .iter()
        .map(|e| serde_json::from_str::<Value>(e).unwrap()["id"].clone());
    assert_eq!(
        ids.collect::<Vec<_>>(),
        ["n0", "n1", "n2", "n3", "n4", "n5"]
    );
}

/// RF-060
#[tokio::test]
async fn the_startup_buffer_is_bounded() {
    let mut play = Play::stream();
    for _ in 0..70 {
        play = play.role();
    }
    let (answer, mock, _node) = played(play.event(&limit_event()).end()).await;
    assert_eq!(
        (answer.status, answer.errors().len(), mock.calls().len()),
        (200, 1, 1)
    );
}

/// RF-058
#[tokio::test]
async fn what_breaks_after_output_is_told_once_and_never_looks_whole() {
    let start = || Play::stream().text("one ").text("two");
    let breaks = [
        start().event(&limit_event()).end(),
        start().then_close(),
        start().end(),
        start().bytes(b"data: {\"choices\":[{\"del").then_close(),
        start().bytes(b"data: {\"choices\":[{\"del").end(),
    ];
    for play in breaks {
        let (answer, mock, node) = played(play.clone()).await;
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "one two"),
            "{play:?}"
        );
        assert_eq!(
            (answer.errors().len(), answer.broken),
            (1, false),
            "{play:?}"
        );
        assert!(!answer.is_done() && mock.calls().len() == 1, "{play:?}");
        assert_eq!(node.record("r-1").await["status"], "error");
        assert!(
            node.held().is_empty(),
            "a verdict falls at the first output"
        );
    }
}

#[tokio::test]
async fn a_whole_stream_without_done_gets_it() {
    let (answer, ..) = played(Play::stream().text("whole").finish().end()).await;
    assert!(answer.text() == "whole" && answer.is_done() && answer.errors().is_empty());
}

/// RF-056
#[tokio::test]
async fn odd_wires_read_the_same() {
    let text = |t: &str| format!("data: {}\n\n", chunk(&json!({"content": t}), None));
    let end = format!(
        "data: {}\n\ndata: [DONE]\n\n",
        chunk(&json!({}), Some("stop"))
    );
    let whole = format!("{}{}{end}", text("one é"), text("🦀"));
    let wires = [
        whole.clone(),
        whole.replace('\n', "\r\n"),
        format!(
            ": PROCESSING\n\n{}data: : keepalive\n\ndata:\n\n{}{end}",
            text("one é"),
            text("🦀")
        ),
        format!("\u{feff}{whole}"),
        whole.trim_end().to_owned() + "\n",
    ];
    for wire in wires {
        for size in [1, 7, wire.len()] {
            let mut play = Play::stream();
            for part in wire.as_bytes().chunks(size) {
                play = play.bytes(part);
            }
            let (answer, ..) = played(play.end()).await;
            assert_eq!(answer.text(), "one é🦀", "{wire:?} in {size}s");
            assert!(
                answer.is_done() && answer.errors().is_empty(),
                "{wire:?} in {size}s"
            );
        }
    }
}

#[tokio::test]
async fn events_are_passed_on_when_they_come() {
    let seen = CancellationToken::new();
    let play = Play::stream().text("a").awaiting(&seen).text("b");
    let play = play.finish().done();
    let mock = Mock::start(move |_| play.clone()).await;
    let node = two_keys(&mock, json!({})).await;
    let path = "/v1/chat/completions";
    let response = node.client.send("POST", path, &[], stream("one/m"));
    let first = async {
        let mut body = response.await.into_body();
        let frame = body.frame().await.unwrap().unwrap();
        (body, frame.into_data().unwrap())
    };
    let first = timeout(Duration::from_secs(10), first).await;
    let (body, first) = first.expect("the first event waits for the second");
    assert_eq!(events(&first).len(), 1);
    seen.cancel();
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(events(&rest).last().map(String::as_str), Some("[DONE]"));
}

#[tokio::test]
async fn a_burst_is_one_frame() {
    let event = format!("data: {}\n\n", chunk(&json!({"content": "x"}), None));
    let mut burst = Play::stream().text("first").pause(50);
    burst = burst.burst(event.as_bytes(), 200);
    let mock = Mock::start(move |_| burst.clone().finish().done()).await;
    let node = two_keys(&mock, json!({})).await;
    let response = node
        .client
        .send("POST", "/v1/chat/completions", &[], stream("one/m"))
        .await;
    let mut body = response.into_body();
    let (mut frames, mut bytes) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        frames += 1;
        bytes.extend(frame.unwrap().into_data().unwrap());
    }
    assert!(events(&bytes).len() >= 203);
    assert!(frames <= 20, "{frames} frames for one burst");
}
