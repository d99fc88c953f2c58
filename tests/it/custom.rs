//! Custom providers: which kinds of request they take, at which addresses, and how their streams end.

use serde_json::{Value, json};

use crate::support::{Mock, Play, TestNode, chat, provider, stream};

/// A custom provider that says this of itself.
fn custom(mock: &Mock, keys: &[&str], rules: &Value) -> Value {
    let mut made = provider(&mock.url(), keys, &json!({}));
    for (name, value) in rules.as_object().unwrap() {
        made["custom_provider_config"][name] = value.clone();
    }
    made
}

fn embed(model: &str) -> String {
    json!({"model": model, "input": "x"}).to_string()
}

#[tokio::test]
async fn only_allowed_kinds_go_to_a_provider() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let rules = json!({"allowed_requests": {"chat_completion": true}});
    let one = custom(&mock, &["k-a"], &rules);
    let none = custom(&mock, &["k-b"], &json!({"allowed_requests": {}}));
    let node = TestNode::start(&json!({"providers": {"one": one, "none": none}})).await;
    let post = async |path: &str, body: String| {
        let answer = node.client.post(path, &[], body).await;
        (answer.status, answer.json())
    };
    let chat_path = "/v1/chat/completions";
    assert_eq!(post(chat_path, chat("one/m")).await.0, 200);
    assert_eq!(mock.keys(), ["sk-k-a"]);
    for (path, body, kind) in [
        (chat_path, stream("one/m"), "chat_completion_stream"),
        ("/v1/embeddings", embed("one/m"), "embedding"),
        ("/v1/responses", embed("one/m"), "responses"),
        ("/v1/moderations", embed("one/m"), "moderation"),
    ] {
        let (status, told) = post(path, body).await;
        assert_eq!(status, 400, "{kind}");
        assert_eq!(
            told["error"]["message"],
            format!(
                "the provider \"one\" takes no {kind} requests: custom_provider_config.allowed_requests does not have it"
            )
        );
        assert_eq!(told["error"]["code"], "unsupported_operation");
    }
    let (status, told) = post("/anthropic/v1/messages", chat("none/m")).await;
    assert_eq!((status, told["type"].as_str()), (400, Some("error")));
    let message = told["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("takes no chat_completion requests"),
        "{message}"
    );
    let answer = node
        .client
        .call("DELETE", "/v1/responses/r_1?provider=one")
        .await;
    assert_eq!(answer.json()["error"]["code"], "unsupported_operation");
    assert_eq!(mock.calls().len(), 1);
}

#[tokio::test]
async fn who_does_not_take_a_kind_is_no_candidate_for_it() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let rules = json!({"allowed_requests": {"embedding": true}});
    let embeds = custom(&mock, &["k-e"], &rules);
    let all = custom(&mock, &["k-a"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"embeds": embeds, "sure": all}})).await;
    for n in 0..8 {
        assert_eq!(
            node.client.chat(&format!("r-{n}"), chat("m")).await.status,
            200
        );
    }
    assert!(
        mock.keys().iter().all(|key| key == "sk-k-a"),
        "{:?}",
        mock.keys()
    );
    // Its fallbacks serve a request whose own provider takes none of its kind.
    let body = r#"{"model":"embeds/m","fallbacks":["embeds/n","sure/m"],"messages":[]}"#;
    assert_eq!(node.client.chat("r-f", body).await.status, 200);
    let lines = node.lines("r-f").await;
    assert!(
        lines.contains(
            &"Fallback at embeds left out: it takes no chat_completion requests".to_owned()
        ),
        "{lines:?}"
    );
    let told = node
        .client
        .call("GET", "/api/adaptive-routing/explain?model=m")
        .await;
    let told = told.json();
    let row = |name: &str| {
        let rows = told["providers"].as_array().unwrap();
        rows.iter()
            .find(|row| row["provider"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(row("embeds")["why"], "it takes no chat_completion requests");
    assert_eq!(row("sure")["share"], 1.0);
}

#[tokio::test]
async fn where_nobody_takes_a_kind_the_error_says_who_would_serve() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let rules = json!({"allowed_requests": {"embedding": true}});
    let embeds = custom(&mock, &["k-e"], &rules);
    let node = TestNode::start(&json!({"providers": {"embeds": embeds}})).await;
    let told = node.client.chat("r-1", chat("m")).await.json();
    assert_eq!(told["status_code"], 400);
    assert_eq!(
        told["error"]["message"],
        "no provider that takes chat_completion requests serves the model \"m\": embeds would, but for custom_provider_config.allowed_requests"
    );
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn requests_go_to_the_places_that_are_configured() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let other = Mock::start(|_| Play::json(200, &json!({"data": []}))).await;
    let rules = json!({"request_path_overrides": {
        "chat_completion": "/talk",
        "chat_completion_stream": "/talk/live?x=1",
        "embedding": format!("{}/embed/{{model}}", other.url()),
        "responses_retrieve": "/kept",
    }});
    let one = custom(&mock, &["k-a"], &rules);
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    node.client.chat("r-1", chat("one/m")).await;
    node.client.chat("r-2", stream("one/m")).await;
    node.client
        .call("GET", "/v1/responses/r_1?provider=one&include=x")
        .await;
    let paths: Vec<String> = mock.calls().into_iter().map(|c| c.path).collect();
    assert_eq!(paths, ["/talk", "/talk/live?x=1", "/kept/r_1?include=x"]);
    let answer = node
        .client
        .post("/v1/embeddings", &[], embed("one/a/b"))
        .await;
    assert_eq!(answer.status, 200);
    let calls = other.calls();
    assert_eq!(
        (calls[0].path.as_str(), calls[0].key.as_str()),
        ("/embed/a%2Fb", "sk-k-a")
    );
}

#[tokio::test]
async fn a_stream_without_a_mark_ends_when_the_model_has_finished() {
    let usage = json!({"id": "c-1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}});
    let parked = Play::stream().role().text("hello").finish();
    let late = parked.clone().event(&usage).then_silence();
    let mock = Mock::start(move |call| {
        if call.key == "sk-k-u" {
            late.clone()
        } else {
            parked.clone().then_silence()
        }
    })
    .await;
    let mute = json!({"does_not_send_done_marker": true});
    let with_usage = json!({"does_not_send_done_marker": true, "wait_for_usage": true});
    let node = TestNode::start(&json!({"providers": {
        "mute": custom(&mock, &["k-m"], &mute),
        "usage": custom(&mock, &["k-u"], &with_usage),
    }}))
    .await;
    for (id, model) in [("r-1", "mute/m"), ("r-2", "usage/m")] {
        let answer = node.client.chat(id, stream(model)).await;
        assert!(answer.text() == "hello" && answer.is_done(), "{answer:?}");
        assert!(answer.errors().is_empty());
    }
    mock.wait_for_left(2).await;
    assert!(node.record("r-1").await["token_usage"].is_null());
    assert_eq!(node.record("r-2").await["token_usage"]["total_tokens"], 7);
}
