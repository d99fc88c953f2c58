//! Where requests of a whole node go: sessions, moved requests, and what explain says of it.

use serde_json::{Value, json};

use crate::support::mock::Call;
use crate::support::{Mock, Play, TestNode, chat, provider};

async fn node_of(mock: &Mock, adaptive: &Value) -> TestNode {
    let of = |keys: &[&str]| provider(&mock.url(), keys, &json!({}));
    TestNode::start(&json!({
        "providers": {"one": of(&["k-a", "k-b", "k-c"]), "two": of(&["k-d"])},
        "adaptive_routing": adaptive,
    }))
    .await
}

fn refusing(key: &str) -> impl FnMut(&Call) -> Play + Send + 'static {
    let key = format!("sk-{key}");
    move |call| {
        if call.key == key {
            Play::bad_key()
        } else {
            Play::served("hello")
        }
    }
}

async fn talk(node: &TestNode, id: &str, session: &str, model: &str) -> u16 {
    let headers = [("x-bf-session-id", session)];
    node.client
        .chat_with(id, &headers, chat(model))
        .await
        .status
}

/// LB-102, AR-062's neighbour: one conversation, one key; another caller's is its own.
#[tokio::test]
async fn a_session_keeps_its_key_until_that_is_held() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = node_of(&mock, &json!({})).await;
    for turn in 0..12 {
        assert_eq!(talk(&node, &format!("t-{turn}"), "s", "one/m").await, 200);
    }
    let used = mock.keys();
    assert!(used.iter().all(|key| *key == used[0]), "{used:?}");
    let lines = node.lines("t-5").await.join("\n");
    assert!(lines.contains("Session stays on key"), "{lines}");

    let bound = used[0].strip_prefix("sk-").unwrap().to_owned();
    mock.play(refusing(&bound));
    let pin = [("x-bf-api-key-id", bound.as_str())];
    node.client.chat_with("refused", &pin, chat("one/m")).await;
    assert_eq!(node.held(), [bound.as_str()]);
    let before = mock.keys().len();
    for turn in 0..6 {
        assert_eq!(talk(&node, &format!("u-{turn}"), "s", "one/m").await, 200);
    }
    let used = mock.keys()[before..].to_vec();
    assert!(used.iter().all(|key| *key == used[0]), "{used:?}");
    assert_ne!(used[0], format!("sk-{bound}"));
    let lines = node.lines("u-0").await.join("\n");
    assert!(
        lines.contains(&format!("Session leaves key {bound}")),
        "{lines}"
    );
}

/// A bound key that fails is left, and the retry goes to another: a session never stops rotation.
#[tokio::test]
async fn a_failure_moves_the_session() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = node_of(&mock, &json!({})).await;
    talk(&node, "first", "s", "one/m").await;
    let bound = mock.keys()[0].clone();
    let failing = bound.clone();
    mock.play(move |call| {
        if call.key == failing {
            Play::bad_key()
        } else {
            Play::served("hello")
        }
    });
    assert_eq!(talk(&node, "second", "s", "one/m").await, 200);
    talk(&node, "third", "s", "one/m").await;
    let used = mock.keys();
    assert_eq!(used[1], bound);
    assert_ne!(used[2], bound);
    assert_eq!(used[2..].len(), 2);
    assert_eq!(used[2], used[3], "it is bound to what served");
}

#[tokio::test]
async fn sessions_of_bare_models_keep_their_provider() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = node_of(&mock, &json!({})).await;
    for session in 0..6 {
        let session = format!("s-{session}");
        let before = mock.keys().len();
        for turn in 0..4 {
            talk(&node, &format!("{session}-{turn}"), &session, "m").await;
        }
        let used = mock.keys()[before..].to_vec();
        assert!(used.iter().all(|key| *key == used[0]), "{used:?}");
    }
    let wrong = "x".repeat(300);
    assert_eq!(talk(&node, "wrong", &wrong, "m").await, 400);
}

/// AR-045, AR-048: what explain says is what happens.
#[tokio::test]
async fn a_moved_request_goes_where_explain_said() {
    let mock = Mock::start(refusing("k-d")).await;
    let node = node_of(&mock, &json!({"reroute_failed_directions": true})).await;
    let pin = [("x-bf-api-key-id", "k-d")];
    node.client.chat_with("refused", &pin, chat("two/m")).await;
    assert_eq!(node.held(), ["k-d"]);
    let path = "/api/adaptive-routing/explain?model=m&provider=two";
    let before = mock.calls().len();
    let told = node.client.call("GET", path).await.json();
    assert_eq!(mock.calls().len(), before, "asking sends nothing");
    assert_eq!(told["chain"][0]["provider"], "one");
    assert_eq!(told["chain"][1]["provider"], "two");
    let of = |name: &str| {
        let providers = told["providers"].as_array().unwrap().clone();
        providers
            .into_iter()
            .find(|p| p["provider"] == name)
            .unwrap()
    };
    assert_eq!(of("one")["share"], 1.0);
    assert_eq!(of("two")["state"], "failed");
    assert_eq!(of("two")["keys"][0]["held"], true);
    let why = of("two")["keys"][0]["why"].as_str().unwrap().to_owned();
    assert!(
        why.contains("Key rejected") && why.contains("next check in"),
        "{why}"
    );
    assert_eq!(node.client.chat("moved", chat("two/m")).await.status, 200);
    let lines = node.lines("moved").await.join("\n");
    assert!(
        lines.contains("Moving this request from two/m to one/m"),
        "{lines}"
    );
    for (path, word) in [
        ("/api/adaptive-routing/explain", "model"),
        (
            "/api/adaptive-routing/explain?model=m&provider=nobody",
            "nobody",
        ),
        ("/api/adaptive-routing/explain?model=m&vk=sk-bf-x", "vk"),
    ] {
        let refused = node.client.call("GET", path).await;
        assert_eq!(refused.status, 400, "{path}");
        assert!(
            refused.text().contains(word) || refused.body.len() > 10,
            "{path}"
        );
    }
}

/// Status tells what part of a model's requests each provider is to get, beside what it got.
#[tokio::test]
async fn status_tells_expected_and_actual_shares_of_providers() {
    let mock = Mock::start(refusing("k-d")).await;
    let node = node_of(&mock, &json!({})).await;
    let pin = [("x-bf-api-key-id", "k-d")];
    node.client.chat_with("refused", &pin, chat("two/m")).await;
    for number in 0..3 {
        let id = format!("served-{number}");
        assert_eq!(node.client.chat(&id, chat("m")).await.status, 200);
    }
    let status = node.client.call("GET", "/api/adaptive-routing/status");
    let status = status.await.json();
    let of = |name: &str, field: &str| {
        let mut directions = status["directions"].as_array().unwrap().iter();
        let found = directions.find(|d| d["provider"] == name && d["model"] == "m");
        found.unwrap()[field].as_f64().unwrap()
    };
    assert_eq!((of("one", "share"), of("two", "share")), (1.0, 0.0));
    let (one, two) = (of("one", "actual_share"), of("two", "actual_share"));
    assert!((one + two - 1.0).abs() < 1e-9 && two > 0.0, "{one} {two}");
}
