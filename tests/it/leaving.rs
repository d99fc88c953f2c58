//! Callers that go away, in every phase.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::support::{Mock, Play, TestNode, chat, provider, stream};

async fn leave(node: &TestNode, mock: &Mock, id: &str, body: &str, after: &[u8], headers: &str) {
    let calls = mock.calls().len();
    let mut wire = TcpStream::connect(node.address).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: {id}\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    wire.write_all(head.as_bytes()).await.unwrap();
    wire.write_all(body.as_bytes()).await.unwrap();
    mock.wait_for_calls(calls + 1).await;
    let mut seen = Vec::new();
    while !after.is_empty() && !seen.windows(after.len()).any(|w| w == after) {
        let mut part = [0; 4096];
        let read = wire.read(&mut part).await.unwrap();
        seen.extend_from_slice(&part[..read]);
    }
}

/// RF-050, AR-076
#[tokio::test]
async fn the_upstream_call_ends_and_the_record_says_so() {
    let mock = Mock::start(|_| Play::silence()).await;
    let config = json!({"providers": {
        "one": provider(&mock.url(), &["k-a", "k-b"], &json!({"max_retries": 2})),
        "two": provider(&mock.url(), &["k-c"], &json!({})),
    }});
    let node = TestNode::start(&config).await;
    let whole = r#"{"model":"one/m","fallbacks":["two/m"],"messages":[]}"#;
    let streamed = stream("one/m");
    let slow = r#"{"choices":["#.as_bytes();
    let headers = [("content-type", "application/json")];
    let half = Play::whole(200, &headers, slow).then_silence();
    let phases: [(&str, Play, &[u8]); 5] = [
        (whole, Play::silence(), b""),
        (whole, half, b""),
        (&streamed, Play::silence(), b""),
        (&streamed, Play::stream().role().then_silence(), b""),
        (
            &streamed,
            Play::stream().text("word").then_silence(),
            b"word",
        ),
    ];
    for (n, (body, play, after)) in phases.into_iter().enumerate() {
        // A whole answer that announces more than it sends.
        let play = announce_more(play);
        mock.play(move |_| play.clone());
        let id = format!("gone-{n}");
        leave(&node, &mock, &id, body, after, "").await;
        mock.wait_for_left(n + 1).await;
        let record = node.record(&id).await;
        let trail = record["attempt_trail"].as_array().unwrap();
        assert_eq!(trail.len(), 1, "phase {n}");
        assert_eq!(trail[0]["failure_class"], "cancelled", "phase {n}");
        assert_eq!(
            (&trail[0]["status_code"], &record["status_code"]),
            (&json!(499), &json!(499))
        );
        assert!(
            trail[0]["fail_reason"]
                .as_str()
                .unwrap_or_default()
                .is_empty()
        );
        assert_eq!(mock.calls().len(), n + 1, "nothing is retried for nobody");
    }
    assert!(node.held().is_empty());
}

fn announce_more(play: Play) -> Play {
    play.replacing(b"content-length: 12", b"content-length: 99")
}

/// A check whose caller leaves is no answer: its slot stays taken, and the next request goes elsewhere.
#[tokio::test]
async fn a_check_that_is_left_keeps_its_slot() {
    let mock = Mock::start(|_| Play::bad_key()).await;
    let one = provider(&mock.url(), &["k-a", "k-b"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let pin = [("x-bf-api-key-id", "k-a")];
    node.client.chat_with("r-1", &pin, chat("one/m")).await;
    mock.play(|call| {
        if call.key == "sk-k-a" {
            Play::silence()
        } else {
            Play::served("b")
        }
    });
    node.until_due();
    leave(&node, &mock, "check-1", &chat("one/m"), b"", "").await;
    assert_eq!(mock.keys()[1], "sk-k-a");
    assert_eq!(node.classes("check-1").await, ["cancelled"]);
    assert_eq!(node.client.chat("r-2", chat("one/m")).await.status, 200);
    assert_eq!(mock.keys()[2], "sk-k-b");
    assert_eq!(node.held(), ["k-a"]);
}

#[tokio::test]
async fn requests_in_flight_are_finished_when_the_node_stops() {
    let stopping = CancellationToken::new();
    let play = Play::stream().text("a").awaiting(&stopping).text("b");
    let play = play.finish().done();
    let mock = Mock::start(move |_| play.clone()).await;
    let one = provider(&mock.url(), &["k-a"], &json!({}));
    let mut node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let client = crate::support::client::Client::new(node.address);
    let flying = tokio::spawn(async move { client.chat("r-1", stream("one/m")).await });
    mock.wait_for_calls(1).await;
    let (cut_off, ()) = tokio::join!(node.drain(), async { stopping.cancel() });
    assert_eq!(cut_off, 0);
    let answer = flying.await.unwrap();
    assert!(answer.text() == "ab" && answer.is_done());
    assert!(TcpStream::connect(node.address).await.is_err());
}
