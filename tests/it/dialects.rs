//! Clients and providers that speak different protocols, on whole nodes.

use serde_json::{Value, json};

use crate::support::{Mock, Play, TestNode, chat, key, stream};

fn messages(model: &str) -> String {
    json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
        .to_string()
}

fn anthropic_answer() -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 3}})
}

async fn node_with(name: &str, keys: Value, mock: &Mock) -> TestNode {
    let network = json!({"base_url": mock.url()});
    TestNode::start(&json!({"providers": {name: {"keys": keys, "network_config": network}}})).await
}

#[tokio::test]
async fn a_chat_client_is_served_by_anthropic() {
    let mock = Mock::start(|_| Play::json(200, &anthropic_answer())).await;
    let node = node_with("anthropic", json!([key("k-a")]), &mock).await;
    let body =
        r#"{"model":"anthropic/claude","seed":7,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = node.client.chat("r-1", body).await;
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(told["choices"][0]["message"]["content"], "hello");
    assert_eq!(told["usage"]["prompt_tokens"], 8);
    assert_eq!(told["extra_fields"]["dropped_params"], json!(["seed"]));
    let call = &mock.calls()[0];
    assert_eq!(call.path, "/v1/messages");
    assert_eq!(call.headers["x-api-key"], "sk-k-a");
    assert!(!call.headers.contains_key("authorization"));
    assert_eq!(call.headers["anthropic-version"], "2023-06-01");
    let record = node.record("r-1").await;
    assert_eq!(record["token_usage"]["total_tokens"], 15);
    assert_eq!(record["token_usage"]["cached_tokens"], 3);
}

#[tokio::test]
async fn what_anthropic_cannot_be_asked_is_a_400_that_names_the_field_and_calls_nobody() {
    let mock = Mock::start(|_| Play::json(200, &anthropic_answer())).await;
    let node = node_with("anthropic", json!([key("k-a")]), &mock).await;
    let body = r#"{"model":"anthropic/claude","n":2,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = node.client.chat("r-1", body).await;
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &told["error"]["param"]), (400, &json!("n")));
    assert_eq!(told["extra_fields"]["failure_class"], "caller_fault");
    assert!(mock.calls().is_empty());
}

/// Of a request that is converted one member must count: which one, nobody has to guess.
#[tokio::test]
async fn what_stands_twice_or_is_nested_without_end_is_a_400_that_names_the_field() {
    let mock = Mock::start(|_| Play::json(200, &anthropic_answer())).await;
    let node = node_with("anthropic", json!([key("k-a")]), &mock).await;
    let twice = r#"{"model":"anthropic/claude","messages":[{"role":"user","content":"hi","content":"ho"}]}"#;
    let deep = "[".repeat(200) + &"]".repeat(200);
    let nested = json!({"model": "anthropic/claude", "messages": [{"role": "assistant", "tool_calls":
        [{"id": "a", "type": "function", "function": {"name": "f", "arguments": deep}}]}]});
    for (body, param) in [
        (twice.to_owned(), "messages[0].content"),
        (
            nested.to_string(),
            "messages[0].tool_calls[0].function.arguments",
        ),
    ] {
        let answer = node.client.post("/v1/chat/completions", &[], body).await;
        let told: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(
            (answer.status, &told["error"]["param"]),
            (400, &json!(param))
        );
    }
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn an_anthropic_client_is_served_by_a_chat_provider() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = node_with("groq", json!([key("k-a")]), &mock).await;
    let headers = [("anthropic-version", "2023-06-01"), ("anthropic-beta", "x")];
    let answer = node
        .client
        .post("/v1/messages?beta=true", &headers, messages("groq/llama"))
        .await;
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &told["type"]), (200, &json!("message")));
    assert_eq!(told["content"][0]["text"], "hello");
    assert!(told.get("extra_fields").is_none());
    let call = &mock.calls()[0];
    assert_eq!(call.path, "/v1/chat/completions");
    assert_eq!(call.json()["max_tokens"], 9);
    assert!(
        !call
            .headers
            .keys()
            .any(|name| name.starts_with("anthropic"))
    );
}

#[tokio::test]
async fn refusals_are_in_the_clients_dialect_wherever_they_come_from() {
    let mock = Mock::start(|_| Play::bad_key()).await;
    let node = node_with("groq", json!([key("k-a")]), &mock).await;
    for (path, body, status, kind) in [
        (
            "/anthropic/v1/messages",
            messages("groq/m"),
            401,
            "authentication_error",
        ),
        (
            "/anthropic/v1/messages",
            "{".to_owned(),
            400,
            "invalid_request_error",
        ),
        (
            "/anthropic/v1/messages",
            messages("xai/m"),
            400,
            "invalid_request_error",
        ),
        (
            "/anthropic/v1/nothing",
            "{}".to_owned(),
            404,
            "not_found_error",
        ),
    ] {
        let answer = node.client.post(path, &[], body).await;
        let told: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(
            (answer.status, &told["type"]),
            (status, &json!("error")),
            "{path}"
        );
        assert_eq!(told["error"]["type"], kind, "{told}");
        assert_eq!(answer.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn an_anthropic_stream_that_breaks_is_an_error_event_and_no_end() {
    let start =
        json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}});
    let text = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "he"}});
    let mock = Mock::start(move |_| Play::stream().event(&start).event(&text).end()).await;
    let node = node_with("anthropic", json!([key("k-a")]), &mock).await;
    let body = r#"{"model":"claude","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = node.client.post("/v1/messages", &[], body.to_owned()).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(
        text.contains("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\""),
        "{text}"
    );
    assert!(!text.contains("message_stop"));
    let answer = node.client.chat("r-2", stream("anthropic/claude")).await;
    assert_eq!(
        (
            answer.text().as_str(),
            answer.is_done(),
            answer.errors().len()
        ),
        ("he", false, 1)
    );
}

#[tokio::test]
async fn azure_is_called_at_each_keys_own_deployment() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let mut azure = key("k-a");
    azure["azure_key_config"] = json!({"endpoint": mock.url(), "api_version": "2025-01-01"});
    azure["aliases"] = json!({"gpt-4o": {"model_id": "my deployment"}});
    let node = TestNode::start(&json!({"providers": {"azure": {"keys": [azure]}}})).await;
    let body = chat("azure/gpt-4o");
    assert_eq!(node.client.chat("r-1", body.clone()).await.status, 200);
    let call = &mock.calls()[0];
    assert_eq!(
        call.path,
        "/openai/deployments/my%20deployment/chat/completions?api-version=2025-01-01"
    );
    assert_eq!(
        (call.headers["api-key"].as_str(), call.key.as_str()),
        ("sk-k-a", "")
    );
    assert_eq!(
        call.body,
        body.replace("azure/gpt-4o", "my deployment").as_bytes()
    );
}

/// Tokens are asked for once, by one request, and a refusal of one is a refusal of the key.
#[tokio::test]
async fn azure_takes_tokens_of_entra() {
    let mock = Mock::start(|call| {
        let form = String::from_utf8_lossy(&call.body).into_owned();
        if !call.path.contains("/oauth2/") {
            return Play::served("hello");
        }
        assert!(form.starts_with("grant_type=client_credentials&client_id=app&client_secret=p%26w-long-enough-to-hide"), "{form}");
        if call.path.starts_with("/gone/") {
            return Play::json(400, &json!({"error": "invalid_client", "error_description": "AADSTS7000222: expired, secret p&w-long-enough-to-hide"}));
        }
        Play::json(200, &json!({"token_type": "Bearer", "expires_in": 3599, "access_token": "token-1"}))
    })
    .await;
    let keyed = |id: &str, tenant: &str| {
        let mut key = key(id);
        key.as_object_mut().unwrap().remove("value");
        key["azure_key_config"] = json!({"endpoint": mock.url(), "authority_host": mock.url(),
            "tenant_id": tenant, "client_id": "app", "client_secret": "p&w-long-enough-to-hide"});
        key
    };
    let azure = json!({"keys": [keyed("k-a", "tenant"), keyed("k-b", "gone")]});
    let node = TestNode::start(&json!({"providers": {"azure": azure}})).await;
    let pinned = |id: &'static str| [("x-bf-api-key-id", id)];
    let first = pinned("k-a");
    let asked = |name| node.client.chat_with(name, &first, chat("azure/gpt-4o"));
    let (one, two) = tokio::join!(asked("r-1"), asked("r-2"));
    assert_eq!((one.status, two.status), (200, 200));
    let calls = mock.calls();
    let grants = calls
        .iter()
        .filter(|c| c.path == "/tenant/oauth2/v2.0/token");
    assert_eq!((grants.count(), calls.len()), (1, 3));
    assert_eq!(calls.last().unwrap().key, "token-1");
    let refused = node
        .client
        .chat_with("r-3", &pinned("k-b"), chat("azure/gpt-4o"))
        .await;
    let told = String::from_utf8(refused.body.to_vec()).unwrap();
    assert_eq!(refused.status, 401, "{told}");
    assert!(!told.contains("p&w-long-enough-to-hide"), "{told}");
    let record = node.record("r-3").await;
    assert_eq!(record["attempt_trail"][0]["failure_class"], "credential");
}

#[tokio::test]
async fn what_only_passes_keeps_its_bytes_both_ways() {
    let mock = Mock::start(|call| {
        if call.path.ends_with("/speech") {
            return Play::whole(200, &[("content-type", "audio/mpeg")], b"ID3\0error");
        }
        if call.path.ends_with("/transcriptions") {
            return Play::whole(200, &[("content-type", "text/plain")], b"words");
        }
        Play::json(
            200,
            &json!({"results": [{"index": 0, "relevance_score": 0.5}]}),
        )
    })
    .await;
    let node = node_with("openai", json!([key("k-a")]), &mock).await;
    let client = &node.client;

    let body = r#"{"model":"openai/rank","query":"q","documents":["a"],"x":1.10}"#;
    let ranked = client.post("/v1/rerank", &[], body).await;
    let told: Value = serde_json::from_slice(&ranked.body).unwrap();
    assert_eq!(told["extra_fields"]["request_type"], "rerank");
    let call = mock.calls().pop().unwrap();
    assert_eq!(call.path, "/v1/rerank");
    assert_eq!(call.body, body.replace("openai/rank", "rank").as_bytes());

    let body = r#"{"model":"openai/tts","input":"x","voice":"alloy"}"#;
    let spoken = client.post("/v1/audio/speech", &[], body).await;
    assert_eq!(&spoken.body[..], b"ID3\0error");
    assert_eq!(spoken.header("content-type"), "audio/mpeg");

    let form = |model: &str| {
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--b\r\n\
             Content-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n--b--\r\n"
        )
    };
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let heard = client
        .post(
            "/openai/v1/audio/transcriptions",
            &kind,
            form("openai/whisper"),
        )
        .await;
    assert_eq!((heard.status, &heard.body[..]), (200, &b"words"[..]));
    let call = mock.calls().pop().unwrap();
    assert_eq!(call.headers["content-type"], kind[0].1);
    assert_eq!(call.body, form("whisper").as_bytes());

    let refused = client.post("/v1/audio/transcriptions", &[], "{}").await;
    assert_eq!(refused.status, 400);
}

fn finished_stream() -> Play {
    Play::stream().text("he").finish().done()
}

/// Mistral and older versions of Azure's API refuse a stream's usage to be asked for.
#[tokio::test]
async fn usage_is_not_asked_of_who_refuses_the_question() {
    let mock = Mock::start(|_| finished_stream()).await;
    let azure = |id: &str, version: &str| {
        let mut azure = key(id);
        azure["azure_key_config"] = json!({"endpoint": mock.url(), "api_version": version});
        json!({"keys": [azure]})
    };
    let network = json!({"base_url": mock.url()});
    let like = |name: &str| {
        json!({"keys": [key("k-a")], "network_config": network,
            "custom_provider_config": {"base_provider_type": name}})
    };
    let mut old = azure("k-old", "2024-06-01");
    old["custom_provider_config"] = json!({"base_provider_type": "azure"});
    let config = json!({"providers": {
        "mistral": {"keys": [key("k-a")], "network_config": network},
        "groq": {"keys": [key("k-a")], "network_config": network},
        "mine": like("mistral"), "old": old, "azure": azure("k-new", "2024-09-01-preview"),
    }});
    let node = TestNode::start(&config).await;
    for (provider, asked) in [
        ("mistral", false),
        ("mine", false),
        ("groq", true),
        ("old", false),
        ("azure", true),
    ] {
        let model = format!("{provider}/m");
        let mut options: Value = serde_json::from_str(&stream(&model)).unwrap();
        options["stream_options"] = json!({"include_usage": true});
        let messages = json!({"model": model, "max_tokens": 9, "stream": true, "metadata": {"user_id": "u"},
            "messages": [{"role": "user", "content": "hi"}]});
        for (path, body) in [
            ("/v1/chat/completions", stream(&model)),
            ("/v1/chat/completions", options.to_string()),
            ("/v1/messages", messages.to_string()),
        ] {
            let answer = node.client.post(path, &[], body).await;
            assert_eq!(answer.status, 200, "{provider} {path}");
            let calls = mock.calls();
            let sent = calls.last().unwrap().json();
            assert_eq!(sent["stream"], true);
            assert_eq!(
                sent.get("stream_options").is_some(),
                asked,
                "{provider} {path}"
            );
            if path == "/v1/messages" {
                // Mistral refuses what it does not know.
                let is_mistral = matches!(provider, "mistral" | "mine");
                assert_eq!(sent.get("user").is_none(), is_mistral, "{provider}");
            }
        }
    }
}

/// Half a character and odd counts cost neither the answer nor a piece of it.
#[tokio::test]
async fn what_clients_cannot_read_is_mended_on_the_way() {
    let whole = r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"a\ud83e b"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":5.0,"completion_tokens":"7","total_tokens":12,"prompt_tokens_details":{"cached_tokens":null}}}"#;
    let piece = r#"{"id":"c","choices":[{"index":0,"delta":{"content":"a\ud83e b"}}]}"#;
    let end = r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5.0,"completion_tokens":7.0}}"#;
    let events = format!("data: {piece}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let mock = Mock::start(move |call| {
        if call.json()["stream"] == true {
            Play::stream().bytes(events.as_bytes()).end()
        } else {
            Play::whole(
                200,
                &[("content-type", "application/json")],
                whole.as_bytes(),
            )
        }
    })
    .await;
    let node = node_with("groq", json!([key("k-a")]), &mock).await;
    let answer = node
        .client
        .post("/v1/messages", &[], messages("groq/m"))
        .await;
    let told = answer.json();
    assert_eq!(told["content"][0]["text"], "a\u{fffd} b");
    assert_eq!(told["usage"]["input_tokens"], 5);
    assert_eq!(told["usage"]["output_tokens"], 7);
    let streamed = messages("groq/m").replacen('{', r#"{"stream":true,"#, 1);
    let answer = node.client.post("/v1/messages", &[], streamed).await;
    let body = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(body.contains("a\u{fffd} b"), "{body}");
    assert!(body.contains(r#""output_tokens":7"#), "{body}");
}

/// A counter is never converted: the refusal says so, and not that nothing else is.
#[tokio::test]
async fn a_missing_token_counter_is_called_that() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = node_with("groq", json!([key("k-a")]), &mock).await;
    let path = "/anthropic/v1/messages/count_tokens";
    let answer = node.client.post(path, &[], messages("groq/m")).await;
    let message = answer.json()["error"]["message"].to_string();
    assert_eq!(answer.status, 501);
    assert!(message.contains("token counter"), "{message}");
}
