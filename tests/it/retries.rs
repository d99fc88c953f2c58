//! Which key is asked next, and what the client is told in the end.

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::support::mock::Call;
use crate::support::{Mock, Play, TestNode, chat, provider};

async fn node_with(mock: &Mock, keys: &[&str], network: Value) -> TestNode {
    let one = provider(&mock.url(), keys, &network);
    TestNode::start(&json!({"providers": {"one": one}})).await
}

fn refuse(key: &'static str, how: fn() -> Play) -> impl FnMut(&Call) -> Play {
    move |call| {
        if call.key == key {
            how()
        } else {
            Play::served("hello")
        }
    }
}

/// AR-126, LB-045
#[tokio::test]
async fn a_refused_key_is_held_and_another_serves() {
    let mock = Mock::start(refuse("sk-k-a", Play::bad_key)).await;
    let node = node_with(&mock, &["k-a", "k-b"], json!({})).await;
    let pinned = [("x-bf-api-key-id", "k-a")];
    let refused = node.client.chat_with("r-1", &pinned, chat("one/m")).await;
    assert_eq!(refused.status, 401);
    assert_eq!(node.held(), ["k-a"]);
    let line = node.lines("r-1").await.join("\n");
    assert!(
        line.contains("refused key k-a") && line.contains("30s"),
        "{line}"
    );
    for n in 0..5 {
        assert_eq!(
            node.client
                .chat(&format!("s-{n}"), chat("one/m"))
                .await
                .status,
            200
        );
    }
    assert_eq!(mock.keys()[1..], vec!["sk-k-b"; 5]);
    assert!(
        node.lines("s-0")
            .await
            .join("\n")
            .contains("Skipping 1 of 2 keys")
    );
    let metrics = node.client.call("GET", "/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in [
        r#"holdline_hits_spared_total{provider="one"} 5"#,
        r#"bifrost_provider_key_up{provider="one",key_id="k-a",key_name="k-a-name"} 0"#,
        r#"bifrost_provider_key_up{provider="one",key_id="k-b",key_name="k-b-name"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_request_rotates_past_a_refused_key() {
    let mock = Mock::start(|call| {
        if call.key == "sk-k-a" {
            Play::bad_key()
        } else {
            Play::served("x")
        }
    })
    .await;
    let one = provider(&mock.url(), &["k-a", "k-b"], &json!({}));
    let mut config = json!({"providers": {"one": one}});
    config["providers"]["one"]["keys"][1]["weight"] = json!(0);
    let node = TestNode::start(&config).await;
    let answer = node.client.chat("r-1", chat("one/m")).await;
    assert_eq!(
        (answer.status, mock.keys()),
        (200, vec!["sk-k-a".to_owned(), "sk-k-b".to_owned()])
    );
    let record = node.record("r-1").await;
    let trail = record["attempt_trail"].as_array().unwrap();
    assert_eq!(trail[0]["failure_class"], "credential");
    assert_eq!(
        (&trail[0]["triggered_rotation"], &trail[1]["key_id"]),
        (&json!(true), &json!("k-b"))
    );
    assert_eq!(
        (&record["status"], &record["selected_key_id"]),
        (&json!("success"), &json!("k-b"))
    );
    assert_eq!(record["token_usage"]["total_tokens"], 12);
    assert_eq!(
        (&record["node_id"], &record["number_of_retries"]),
        (&json!("n1"), &json!(1))
    );
}

/// A held key serves again: the request after its wait checks it.
#[tokio::test]
async fn a_due_key_is_checked_once_and_released() {
    let mock = Mock::start(|_| Play::bad_key()).await;
    let one = provider(&mock.url(), &["k-a", "k-b"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let pin = [("x-bf-api-key-id", "k-a")];
    node.client.chat_with("r-1", &pin, chat("one/m")).await;
    mock.play(|_| Play::served("hello"));
    node.until_due();
    assert_eq!(node.client.chat("r-2", chat("one/m")).await.status, 200);
    assert_eq!(mock.keys()[1], "sk-k-a");
    assert!(node.held().is_empty());
    let lines = node.lines("r-2").await.join("\n");
    assert!(
        lines.contains("Checking whether key k-a") && lines.contains("Key k-a is serving"),
        "{lines}"
    );
}

#[tokio::test]
async fn transient_failures_are_retried_on_the_same_key() {
    let mut failures = 2;
    let mock = Mock::start(move |_| {
        failures -= 1;
        if failures >= 0 {
            Play::unavailable()
        } else {
            Play::served("x")
        }
    })
    .await;
    let network = json!({"max_retries": 3, "retry_backoff_initial": 100, "retry_backoff_max": 100});
    let node = node_with(&mock, &["k-a"], network).await;
    assert_eq!(node.client.chat("r-1", chat("one/m")).await.status, 200);
    assert_eq!(
        node.classes("r-1").await,
        ["transient", "transient", "served"]
    );
    assert!(node.held().is_empty());
}

/// A brown-out of twenty requests, each with three retries of its own.
#[tokio::test]
async fn a_retry_budget_bounds_what_a_provider_is_sent() {
    let mock = Mock::start(|_| Play::unavailable()).await;
    let network = json!({"max_retries": 3, "retry_backoff_initial": 1, "retry_backoff_max": 1,
        "retry_budget": {"ratio": 0.2, "min_per_second": 0}});
    let node = node_with(&mock, &["k-a"], network).await;
    for n in 0..20 {
        let answer = node.client.chat(&format!("r-{n}"), chat("one/m")).await;
        assert_eq!(answer.status, 503);
    }
    assert_eq!(mock.calls().len(), 20 + 4);
    let lines = node.lines("r-0").await.join("\n");
    assert!(lines.contains("retry budget is spent"), "{lines}");
}

#[tokio::test]
async fn a_fallback_to_a_provider_that_is_not_configured_is_skipped() {
    let down = Mock::start(|_| Play::unavailable()).await;
    let node = node_with(&down, &["k-a"], json!({})).await;
    let body = r#"{"model":"one/m","fallbacks":["groq/llama"],"messages":[]}"#;
    assert_eq!(node.client.chat("r-1", body).await.status, 503);
    assert_eq!(down.calls().len(), 1);
    let lines = node.lines("r-1").await.join("\n");
    assert!(
        lines.contains("Fallback groq/llama skipped: missing provider config"),
        "{lines}"
    );
}

#[tokio::test]
async fn fallbacks_serve_and_the_primarys_error_is_told_when_none_does() {
    let down = Mock::start(|_| Play::unavailable()).await;
    let up = Mock::start(|_| Play::served("from two")).await;
    let config = json!({"providers": {
        "one": provider(&down.url(), &["k-a"], &json!({})),
        "two": provider(&up.url(), &["k-b"], &json!({})),
    }});
    let node = TestNode::start(&config).await;
    let body = r#"{"model":"one/m","fallbacks":["two/n"],"messages":[]}"#;
    let answer = node.client.chat("r-1", body).await;
    assert_eq!(answer.json()["extra_fields"]["provider"], "two");
    assert_eq!(
        answer.json()["extra_fields"]["routing_info"]["is_fallback"],
        true
    );
    assert_eq!(up.calls()[0].json()["model"], "n");
    assert!(!String::from_utf8_lossy(&up.calls()[0].body).contains("fallbacks"));
    assert_eq!(node.record("r-1").await["fallback_index"], 1);

    up.play(|_| Play::error(500, "server_error", "x", "two is down as well"));
    let answer = node.client.chat("r-2", body).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["extra_fields"]["provider"], "one");
    assert_eq!(
        answer.json()["error"]["message"],
        "The server is overloaded."
    );
}

/// RF-114, RF-062
#[tokio::test]
async fn errors_have_one_shape() {
    let mock = Mock::start(|_| Play::rate_limited("20")).await;
    let node = node_with(&mock, &["k-a"], json!({})).await;
    let answer = node.client.chat("r-1", chat("one/m")).await;
    let body = answer.json();
    assert_eq!((answer.status, &body["status_code"]), (429, &json!(429)));
    assert_eq!(
        (&body["error"]["type"], &body["error"]["code"]),
        (&json!("requests"), &json!("rate_limit_exceeded"))
    );
    assert_eq!(body["extra_fields"]["error_type"], "provider_rate_limited");
    assert_eq!(body["extra_fields"]["retry_after_ms"], 20_000);
    assert_eq!(
        (answer.header("retry-after"), answer.header("x-request-id")),
        ("20", "r-1")
    );
}

#[tokio::test]
async fn every_key_dead_is_the_gateways_own_trouble() {
    let mock = Mock::start(|_| Play::bad_key()).await;
    let node = node_with(&mock, &["k-a", "k-b"], json!({"max_retries": 5})).await;
    let answer = node.client.chat("r-1", chat("one/m")).await;
    assert_eq!(answer.status, 502);
    assert_eq!(
        answer.json()["error"]["code"],
        "upstream_credentials_exhausted"
    );
    assert_eq!(mock.calls().len(), 2);
}

#[tokio::test]
async fn a_providers_words_come_without_the_key() {
    let secret = "sk-live-4Jq8ZtV2nXw7Lb5RcY9eHd3K";
    let mock = Mock::start(|call| {
        Play::error(
            401,
            "invalid_request_error",
            "invalid_api_key",
            &format!("Incorrect API key provided: {}.", call.key),
        )
    })
    .await;
    let mut one = provider(&mock.url(), &["k-a"], &json!({}));
    one["keys"][0]["value"] = json!(secret);
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let answer = node.client.chat("r-1", chat("one/m")).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(
        text.contains("Incorrect API key provided") && !text.contains(secret),
        "{text}"
    );
    assert!(!node.record("r-1").await.to_string().contains(secret));
    assert!(!format!("{:?}", node.node.held()).contains(secret));
}

#[tokio::test]
async fn a_pin_that_is_unknown_is_named() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = node_with(&mock, &["k-a"], json!({})).await;
    for (header, value) in [("x-bf-api-key-id", "k-zzz"), ("x-bf-api-key", "zzz")] {
        let answer = node
            .client
            .chat_with("r-1", &[(header, value)], chat("one/m"))
            .await;
        let message = answer.json()["error"]["message"].to_string();
        assert_eq!(answer.status, 400);
        assert!(
            message.contains(value) && message.contains(header),
            "{message}"
        );
    }
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_a_502_and_holds_nothing() {
    // Bound but not listened on: nobody else can take the port meanwhile.
    let port = TcpSocket::new_v4().unwrap();
    port.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    let one = provider(&url, &["k-a"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let answer = node.client.chat("r-1", chat("one/m")).await;
    assert_eq!(
        (answer.status, node.classes("r-1").await),
        (502, vec!["transient".to_owned()])
    );
    let body = answer.json();
    assert_eq!(
        body["extra_fields"]["error_type"],
        "provider_connection_failed"
    );
    assert!(
        body["error"]["message"]
            .to_string()
            .contains("cannot be reached")
    );
    assert!(node.held().is_empty());
}
