//! The mock over real HTTP: what it serves, refuses and counts.

use std::net::Ipv4Addr;

use http::Method;
use serde_json::json;

use super::*;
use crate::http::{Http, Reply};

const LIMIT: Duration = Duration::from_secs(10);

async fn mock() -> (Mock, Http) {
    let mock = Mock::start((Ipv4Addr::LOCALHOST, 0).into(), Duration::ZERO)
        .await
        .unwrap();
    (mock, Http::new())
}

async fn chat(mock: &Mock, http: &Http, key: &str, more: serde_json::Value) -> Reply {
    let mut body = json!({ "model": "gpt-4o", "user": "n1", "messages": [] });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let url = format!("{}/v1/chat/completions", mock.provider_url("openai"));
    let bearer = format!("Bearer {key}");
    http.send(
        Method::POST,
        &url,
        &[("authorization", &bearer)],
        Some(&body),
        LIMIT,
    )
    .await
    .unwrap()
}

async fn control(mock: &Mock, http: &Http, path: &str) -> Reply {
    http.send(
        Method::POST,
        &format!("{}/mock/keys/{path}", mock.url()),
        &[],
        None,
        LIMIT,
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_key_is_served_revoked_and_restored() {
    let (mock, http) = mock().await;
    assert_eq!(chat(&mock, &http, "sk-a", json!({})).await.status, 200);

    assert_eq!(control(&mock, &http, "sk-a/revoke").await.status, 200);
    let refused = chat(&mock, &http, "sk-a", json!({})).await;
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("invalid_api_key"));
    assert_eq!(
        chat(&mock, &http, "sk-b", json!({})).await.status,
        200,
        "another key is not concerned"
    );

    mock.restore("sk-a");
    assert_eq!(chat(&mock, &http, "sk-a", json!({})).await.status, 200);

    let calls = mock.calls("sk-a", 0);
    assert_eq!(
        calls.iter().map(|c| c.status).collect::<Vec<_>>(),
        [200, 401, 200]
    );
    assert!(
        calls
            .iter()
            .all(|c| c.provider == "openai" && c.caller == "n1")
    );
}

#[tokio::test]
async fn each_fault_has_its_status_and_code() {
    let (mock, http) = mock().await;
    for (verb, status, word) in [
        ("quota", 429, "insufficient_quota"),
        ("limit?retry_after=7", 429, "rate_limit_exceeded"),
        ("deny", 404, "model_not_found"),
        ("break", 500, "server_error"),
    ] {
        assert_eq!(
            control(&mock, &http, &format!("sk-a/{verb}")).await.status,
            200
        );
        let refused = chat(&mock, &http, "sk-a", json!({})).await;
        assert_eq!(refused.status, status, "{verb}");
        assert!(refused.text().contains(word), "{verb}: {}", refused.text());
        let stated = refused
            .headers
            .get("retry-after")
            .map(|v| v.to_str().unwrap());
        assert_eq!(stated, verb.strip_prefix("limit?retry_after="), "{verb}");
    }
    assert_eq!(control(&mock, &http, "sk-a/explode").await.status, 404);
    assert_eq!(
        control(&mock, &http, "sk-a/limit?retry_after=soon")
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn a_stream_ends_with_done_and_usage_only_if_asked() {
    let (mock, http) = mock().await;
    let plain = chat(&mock, &http, "sk-a", json!({ "stream": true })).await;
    let text = String::from_utf8_lossy(&plain.body);
    assert!(
        text.ends_with("data: [DONE]\n\n") && !text.contains("usage"),
        "{text}"
    );

    let asked = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let counted = chat(&mock, &http, "sk-a", asked).await;
    assert!(String::from_utf8_lossy(&counted.body).contains("total_tokens"));
}

#[tokio::test]
async fn calls_and_keys_can_be_listed() {
    let (mock, http) = mock().await;
    chat(&mock, &http, "sk-a", json!({})).await;
    let get = async |path: &str| {
        let url = format!("{}/mock/{path}", mock.url());
        http.send(Method::GET, &url, &[], None, LIMIT)
            .await
            .unwrap()
            .json::<serde_json::Value>()
            .unwrap()
    };
    assert_eq!(get("calls?key=sk-a").await["count"], 1);
    assert_eq!(get("calls?key=sk-b").await["count"], 0);
    assert_eq!(get("keys").await["keys"]["sk-a"]["calls"], 1);
}
