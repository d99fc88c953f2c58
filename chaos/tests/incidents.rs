//! Incidents of a whole cluster: one trouble is one incident on every node, whoever lives.

use std::time::{Duration, Instant};

use holdline_chaos::demo::KEYS;
use holdline_chaos::mock::Fault;
use serde_json::{Value, json};

use crate::support::{Running, SAVED};

/// What was seen is written, and told to the others, well within this.
const TOLD: Duration = Duration::from_secs(20);

/// The only incident of this entity, on this node, once it is as it should be.
async fn incident(
    cluster: &mut Running,
    node: &str,
    entity: &str,
    is_so: impl Fn(&Value, &Value) -> bool,
) -> Value {
    let begun = Instant::now();
    loop {
        let page = cluster
            .api(node)
            .issues(&format!("limit=10&entities={entity}"))
            .await
            .unwrap();
        let issues = page["issues"].as_array().unwrap();
        if let [issue] = issues.as_slice()
            && is_so(issue, &page)
        {
            return issue.clone();
        }
        assert!(begun.elapsed() < TOLD, "on {node}: {page}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refusal_is_one_incident_that_names_all_nodes_and_outlives_them() {
    let mut cluster = Running::start(3, 2, 1.0).await;
    let entity = format!("key:{}:{}", KEYS[0].provider, KEYS[0].key_id);
    cluster.hold("n1", KEYS[0]).await;
    let mut ids = Vec::new();
    for node in ["n1", "n2", "n3"] {
        let seen_by_all = |issue: &Value, page: &Value| {
            issue["nodes"] == json!(["n1", "n2", "n3"]) && page["missing_nodes"] == json!([])
        };
        let issue = incident(&mut cluster, node, &entity, seen_by_all).await;
        assert_eq!(
            (&issue["status"], &issue["failure_class"]),
            (&"attention".into(), &"credential".into())
        );
        assert_eq!(issue["regions"].as_array().unwrap().len(), 2);
        let held = issue["timeline"].as_array().unwrap();
        assert_eq!(
            (held.len(), &held[0]["node_id"]),
            (1, &"n1".into()),
            "all tell of one refusal"
        );
        ids.push(issue["id"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");

    tokio::time::sleep(SAVED).await;
    cluster
        .stage
        .fleet
        .node("n1")
        .unwrap()
        .kill()
        .await
        .unwrap();
    let begun = Instant::now();
    let misses_one = |issue: &Value, page: &Value| {
        page["missing_nodes"] == json!(["n1"]) && issue["nodes"].as_array().unwrap().len() == 3
    };
    let without = incident(&mut cluster, "n3", &entity, misses_one).await;
    assert_eq!(
        (&without["id"], &without["status"]),
        (&ids[0], &"attention".into())
    );
    assert!(begun.elapsed() < TOLD);

    tokio::time::sleep(SAVED).await;
    cluster.restart_everything().await;
    let goes_on = |issue: &Value, page: &Value| {
        issue["nodes"].as_array().unwrap().len() == 3 && page["missing_nodes"] == json!([])
    };
    let after = incident(&mut cluster, "n2", &entity, goes_on).await;
    for field in ["id", "opened_at", "status", "timeline"] {
        assert_eq!(after[field], without[field], "{field}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_lost_node_saw_is_no_longer_observed() {
    let mut cluster = Running::start(3, 1, 1.0).await;
    let entity = format!("route:openai:gpt-4o:{}", KEYS[1].key_id);
    cluster.stage.mock.refuse(KEYS[1].secret, Fault::Broken);
    for _ in 0..20 {
        assert_eq!(cluster.ask("n1", Some(KEYS[1])).await, 500);
    }
    let by_n1 = |issue: &Value, _: &Value| issue["nodes"] == json!(["n1"]);
    let seen = incident(&mut cluster, "n2", &entity, by_n1).await;
    assert_eq!(
        (&seen["status"], &seen["failure_class"]),
        (&"mitigated".into(), &Value::Null)
    );
    tokio::time::sleep(SAVED).await;

    cluster
        .stage
        .fleet
        .node("n1")
        .unwrap()
        .kill()
        .await
        .unwrap();
    let lost = |issue: &Value, page: &Value| {
        issue["status"] == "unobserved" && page["missing_nodes"] == json!(["n1"])
    };
    let unobserved = incident(&mut cluster, "n3", &entity, lost).await;
    assert_eq!(unobserved["id"], seen["id"]);
    assert!(unobserved["resolved_at"].is_string());
}
