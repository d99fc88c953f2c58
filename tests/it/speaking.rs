//! Clients and providers that speak different protocols, and routes of one protocol alone.

use serde_json::{Value, json};

use crate::support::mock::completion;
use crate::support::{Answer, Mock, Play, TestNode, key, provider};

/// A provider that speaks as the built-in one of this name, with these keys.
async fn node(mock: &Mock, like: &str, keys: &[&str]) -> TestNode {
    let mut one = provider(&mock.url(), keys, &json!({}));
    one["custom_provider_config"]["base_provider_type"] = json!(like);
    TestNode::start(&json!({"providers": {"one": one}})).await
}

/// Name and data of each event.
fn named(answer: &Answer) -> Vec<(String, Value)> {
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let blocks = text.split("\n\n").filter(|block| !block.is_empty());
    let events = blocks.map(|block| {
        let (name, data) = block.split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        (name.to_owned(), serde_json::from_str(data).unwrap())
    });
    events.collect()
}

const STREAMED: &str = r#"{"model":"one/m","stream":true,"input":"hi"}"#;

#[tokio::test]
async fn responses_of_a_chat_provider_are_streamed_whole() {
    let mock = Mock::start(|_| Play::stream().role().text("a").text("b").finish().done()).await;
    let node = node(&mock, "groq", &["k-a"]).await;
    let answer = node.client.post("/v1/responses", &[], STREAMED).await;
    let events = named(&answer);
    let kinds: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(kinds[0], "response.created");
    assert_eq!(kinds.last(), Some(&"response.completed"));
    for (n, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["type"], *name);
        assert_eq!(data["sequence_number"], n);
    }
    let last = &events.last().unwrap().1;
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "ab");
    assert_eq!(last["extra_fields"]["request_type"], "responses_stream");
    assert_eq!(mock.calls()[0].path, "/v1/chat/completions");
}

/// Codex's way to patch files.
#[tokio::test]
async fn tools_that_take_a_text_are_functions_for_providers_without_them() {
    let mock = Mock::start(|call| {
        let arguments = r#"{"input":"*** Begin\n+é"}"#;
        let called = |index: Value, arguments: &str| {
            let function = json!({"name": "apply_patch", "arguments": arguments});
            let call = json!({"index": index, "id": "c1", "type": "function", "function": function});
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        };
        if call.json()["stream"] == true {
            let chunk = |delta: Value, finish: Option<&str>| json!({"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            let (first, rest) = arguments.split_at(13);
            let more = json!({"tool_calls": [{"index": 0, "function": {"arguments": rest}}]});
            let begun = Play::stream().event(&chunk(called(json!(0), first), None));
            return begun.event(&chunk(more, None)).event(&chunk(json!({}), Some("tool_calls"))).done();
        }
        let choice = json!({"index": 0, "message": called(Value::Null, arguments), "finish_reason": "tool_calls"});
        Play::json(200, &json!({"id": "x", "choices": [choice]}))
    })
    .await;
    let node = node(&mock, "groq", &["k-a"]).await;
    for stream in [false, true] {
        let grammar = json!({"type": "grammar", "syntax": "lark", "definition": "start: LINE+"});
        let tool = json!({"type": "custom", "name": "apply_patch", "description": "Patches.", "format": grammar});
        let body = json!({"model": "one/m", "stream": stream, "input": "hi", "tools": [tool]});
        let answer = node
            .client
            .post("/v1/responses", &[], body.to_string())
            .await;
        let told = match stream {
            false => answer.json(),
            true => named(&answer).pop().unwrap().1["response"].clone(),
        };
        let item = &told["output"][0];
        assert_eq!(
            (&item["type"], &item["name"], &item["call_id"]),
            (
                &json!("custom_tool_call"),
                &json!("apply_patch"),
                &json!("c1")
            )
        );
        assert_eq!(item["input"], "*** Begin\n+é");
        let sent = mock.calls().pop().unwrap().json();
        let function = &sent["tools"][0]["function"];
        assert_eq!(function["parameters"]["required"], json!(["input"]));
        assert!(
            function["description"]
                .as_str()
                .unwrap()
                .contains("start: LINE+")
        );
    }
    let dropped = node.client.post("/v1/responses", &[], json!({"model": "one/m", "input": "hi",
        "tools": [{"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "regex", "definition": "a"}}]}).to_string()).await;
    assert_eq!(
        dropped.json()["extra_fields"]["dropped_params"],
        json!(["tools[].format"])
    );
}

#[tokio::test]
async fn a_broken_stream_of_responses_ends_in_one_numbered_error() {
    let mock = Mock::start(|_| Play::stream().role().text("a").then_close()).await;
    let node = node(&mock, "groq", &["k-a"]).await;
    let answer = node.client.post("/v1/responses", &[], STREAMED).await;
    let events = named(&answer);
    let (name, last) = events.last().unwrap();
    assert_eq!(name, "error");
    assert_eq!(last["sequence_number"], events.len() - 1);
    assert!(!events.iter().any(|(name, _)| name == "response.completed"));
}

#[tokio::test]
async fn what_only_openai_keeps_is_refused_elsewhere_and_never_sent() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = node(&mock, "groq", &["k-a"]).await;
    let body = r#"{"model":"one/m","input":"hi","previous_response_id":"resp_1"}"#;
    let answer = node.client.post("/v1/responses", &[], body).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["param"], "previous_response_id");
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn responses_pass_as_they_came_where_they_are_spoken() {
    let mock =
        Mock::start(|_| Play::json(200, &json!({"id": "resp_1", "output": [], "x": 1}))).await;
    let node = node(&mock, "openai", &["k-a"]).await;
    let body = r#"{ "previous_response_id":"r", "model":"one/m","t":1.10,"input":[ ] }"#;
    let answer = node.client.post("/openai/v1/responses", &[], body).await;
    assert_eq!(answer.json(), json!({"id": "resp_1", "output": [], "x": 1}));
    let calls = mock.calls();
    assert_eq!(calls[0].path, "/v1/responses");
    assert_eq!(calls[0].body, body.replace("one/m", "m").as_bytes());
}

#[tokio::test]
async fn a_kept_response_is_asked_of_the_keys_until_one_knows_it() {
    let mock = Mock::start(|call| match call.key.as_str() {
        "sk-k-b" => Play::json(
            200,
            &json!({"id": "resp_1", "status": "failed", "error": {"code": "x"}}),
        ),
        _ => Play::error(
            404,
            "invalid_request_error",
            "not_found",
            "no such response",
        ),
    })
    .await;
    let node = node(&mock, "openai", &["k-a", "k-b"]).await;
    let path = "/v1/responses/resp_1/input_items?limit=2&provider=one";
    let answer = node.client.call("GET", path).await;
    assert_eq!(
        (answer.status, &answer.json()["status"]),
        (200, &json!("failed"))
    );
    let paths: Vec<_> = mock.calls().into_iter().map(|call| call.path).collect();
    assert_eq!(paths, ["/v1/responses/resp_1/input_items?limit=2"; 2]);
    let unknown = node.client.call("DELETE", "/v1/responses/resp_1").await;
    assert_eq!(unknown.status, 400, "openai is not configured");
    let wrong = node
        .client
        .call("DELETE", "/v1/responses/resp_1/cancel")
        .await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, "POST"));
    assert!(node.held().is_empty());
}

fn gemini(text: &str, finish: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish}]})
}

const CONTENTS: &str = r#"{"contents":[{"parts":[{"text":"hi"}],"x_new":1.10}]}"#;

#[tokio::test]
async fn googles_requests_pass_as_they_came_to_the_model_in_the_path() {
    let mock = Mock::start(|_| Play::json(200, &gemini("hello", Some("STOP")))).await;
    let node = node(&mock, "gemini", &["k-a"]).await;
    let path = "/genai/v1beta/models/one%2Fgemini-flash:generateContent";
    let answer = node.client.post(path, &[], CONTENTS).await;
    assert_eq!(answer.json(), gemini("hello", Some("STOP")));
    let call = &mock.calls()[0];
    assert_eq!(call.path, "/v1beta/models/gemini-flash:generateContent");
    assert_eq!(call.body, CONTENTS.as_bytes());
    assert_eq!(call.headers["x-goog-api-key"], "sk-k-a");
}

#[tokio::test]
async fn googles_streams_are_events_or_one_list() {
    let mock = Mock::start(|_| {
        let last = gemini("b", Some("STOP"));
        Play::stream().event(&gemini("a", None)).event(&last).end()
    })
    .await;
    let node = node(&mock, "gemini", &["k-a"]).await;
    let path = "/genai/v1beta/models/one/m:streamGenerateContent";
    let events = node
        .client
        .post(&format!("{path}?alt=sse"), &[], CONTENTS)
        .await;
    assert!(
        events
            .header("content-type")
            .starts_with("text/event-stream")
    );
    let list = node.client.post(path, &[], CONTENTS).await;
    assert_eq!(list.header("content-type"), "application/json");
    assert_eq!(
        list.json(),
        json!([gemini("a", None), gemini("b", Some("STOP"))])
    );
    assert_eq!(
        mock.calls()[1].path,
        "/v1beta/models/m:streamGenerateContent?alt=sse"
    );
}

#[tokio::test]
async fn google_clients_reach_chat_providers_and_read_their_own_errors() {
    let mock = Mock::start(
        |call| match call.json()["messages"][0]["content"].as_str() {
            Some("hi") => Play::json(200, &completion("hello")),
            _ => Play::rate_limited("20"),
        },
    )
    .await;
    let node = node(&mock, "groq", &["k-a"]).await;
    let path = "/genai/v1beta/models/one/m:generateContent";
    let answer = node.client.post(path, &[], CONTENTS).await.json();
    assert_eq!(
        answer["candidates"][0]["content"]["parts"][0]["text"],
        "hello"
    );
    assert_eq!(answer["usageMetadata"]["totalTokenCount"], 12);
    let refused = node
        .client
        .post(path, &[], CONTENTS.replace("hi", "no"))
        .await;
    let error = &refused.json()["error"];
    assert_eq!(
        (refused.status, &error["status"]),
        (429, &json!("RESOURCE_EXHAUSTED"))
    );
    assert_eq!(error["details"][0]["retryDelay"], "20s");
}

#[tokio::test]
async fn google_clients_see_the_models_of_all() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let mut listed = key("k-a");
    listed["models"] = json!(["gemini-flash"]);
    let mut one = provider(&mock.url(), &[], &json!({}));
    one["keys"] = json!([listed]);
    one["custom_provider_config"]["is_key_less"] = json!(false);
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let all = node.client.call("GET", "/genai/v1beta/models").await.json();
    assert_eq!(all["models"][0]["name"], "models/one/gemini-flash");
    let path = "/genai/v1beta/models/one/gemini-flash";
    assert_eq!(node.client.call("GET", path).await.json(), all["models"][0]);
    let none = node.client.call("GET", "/genai/v1/models/other").await;
    assert_eq!(none.json()["error"]["status"], "NOT_FOUND");
}

#[tokio::test]
async fn details_of_an_error_reach_clients_of_the_providers_own_protocol() {
    let mock = Mock::start(|_| {
        let details = json!({"error_code": "thread_not_found", "of": "sk-k-a"});
        let error =
            json!({"type": "invalid_request_error", "message": "no thread", "details": details});
        Play::json(400, &json!({"type": "error", "error": error}))
    })
    .await;
    let node = node(&mock, "anthropic", &["k-a"]).await;
    let body = r#"{"model":"one/m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let own = node.client.post("/anthropic/v1/messages", &[], body).await;
    let details = &own.json()["error"]["details"];
    assert_eq!(details["error_code"], "thread_not_found");
    assert!(!details.to_string().contains("sk-k-a"), "{details}");
    let other = node.client.post("/v1/chat/completions", &[], body).await;
    assert_eq!((own.status, other.status), (400, 400));
    assert!(other.json()["error"].get("details").is_none());
}

#[tokio::test]
async fn azures_clients_name_the_model_in_the_path_alone() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = node(&mock, "groq", &["k-a"]).await;
    let path = "/openai/openai/deployments/one%2Fm/chat/completions?api-version=2024-10-21";
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = node.client.post(path, &[("api-key", "k")], body).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "hello");
    assert!(answer.json().get("extra_fields").is_none());
    let call = &mock.calls()[0];
    assert_eq!(call.path, "/v1/chat/completions");
    assert_eq!(call.json()["model"], "m");
}
