//! Vertex AI: tokens of service accounts, and models of Google and of others.

use serde_json::{Value, json};

use crate::support::{Mock, Play, TestNode, chat, eventually};

/// Of an account that never was.
const ACCOUNT: &str = include_str!("../fixtures/google-account.json");

/// A key `ID` whose account gets its tokens at `/token/ID` of the mock.
fn account_key(mock: &Mock, id: &str) -> Value {
    let mut account: Value = serde_json::from_str(ACCOUNT).unwrap();
    account["token_uri"] = json!(format!("{}/token/{id}", mock.url()));
    json!({"id": id, "name": format!("{id}-name"), "models": ["*"], "weight": 1, "vertex_key_config": {
        "project_id": "p-1", "region": "us-central1", "auth_credentials": account.to_string()}})
}

async fn node(mock: &Mock, ids: &[&str]) -> TestNode {
    let keys: Vec<Value> = ids.iter().map(|id| account_key(mock, id)).collect();
    let vertex = json!({"keys": keys, "network_config": {"base_url": mock.url()}});
    TestNode::start(&json!({"providers": {"vertex": vertex}})).await
}

fn granted(token: &str, seconds: u64) -> Play {
    let answer = json!({"access_token": token, "expires_in": seconds, "token_type": "Bearer"});
    Play::json(200, &answer)
}

fn gemini(text: &str, finish: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish}]})
}

fn is_token(path: &str) -> bool {
    path.starts_with("/token/")
}

/// Paths of the calls that were no grants.
fn asked(mock: &Mock) -> Vec<String> {
    let calls = mock.calls().into_iter().map(|call| call.path);
    calls.filter(|path| !is_token(path)).collect()
}

fn grants(mock: &Mock) -> usize {
    mock.calls()
        .iter()
        .filter(|call| is_token(&call.path))
        .count()
}

const AT: &str = "/v1/projects/p-1/locations/us-central1";

#[tokio::test]
async fn one_token_serves_many_requests() {
    let mock = Mock::start(|call| match is_token(&call.path) {
        true => granted("ya29.t", 3_600),
        false => Play::json(200, &gemini("hello", Some("STOP"))),
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    for id in ["r-1", "r-2"] {
        let answer = node
            .client
            .chat(id, chat("vertex/google/gemini-2.5-pro"))
            .await;
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "hello");
    }
    let calls = mock.calls();
    assert_eq!(grants(&mock), 1);
    let form = String::from_utf8(calls[0].body.clone()).unwrap();
    assert!(form.starts_with(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=ey"
    ));
    let path = format!("{AT}/publishers/google/models/gemini-2.5-pro:generateContent");
    assert_eq!(asked(&mock), [path.clone(), path]);
    assert_eq!(
        (calls[1].key.as_str(), calls[2].key.as_str()),
        ("ya29.t", "ya29.t")
    );
}

#[tokio::test]
async fn googles_own_requests_pass_as_they_came() {
    let mock = Mock::start(|call| match is_token(&call.path) {
        true => granted("ya29.t", 3_600),
        false => {
            let last = gemini("b", Some("STOP"));
            Play::stream().event(&gemini("a", None)).event(&last).end()
        }
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"h\u00e9"}],"x_new":1.10}]}"#;
    let path = "/genai/v1beta/models/vertex/gemini-2.5-pro:streamGenerateContent";
    let answer = node.client.post(path, &[], body).await;
    assert_eq!(
        answer.json(),
        json!([gemini("a", None), gemini("b", Some("STOP"))])
    );
    let call = mock.calls().pop().unwrap();
    assert_eq!(call.body, body.as_bytes());
    let expected =
        format!("{AT}/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert_eq!(call.path, expected);
}

#[tokio::test]
async fn anthropics_models_take_messages_without_a_model_and_with_a_version() {
    const EVENTS: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"x\":1.10}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let mock = Mock::start(|call| match is_token(&call.path) {
        true => granted("ya29.t", 3_600),
        false if call.path.contains("count-tokens") => Play::json(200, &json!({"input_tokens": 7})),
        false => Play::stream().bytes(EVENTS.as_bytes()).end(),
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    let headers = [
        ("anthropic-beta", "b-1"),
        ("anthropic-version", "2023-06-01"),
    ];
    let body = r#"{ "model":"vertex/claude-sonnet-4-5@20250929","stream":true, "max_tokens":1.0,"messages":[ ] }"#;
    let answer = node.client.post("/v1/messages", &headers, body).await;
    assert_eq!(answer.body, EVENTS);
    let call = mock.calls().pop().unwrap();
    let models = format!("{AT}/publishers/anthropic/models");
    assert_eq!(
        call.path,
        format!("{models}/claude-sonnet-4-5@20250929:streamRawPredict")
    );
    let expected = r#"{"stream":true, "max_tokens":1.0,"messages":[ ],"anthropic_version":"vertex-2023-10-16" }"#;
    assert_eq!(String::from_utf8(call.body).unwrap(), expected);
    assert_eq!(call.headers["anthropic-beta"], "b-1");
    assert!(!call.headers.contains_key("anthropic-version"));

    let body = r#"{"model":"vertex/anthropic/claude-opus-4-1","messages":[]}"#;
    let counted = node
        .client
        .post("/v1/messages/count_tokens", &headers, body)
        .await;
    assert_eq!(counted.json(), json!({"input_tokens": 7}));
    let call = mock.calls().pop().unwrap();
    assert_eq!(call.path, format!("{models}/count-tokens:rawPredict"));
    assert_eq!(call.json()["model"], "claude-opus-4-1");

    let chat_like = node.client.chat("r", chat("vertex/claude-opus-4-1")).await;
    assert_eq!(
        chat_like.status, 502,
        "a stream where an answer was asked for"
    );
    let body = mock.calls().pop().unwrap().json();
    assert_eq!(
        (&body["model"], &body["anthropic_version"]),
        (&Value::Null, &json!("vertex-2023-10-16"))
    );
}

#[tokio::test]
async fn others_models_take_chat_where_their_publishers_have_it() {
    let mock = Mock::start(|call| match is_token(&call.path) {
        true => granted("ya29.t", 3_600),
        false => Play::served("hello"),
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    for (model, path, name) in [
        (
            "mistralai/mistral-large@2407",
            "publishers/mistralai/models/mistral-large@2407:rawPredict",
            "mistral-large",
        ),
        (
            "llama-4-scout-maas",
            "endpoints/openapi/chat/completions",
            "meta/llama-4-scout-maas",
        ),
    ] {
        let answer = node
            .client
            .chat("r", chat(&format!("vertex/{model}")))
            .await;
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "hello");
        let call = mock.calls().pop().unwrap();
        assert_eq!(call.path, format!("{AT}/{path}"));
        assert_eq!(call.body, chat(name).as_bytes());
    }
}

#[tokio::test]
async fn a_token_near_its_end_is_renewed_beside_the_requests() {
    let mut count = 0;
    let mock = Mock::start(move |call| match is_token(&call.path) {
        true => {
            count += 1;
            granted(
                &format!("ya29.{count}"),
                if count == 1 { 200 } else { 3_600 },
            )
        }
        false => Play::json(200, &gemini("hello", Some("STOP"))),
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    let ask = || async {
        node.client.chat("r", chat("vertex/gemini-2.5-pro")).await;
        let calls = mock.calls().into_iter().rev();
        let served = calls.into_iter().find(|call| !is_token(&call.path));
        served.unwrap().key
    };
    assert_eq!(ask().await, "ya29.1");
    assert_eq!(ask().await, "ya29.1", "still good, while the next comes");
    eventually("the renewal", || (grants(&mock) == 2).then_some(())).await;
    let until_new = async { while ask().await != "ya29.2" {} };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(10), until_new);
    waited.await.unwrap();
    assert_eq!(grants(&mock), 2);
}

#[tokio::test]
async fn a_token_at_its_end_is_waited_for() {
    let mock = Mock::start(|call| match is_token(&call.path) {
        true => granted("ya29.t", 30),
        false => Play::json(200, &gemini("hello", Some("STOP"))),
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    for _ in 0..2 {
        let answer = node.client.chat("r", chat("vertex/gemini-2.5-pro")).await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(grants(&mock), 2);
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_not_used_again() {
    let mut count = 0;
    let mock = Mock::start(move |call| match is_token(&call.path) {
        true => {
            count += 1;
            granted(&format!("ya29.{count}"), 3_600)
        }
        false if call.key == "ya29.1" => {
            let told = json!({"code": 401, "status": "UNAUTHENTICATED", "message": "Request had invalid authentication credentials."});
            Play::json(401, &json!({ "error": told }))
        }
        false => Play::json(200, &gemini("hello", Some("STOP"))),
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    let pinned = [("x-bf-api-key-id", "k-a")];
    let body = chat("vertex/gemini-2.5-pro");
    let refused = node.client.chat_with("r-1", &pinned, body.clone()).await;
    assert_eq!((refused.status, node.held()), (401, vec!["k-a".to_owned()]));
    let served = node.client.chat_with("r-2", &pinned, body).await;
    assert_eq!((served.status, grants(&mock)), (200, 2));
    assert!(node.held().is_empty(), "it serves again");
}

#[tokio::test]
async fn an_account_that_is_refused_holds_its_key_and_another_serves() {
    let mock = Mock::start(|call| match call.path.as_str() {
        "/token/k-a" => {
            let assertion = String::from_utf8(call.body.clone()).unwrap();
            let told = json!({"error": "invalid_grant", "error_description": format!("Invalid JWT Signature. {assertion}")});
            Play::json(400, &told)
        }
        path if is_token(path) => granted("ya29.b", 3_600),
        _ => Play::json(200, &gemini("hello", Some("STOP"))),
    })
    .await;
    let node = node(&mock, &["k-a", "k-b"]).await;
    let pinned = [("x-bf-api-key-id", "k-a")];
    let body = chat("vertex/gemini-2.5-pro");
    let refused = node.client.chat_with("r-1", &pinned, body.clone()).await;
    assert_eq!(refused.status, 401);
    let text = String::from_utf8(refused.body.to_vec()).unwrap();
    assert!(
        text.contains("Invalid JWT Signature") && !text.contains("eyJ"),
        "{text}"
    );
    assert_eq!(node.classes("r-1").await, ["credential"]);
    assert_eq!(node.held(), ["k-a"]);
    for _ in 0..3 {
        let answer = node.client.chat("r-2", body.clone()).await;
        assert_eq!(answer.status, 200);
    }
    let paths: Vec<String> = mock.calls().into_iter().map(|call| call.path).collect();
    assert_eq!(paths[..2], ["/token/k-a", "/token/k-b"]);
    assert_eq!(grants(&mock), 2, "a held key asks for no token");
}

#[tokio::test]
async fn refusals_of_vertex_are_understood_whole_and_in_streams() {
    let spent = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded for aiplatform.googleapis.com"}});
    let mock = Mock::start(move |call| match (call.path.as_str(), call.key.as_str()) {
        (path, _) if is_token(path) => granted(&format!("ya29.{}", &path[7..]), 3_600),
        (path, "ya29.k-a") if path.contains(":stream") => Play::stream().event(&spent).end(),
        // As a list, which is how it comes where a stream was asked for.
        (_, "ya29.k-a") => Play::json(429, &json!([spent])),
        (path, _) if path.contains(":stream") => {
            Play::stream().event(&gemini("hello", Some("STOP"))).end()
        }
        _ => Play::json(200, &gemini("hello", Some("STOP"))),
    })
    .await;
    for body in [chat("vertex/g-1"), crate::support::stream("vertex/g-1")] {
        let node = node(&mock, &["k-a", "k-b"]).await;
        let pinned = [("x-bf-api-key-id", "k-a")];
        let refused = node.client.chat_with("r-1", &pinned, body.clone()).await;
        assert_eq!(refused.status, 429);
        assert_eq!(node.classes("r-1").await, ["rate_limit"]);
        assert_eq!(node.held(), ["k-a"]);
        let answer = node.client.chat("r-2", body).await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn an_api_key_is_shown_as_it_is() {
    let mock = Mock::start(|_| Play::json(200, &gemini("hello", Some("STOP")))).await;
    let key = json!({"name": "k", "value": "AIza-1", "models": ["*"],
        "vertex_key_config": {"project_id": "p-1", "region": "global"}});
    let vertex = json!({"keys": [key], "network_config": {"base_url": mock.url()}});
    let node = TestNode::start(&json!({"providers": {"vertex": vertex}})).await;
    let answer = node.client.chat("r", chat("vertex/gemini-2.5-pro")).await;
    assert_eq!(answer.status, 200);
    let call = &mock.calls()[0];
    assert_eq!(call.headers["x-goog-api-key"], "AIza-1");
    assert_eq!(call.key, "");
    assert!(call.path.starts_with("/v1/projects/p-1/locations/global/"));
}

/// One vector for each instance: `[0.25, -0.5]`, `[1.0, -0.5]`.
async fn predicts() -> Mock {
    let prediction = |n: f64| json!({"embeddings": {"values": [n, -0.5], "statistics": {"token_count": 3, "truncated": false}}});
    Mock::start(move |call| {
        if is_token(&call.path) {
            return granted("ya29.t", 3_600);
        }
        let instances = call.json()["instances"].as_array().unwrap().len();
        let all = [0.25, 1.0].into_iter().take(instances);
        let all: Vec<Value> = all.map(prediction).collect();
        Play::json(200, &json!({ "predictions": all }))
    })
    .await
}

#[tokio::test]
async fn openais_embeddings_are_predictions_and_come_back_as_they_were_asked_for() {
    let mock = predicts().await;
    let node = node(&mock, &["k-a"]).await;
    let embed = async |more: Value| {
        let mut body = json!({"model": "vertex/text-embedding-005"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = node.client.post("/v1/embeddings", &[], body.to_string());
        answer.await.json()
    };
    let answer = embed(json!({"input": ["a", "b"], "dimensions": 2, "user": "u"})).await;
    assert_eq!(
        answer["data"][1],
        json!({"object": "embedding", "index": 1, "embedding": [1.0, -0.5]})
    );
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 6, "total_tokens": 6})
    );
    assert_eq!(answer["model"], "text-embedding-005");
    assert_eq!(answer["extra_fields"]["dropped_params"], json!(["user"]));
    let call = mock.calls().pop().unwrap();
    assert_eq!(
        call.path,
        format!("{AT}/publishers/google/models/text-embedding-005:predict")
    );
    assert_eq!(
        call.json(),
        json!({"instances": [{"content": "a"}, {"content": "b"}], "parameters": {"outputDimensionality": 2}})
    );
    let packed = embed(json!({"input": "a", "encoding_format": "base64"})).await;
    assert_eq!(packed["data"][0]["embedding"], "AACAPgAAAL8=");
    let refused = embed(json!({"input": [[1, 2]]})).await;
    assert_eq!(refused["status_code"], 400);
    assert_eq!(refused["error"]["param"], "input[0]");
}

#[tokio::test]
async fn googles_embeddings_are_predictions_where_a_model_has_no_other() {
    let mock = predicts().await;
    let node = node(&mock, &["k-a"]).await;
    let embed = async |verb: &str, body: &Value| {
        let path = format!("/genai/v1beta/models/vertex/gemini-embedding-001:{verb}");
        let answer = node.client.post(&path, &[], body.to_string()).await;
        answer.json()
    };
    let content = json!({"content": {"parts": [{"text": "a"}]}, "taskType": "RETRIEVAL_QUERY"});
    let answer = embed("embedContent", &content).await;
    assert_eq!(answer["embedding"], json!({"values": [0.25, -0.5]}));
    let instance = json!({"content": "a", "task_type": "RETRIEVAL_QUERY"});
    let sent = mock.calls().pop().unwrap().json();
    assert_eq!(sent, json!({"instances": [instance]}));
    let several = json!({"requests": [content, content]});
    let answer = embed("batchEmbedContents", &several).await;
    assert_eq!(
        answer["embeddings"],
        json!([{"values": [0.25, -0.5]}, {"values": [1.0, -0.5]}])
    );
}

#[tokio::test]
async fn a_provider_that_answers_with_too_few_vectors_is_not_believed() {
    let mock = Mock::start(|call| match is_token(&call.path) {
        true => granted("ya29.t", 3_600),
        false => Play::json(200, &json!({"predictions": []})),
    })
    .await;
    let node = node(&mock, &["k-a"]).await;
    let body = r#"{"model":"vertex/text-embedding-005","input":"a"}"#;
    let answer = node.client.post("/v1/embeddings", &[], body).await;
    assert_eq!(answer.status, 502);
    assert!(node.held().is_empty());
}
