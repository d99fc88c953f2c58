//! What goes up and what comes back, byte for byte.

use std::io::Write;

use serde_json::json;

use crate::support::{Mock, Play, TestNode, chat, key, provider, stream};

async fn one(mock: &Mock) -> TestNode {
    let one = provider(&mock.url(), &["k-a"], &json!({}));
    TestNode::start(&json!({"providers": {"one": one}})).await
}

/// GV-002
#[tokio::test]
async fn bodies_go_up_as_they_came() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = one(&mock).await;
    let body = r#"{ "zebra":{"b":1,"a":[ ]},"model" : "one/m","t":1.10,"fallbacks":[],"messages":[{"role":"user",
        "content":"h\u00e9 \/ é","x":null}],"seed":12345678901234567890123,"neg":-0,"top_p":0.1,"top_p":0.2}"#;
    assert_eq!(node.client.chat("r-1", body).await.status, 200);
    let expected = body.replace("one/m", "m").replace(r#","fallbacks":[]"#, "");
    let calls = mock.calls();
    assert_eq!(calls[0].body, expected.as_bytes());
    assert_eq!(
        (calls[0].path.as_str(), calls[0].key.as_str()),
        ("/v1/chat/completions", "sk-k-a")
    );
}

#[tokio::test]
async fn aliases_are_used_at_the_provider_only() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let mut one = provider(&mock.url(), &[], &json!({}));
    let mut aliased = key("k-a");
    aliased["aliases"] = json!({"fast": "deployment-7"});
    one["keys"] = json!([aliased]);
    one["custom_provider_config"]["is_key_less"] = json!(false);
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    let answer = node.client.chat("r-1", chat("one/fast")).await;
    assert_eq!(mock.calls()[0].json()["model"], "deployment-7");
    let extra = &answer.json()["extra_fields"];
    assert_eq!(extra["original_model_requested"], "one/fast");
    assert_eq!(extra["resolved_model_used"], "deployment-7");
    assert_eq!(
        extra["routing_info"],
        json!({"provider": "one", "model": "fast", "key": "k-a-name"})
    );
}

#[tokio::test]
async fn answers_keep_every_byte_and_gain_extra_fields() {
    let text =
        "{\"choices\":[],\"big\":12345678901234567890123,\"price\":1.10,\"x\":\"\\u00e9\"\n}";
    let headers = [
        ("content-type", "application/json"),
        ("x-ratelimit-remaining-requests", "41"),
        ("set-cookie", "a=b"),
        ("x-api-key", "sk-k-a"),
        ("x-echo", "Bearer sk-k-a"),
        ("x-request-id", "theirs"),
        ("request-id", "req_7"),
        ("anthropic-ratelimit-tokens-remaining", "9"),
        ("retry-after-ms", "250"),
        ("openai-processing-ms", "12"),
        ("server", "secret-build/7"),
        ("x-made-up", "1"),
        ("location", "https://elsewhere.example"),
        ("access-control-allow-origin", "*"),
    ];
    let mock = Mock::start(move |_| Play::whole(200, &headers, text.as_bytes())).await;
    let node = one(&mock).await;
    let answer = node.client.chat("mine", chat("one/m")).await;
    let body = String::from_utf8(answer.body.to_vec()).unwrap();
    let start = text.strip_suffix('}').unwrap();
    assert!(
        body.starts_with(&format!("{start},\"extra_fields\":{{")),
        "{body}"
    );
    assert_eq!(answer.header("x-request-id"), "mine");
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), "41");
    for (name, value) in [
        ("x-upstream-request-id", "theirs"),
        ("request-id", "req_7"),
        ("anthropic-ratelimit-tokens-remaining", "9"),
        ("retry-after-ms", "250"),
        ("openai-processing-ms", "12"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    for dropped in [
        "set-cookie",
        "x-api-key",
        "x-echo",
        "server",
        "x-made-up",
        "location",
        "access-control-allow-origin",
    ] {
        assert!(!answer.headers.contains_key(dropped), "{dropped}");
    }
}

#[tokio::test]
async fn callers_credentials_and_hop_by_hop_headers_end_here() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let node = one(&mock).await;
    let given = [
        ("authorization", "Bearer client-secret"),
        ("x-api-key", "client-secret"),
        ("cookie", "client-secret"),
        ("accept-encoding", "gzip"),
        ("te", "trailers"),
        ("x-bf-eh-x-team", "blue"),
        ("x-bf-eh-cookie", "client-secret"),
    ];
    node.client.chat_with("r-1", &given, chat("one/m")).await;
    let calls = mock.calls();
    let seen = &calls[0].headers;
    assert!(!format!("{seen:?}").contains("client-secret"));
    assert_eq!(seen.get("x-team").map(String::as_str), Some("blue"));
    for gone in ["accept-encoding", "te", "x-bf-eh-x-team"] {
        assert!(!seen.contains_key(gone), "{gone}");
    }
}

#[tokio::test]
async fn answers_packed_unasked_are_unpacked() {
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let whole = packed(br#"{"choices":[],"x":"zipped"}"#);
    let mock = Mock::start(move |_| {
        let headers = [
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
        ];
        Play::whole(200, &headers, &whole)
    })
    .await;
    let node = one(&mock).await;
    let answer = node.client.chat("r-1", chat("one/m")).await;
    assert_eq!(answer.json()["x"], "zipped");
    assert!(!answer.headers.contains_key("content-encoding"));
    let events = packed(b"data: {\"choices\":[{\"delta\":{\"content\":\"zip\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    mock.play(move |_| {
        let headers = [
            ("content-type", "text/event-stream"),
            ("content-encoding", "gzip"),
        ];
        Play::whole(200, &headers, &events)
    });
    let answer = node.client.chat("r-2", stream("one/m")).await;
    assert!(answer.text() == "zip" && answer.is_done());
}

#[tokio::test]
async fn direct_keys_are_used_but_never_held() {
    let mock = Mock::start(|_| Play::bad_key()).await;
    let one = provider(&mock.url(), &["k-a"], &json!({}));
    let config = json!({"client": {"allow_direct_keys": true}, "providers": {"one": one}});
    let node = TestNode::start(&config).await;
    let own = [
        ("x-bf-direct-key", "true"),
        ("authorization", "Bearer sk-callers-own"),
    ];
    let answer = node.client.chat_with("r-1", &own, chat("one/m")).await;
    assert_eq!(
        (answer.status, mock.keys()),
        (401, vec!["sk-callers-own".to_owned()])
    );
    assert!(node.held().is_empty());
}

#[tokio::test]
async fn one_model_is_looked_up_by_its_id() {
    let mock = Mock::start(|_| Play::silence()).await;
    let mut one = provider(&mock.url(), &["k-a"], &json!({}));
    one["keys"][0]["models"] = json!(["a/m"]);
    let node = TestNode::start(&json!({"providers": {"one": one}})).await;
    for path in ["/v1/models/one/a/m", "/openai/v1/models/one%2Fa%2Fm"] {
        let answer = node.client.call("GET", path).await;
        assert_eq!(
            (answer.status, &answer.json()["id"]),
            (200, &json!("one/a/m"))
        );
    }
    let none = node.client.call("GET", "/v1/models/one/other").await;
    assert_eq!(
        (none.status, &none.json()["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    let none = node.client.call("GET", "/anthropic/v1/models/x").await;
    assert_eq!(none.json()["error"]["type"], "not_found_error");
    assert_eq!(
        node.client
            .call("DELETE", "/v1/models/one/a/m")
            .await
            .status,
        405
    );
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn models_are_listed_without_asking_providers() {
    let mock = Mock::start(|_| Play::silence()).await;
    let mut one = provider(&mock.url(), &["k-a"], &json!({}));
    one["keys"][0]["models"] = json!(["m", "n"]);
    one["keys"][0]["aliases"] = json!({"fast": "x"});
    let two = provider(&mock.url(), &["k-b"], &json!({}));
    let node = TestNode::start(&json!({"providers": {"one": one, "two": two}})).await;
    let list = node.client.call("GET", "/v1/models").await.json();
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["id"].clone())
        .collect();
    assert_eq!(ids, ["one/fast", "one/m", "one/n"]);
    assert!(mock.calls().is_empty());
    assert_eq!(
        node.client
            .call("GET", "/v1/models?provider=nope")
            .await
            .status,
        400
    );
}

/// Whatever the status says: half an answer is none, and a mark before JSON is no part of it.
#[tokio::test]
async fn an_answer_that_breaks_off_is_none() {
    let whole = "{\"choices\":[{\"message\":{\"content\":\"hi\"}}]}";
    for (body, status) in [
        (format!("\u{feff}{whole}"), 200),
        (format!("\r\n{whole}\n"), 200),
        (whole[..whole.len() - 6].to_owned(), 502),
        (format!("{whole}x"), 502),
        (String::new(), 502),
    ] {
        let headers = [("content-type", "application/json")];
        let play = Play::whole(200, &headers, body.as_bytes());
        let mock = Mock::start(move |_| play.clone()).await;
        let node = one(&mock).await;
        let answer = node.client.chat("r-1", chat("one/m")).await;
        assert_eq!(answer.status, status, "{body:?}");
        assert!(answer.body.trim_ascii_start().starts_with(b"{"), "{body:?}");
    }
}
