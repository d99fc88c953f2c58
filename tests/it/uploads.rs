//! What Google keeps: files in one piece and in many, batches, caches. And what OpenAI keeps in parts.

use serde_json::{Value, json};

use crate::support::{Answer, Mock, Play, TestNode, key};

/// The address that a real Google gives: the one with the key in it.
fn address(mock: &Mock) -> String {
    let url = mock.url();
    format!("{url}/elsewhere?upload_id=UP-1-at-google&key=sk-k-a&upload_protocol=resumable")
}

fn gemini(mock: &Mock, keys: &[&str]) -> Value {
    let keys: Vec<Value> = keys.iter().map(|id| key(id)).collect();
    json!({"gemini": {"keys": keys, "network_config": {"base_url": mock.url()}}})
}

async fn start(config: Value) -> TestNode {
    TestNode::start(&config).await
}

/// Begins uploads, takes their pieces, knows what became of them.
async fn google() -> Mock {
    let mock = Mock::start(|_| Play::silence()).await;
    let given = address(&mock);
    mock.play(move |call| {
        let said = |name: &str| call.headers.get(name).map_or("", String::as_str);
        let kind = ("content-type", "application/json");
        match said("x-goog-upload-command") {
            "start" => {
                let headers = [
                    kind,
                    ("x-goog-upload-url", given.as_str()),
                    ("x-goog-upload-control-url", given.as_str()),
                    ("x-guploader-uploadid", "UP-1-at-google"),
                    ("x-goog-upload-status", "active"),
                    ("x-goog-upload-chunk-granularity", "262144"),
                ];
                Play::whole(200, &headers, b"{}")
            }
            "upload" => Play::whole(200, &[("x-goog-upload-status", "active")], b""),
            "upload, finalize" => {
                let headers = [kind, ("x-goog-upload-status", "final")];
                Play::whole(200, &headers, br#"{"file":{"name":"files/f-1"}}"#)
            }
            _ => Play::json(200, &json!({"name": "files/f-1"})),
        }
    });
    mock
}

async fn begin(node: &TestNode, headers: &[(&str, &str)]) -> Answer {
    let begins = [
        ("content-type", "application/json"),
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
        ("x-goog-upload-header-content-length", "2500000"),
        ("x-goog-upload-header-content-type", "text/plain"),
        ("x-goog-upload-file-name", "a.txt"),
    ];
    let path = "/genai/upload/v1beta/files?key=of-the-clients-own";
    let headers = [&begins, headers].concat();
    node.client.post(path, &headers, r#"{"file":{}}"#).await
}

/// The path of an address that the gateway gave.
fn place(node: &TestNode, answer: &Answer) -> String {
    let address = answer.header("x-goog-upload-url");
    let here = format!("http://{}", node.address);
    let path = address.strip_prefix(&here);
    path.unwrap_or_else(|| panic!("{address}")).to_owned()
}

async fn piece(node: &TestNode, place: &str, command: &str, offset: &str, body: Vec<u8>) -> Answer {
    let headers = [
        ("x-goog-upload-command", command),
        ("x-goog-upload-offset", offset),
    ];
    node.client.post(place, &headers, body).await
}

#[tokio::test]
async fn pieces_go_to_the_account_that_the_upload_began_with() {
    let mock = google().await;
    // The first key cannot begin any: what it is that goes on is known by the address alone.
    let node = start(json!({"providers": gemini(&mock, &["k-a", "k-b"])})).await;
    let begun = begin(
        &node,
        &[("x-bf-api-key-id", "k-b"), ("x-request-id", "u-1")],
    )
    .await;
    assert_eq!(
        (begun.status, begun.header("x-goog-upload-status")),
        (200, "active")
    );
    assert_eq!(begun.header("x-goog-upload-chunk-granularity"), "262144");
    let shown = format!("{:?}", begun.headers);
    for hidden in [
        "UP-1-at-google",
        "sk-k-a",
        "sk-k-b",
        "control-url",
        &mock.url(),
    ] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
    let place = place(&node, &begun);
    let first: Vec<u8> = (0..2_000_000)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    let last = vec![7; 500_000];
    let answer = piece(&node, &place, "upload", "0", first.clone()).await;
    assert_eq!(
        (answer.status, answer.header("x-goog-upload-status")),
        (200, "active")
    );
    let answer = piece(&node, &place, "upload, finalize", "2000000", last.clone()).await;
    assert_eq!(answer.header("x-goog-upload-status"), "final");
    assert_eq!(answer.json()["file"]["name"], "files/f-1");
    let calls = mock.calls();
    let paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    let session = "/upload/v1beta/files?upload_id=UP-1-at-google&upload_protocol=resumable";
    assert_eq!(paths, ["/upload/v1beta/files", session, session]);
    for call in &calls {
        assert_eq!(call.headers["x-goog-api-key"], "sk-k-b");
    }
    assert_eq!(calls[0].headers["x-goog-upload-file-name"], "a.txt");
    assert_eq!(
        calls[0].headers["x-goog-upload-header-content-length"],
        "2500000"
    );
    assert!(calls[1].body == first && calls[2].body == last);
    assert_eq!(calls[2].headers["x-goog-upload-offset"], "2000000");
    let record = node.record("u-1").await;
    assert_eq!(
        (&record["object"], &record["selected_key_id"]),
        (&json!("file_upload"), &json!("k-b"))
    );
}

#[tokio::test]
async fn an_upload_goes_on_at_another_node_and_without_a_credential() {
    let mock = google().await;
    let team = |active: bool| json!([{"id": "v1", "name": "team", "value": "sk-bf-team", "is_active": active}]);
    let config = |active| {
        json!({"providers": gemini(&mock, &["k-a"]), "governance": {"virtual_keys": team(active)},
            "client": {"enforce_auth_on_inference": true, "required_headers": ["x-team"]}})
    };
    let one = start(config(true)).await;
    let refused = begin(&one, &[("x-team", "a")]).await;
    assert_eq!(refused.status, 401);
    let begun = begin(&one, &[("x-team", "a"), ("x-goog-api-key", "sk-bf-team")]).await;
    let place = place(&one, &begun);
    let two = start(config(true)).await;
    let headers = [
        ("x-goog-upload-command", "upload, finalize"),
        ("x-request-id", "p-1"),
    ];
    let answer = two.client.post(&place, &headers, "last").await;
    assert_eq!(
        (answer.status, answer.header("x-goog-upload-status")),
        (200, "final")
    );
    assert_eq!(two.record("p-1").await["virtual_key_id"], "v1");
    // Who may not begin any more may not go on.
    let three = start(config(false)).await;
    assert_eq!(
        piece(&three, &place, "upload", "0", vec![1]).await.status,
        403
    );
    let wrong = two
        .client
        .post(&place, &[headers[0], ("x-api-key", "sk-bf-nobody")], "last")
        .await;
    assert_eq!(wrong.status, 401);
    assert_eq!(mock.calls().len(), 2);
}

#[tokio::test]
async fn an_address_that_is_none_of_the_gateways_is_refused() {
    let mock = google().await;
    let node =
        start(json!({"providers": gemini(&mock, &["k-a"]), "client": {"allow_direct_keys": true}}))
            .await;
    let place = place(&node, &begin(&node, &[]).await);
    let (front, sealed) = place.split_once("session=").unwrap();
    let other = if sealed.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{front}session={other}{}", &sealed[1..]);
    for (place, word) in [
        (forged.as_str(), "begin the upload again"),
        (front, "go to the address"),
        (
            "/genai/upload/v1beta/files?upload_id=UP-1-at-google",
            "go to the address",
        ),
    ] {
        let answer = piece(&node, place, "upload, finalize", "0", vec![1]).await;
        assert_eq!(answer.status, 400, "{place}");
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains(word), "{message}");
    }
    let own = [
        ("x-bf-direct-key", "true"),
        ("x-goog-api-key", "the-callers-own"),
    ];
    assert_eq!(begin(&node, &own).await.status, 400);
    assert_eq!(mock.calls().len(), 1);
}

/// Method, path of the client behind `/genai`, path at Google, kind.
const GOOGLES: [(&str, &str, &str, &str); 13] = [
    (
        "POST",
        "/upload/v1beta/files?uploadType=raw",
        "/upload/v1beta/files?uploadType=raw",
        "file_upload",
    ),
    (
        "GET",
        "/v1beta/files?pageSize=2&key=mine",
        "/v1beta/files?pageSize=2",
        "file_list",
    ),
    ("GET", "/v1/files/f-1", "/v1beta/files/f-1", "file_retrieve"),
    (
        "GET",
        "/v1beta/files/f-1:download?alt=media",
        "/v1beta/files/f-1:download?alt=media",
        "file_content",
    ),
    (
        "DELETE",
        "/v1beta/files/f-1",
        "/v1beta/files/f-1",
        "file_delete",
    ),
    (
        "POST",
        "/v1beta/models/gemini-2.5-flash:batchGenerateContent",
        "/v1beta/models/gemini-2.5-flash:batchGenerateContent",
        "batch_create",
    ),
    ("GET", "/v1beta/batches", "/v1beta/batches", "batch_list"),
    (
        "GET",
        "/v1beta/batches/b",
        "/v1beta/batches/b",
        "batch_retrieve",
    ),
    (
        "POST",
        "/v1beta/batches/b:cancel",
        "/v1beta/batches/b:cancel",
        "batch_cancel",
    ),
    (
        "DELETE",
        "/v1beta/batches/b",
        "/v1beta/batches/b",
        "batch_delete",
    ),
    (
        "POST",
        "/v1beta/cachedContents",
        "/v1beta/cachedContents",
        "cached_content_create",
    ),
    (
        "PATCH",
        "/v1beta/cachedContents/c?updateMask=ttl",
        "/v1beta/cachedContents/c?updateMask=ttl",
        "cached_content_update",
    ),
    (
        "DELETE",
        "/v1beta/cachedContents/c",
        "/v1beta/cachedContents/c",
        "cached_content_delete",
    ),
];

#[tokio::test]
async fn what_google_keeps_is_asked_of_it_as_it_came() {
    let mock = google().await;
    let node = start(json!({"providers": gemini(&mock, &["k-a"])})).await;
    for (method, path, up, kind) in GOOGLES {
        let body = if matches!(method, "POST" | "PATCH") {
            r#"{"ttl" : "60s"}"#
        } else {
            ""
        };
        let answer = node
            .client
            .send(
                method,
                &format!("/genai{path}"),
                &[("x-request-id", path)],
                body,
            )
            .await;
        assert_eq!(answer.status(), 200, "{method} {path}");
        let calls = mock.calls();
        let call = calls.last().unwrap();
        assert_eq!(
            (call.path.as_str(), call.body.as_slice()),
            (up, body.as_bytes())
        );
        assert_eq!(call.headers["x-goog-api-key"], "sk-k-a");
        drop(http_body_util::BodyExt::collect(answer.into_body()).await);
        assert_eq!(node.record(path).await["object"], kind, "{path}");
    }
    let refused = node.client.call("POST", "/genai/v1beta/files/f-1").await;
    assert_eq!(
        (refused.status, refused.header("allow")),
        (405, "GET, DELETE")
    );
}

#[tokio::test]
async fn what_openai_keeps_in_parts_and_containers_is_asked_of_it_as_it_came() {
    let mock = Mock::start(|_| Play::json(200, &json!({"id": "x"}))).await;
    let openai = json!({"keys": [key("k-a")], "network_config": {"base_url": mock.url()}});
    let node = start(json!({"providers": {"openai": openai}})).await;
    for (method, path) in [
        ("POST", "/uploads"),
        ("POST", "/uploads/u_1/parts"),
        ("POST", "/uploads/u_1/complete"),
        ("POST", "/uploads/u_1/cancel"),
        ("POST", "/containers"),
        ("GET", "/containers?limit=2"),
        ("GET", "/containers/c_1"),
        ("DELETE", "/containers/c_1"),
        ("POST", "/containers/c_1/files"),
        ("GET", "/containers/c_1/files"),
        ("GET", "/containers/c_1/files/f_1"),
        ("DELETE", "/containers/c_1/files/f_1"),
        ("GET", "/containers/c_1/files/f_1/content"),
    ] {
        for prefix in ["/v1", "/openai/v1"] {
            let answer = node.client.call(method, &format!("{prefix}{path}")).await;
            assert_eq!(answer.status, 200, "{method} {prefix}{path}");
            assert_eq!(mock.calls().last().unwrap().path, format!("/v1{path}"));
        }
    }
}

#[tokio::test]
async fn a_provider_is_only_asked_for_the_kinds_that_it_takes() {
    let mock = Mock::start(|_| Play::json(200, &json!({"id": "x"}))).await;
    let mut lab = crate::support::provider(&mock.url(), &["k-a"], &json!({}));
    lab["custom_provider_config"]["allowed_requests"] =
        json!({"container_list": true, "file_upload": true});
    lab["custom_provider_config"]["request_path_overrides"] =
        json!({"container_list": "/boxes", "file_upload": "/put"});
    let node = start(json!({"providers": {"lab": lab}})).await;
    for (method, path, expected) in [
        ("GET", "/v1/containers", Some("/boxes")),
        ("POST", "/v1/files", Some("/put")),
        ("POST", "/v1/uploads/u/parts", Some("/v1/uploads/u/parts")),
        ("GET", "/v1/containers/c", None),
        ("POST", "/v1/containers/c/files", None),
    ] {
        let before = mock.calls().len();
        let asked = format!("{path}?provider=lab");
        let answer = node.client.call(method, &asked).await;
        let called = mock.calls().get(before).map(|call| call.path.clone());
        assert_eq!(called.as_deref(), expected, "{path}");
        let status = if expected.is_some() { 200 } else { 400 };
        assert_eq!(answer.status, status, "{path}");
    }
}

#[tokio::test]
async fn results_of_batches_are_fetched_from_the_gateway() {
    let mock = Mock::start(|_| Play::silence()).await;
    let theirs = format!("{}/v1/messages/batches/b_1/results", mock.url());
    mock.play(move |call| {
        if call.path.ends_with("/results") {
            return Play::whole(
                200,
                &[("content-type", "application/x-jsonl")],
                b"{\"results_url\":1}\n",
            );
        }
        Play::json(
            200,
            &json!({"id": "b_1", "results_url": theirs, "type": "message_batch"}),
        )
    });
    let mut claude = crate::support::provider(&mock.url(), &["k-a"], &json!({}));
    claude["custom_provider_config"]["base_provider_type"] = json!("anthropic");
    let node = start(json!({"providers": {"claude": claude}})).await;
    for (method, path) in [
        ("POST", "/anthropic/v1/messages/batches?provider=claude"),
        ("GET", "/v1/messages/batches/b_1?provider=claude"),
        ("POST", "/v1/messages/batches/b_1/cancel?provider=claude"),
    ] {
        let told = node.client.call(method, path).await.json();
        let address = told["results_url"].as_str().unwrap();
        let place = address
            .strip_prefix(&format!("http://{}", node.address))
            .unwrap();
        let prefix = path.split("/v1/").next().unwrap();
        assert_eq!(
            place,
            format!("{prefix}/v1/messages/batches/b_1/results?provider=claude")
        );
        let results = node.client.call("GET", place).await;
        assert_eq!(
            (results.status, &results.body[..]),
            (200, &b"{\"results_url\":1}\n"[..])
        );
        assert_eq!(
            mock.calls().last().unwrap().path,
            "/v1/messages/batches/b_1/results"
        );
    }
}
