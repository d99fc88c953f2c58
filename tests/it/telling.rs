//! What a node tells of itself: metrics without anybody's words in them, records where they are wanted.

use serde_json::json;

use crate::support::{Mock, Play, TestNode, chat, provider, stream};

/// RF-107
#[tokio::test]
async fn labels_carry_no_words_of_providers_or_callers() {
    let mock = Mock::start(|_| {
        Play::error(
            401,
            "authentication_error",
            "invalid_api_key",
            "zanzibar-4711",
        )
    })
    .await;
    let one = provider(&mock.url(), &["k-a"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    for n in 0..20 {
        node.client
            .chat(&format!("r-{n}"), chat(&format!("one/model-{n}")))
            .await;
    }
    let metrics = node.client.call("GET", "/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(!text.contains("zanzibar") && !text.contains("model-1"));
    for line in [
        r#"bifrost_upstream_requests_total{provider="one",model="other",selected_key_id="k-a",selected_key_name="k-a-name",method="chat_completion",class="credential",fallback_index="0"} 20"#,
        r#"bifrost_error_requests_total{provider="one",model="other",selected_key_id="k-a",selected_key_name="k-a-name",method="chat_completion",status_code="401",error_type="provider_auth_failed"} 20"#,
        r#"bifrost_requests_total{status_code="401",error_type="provider_auth_failed",stream="false"} 20"#,
        r#"holdline_held_subjects{provider="one",scope="key"} 1"#,
        r#"holdline_holds_total{provider="one",class="credential",source="here"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(text.contains("holdline_request_logs_dropped_total 0"));
    assert!(text.ends_with("# EOF\n"));
}

/// LB-103
#[tokio::test]
async fn requests_tokens_and_their_times_are_counted_by_route() {
    let mock = Mock::start(|call| {
        if call.json()["stream"] == json!(true) {
            let usage = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14});
            let last = json!({"id": "c-1", "object": "chat.completion.chunk", "choices": [], "usage": usage});
            Play::stream().text("a").text("b").finish().event(&last).done()
        } else {
            Play::served("hello")
        }
    })
    .await;
    let one = provider(&mock.url(), &["k-a"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    for n in 0..3 {
        node.client.chat(&format!("r-{n}"), chat("one/m")).await;
    }
    assert!(node.client.chat("s-1", stream("one/m")).await.is_done());
    node.record("s-1").await;
    let metrics = node.client.call("GET", "/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    let direction = r#"provider="one",model="m""#;
    let route = format!(r#"{direction},selected_key_id="k-a",selected_key_name="k-a-name""#);
    for line in [
        format!(
            r#"bifrost_upstream_requests_total{{{route},method="chat_completion",class="success",fallback_index="0"}} 3"#
        ),
        format!(r#"bifrost_success_requests_total{{{route},method="chat_completion_stream"}} 1"#),
        format!("bifrost_input_tokens_total{{{route}}} 26"),
        format!("bifrost_output_tokens_total{{{route}}} 24"),
        format!("bifrost_upstream_latency_seconds_count{{{direction}}} 4"),
        format!("bifrost_stream_first_token_latency_seconds_count{{{direction}}} 1"),
        format!("bifrost_stream_inter_token_latency_seconds_count{{{direction}}} 1"),
        r#"bifrost_request_retries_bucket{le="0.0",provider="one"} 4"#.to_owned(),
        "bifrost_overhead_latency_microseconds_count 4".to_owned(),
        r#"bifrost_active_requests{method="chat_completion"} 0"#.to_owned(),
        r#"http_requests_total{path="/v1/chat/completions",method="POST",status="200"} 4"#.to_owned(),
        r#"http_request_size_bytes_count{path="/v1/chat/completions",method="POST",status="200"} 4"#.to_owned(),
        r#"http_response_size_bytes_count{path="/v1/chat/completions",method="POST",status="200"} 3"#.to_owned(),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn no_record_is_kept_where_logging_is_off() {
    for enabled in [true, false] {
        let mock = Mock::start(|_| Play::served("hello")).await;
        let one = provider(&mock.url(), &["k-a"], &json!({}));
        let config = json!({"client": {"enable_logging": enabled}, "providers": {"one": one}});
        let mut node = TestNode::start(&config).await;
        node.client.chat("r-1", chat("one/gpt-4o")).await;
        // Stopping writes what waits.
        node.drain().await;
        let found = node.node.store().find_log("r-1").unwrap();
        assert_eq!(found.is_some(), enabled);
    }
}

#[tokio::test]
async fn a_refused_request_leaves_a_record_without_its_body() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let mut one = provider(&mock.url(), &["k-a"], &json!({}));
    one["keys"][0]["models"] = json!(["gpt-4o"]);
    let config = json!({"client": {"max_request_body_size_mb": 1}, "providers": {"one": one}});
    let node = TestNode::start(&config).await;
    let too_large = format!(r#"{{"x":"{}"}}"#, "zanzibar".repeat(200_000));
    for (id, body, status, error_type, model) in [
        ("r-1", r#"{"zanzibar"#, 400, "caller_invalid_request", ""),
        ("r-2", &too_large, 413, "caller_invalid_request", ""),
        (
            "r-3",
            &chat("gpt-nobody"),
            404,
            "caller_model_unknown",
            "gpt-nobody",
        ),
        (
            "r-4",
            &stream("one/o3"),
            400,
            "caller_model_not_available",
            "one/o3",
        ),
    ] {
        assert_eq!(node.client.chat(id, body.to_owned()).await.status, status);
        let record = node.record(id).await;
        assert_eq!(
            (&record["status"], &record["status_code"]),
            (&json!("error"), &json!(status))
        );
        assert_eq!(record["error_details"]["error_type"], error_type);
        assert_eq!(record["model"], model);
        assert_eq!(record["is_stream"], id == "r-4");
        assert!(!record.to_string().contains("zanzibar"), "{record}");
    }
    let fresh = node.client.call("POST", "/v1/chat/completions").await;
    let id = fresh.header("x-request-id");
    assert_eq!(node.record(id).await["id"], id);
}
