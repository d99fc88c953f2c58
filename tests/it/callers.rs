//! Who may call: virtual keys, and web pages of other origins.

use serde_json::{Value, json};

use crate::support::{Mock, Play, TestNode, chat, provider};

async fn start(mock: &Mock, client: Value) -> TestNode {
    let config = json!({
        "client": client,
        "governance": {"virtual_keys": [
            {"id": "v1", "name": "team", "value": "sk-bf-zanzibar"},
            {"id": "v2", "name": "off", "value": "sk-bf-off", "is_active": false},
        ]},
        "providers": {"one": provider(&mock.url(), &["k-a"], &json!({}))},
    });
    TestNode::start(&config).await
}

#[tokio::test]
async fn a_virtual_key_is_asked_for_and_never_passed_on() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock, json!({"enforce_auth_on_inference": true})).await;
    for (id, header, value, status) in [
        ("r-1", "authorization", "Bearer sk-bf-zanzibar", 200),
        ("r-2", "x-api-key", "sk-bf-zanzibar", 200),
        ("r-3", "x-goog-api-key", "sk-bf-zanzibar", 200),
        ("r-4", "api-key", "sk-bf-zanzibar", 200),
        ("r-5", "x-bf-vk", "sk-bf-zanzibar", 200),
        ("r-6", "x-bf-vk", "sk-bf-off", 403),
        ("r-7", "authorization", "Bearer sk-bf-nobody", 401),
        ("r-8", "authorization", "Bearer sk-something", 401),
        ("r-9", "x-other", "1", 401),
    ] {
        let answer = node
            .client
            .chat_with(id, &[(header, value)], chat("one/m"))
            .await;
        assert_eq!(answer.status, status, "{header}: {value}");
        let record = node.record(id).await;
        let named = &record["virtual_key_name"];
        assert_eq!(named == "team", status == 200, "{record}");
        if status != 200 {
            let error = answer.json();
            assert_eq!(error["extra_fields"]["error_type"], "policy_access_denied");
            assert!(!error.to_string().contains("sk-bf-"), "{error}");
        }
        assert!(!record.to_string().contains("zanzibar"), "{record}");
    }
    let calls = mock.calls();
    assert_eq!(calls.len(), 5);
    for call in calls {
        assert!(!format!("{:?}", call.headers).contains("zanzibar"));
    }
    assert_eq!(node.client.call("GET", "/v1/models").await.status, 401);
    assert_eq!(node.client.call("GET", "/health").await.status, 200);
}

/// Explaining takes a virtual key by id or value, and refuses those that a request may not show.
#[tokio::test]
async fn explain_knows_callers() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = TestNode::start(&json!({
        "governance": {"virtual_keys": [
            {"id": "v1", "name": "team", "value": "sk-bf-zanzibar"},
            {"id": "v2", "name": "off", "value": "sk-bf-off", "is_active": false},
        ]},
        "providers": {"one": provider(&mock.url(), &["k-a"], &json!({}))},
    }))
    .await;
    let asked = [
        ("v1", 200),
        ("sk-bf-zanzibar", 200),
        ("v2", 400),
        ("sk-bf-nobody", 400),
    ];
    for (vk, status) in asked {
        let path = format!("/api/adaptive-routing/explain?model=m&vk={vk}");
        let answer = node.client.call("GET", &path).await;
        assert_eq!(answer.status, status, "{vk}");
        assert!(!answer.text().contains("sk-bf-"), "{}", answer.text());
    }
}

#[tokio::test]
async fn without_the_switch_only_wrong_keys_are_refused() {
    let mock = Mock::start(|_| Play::served("x")).await;
    let node = start(&mock, json!({})).await;
    assert_eq!(node.client.chat("r-1", chat("one/m")).await.status, 200);
    let wrong = [("x-bf-vk", "sk-bf-nobody")];
    let answer = node.client.chat_with("r-2", &wrong, chat("one/m")).await;
    assert_eq!(answer.status, 401);
}

/// GV-005
#[tokio::test]
async fn pages_of_named_origins_may_call() {
    // A provider does not decide who may read the answer.
    let open = [
        ("access-control-allow-origin", "*"),
        ("content-type", "application/json"),
    ];
    let mock = Mock::start(move |_| Play::whole(200, &open, b"{\"choices\":[]}")).await;
    let client =
        json!({"allowed_origins": ["https://app.example.com"], "allowed_headers": ["x-own"]});
    let node = start(&mock, client).await;
    for (origin, allowed) in [
        ("http://localhost:5173", true),
        ("https://app.example.com", true),
        ("https://evil.example.net", false),
    ] {
        let asks = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,x-own"),
        ];
        let path = "/v1/chat/completions";
        let before = node.client.send("OPTIONS", path, &asks, "").await;
        let call = node
            .client
            .chat_with("r-1", &asks[..1], chat("one/m"))
            .await;
        for headers in [before.headers(), &call.headers] {
            let told = headers.get("access-control-allow-origin");
            assert_eq!(
                told.is_some_and(|t| t == origin),
                allowed,
                "{origin} {told:?}"
            );
        }
        assert_eq!(before.status(), if allowed { 204 } else { 403 });
        if allowed {
            let headers = &before.headers()["access-control-allow-headers"];
            assert_eq!(headers, "authorization, x-own");
        }
    }
}
