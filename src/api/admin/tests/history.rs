//! Incidents and scores, on a node of its own.

use std::time::{Duration, Instant};

use holdline_core::incidents::Entity;
use holdline_core::time::WallMs;

use super::*;
use crate::store::{HistoryBatch, Reading};

const ISSUES: &str = "/api/adaptive-routing/history/issues";
const SETTINGS: &str = "/api/adaptive-routing/config";

fn config() -> Value {
    let key = |id: &str| json!({"id": id, "name": format!("the {id}"), "value": format!("sk-{id}"), "models": ["gpt-4o"]});
    json!({"providers": {"openai": {"keys": [key("k-a"), key("k-b")]}}})
}

/// The issues that match, once there are so many; a node needs a moment to take up its history.
async fn listed(bench: &Bench, query: &str, many: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let answer = bench.get(&format!("{ISSUES}{query}")).await;
        let issues = answer["issues"].as_array().unwrap();
        if issues.len() == many {
            return issues.clone();
        }
        let waited = begun.elapsed();
        assert!(
            waited < Duration::from_secs(10),
            "{many} of {query}: {answer}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_hold_is_an_issue_and_its_release_is_not_yet_its_end() {
    let bench = Bench::start(config()).await;
    listed(&bench, "", 0).await;
    bench.hold("k-a", "gpt-4o", Reason::Quota);
    let issue = listed(&bench, "", 1).await.remove(0);
    let id = issue["id"].as_str().unwrap().to_owned();
    for (field, value) in [
        ("entity", json!("key:openai:k-a")),
        ("scope", json!("key")),
        ("status", json!("attention")),
        ("reason", json!("Out of quota")),
        ("failure_class", json!("quota")),
        ("status_code", json!(402)),
        ("message", json!("No credit left")),
        ("provider", json!("openai")),
        ("models", json!(["gpt-4o"])),
        ("key_ids", json!(["k-a"])),
        ("key_names", json!({"k-a": "the k-a"})),
        ("worst_state", json!("failed")),
        ("resolved_at", json!(null)),
        ("nodes", json!(["n7"])),
        ("regions", json!(["eu-west"])),
        ("refused_again", json!(false)),
        ("pinned_kept_failed", json!(0)),
        ("reopened", json!(0)),
    ] {
        assert_eq!(issue[field], value, "{field}");
    }
    let held = &issue["timeline"][0];
    assert_eq!(
        (&held["event"], &held["node_id"]),
        (&json!("held"), &json!("n7"))
    );
    assert_eq!(held["at"], issue["opened_at"]);

    let clear = "/api/adaptive-routing/conditions/clear";
    bench.done("POST", clear, Value::Null).await;
    listed(&bench, "?statuses=recovering&limit=5", 1).await;
    let page = bench
        .get(&format!("{ISSUES}?limit=1&offset=9&search=THE%20K-A"))
        .await;
    assert_eq!(page["issues"][0]["id"], json!(id));
    assert_eq!(
        (&page["total"], &page["offset"], &page["limit"]),
        (&json!(1), &json!(0), &json!(1))
    );
    assert_eq!(page["key_names"], json!({"k-a": "the k-a"}));
    assert_eq!(page["facets"]["statuses"], json!({"recovering": 1}));
    let figures = &page["matched_summary"];
    assert_eq!(
        figures["longest_ongoing_ms"],
        page["issues"][0]["duration_ms"]
    );
    assert_eq!(
        (&figures["ongoing"], &figures["median_resolve_ms"]),
        (&json!(1), &json!(null))
    );
    assert_eq!(page["missing_nodes"], json!([]));
    let all = bench.get(ISSUES).await;
    assert_eq!(
        (all.get("total"), all["issues"].as_array().unwrap().len()),
        (None, 1)
    );
}

#[tokio::test]
async fn every_key_out_is_the_providers_issue_too() {
    let bench = Bench::start(config()).await;
    bench.hold("k-a", "gpt-4o", Reason::RateLimit);
    let mitigated = listed(&bench, "?limit=5&statuses=mitigated", 1).await;
    assert_eq!(mitigated[0]["entity"], "route:openai:gpt-4o:k-a");
    bench.hold("k-b", "gpt-4o", Reason::RateLimit);
    let down = listed(&bench, "?limit=5&scopes=direction", 1)
        .await
        .remove(0);
    assert_eq!(down["entity"], "direction:openai:gpt-4o");
    assert_eq!(
        (&down["status"], &down["key_ids"]),
        (&json!("attention"), &json!([]))
    );
    listed(&bench, "?limit=5&statuses=attention", 3).await;
}

#[tokio::test]
async fn an_open_issue_goes_on_after_a_restart() {
    let bench = Bench::start(config()).await;
    bench.hold("k-a", "gpt-4o", Reason::Credential);
    let before = listed(&bench, "", 1).await.remove(0);
    let bench = bench.restart().await;
    let after = listed(&bench, "", 1).await.remove(0);
    for field in ["id", "opened_at", "status", "message", "timeline", "nodes"] {
        assert_eq!(after[field], before[field], "{field}");
    }
}

#[tokio::test]
async fn a_deleted_key_is_no_longer_observed() {
    let bench = Bench::start(config()).await;
    bench.hold("k-a", "gpt-4o", Reason::Credential);
    listed(&bench, "", 1).await;
    bench
        .done("DELETE", "/api/providers/openai/keys/k-a", Value::Null)
        .await;
    let lost = listed(&bench, "?statuses=unobserved&limit=5", 1)
        .await
        .remove(0);
    assert!(lost["resolved_at"].is_string());
    assert_eq!(lost["key_names"], json!({"k-a": "the k-a"}));
}

#[tokio::test]
async fn without_history_nothing_is_recorded_or_listed() {
    let bench = Bench::start(config()).await;
    bench.hold("k-a", "gpt-4o", Reason::Credential);
    listed(&bench, "", 1).await;
    let mut settings = bench.get(SETTINGS).await;
    settings["history_enabled"] = json!(false);
    bench.done("PUT", SETTINGS, settings.clone()).await;
    listed(&bench, "", 0).await;
    bench.hold("k-b", "gpt-4o", Reason::Credential);
    bench
        .done(
            "POST",
            "/api/adaptive-routing/conditions/clear",
            json!({"provider": "openai", "key_id": "k-b"}),
        )
        .await;
    settings["history_enabled"] = json!(true);
    bench.done("PUT", SETTINGS, settings).await;
    let again = listed(&bench, "?statuses=attention&limit=5", 1)
        .await
        .remove(0);
    assert_eq!(again["key_ids"], json!(["k-a"]), "it is still held");
    listed(&bench, "", 1).await;
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let bench = Bench::start(config()).await;
    for (name, value) in [
        ("offset", "-1"),
        ("sort", "loudest"),
        ("from", "yesterday"),
        ("to", "12:00"),
        ("statuses", "loud"),
    ] {
        let path = format!("{ISSUES}?limit=10&{name}={value}");
        let message = bench.refused(400, "GET", &path, Value::Null).await;
        assert!(message.contains(name), "{message}");
    }
    let scores = "/api/adaptive-routing/history/scores?from=never";
    let message = bench.refused(400, "GET", scores, Value::Null).await;
    assert!(message.contains("from"), "{message}");
}

#[tokio::test]
async fn scores_are_series_of_points() {
    let bench = Bench::start(config()).await;
    let node = &bench.running.node;
    let at = WallMs(node.clock.wall().0 / 10_000 * 10_000);
    let entity = Entity::Route {
        provider: "openai".into(),
        model: "gpt-4o".into(),
        key: "k-a".into(),
    };
    let reading = |value| Reading {
        entity: entity.clone(),
        at,
        value,
        state: 1,
    };
    let batch = HistoryBatch {
        readings: vec![reading(0.5), reading(1.0)],
        ..HistoryBatch::default()
    };
    node.store().save_history(&batch, at).unwrap();
    let path = "/api/adaptive-routing/history/scores?providers=openai&key_ids=k-a";
    let answer = bench.get(path).await;
    assert_eq!(answer["step_seconds"], 10);
    let series = &answer["series"][0];
    assert_eq!(
        (&series["entity"], &series["node_id"]),
        (&json!("route:openai:gpt-4o:k-a"), &json!("n7"))
    );
    let text = crate::timestamp::wall_text(at);
    assert_eq!(
        (&series["value"], &series["points"]),
        (&json!("weight"), &json!([[text, 0.75, "degraded"]]))
    );
    let other = bench
        .get("/api/adaptive-routing/history/scores?nodes=n1")
        .await;
    assert_eq!(other["series"], json!([]));
}
