//! Things that a provider keeps: files, batches, responses. They pass untouched, to the account that has them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::{Mock, Play, TestNode, chat, key, provider};

fn openai(mock: &Mock, keys: &[&str]) -> Value {
    json!({"openai": provider(&mock.url(), keys, &json!({"max_retries": 1, "retry_backoff_initial": 100}))})
}

/// OpenAI, one that is like it, and one that is like Anthropic.
fn three(mock: &Mock) -> Value {
    let mut providers = openai(mock, &["k-o"]);
    providers["lab"] = provider(&mock.url(), &["k-l"], &json!({}));
    providers["claude"] = provider(&mock.url(), &["k-c"], &json!({}));
    providers["claude"]["custom_provider_config"]["base_provider_type"] = json!("anthropic");
    providers
}

async fn start(providers: Value) -> TestNode {
    let client = json!({"max_request_body_size_mb": 4});
    TestNode::start(&json!({"client": client, "providers": providers})).await
}

fn file(id: &str) -> Play {
    Play::json(200, &json!({"id": id, "object": "file"}))
}

fn unknown() -> Play {
    let message = "No such File object: file-1";
    Play::error(404, "invalid_request_error", "not_found", message)
}

/// A form with bytes that are no text.
fn form(size: usize) -> (Vec<u8>, &'static str) {
    let mut body = b"--xyz\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--xyz\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n".to_vec();
    body.extend((0..size).map(|n| u8::try_from(n % 251).unwrap()));
    body.extend_from_slice(b"\r\n--xyz--\r\n");
    (body, "multipart/form-data; boundary=xyz")
}

#[tokio::test]
async fn files_pass_untouched_both_ways() {
    let stored: Vec<u8> = (0..300_000)
        .map(|n| u8::try_from(n % 256).unwrap())
        .collect();
    let content = stored.clone();
    let mock = Mock::start(move |call| {
        if !call.path.ends_with("/content") {
            return file("file-1");
        }
        let headers = [
            ("content-type", "application/octet-stream"),
            ("content-disposition", "attachment; filename=a.bin"),
            ("set-cookie", "a=b"),
        ];
        Play::whole(200, &headers, &content)
    })
    .await;
    let node = start(openai(&mock, &["k-a"])).await;
    // Small enough to be kept, and too large for it.
    for (id, size) in [("u-1", 1_000), ("u-2", 3_000_000)] {
        let (body, kind) = form(size);
        let headers = [
            ("content-type", kind),
            ("x-request-id", id),
            ("authorization", "Bearer mine"),
        ];
        let answer = node
            .client
            .post("/v1/files?x=1", &headers, body.clone())
            .await;
        assert_eq!((answer.status, answer.header("x-request-id")), (200, id));
        let calls = mock.calls();
        let call = calls.last().unwrap();
        assert!(call.body == body, "{size} bytes were changed");
        assert_eq!(
            (
                call.path.as_str(),
                call.key.as_str(),
                call.headers["content-type"].as_str()
            ),
            ("/v1/files?x=1", "sk-k-a", kind)
        );
        let record = node.record(id).await;
        assert_eq!(
            (
                &record["object"],
                &record["status"],
                &record["selected_key_id"]
            ),
            (&json!("file_upload"), &json!("success"), &json!("k-a"))
        );
    }
    let answer = node
        .client
        .call("GET", "/openai/v1/files/file-1/content")
        .await;
    assert!(answer.status == 200 && answer.body == stored && !answer.broken);
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(
        answer.header("content-disposition"),
        "attachment; filename=a.bin"
    );
    assert!(!answer.headers.contains_key("set-cookie"));
    for (method, path) in [
        ("GET", "/v1/files"),
        ("GET", "/openai/files/file-1"),
        ("DELETE", "/v1/files/file-1"),
    ] {
        assert_eq!(node.client.call(method, path).await.json()["id"], "file-1");
    }
    let paths: Vec<String> = mock.calls()[3..].iter().map(|c| c.path.clone()).collect();
    assert_eq!(paths, ["/v1/files", "/v1/files/file-1", "/v1/files/file-1"]);
}

#[tokio::test]
async fn the_provider_is_named_by_query_header_or_route() {
    let mock = Mock::start(|_| file("f")).await;
    let node = start(three(&mock)).await;
    let ask = async |path: &str, headers: &[(&str, &str)]| {
        let answer = node
            .client
            .post(path, headers, r#"{"input_file_id":"f"}"#)
            .await;
        (answer.status, answer.json())
    };
    for (path, headers) in [
        ("/v1/batches", &[][..]),
        (
            "/v1/batches?provider=lab",
            &[("x-model-provider", "openai")][..],
        ),
        ("/openai/v1/batches", &[("x-model-provider", "lab")][..]),
    ] {
        assert_eq!(ask(path, headers).await.0, 200, "{path}");
    }
    let beta = [
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "files-api-2025-04-14"),
    ];
    let own = "/anthropic/v1/messages/batches?provider=claude&beta=true";
    assert_eq!(ask(own, &beta).await.0, 200);
    assert_eq!(ask("/v1/files?provider=claude", &beta).await.0, 200);
    let seen: Vec<(String, String)> = mock
        .calls()
        .into_iter()
        .map(|call| {
            let key = call.headers.get("x-api-key").cloned();
            (call.path, key.unwrap_or(call.key))
        })
        .collect();
    let expected = [
        ("/v1/batches", "sk-k-o"),
        ("/v1/batches", "sk-k-l"),
        ("/v1/batches", "sk-k-l"),
        ("/v1/messages/batches?beta=true", "sk-k-c"),
        ("/v1/files", "sk-k-c"),
    ];
    assert_eq!(
        seen,
        expected.map(|(path, key)| (path.to_owned(), key.to_owned()))
    );
    assert_eq!(
        mock.calls()[3].headers["anthropic-beta"],
        "files-api-2025-04-14"
    );
}

#[tokio::test]
async fn a_provider_that_keeps_no_such_things_is_refused_in_the_routes_dialect() {
    let mock = Mock::start(|_| file("f")).await;
    let node = start(three(&mock)).await;
    let ask = async |path: &str, headers: &[(&str, &str)]| {
        let answer = node.client.post(path, headers, "{}").await;
        (answer.status, answer.json())
    };
    for (path, word) in [
        ("/v1/batches?provider=nobody", "not configured"),
        (
            "/v1/batches?provider=claude",
            "keeps no batches of this kind",
        ),
        (
            "/anthropic/v1/messages/batches?provider=lab",
            "keeps no batches of this kind",
        ),
        (
            "/anthropic/v1/messages/batches",
            "\\\"anthropic\\\" is not configured",
        ),
    ] {
        let (status, told) = ask(path, &[]).await;
        assert_eq!(status, 400, "{path}");
        assert!(
            told["error"]["message"].to_string().contains(word),
            "{told}"
        );
        // In the route's own dialect.
        assert_eq!(told["type"] == "error", path.starts_with("/anthropic"));
    }
    let answer = node.client.call("PUT", "/v1/batches/b").await;
    assert_eq!((answer.status, answer.header("allow")), (405, "GET"));
}

#[tokio::test]
async fn what_has_an_id_is_looked_for_key_by_key() {
    let mock = Mock::start(|call| match call.key.as_str() {
        "sk-k-a" => unknown(),
        "sk-k-b" => Play::bad_key(),
        _ => file("file-1"),
    })
    .await;
    let node = start(openai(&mock, &["k-a", "k-b", "k-c"])).await;
    let with = [("x-request-id", "r-1")];
    let answer = node.client.send("GET", "/v1/files/file-1", &with, "").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(mock.keys(), ["sk-k-a", "sk-k-b", "sk-k-c"]);
    drop(answer);
    let record = node.record("r-1").await;
    let trail = record["attempt_trail"].as_array().unwrap();
    assert_eq!(trail.len(), 3);
    assert_eq!(
        (&trail[0]["status_code"], &trail[0]["triggered_rotation"]),
        (&json!(404), &json!(true))
    );
    // Files say nothing of models.
    assert!(node.held().is_empty());
    // A pin is where the file is, and nothing else is asked.
    let pinned = [("x-bf-api-key-id", "k-a"), ("x-request-id", "r-2")];
    let answer = node
        .client
        .send("GET", "/v1/files/file-1", &pinned, "")
        .await;
    assert_eq!(answer.status(), 404);
    assert_eq!(mock.keys().len(), 4);
    assert_eq!(
        node.record("r-2").await["error_details"]["status_code"],
        404
    );
    let answer = node
        .client
        .send("GET", "/v1/files", &[("x-bf-api-key", "k-c-name")], "")
        .await;
    assert_eq!(
        (answer.status().as_u16(), mock.keys()[4].as_str()),
        (200, "sk-k-c")
    );
}

#[tokio::test]
async fn held_keys_come_last_and_keys_for_batches_first() {
    let mock = Mock::start(|call| {
        if call.path.ends_with("/completions") {
            Play::bad_key()
        } else {
            file("f")
        }
    })
    .await;
    let node = start(openai(&mock, &["k-a", "k-b"])).await;
    let pinned = [("x-bf-api-key-id", "k-a")];
    node.client
        .chat_with("r-1", &pinned, chat("openai/m"))
        .await;
    assert_eq!(node.held(), ["k-a"]);
    node.client.call("GET", "/v1/batches").await;
    assert_eq!(mock.keys().last().unwrap(), "sk-k-b");
    let mut providers = openai(&mock, &["k-a", "k-b"]);
    providers["openai"]["keys"][1]["use_for_batch_api"] = json!(true);
    let node = start(providers).await;
    node.client.call("GET", "/v1/files").await;
    assert_eq!(mock.keys().last().unwrap(), "sk-k-b");
    // Whoever made a response, it was none of these by this.
    node.client.call("GET", "/v1/responses/r").await;
    assert_eq!(mock.keys().last().unwrap(), "sk-k-a");
}

#[tokio::test]
async fn a_callers_own_key_is_the_account() {
    let mock = Mock::start(|call| {
        if call.key == "sk-own" {
            file("f")
        } else {
            unknown()
        }
    })
    .await;
    let client = json!({"allow_direct_keys": true});
    let config = json!({"client": client, "providers": openai(&mock, &["k-a", "k-b"])});
    let node = TestNode::start(&config).await;
    let own = [
        ("x-bf-direct-key", "true"),
        ("authorization", "Bearer sk-own"),
    ];
    let answer = node.client.send("GET", "/v1/files/f", &own, "").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(mock.keys(), ["sk-own"]);
}

#[tokio::test]
async fn only_what_can_be_sent_again_is() {
    let mock = Mock::start(|_| Play::unavailable()).await;
    let node = start(openai(&mock, &["k-a", "k-b"])).await;
    assert_eq!(node.client.call("GET", "/v1/files/f").await.status, 503);
    assert_eq!(mock.keys(), ["sk-k-a", "sk-k-a"]);
    // Whether it was made is not known.
    assert_eq!(node.client.post("/v1/batches", &[], "{}").await.status, 503);
    assert_eq!(mock.keys().len(), 3);
    mock.play(|_| Play::bad_key());
    assert_eq!(node.client.post("/v1/batches", &[], "{}").await.status, 401);
    assert_eq!(mock.keys()[3..], ["sk-k-a", "sk-k-b"]);
    let (body, kind) = form(2_000_000);
    let headers = [("content-type", kind)];
    assert_eq!(
        node.client.post("/v1/files", &headers, body).await.status,
        401
    );
    assert_eq!(mock.keys()[5..], ["sk-k-a"]);
}

/// Takes all that it is sent, and says nothing.
async fn listener_of_one() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let reading = tokio::spawn(async move {
        let (mut taken, _) = listener.accept().await.unwrap();
        let mut part = vec![0; 64 << 10];
        while matches!(taken.read(&mut part).await, Ok(1..)) {}
    });
    (url, reading)
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_its_length_is_stated_or_not() {
    let (url, reading) = listener_of_one().await;
    let node = start(json!({"openai": provider(&url, &["k-a"], &json!({}))})).await;
    let (body, kind) = form(5_000_000);
    let answer = node
        .client
        .post("/v1/files", &[("content-type", kind)], body)
        .await;
    assert_eq!(answer.status, 413);
    assert!(!reading.is_finished(), "the provider was not called");
    let mut wire = TcpStream::connect(node.address).await.unwrap();
    let head = "POST /v1/files HTTP/1.1\r\nhost: x\r\nx-request-id: big\r\ntransfer-encoding: chunked\r\n\r\n";
    wire.write_all(head.as_bytes()).await.unwrap();
    let piece = [
        format!("{:x}\r\n", 1 << 20).into_bytes(),
        vec![b'x'; 1 << 20],
        b"\r\n".to_vec(),
    ]
    .concat();
    for _ in 0..5 {
        wire.write_all(&piece).await.unwrap();
    }
    let mut answer = [0; 12];
    wire.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
    assert_eq!(node.record("big").await["status_code"], 413);
    // The call that could not be finished is over.
    reading.await.unwrap();
}

/// What the provider does not take waits at the client, not here.
#[tokio::test]
async fn a_large_body_is_not_gathered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let providers = json!({"openai": provider(&url, &["k-a"], &json!({}))});
    let node = TestNode::start(&json!({"providers": providers})).await;
    let mut wire = TcpStream::connect(node.address).await.unwrap();
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        90 << 20
    );
    wire.write_all(head.as_bytes()).await.unwrap();
    wire.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
    // The provider hears of it before it is whole, and reads no more than its head.
    let (mut provider, _) = listener.accept().await.unwrap();
    let mut first = [0; 14];
    provider.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"POST /v1/files");
    let (mut sent, piece) = (1 << 20, vec![b'x'; 1 << 20]);
    while let Ok(written) = timeout(Duration::from_millis(500), wire.write(&piece)).await {
        sent += written.unwrap();
        assert!(sent < 40 << 20, "{sent} bytes are somewhere");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_is_broken_for_the_client_too() {
    let mock = Mock::start(|_| {
        let headers = [("content-type", "text/plain")];
        Play::whole(200, &headers, b"0123456789")
            .replacing(b"length: 10", b"length: 99")
            .then_close()
    })
    .await;
    let node = start(openai(&mock, &["k-a"])).await;
    let answer = node
        .client
        .send("GET", "/v1/files/f/content", &[("x-request-id", "r-1")], "")
        .await;
    let read = http_body_util::BodyExt::collect(answer.into_body()).await;
    assert!(read.is_err());
    let record = node.record("r-1").await;
    assert_eq!(
        (&record["object"], &record["status"]),
        (&json!("file_content"), &json!("error"))
    );
}

#[tokio::test]
async fn kept_responses_have_records() {
    let mock = Mock::start(|call| {
        if call.key == "sk-k-a" {
            unknown()
        } else {
            Play::json(200, &json!({"id": "resp_1"}))
        }
    })
    .await;
    let node = start(openai(&mock, &["k-a", "k-b"])).await;
    for (method, path, kind) in [
        ("GET", "/v1/responses/resp_1", "responses_retrieve"),
        ("DELETE", "/v1/responses/resp_1", "responses_delete"),
        (
            "POST",
            "/openai/v1/responses/resp_1/cancel",
            "responses_cancel",
        ),
        (
            "GET",
            "/v1/responses/resp_1/input_items",
            "responses_input_items",
        ),
    ] {
        let answer = node
            .client
            .send(method, path, &[("x-request-id", kind)], "")
            .await;
        assert_eq!(answer.status(), 200, "{kind}");
        drop(
            http_body_util::BodyExt::collect(answer.into_body())
                .await
                .unwrap(),
        );
        let record = node.record(kind).await;
        assert_eq!(
            (&record["object"], &record["status"]),
            (&json!(kind), &json!("success"))
        );
        assert_eq!(
            (&record["provider"], &record["selected_key_id"]),
            (&json!("openai"), &json!("k-b"))
        );
        assert_eq!(record["number_of_retries"], 1);
    }
    let refused = [("x-request-id", "r-x")];
    node.client
        .send("GET", "/v1/responses/resp_1?stream=true", &refused, "")
        .await;
    let record = node.record("r-x").await;
    assert_eq!(
        (&record["object"], &record["status_code"]),
        (&json!("responses_retrieve"), &json!(400))
    );
}

/// A granted token that was taken back before its time is not used for the next call.
#[tokio::test]
async fn a_refused_token_is_granted_anew() {
    let mut granted = 0;
    let mock = Mock::start(move |call| {
        if call.path.contains("/oauth2/") {
            granted += 1;
            let token = format!("token-{granted}");
            return Play::json(200, &json!({"access_token": token, "expires_in": 3599}));
        }
        if call.key == "token-1" {
            return Play::bad_key();
        }
        file("f")
    })
    .await;
    let mut azure = json!({"keys": [key("k-a")]});
    let key = azure["keys"][0].as_object_mut().unwrap();
    key.remove("value");
    key.insert(
        "azure_key_config".to_owned(),
        json!({"endpoint": mock.url(), "authority_host": mock.url(), "tenant_id": "tenant",
            "client_id": "app", "client_secret": "long-enough-to-hide"}),
    );
    let node = start(json!({"azure": azure})).await;
    let ask = async || {
        let path = "/v1/files?provider=azure";
        node.client.call("GET", path).await.status
    };
    assert_eq!((ask().await, ask().await), (401, 200));
    let used: Vec<String> = mock.keys();
    assert_eq!(used.last().map(String::as_str), Some("token-2"), "{used:?}");
}
