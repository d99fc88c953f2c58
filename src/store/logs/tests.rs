//! Records that are written, found and listed.

use holdline_core::ids::{KeyId, ModelId, NodeId, ProviderId};
use holdline_core::time::WallMs;
use rusqlite::Connection;
use tempfile::TempDir;

use super::super::tests::open;
use super::{LogQuery, RequestLog};
use crate::protocols::talk::Usage;

/// 2100-01-01T00:00:00Z: no retention takes it away.
const AT: WallMs = WallMs(4_102_444_800_000);

/// A served request.
pub(in crate::store) fn log(id: &str) -> RequestLog {
    RequestLog {
        id: id.to_owned(),
        timestamp: AT,
        object: "chat_completion",
        node_id: NodeId::from("n1"),
        provider: ProviderId::from("openai"),
        model: ModelId::from("gpt-4o"),
        status: "success",
        latency: 100,
        status_code: 200,
        is_stream: false,
        token_usage: Some(Usage {
            output: 7,
            ..Usage::default()
        }),
        virtual_key_id: None,
        virtual_key_name: None,
        selected_key_id: Some(KeyId::from("k-a")),
        selected_key_name: None,
        number_of_retries: 0,
        fallback_index: 0,
        error_details: None,
        routing_engines_used: Vec::new(),
        routing_engine_logs: Vec::new(),
        attempt_trail: Vec::new(),
    }
}

#[test]
fn a_log_record_is_found_at_once_and_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store.log(log("r-1"));
    assert!(store.find_log("r-1").unwrap().is_some());
    let newest = RequestLog {
        model: ModelId::from("newest"),
        ..log("r-1")
    };
    store.log(newest);
    let newest = store.find_log("r-1").unwrap().unwrap();
    assert!(newest.get().contains("\"newest\""));
    drop(store);
    let record = open(folder.path()).find_log("r-1").unwrap().unwrap();
    assert!(record.get().contains("\"newest\""));
}

#[test]
fn logs_are_listed_newest_first_with_filters_and_figures() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    for n in 0..10 {
        store.log(RequestLog {
            model: ModelId::from(if n % 2 == 0 { "even" } else { "odd" }),
            status: if n < 3 { "error" } else { "success" },
            timestamp: WallMs(AT.0 + n * 1_000),
            ..log(&format!("r-{n}"))
        });
    }
    let query = LogQuery {
        models: vec!["even".to_owned()],
        from: Some("2100-01-01T00:00:02.000Z".to_owned()),
        limit: 2,
        offset: 1,
        ..LogQuery::default()
    };
    let page = store.list_logs(&query).unwrap();
    let ids: Vec<String> = page
        .logs
        .iter()
        .map(|r| serde_json::from_str::<serde_json::Value>(r.get()).unwrap()["id"].to_string())
        .collect();
    assert_eq!(ids, ["\"r-6\"", "\"r-4\""]);
    assert_eq!((page.total, page.served, page.tokens), (4, 3, 28));
}

#[test]
fn a_full_queue_drops_and_counts_and_never_blocks() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    // The writer cannot commit while somebody else writes.
    let blocker = Connection::open(folder.path().join("logs.sqlite")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    for n in 0..12_000 {
        store.log(log(&format!("r-{n}")));
    }
    assert!(store.logs_dropped() >= 1_000, "{}", store.logs_dropped());
    blocker.execute_batch("COMMIT").unwrap();
}
