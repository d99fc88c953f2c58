//! Lists of models: asked of providers in the background, shown to clients, used to find who serves what.

use std::sync::Arc;

use holdline::pipeline::listing::keep_lists;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Mock, Play, TestNode, chat, eventually, key};

/// A provider of this kind with a key for every model.
fn like(kind: &str, mock: &Mock) -> Value {
    json!({
        "keys": [key(&format!("k-{kind}"))],
        "network_config": {"base_url": mock.url()},
        "custom_provider_config": {"base_provider_type": kind},
    })
}

/// Ids in the gateway's own list, once it has this one.
async fn listed(node: &TestNode, awaited: &str) -> Vec<String> {
    for _ in 0..2_000 {
        let answer = node.client.call("GET", "/v1/models").await;
        assert_eq!(answer.status, 200);
        let list = answer.json();
        let data = list["data"].as_array().unwrap().iter();
        let ids: Vec<String> = data.map(|m| m["id"].as_str().unwrap().to_owned()).collect();
        if ids.iter().any(|id| id == awaited) {
            return ids;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{awaited} is not listed");
}

#[tokio::test]
async fn every_kind_of_provider_tells_what_it_has_and_who_is_down_hides_nobody() {
    let mock = Mock::start(|call| match call.path.as_str() {
        "/v1/models" => Play::json(200, &json!({"data": [{"id": "gpt", "name": "GPT"}]})),
        "/v1/models?limit=1000" => Play::json(200, &json!({"data": [{"id": "claude"}], "has_more": false})),
        "/v1beta/models?pageSize=1000" => Play::json(200, &json!({"models": [{"name": "models/gemini"}]})),
        "/v1/models?page_size=1000" => Play::json(200, &json!({"models": [{"name": "command"}]})),
        _ => Play::json(200, &json!({"candidates": [{"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}]})),
    })
    .await;
    let down = Mock::start(|_| Play::unavailable()).await;
    let node = TestNode::start(&json!({"providers": {
        "a": like("openai", &mock), "b": like("anthropic", &mock), "c": like("gemini", &mock),
        "d": like("cohere", &mock), "e": like("openai", &down),
    }}))
    .await;
    let end = CancellationToken::new();
    let keeping = tokio::spawn(keep_lists(Arc::clone(&node.node), end.clone()));
    for id in ["a/gpt", "b/claude", "c/gemini", "d/command"] {
        listed(&node, id).await;
    }
    let calls = mock.calls();
    let sent = |path: &str, header: &str| {
        let call = calls
            .iter()
            .find(|call| call.path.starts_with(path))
            .unwrap();
        call.headers.get(header).cloned().unwrap_or_default()
    };
    assert_eq!(sent("/v1beta/models", "x-goog-api-key"), "sk-k-gemini");
    assert_eq!(sent("/v1/models?limit", "x-api-key"), "sk-k-anthropic");
    assert_eq!(
        sent("/v1/models?page_size", "authorization"),
        "Bearer sk-k-cohere"
    );

    // A bare name goes to who lists it.
    let answer = node.client.chat("r", chat("gemini")).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "hello");
    eventually("the call", || {
        let call = mock.calls().pop()?;
        call.path
            .contains("/v1beta/models/gemini:generateContent")
            .then_some(())
    })
    .await;
    end.cancel();
    keeping.await.unwrap();
}
