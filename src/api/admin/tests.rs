//! Tests of the admin API against a real node, without a network.

mod history;

use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use holdline_core::failure::Reason;
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::settle::Refusal as Refused;
use holdline_core::holds::{Answer as Answered, Selector};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower_service::Service;

use super::*;
use crate::config::Config;
use crate::node::{Overrides, Place, Running, start};

/// A node that nobody can reach but this test.
struct Bench {
    running: Running,
    router: Router,
    folder: TempDir,
    config: Value,
}

impl Bench {
    async fn start(config: Value) -> Self {
        Self::start_in(TempDir::new().unwrap(), config).await
    }

    async fn start_in(folder: TempDir, config: Value) -> Self {
        let loaded = Config::parse(&config.to_string(), &|_| Some("sk-from-env".to_owned()));
        let read = loaded.unwrap().config;
        let flags = Overrides {
            node_id: Some("n7".to_owned()),
            region: Some("eu-west".to_owned()),
            ..Overrides::default()
        };
        let place = Place::resolve(&read.cluster, flags).unwrap();
        let running = start(read, place, folder.path()).await.unwrap();
        Self {
            router: router(Arc::clone(&running.node)),
            running,
            folder,
            config,
        }
    }

    async fn restart(self) -> Self {
        let Self {
            running,
            router,
            folder,
            config,
        } = self;
        running.stop().await;
        drop(router);
        Self::start_in(folder, config).await
    }

    async fn send(&self, request: http::Request<Body>) -> (u16, Value) {
        let mut router = self.router.clone();
        let response = router.call(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = http::Request::builder().method(method).uri(path);
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// The answer of a call that must succeed.
    async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(method, path, body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    /// The message of a call that must be refused.
    async fn refused(&self, status: u16, method: &str, path: &str, body: Value) -> String {
        let (got, answer) = self.call(method, path, body).await;
        assert_eq!(got, status, "{method} {path}: {answer}");
        assert_eq!(answer["status_code"], status);
        answer["error"]["message"].as_str().unwrap().to_owned()
    }

    /// What a provider's refusal does.
    fn hold(&self, key: &str, model: &str, reason: Reason) {
        let node = &self.running.node;
        let live = node.live();
        let (provider, key, model) = ("openai".into(), key.into(), model.into());
        let fingerprint = live.key(&provider, &key).unwrap().spec.fingerprint;
        let keys = &live.view.providers[&provider].keys;
        let holds = &keys.iter().find(|k| k.spec.id == key).unwrap().holds;
        let token = holds.token(&model, node.clock.now());
        let route = RouteKey {
            provider,
            key,
            fingerprint,
            model,
        };
        let refusal = Refused {
            reason,
            stated_ms: Some(120_000),
            words: "No credit left".to_owned(),
            status: 402,
        };
        node.settle(&route, &token, &Answered::Refused(refusal));
    }

    async fn held(&self) -> Vec<String> {
        let view = self.get("/api/adaptive-routing/conditions").await;
        let rows = view["conditions"].as_array().unwrap();
        rows.iter()
            .map(|row| format!("{} {}", row["key_id"], row["model"]).replace('"', ""))
            .collect()
    }
}

const OPENAI: &str = "/api/providers/openai";
const KEYS: &str = "/api/providers/openai/keys";
const K_A: &str = "/api/providers/openai/keys/k-a";
const CLEAR: &str = "/api/adaptive-routing/conditions/clear";
const SETTINGS: &str = "/api/adaptive-routing/config";

fn two_keys() -> Value {
    json!({"providers": {"openai": {"keys": [key("k-a", "sk-a"), key("k-b", "sk-b")],
        "network_config": {"base_url": "http://127.0.0.1:9", "max_retries": 1}}}})
}

fn key(id: &str, value: &str) -> Value {
    json!({"id": id, "name": id, "value": value, "models": ["*"], "weight": 1})
}

fn ids(list: &Value) -> Vec<&str> {
    let keys = list["keys"].as_array().unwrap();
    keys.iter().map(|key| key["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_view_shows_every_field_of_a_hold() {
    let bench = Bench::start(two_keys()).await;
    bench.hold("k-a", "gpt-4o", Reason::ModelAccess);
    bench.hold("k-b", "gpt-4o", Reason::Quota);
    let mut view = bench.get("/api/adaptive-routing/conditions").await;
    for row in view["conditions"].as_array_mut().unwrap() {
        for field in ["held_at", "last_refused_at", "next_check_at", "version"] {
            let text = row[field].as_str().unwrap();
            assert!(
                field == "version" || (text.ends_with('Z') && text.len() == 24),
                "{text}"
            );
            row[field] = json!("…");
        }
    }
    assert_eq!(view["digest"].as_str().map(str::len), Some(32));
    view["digest"] = json!("…");
    insta::assert_json_snapshot!(view);
}

#[tokio::test]
async fn a_release_names_what_it_released_and_nothing_else_goes() {
    let bench = Bench::start(two_keys()).await;
    bench.hold("k-a", "mini", Reason::RateLimit);
    bench.hold("k-a", "gpt-4o", Reason::Quota);
    bench.hold("k-b", "gpt-4o", Reason::ModelAccess);
    let clear = async |body: Value| bench.done("POST", CLEAR, body).await["cleared"].clone();
    assert_eq!(clear(json!({"provider": "nowhere"})).await, json!([]));
    let model = json!({"provider": "openai", "key_id": "k-b", "model": "gpt-4o"});
    assert_eq!(
        clear(model).await,
        json!(["openai:lb-identifier:gpt-4o:lb-identifier:k-b"])
    );
    bench
        .refused(400, "POST", CLEAR, json!({"key_id": "k-a"}))
        .await;
    assert_eq!(bench.held().await, ["k-a null", "k-a mini"]);
    assert_eq!(clear(Value::Null).await.as_array().map(Vec::len), Some(2));
    assert!(bench.held().await.is_empty());
}

#[tokio::test]
async fn settings_are_not_replaced_by_nothing() {
    let bench = Bench::start(two_keys()).await;
    let before = bench.get(SETTINGS).await;
    bench.refused(400, "PUT", SETTINGS, Value::Null).await;
    assert_eq!(bench.get(SETTINGS).await, before);
    bench.done("PUT", SETTINGS, json!({})).await;
    assert_ne!(bench.get(SETTINGS).await, before);
}

#[tokio::test]
async fn an_edited_key_is_another_key_and_survives_a_restart() {
    let bench = Bench::start(two_keys()).await;
    bench.hold("k-a", "gpt-4o", Reason::Quota);
    bench.hold("k-b", "gpt-4o", Reason::Quota);
    bench.done("PUT", K_A, key("k-a", "sk-second")).await;
    assert_eq!(bench.held().await, ["k-b null"]);
    let bench = bench.restart().await;
    let live = bench.running.node.live();
    let value = &live.key(&"openai".into(), &"k-a".into()).unwrap().value;
    assert_eq!(value.expose(), "sk-second");
}

#[tokio::test]
async fn keys_are_created_shown_without_secrets_and_deleted() {
    let bench = Bench::start(two_keys()).await;
    let secret = "sk-0123456789abcdefghij";
    let made = bench
        .done(
            "POST",
            KEYS,
            json!({"name": "new", "value": secret, "models": ["*"]}),
        )
        .await;
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(
        made["value"],
        json!({"value": "********ghij", "env_var": "", "from_env": false})
    );
    assert_eq!(ids(&bench.get(KEYS).await), ["k-a", "k-b", id.as_str()]);
    let shown = format!(
        "{} {}",
        bench.get("/api/keys").await,
        bench.get(OPENAI).await
    );
    assert!(
        !shown.contains(secret) && !shown.contains("sk-a"),
        "{shown}"
    );

    let told = bench.refused(409, "POST", KEYS, key("k-a", "x")).await;
    assert!(told.contains("k-a"));
    let same_name = json!({"name": "new", "value": "x", "models": ["*"]});
    bench.refused(409, "POST", KEYS, same_name).await;
    let told = bench
        .refused(
            400,
            "POST",
            KEYS,
            json!({"name": "x", "value": "", "weight": -1}),
        )
        .await;
    assert!(
        told.contains("value: is empty") && told.contains("weight: must"),
        "{told}"
    );
    bench
        .refused(404, "POST", "/api/providers/none/keys", key("x", "x"))
        .await;

    let path = format!("{KEYS}/{id}");
    bench.done("DELETE", &path, Value::Null).await;
    bench.refused(404, "GET", &path, Value::Null).await;
    bench.refused(404, "DELETE", &path, Value::Null).await;
    bench.done("DELETE", K_A, Value::Null).await;
    let bench = bench.restart().await;
    assert_eq!(ids(&bench.get(KEYS).await), ["k-b"]);
}

#[tokio::test]
async fn a_masked_secret_that_comes_back_keeps_the_stored_one() {
    let bench = Bench::start(two_keys()).await;
    let mut shown = bench.get(K_A).await;
    shown["weight"] = json!(5);
    bench.done("PUT", K_A, shown.clone()).await;
    let value = || {
        let live = bench.running.node.live();
        live.key(&"openai".into(), &"k-a".into())
            .unwrap()
            .value
            .expose()
            .to_owned()
    };
    assert_eq!(value(), "sk-a");
    shown.as_object_mut().unwrap().remove("value");
    assert_eq!(bench.done("PUT", K_A, shown.clone()).await["weight"], 5.0);
    assert_eq!(value(), "sk-a");
    shown["value"] = json!("********zzzz");
    assert!(
        bench
            .refused(400, "PUT", K_A, shown)
            .await
            .contains("masked")
    );
}

#[tokio::test]
async fn providers_are_created_changed_and_deleted_with_their_keys() {
    let bench = Bench::start(two_keys()).await;
    let lab = json!({"provider": "lab", "keys": [{"name": "l", "value": "sk-l", "models": ["*"]}],
        "custom_provider_config": {"base_provider_type": "openai"},
        "network_config": {"base_url": "http://127.0.0.1:8", "extra_headers": {"x-a": "hidden"}}});
    let made = bench.done("POST", "/api/providers", lab.clone()).await;
    assert!(!made.to_string().contains("hidden"));
    assert_eq!(bench.get("/api/providers/lab/keys").await["total"], 1);
    bench.refused(409, "POST", "/api/providers", lab).await;

    let mut shown = bench.get(OPENAI).await;
    assert_eq!(shown["network_config"]["retry_backoff_initial"], 500);
    shown["network_config"]["max_retries"] = json!(2);
    bench.done("PUT", OPENAI, shown.clone()).await;
    assert_eq!(bench.get(OPENAI).await["network_config"]["max_retries"], 2);
    assert_eq!(ids(&bench.get(KEYS).await), ["k-a", "k-b"]);
    shown["network_config"]["max_retries"] = json!("many");
    assert!(
        bench
            .refused(400, "PUT", OPENAI, shown)
            .await
            .contains("max_retries")
    );

    let mut lab = bench.get("/api/providers/lab").await;
    lab["network_config"]["max_retries"] = json!(3);
    bench.done("PUT", "/api/providers/lab", lab).await;
    let live = bench.running.node.live();
    let headers = &live.provider(&"lab".into()).unwrap().network.extra_headers;
    assert_eq!(headers[0].1, "hidden");

    bench.done("DELETE", OPENAI, Value::Null).await;
    let bench = bench.restart().await;
    assert_eq!(bench.get("/api/providers").await["total"], 1);
    // The file's keys do not come back with a new provider of that name.
    bench
        .done("POST", "/api/providers", json!({"provider": "openai"}))
        .await;
    assert_eq!(bench.get(KEYS).await["total"], 0);
}

#[tokio::test]
async fn an_edit_of_the_providers_settings_leaves_holds_alone() {
    let bench = Bench::start(two_keys()).await;
    bench.hold("k-a", "gpt-4o", Reason::Quota);
    let mut shown = bench.get(OPENAI).await;
    shown["network_config"]["max_retries"] = json!(4);
    bench.done("PUT", OPENAI, shown).await;
    assert_eq!(bench.held().await, ["k-a null"]);
}

#[tokio::test]
async fn settings_are_replaced_and_survive_a_restart() {
    let bench = Bench::start(two_keys()).await;
    let answer = bench
        .done("PUT", SETTINGS, json!({"append_fallbacks_to_pinned": true}))
        .await;
    insta::assert_json_snapshot!(answer);
    for wrong in [
        json!({"reroute_target": "x"}),
        json!([]),
        json!({"history_enabled": 1}),
    ] {
        bench.refused(400, "PUT", SETTINGS, wrong).await;
    }
    let bench = bench.restart().await;
    assert_eq!(
        bench.get(SETTINGS).await["append_fallbacks_to_pinned"],
        true
    );
    let request = http::Request::get("/api/load-balancer-config")
        .body(Body::empty())
        .unwrap();
    let response = bench.router.clone().call(request).await.unwrap();
    assert_eq!(response.headers()["deprecation"], "true");
}

#[tokio::test]
async fn a_file_that_is_the_truth_takes_no_edits() {
    let mut config = two_keys();
    config["source_of_truth"] = json!("config.json");
    config["load_balancer_config"] = json!({});
    let bench = Bench::start(config).await;
    for (method, path) in [
        ("PUT", K_A),
        ("DELETE", OPENAI),
        ("POST", KEYS),
        ("PUT", SETTINGS),
    ] {
        let told = bench.refused(409, method, path, json!({})).await;
        assert!(told.contains("config.json"), "{told}");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_is_a_503_and_changes_nothing() {
    let bench = Bench::start(two_keys()).await;
    bench.hold("k-a", "gpt-4o", Reason::Quota);
    bench.running.node.store().refuse_writes();
    let told = bench
        .refused(503, "PUT", K_A, key("k-a", "sk-second"))
        .await;
    assert!(told.starts_with("nothing was changed"), "{told}");
    bench.refused(503, "POST", CLEAR, Value::Null).await;
    assert_eq!(bench.held().await, ["k-a null"]);
    assert!(bench.running.node.release(&Selector::All).is_err());
}

#[tokio::test]
async fn every_path_but_the_public_ones_needs_the_login() {
    let mut config = two_keys();
    config["auth_config"] = json!({"admin_username": "root", "admin_password": "correct horse",
        "api_keys": [{"name": "ci", "value": "bfst-1", "scopes": ["AdaptiveRouter:View"]}]});
    let bench = Bench::start(config).await;
    for path in [
        SETTINGS,
        "/api/keys",
        "/api/logs",
        "/metrics",
        "/api/config",
        "/api/nope",
    ] {
        bench.refused(401, "GET", path, Value::Null).await;
    }
    bench.refused(401, "POST", CLEAR, Value::Null).await;
    bench.get("/health").await;
    let enabled = bench.get("/api/session/is-auth-enabled").await;
    assert_eq!(
        enabled,
        json!({"is_auth_enabled": true, "has_valid_token": false})
    );

    let login = json!({"username": "root", "password": "correct horse"});
    let token = bench.done("POST", "/api/session/login", login).await["token"].clone();
    let with = async |bearer: &str, method: &str, path: &str| {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {bearer}"));
        bench.send(request.body(Body::empty()).unwrap()).await.0
    };
    assert_eq!(with(token.as_str().unwrap(), "GET", "/api/keys").await, 200);
    assert_eq!(
        with("bfst-1", "GET", "/api/adaptive-routing/conditions").await,
        200
    );
    assert_eq!(with("bfst-1", "POST", CLEAR).await, 403);
    // Let in, and told that the body lacks its provider.
    assert_eq!(with("bfst-1", "POST", "/api/classify").await, 400);
    assert_eq!(with("bfst-1", "GET", "/api/keys").await, 403);
    let wrong = json!({"username": "root", "password": "x"});
    bench
        .refused(401, "POST", "/api/session/login", wrong)
        .await;
}

#[tokio::test]
async fn pages_of_other_sites_cannot_release_keys() {
    let bench = Bench::start(two_keys()).await;
    let from = async |origin: &str| {
        let request = http::Request::post(CLEAR)
            .header("origin", origin)
            .header("host", "10.0.0.7:8080");
        bench.send(request.body(Body::empty()).unwrap()).await.0
    };
    assert_eq!(from("https://evil.example").await, 403);
    assert_eq!(from("null").await, 403);
    assert_eq!(from("http://localhost:5173").await, 200);
    assert_eq!(from("http://10.0.0.7:8080").await, 200);
}

#[tokio::test]
async fn a_foreign_name_that_leads_here_is_refused_without_a_login() {
    let bench = Bench::start(two_keys()).await;
    let by = async |host: &str| {
        let request = http::Request::get("/api/keys").header("host", host);
        bench.send(request.body(Body::empty()).unwrap()).await.0
    };
    assert_eq!(by("evil.example:8080").await, 403);
    for own in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080"] {
        assert_eq!(by(own).await, 200, "{own}");
    }
}

#[tokio::test]
async fn a_node_that_others_reach_answers_only_loopback_without_a_login() {
    let bench = Bench::start(two_keys()).await;
    let auth = Arc::new(Auth::new(None, [0, 0, 0, 0].into()));
    let admin = Admin {
        node: Arc::clone(&bench.running.node),
        auth,
    };
    let open = Router::new()
        .route(paths::KEYS, get(keys::list_all))
        .with_state(admin.clone())
        .layer(middleware::from_fn_with_state(admin, guard));
    let from = async |address: &str| {
        let peer = Peer {
            address: address.parse::<SocketAddr>().unwrap(),
            has_tls: false,
        };
        let request = http::Request::get("/api/keys").extension(peer);
        let response = open
            .clone()
            .call(request.body(Body::empty()).unwrap())
            .await;
        response.unwrap().status().as_u16()
    };
    assert_eq!(from("127.0.0.1:5").await, 200);
    assert_eq!(from("[::ffff:127.0.0.1]:5").await, 200);
    assert_eq!(from("10.0.0.9:5").await, 403);
}

#[tokio::test]
async fn the_cluster_of_one_is_shown() {
    let bench = Bench::start(two_keys()).await;
    let status = bench.get("/api/cluster/status").await;
    assert_eq!(
        (&status["node_id"], &status["region"]),
        (&json!("n7"), &json!("eu-west"))
    );
    assert_eq!(status["nodes"][0]["state"], "alive");
    assert_eq!(status["leaders"], json!({"eu-west": "n7"}));
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_error_shape() {
    let bench = Bench::start(two_keys()).await;
    bench.refused(404, "GET", "/api/nope", Value::Null).await;
    bench.refused(405, "DELETE", CLEAR, Value::Null).await;
    bench
        .refused(404, "GET", "/api/logs/nobody", Value::Null)
        .await;
    bench
        .refused(400, "GET", "/api/logs?order=up", Value::Null)
        .await;
    assert_eq!(bench.get("/api/logs").await["pagination"]["total_count"], 0);
    bench.refused(400, "PUT", K_A, json!([])).await;
    assert!(
        bench
            .get("/api/version")
            .await
            .as_str()
            .unwrap()
            .starts_with('v')
    );
}

#[tokio::test]
async fn a_recorded_answer_is_explained_by_this_nodes_rules() {
    let mut config = two_keys();
    config["failure_rules"] =
        json!([{"provider": "openai", "code": "too_fast", "class": "rate_limit"}]);
    let bench = Bench::start(config).await;
    let answer = json!({"provider": "openai", "status": 400, "headers": {"Retry-After": "20"},
        "model": "gpt-4o", "body": {"error": {"code": "too_fast", "message": "for sk-a-secret-key-1"}}});
    let expected = json!({
        "failure_class": "rate_limit", "rule": "failure_rules[0]", "scope": "model",
        "holds": {"what": "model", "model": "gpt-4o", "wait_ms": 20_000, "wait_source": "provider"},
        "retry": "next_key_charged", "retry_after_ms": 20_000, "message": "for [redacted]",
    });
    assert_eq!(bench.done("POST", "/api/classify", answer).await, expected);
    assert!(bench.held().await.is_empty());
}
