//! Tests of merging file and edits.

use holdline_core::time::Hlc;
use serde_json::{Value, json};

use super::*;

fn config(config: &Value) -> Config {
    Config::parse(&config.to_string(), &|_| None)
        .unwrap()
        .config
}

fn two_keys() -> Value {
    json!({"providers": {"openai": {"keys": [key("k-a", "sk-a"), key("k-b", "sk-b")]}}})
}

fn key(id: &str, value: &str) -> Value {
    json!({"id": id, "name": id, "value": value, "models": ["*"], "weight": 1})
}

/// Documents written one after the other.
fn edits(edits: &[(&str, Option<Value>)]) -> Documents {
    let mut documents = Documents::default();
    for (n, (name, body)) in edits.iter().enumerate() {
        documents.merge(Document {
            name: (*name).to_owned(),
            stamp: Hlc {
                ms: n as u64 + 1,
                counter: 0,
                node: 7,
            },
            body: body.as_ref().map(Value::to_string),
        });
    }
    documents
}

fn build(file: &Value, documents: &Documents) -> Catalog {
    Catalog::build_with(&config(file), documents, &|_| None)
}

/// `id=value` of every key of a provider.
fn keys(catalog: &Catalog, provider: &str) -> Vec<String> {
    let found = catalog.providers.get(provider);
    let keys = found.iter().flat_map(|provider| &provider.keys);
    keys.map(|key| format!("{}={}", key.spec.id, key.value.expose()))
        .collect()
}

fn print_of(catalog: &Catalog, place: usize) -> Fingerprint {
    catalog.providers["openai"].keys[place].spec.fingerprint
}

#[test]
fn a_saved_key_wins_over_the_file_and_keeps_its_place() {
    let documents = edits(&[
        ("key/openai/k-a", Some(key("k-a", "sk-new"))),
        ("key/openai/k-c", Some(key("k-c", "sk-c"))),
    ]);
    let catalog = build(&two_keys(), &documents);
    assert_eq!(
        keys(&catalog, "openai"),
        ["k-a=sk-new", "k-b=sk-b", "k-c=sk-c"]
    );
}

#[test]
fn tombstones_delete_keys_and_providers() {
    let catalog = build(&two_keys(), &edits(&[("key/openai/k-a", None)]));
    assert_eq!(keys(&catalog, "openai"), ["k-b=sk-b"]);
    let catalog = build(&two_keys(), &edits(&[("provider/openai", None)]));
    assert!(catalog.providers.is_empty());
}

#[test]
fn a_saved_provider_wins_and_keeps_the_files_keys() {
    let saved = json!({"network_config": {"base_url": "http://127.0.0.1:1", "max_retries": 4}});
    let lab = json!({"network_config": {"base_url": "http://127.0.0.1:2"},
        "custom_provider_config": {"base_provider_type": "openai"}});
    let documents = edits(&[
        ("provider/openai", Some(saved)),
        ("provider/lab", Some(lab)),
        ("key/lab/l", Some(key("l", "sk-l"))),
        ("key/orphan/o", Some(key("o", "sk-o"))),
    ]);
    let catalog = build(&two_keys(), &documents);
    assert_eq!(catalog.providers["openai"].retry.max_retries, 4);
    assert_eq!(keys(&catalog, "openai").len(), 2);
    assert_eq!(keys(&catalog, "lab"), ["l=sk-l"]);
    assert_eq!(catalog.providers.len(), 2);
}

#[test]
fn a_file_that_is_the_truth_wins_over_edits() {
    let mut file = two_keys();
    file["source_of_truth"] = json!("config.json");
    let documents = edits(&[
        ("key/openai/k-a", None),
        (
            "provider/lab",
            Some(json!({"custom_provider_config": {"base_provider_type": "openai"}})),
        ),
        ("settings", Some(json!(Settings::default()))),
    ]);
    let catalog = build(&file, &documents);
    assert_eq!(keys(&catalog, "openai"), ["k-a=sk-a", "k-b=sk-b"]);
    assert_eq!(catalog.providers.len(), 1);
}

#[test]
fn an_edit_that_this_node_cannot_use_is_left_out_and_told() {
    let documents = edits(&[("key/openai/k-c", Some(key("k-c", "env.ONLY_ELSEWHERE")))]);
    let catalog = build(&two_keys(), &documents);
    assert_eq!(keys(&catalog, "openai").len(), 2);
    let told = catalog.problems[0].to_string();
    assert!(
        told.starts_with("key/openai/k-c value: ") && told.contains("ONLY_ELSEWHERE"),
        "{told}"
    );
}

#[test]
fn a_fingerprint_is_the_same_in_every_life() {
    let first = build(&two_keys(), &Documents::default());
    assert_eq!(
        print_of(&first, 0),
        print_of(&build(&two_keys(), &Documents::default()), 0)
    );
    assert_ne!(print_of(&first, 0), print_of(&first, 1));
    // Holds of a running cluster are found again by this number: it must not change by accident.
    assert_eq!(print_of(&first, 0), Fingerprint(5_795_280_127_943_304_847));
}

#[test]
fn what_cannot_change_an_answer_leaves_the_fingerprint_alone() {
    let before = print_of(&build(&two_keys(), &Documents::default()), 0);
    for (field, value) in [
        ("weight", json!(1000)),
        ("name", json!("renamed")),
        ("description", json!("x")),
        ("models", json!(["gpt-4o"])),
        ("blacklisted_models", json!(["o3"])),
        ("enabled", json!(false)),
    ] {
        let mut file = two_keys();
        file["providers"]["openai"]["keys"][0][field] = value;
        file["providers"]["openai"]["network_config"] = json!({"max_retries": 9});
        assert_eq!(
            before,
            print_of(&build(&file, &Documents::default()), 0),
            "{field}"
        );
    }
    for (field, value) in [
        ("value", json!("sk-other")),
        ("aliases", json!({"a": "b"})),
        ("vllm_key_config", json!({"url": "http://127.0.0.1:1"})),
        ("azure_key_config", json!({"endpoint": "https://e"})),
    ] {
        let mut file = two_keys();
        file["providers"]["openai"]["keys"][0][field] = value;
        assert_ne!(
            before,
            print_of(&build(&file, &Documents::default()), 0),
            "{field}"
        );
    }
}

#[test]
fn any_edit_through_the_api_makes_another_key() {
    let same = Some(key("k-a", "sk-a"));
    let in_file = print_of(&build(&two_keys(), &Documents::default()), 0);
    let once = print_of(
        &build(&two_keys(), &edits(&[("key/openai/k-a", same.clone())])),
        0,
    );
    let again = edits(&[
        ("key/openai/k-a", same.clone()),
        ("key/openai/k-a", None),
        ("key/openai/k-a", same),
    ]);
    let again = print_of(&build(&two_keys(), &again), 0);
    assert!(in_file != once && once != again && in_file != again);
}

#[test]
fn saved_settings_win_unless_the_file_is_the_truth() {
    let file = json!({"load_balancer_config": {"prune_failed_fallbacks": true}});
    assert!(settings(&config(&file), &Documents::default()).prune_failed_fallbacks);
    let saved = edits(&[("settings", Some(json!(Settings::default())))]);
    assert_eq!(settings(&config(&file), &saved), Settings::default());
    let mut strict = file;
    strict["source_of_truth"] = json!("config.json");
    assert!(settings(&config(&strict), &saved).prune_failed_fallbacks);
}

#[test]
fn the_view_has_every_key_and_no_secret() {
    let catalog = build(&two_keys(), &Documents::default());
    let view = catalog.view(Arc::default(), true, |_, _, _| KeyHolds::default());
    assert_eq!(view.providers["openai"].keys.len(), 2);
    let shown = format!("{view:?} {catalog:?}");
    assert!(!shown.contains("sk-a"), "{shown}");
}
