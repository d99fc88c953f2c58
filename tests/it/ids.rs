//! Ids of requests: the client's reaches every provider that is asked, and comes back.

use serde_json::{Value, json};

use crate::support::{Mock, Play, TestNode, chat, provider};

const ID: &str = "x-request-id";

/// The ids with which the provider was called.
fn sent(mock: &Mock) -> Vec<String> {
    let id = |headers: &std::collections::HashMap<String, String>| headers.get(ID).cloned();
    let calls = mock.calls();
    let ids = calls
        .iter()
        .map(|call| id(&call.headers).unwrap_or_default());
    ids.collect()
}

fn openai(mock: &Mock, keys: &[&str], network: &Value) -> Value {
    json!({"openai": provider(&mock.url(), keys, network)})
}

#[tokio::test]
async fn every_attempt_of_a_request_has_its_id() {
    let mock = Mock::start(|call| match call.key.as_str() {
        "sk-k-a" => Play::bad_key(),
        "sk-k-b" => Play::unavailable(),
        _ => Play::served("hello"),
    })
    .await;
    let network = json!({"max_retries": 1, "retry_backoff_initial": 100});
    let one = provider(&mock.url(), &["k-a", "k-b"], &network);
    let two = provider(&mock.url(), &["k-c"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"one": one, "two": two}})).await;
    let body = chat("one/m").replace("\"messages\"", "\"fallbacks\":[\"two/m\"],\"messages\"");
    for id in ["r-1", "r-2"] {
        let before = mock.calls().len();
        let answer = node.client.chat(id, body.clone()).await;
        assert_eq!((answer.status, answer.header(ID)), (200, id));
        let ids = sent(&mock).split_off(before);
        assert!(ids.len() >= 3, "{ids:?}");
        assert!(ids.iter().all(|sent| sent == id), "{ids:?}");
    }
}

#[tokio::test]
async fn an_id_of_the_gateways_own_is_sent_as_it_is_answered() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = TestNode::start(&json!({"providers": openai(&mock, &["k-a"], &json!({}))})).await;
    let long = "x".repeat(129);
    let unfit = [None, Some("two words"), Some(long.as_str())];
    for (at, given) in unfit.into_iter().enumerate() {
        let headers: Vec<(&str, &str)> = given.map(|id| (ID, id)).into_iter().collect();
        let answer = node
            .client
            .post("/v1/chat/completions", &headers, chat("openai/m"))
            .await;
        let answered = answer.header(ID);
        assert!(uuid::Uuid::parse_str(answered).is_ok(), "{answered}");
        assert_eq!(sent(&mock)[at], answered);
    }
}

#[tokio::test]
async fn a_configured_header_and_the_callers_come_first() {
    let mock = Mock::start(|_| Play::json(200, &json!({"id": "file-1"}))).await;
    let network = json!({"extra_headers": {"X-Request-Id": "the-teams"}});
    let node = TestNode::start(&json!({"providers": openai(&mock, &["k-a"], &network)})).await;
    let own = ("x-bf-eh-x-request-id", "the-callers");
    for (headers, expected) in [
        (vec![(ID, "r-1")], "the-teams"),
        (vec![(ID, "r-2"), own], "the-callers"),
    ] {
        for path in ["/v1/embeddings", "/v1/files"] {
            let body = r#"{"model":"openai/m","input":"a"}"#;
            let answer = node.client.post(path, &headers, body).await;
            assert_eq!(answer.header(ID), headers[0].1);
            assert_eq!(sent(&mock).last().unwrap(), expected, "{path}");
        }
    }
}

#[tokio::test]
async fn what_is_kept_is_asked_for_with_the_requests_id() {
    let mock = Mock::start(|call| match call.key.as_str() {
        "sk-k-a" => Play::error(404, "invalid_request_error", "not_found", "No such file"),
        _ => Play::json(200, &json!({"id": "file-1"})),
    })
    .await;
    let providers = openai(&mock, &["k-a", "k-b"], &json!({}));
    let node = TestNode::start(&json!({"providers": providers})).await;
    let asked = node
        .client
        .send("GET", "/v1/files/file-1", &[(ID, "r-1")], "")
        .await;
    assert_eq!(asked.headers()[ID], "r-1");
    assert_eq!(sent(&mock), ["r-1", "r-1"]);
}

#[tokio::test]
async fn a_signature_does_not_cover_the_id() {
    let told = json!({"output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}},
        "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}});
    let mock = Mock::start(move |_| Play::json(200, &told)).await;
    let secrets = json!({"access_key": "AKIAEXAMPLE", "secret_key": "s3cret"});
    let key = json!({"id": "k-a", "name": "a", "models": ["*"], "bedrock_key_config": secrets});
    let bedrock = json!({"keys": [key], "network_config": {"base_url": mock.url()}});
    let node = TestNode::start(&json!({"providers": {"bedrock": bedrock}})).await;
    let answer = node.client.chat("r-1", chat("bedrock/amazon.nova-1")).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    assert_eq!(sent(&mock), ["r-1"]);
    let signature = &mock.calls()[0].headers["authorization"];
    assert!(signature.starts_with("AWS4-HMAC-SHA256"), "{signature}");
    assert!(!signature.contains(ID), "{signature}");
}
