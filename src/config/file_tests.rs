//! Tests of reading config.json.

use serde_json::{Value, json};

use super::*;

fn env(name: &str) -> Option<String> {
    (name == "SET").then(|| "sk-from-env".to_owned())
}

fn load(config: &Value) -> Result<Loaded, ConfigErrors> {
    Config::parse(&config.to_string(), &env)
}

fn errors(config: &Value) -> String {
    load(config).unwrap_err().to_string()
}

fn warnings(config: &Value) -> String {
    let lines = load(config).unwrap().warnings;
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn provider(fields: Value) -> Value {
    json!({"providers": {"openai": fields}})
}

fn key(fields: &Value) -> Value {
    let mut key = json!({"name": "k", "value": "sk-1", "models": ["*"], "weight": 1});
    for (name, value) in fields.as_object().unwrap() {
        key[name] = value.clone();
    }
    key
}

#[test]
fn every_mistake_is_told_at_once_with_its_path() {
    let config = json!({
        "version": 3,
        "source_of_truth": "me",
        "providers": {
            "openai": {
                "keys": [
                    key(&json!({"id": "a", "value": "env.NOT_SET", "weight": -1})),
                    key(&json!({"id": "a", "name": "second", "models": ["*", "gpt-4o"]})),
                    key(&json!({"id": "b", "models": ["x", "x"], "enabled": "yes"})),
                    {"value": "sk-2"},
                    {"name": "no value", "models": []},
                    7,
                ],
                "network_config": {"max_retries": -1, "retry_backoff_max": [], "retry_budget": {"ratio": 11, "min_per_second": 0.5}, "base_url": "not a url",
                    "default_request_timeout_in_seconds": "fast", "extra_headers": {"host": "x", "a b": "y"}},
            },
            "lab": {"keys": []},
            "meta": {"custom_provider_config": {"base_provider_type": "openai"},
                "network_config": {"base_url": "http://169.254.169.254/"}},
            "near": {"custom_provider_config": {"base_provider_type": "openai", "is_key_less": true}, "keys": [key(&json!({}))],
                "network_config": {"base_url": "http://10.0.0.1:8000"}},
            "nowhere": {"custom_provider_config": {"base_provider_type": "openai"}, "keys": [key(&json!({}))]},
            "a/b": {"custom_provider_config": {}, "network_config": {"base_url": "ftp://u:p@host"}},
        },
        "cluster_config": {"enabled": true, "peers": ["n2"], "gossip": {"port": 70000}, "type": "broker", "region": "us east"},
        "load_balancer_config": {"reroute_target": "nowhere"},
        "adaptive_routing": {},
        "auth_config": {"admin_username": "root"},
        "client": {"direct_key_scope": "x", "max_request_body_size_mb": 0},
        "encryption_key": "vault.a",
    });
    insta::assert_snapshot!(errors(&config));
}

#[test]
fn broken_json_is_told_with_line_and_column() {
    let told = Config::parse("{\n  \"providers\": {,}\n}", &env).unwrap_err();
    insta::assert_snapshot!(told.to_string(), @"is not JSON: key must be a string at line 2 column 17");
    let told = Config::parse("[]", &env).unwrap_err();
    insta::assert_snapshot!(told.to_string(), @"must be an object, not a list");
}

#[test]
fn what_is_not_acted_on_warns_and_loads() {
    let config = json!({
        "$schema": "x", "plugins": ["x"], "moon": 1,
        "mcp": {}, "client": {"drop_excess_requests": true, "compat": {}, "initial_pool_size": 3, "enable_loging": true},
        "providers": {
            "openai": {"keys": [key(&json!({"models": [], "colour": 1}))], "proxy_config": {"type": "none"},
                "network_config": {"retry_moon_phase": "full", "insecure_skip_verify": true}},
            "anthropic": {"keys": []},
        },
        "load_balancer_config": {"error_weight": 0.9},
        "governance": {"teams": [{}], "auth_config": {"is_enabled": false, "admin_username": "x", "admin_password": "env.NOT_SET"}},
        "cluster_config": {"discovery": {"enabled": true, "type": "consul"}},
    });
    insta::assert_snapshot!(warnings(&config));
}

#[test]
fn references_resolve_from_the_environment_in_every_form() {
    let reference = json!({"value": "", "env_var": "SET", "from_env": true});
    let config = provider(json!({"keys": [
        key(&json!({"name": "a", "value": "env.SET"})), key(&json!({"name": "b", "value": reference}))]}));
    let loaded = load(&config).unwrap().config;
    for key in &loaded.providers["openai"].keys {
        assert_eq!(key.value.expose(), "sk-from-env");
    }
}

#[test]
fn version_one_reads_an_empty_list_as_everything() {
    let mut config = provider(json!({"keys": [key(&json!({"models": []}))]}));
    let models = |config: &Value| {
        load(config).unwrap().config.providers["openai"].keys[0]
            .models
            .clone()
    };
    assert_eq!(
        models(&config),
        holdline_core::routing::ModelRule::Only([].into())
    );
    config["version"] = json!(1);
    assert_eq!(models(&config), holdline_core::routing::ModelRule::All);
}

#[test]
fn aliases_take_every_age_of_the_format() {
    let config = json!({"providers": {"azure": {"keys": [key(&json!({
        "aliases": {"a": "x", "b": {"model_id": "y", "region": "eu"}},
        "azure_key_config": {"endpoint": "https://e", "deployments": {"c": "z"}}}))]}}});
    let aliases = &load(&config).unwrap().config.providers["azure"].keys[0].aliases;
    let shown: Vec<_> = aliases
        .iter()
        .map(|(name, id)| format!("{name}={id}"))
        .collect();
    assert_eq!(shown, ["a=x", "b=y", "c=z"]);
}

#[test]
fn durations_are_numbers_or_go_texts() {
    let config = provider(json!({"keys": [key(&json!({}))], "network_config": {
        "retry_backoff_initial": "600ms", "retry_backoff_max": 2000, "default_request_timeout_in_seconds": 7,
        "stream_idle_timeout_in_seconds": "1m", "base_url": "http://127.0.0.1:9101/v1/"}}));
    let loaded = load(&config).unwrap().config;
    let openai = &loaded.providers["openai"];
    assert_eq!(openai.network.retry.backoff_initial_ms, 600);
    assert_eq!(openai.network.network.request_timeout.as_secs(), 7);
    assert_eq!(openai.network.network.stream_idle_timeout.as_secs(), 60);
    assert_eq!(openai.base_url, "http://127.0.0.1:9101/v1");
    assert_eq!(openai.chat_path, "/v1/chat/completions");
}

#[test]
fn a_retry_budget_is_off_until_its_block_stands() {
    let budget = |network: Value| {
        let config = provider(json!({"keys": [key(&json!({}))], "network_config": network}));
        let loaded = load(&config).unwrap().config;
        let budget = loaded.providers["openai"].network.retry.budget;
        budget.map(|rule| (rule.ratio_permille, rule.min_per_second))
    };
    assert_eq!(budget(json!({})), None);
    assert_eq!(budget(json!({"retry_budget": {}})), Some((200, 10)));
    let given = json!({"retry_budget": {"ratio": 0.0155, "min_per_second": 0}});
    assert_eq!(budget(given), Some((16, 0)));
}

#[test]
fn keys_of_a_file_without_ids_are_the_same_in_every_life() {
    let config = provider(json!({"keys": [key(&json!({}))]}));
    let id = |config| {
        load(config).unwrap().config.providers["openai"].keys[0]
            .id
            .clone()
    };
    assert_eq!(id(&config), id(&config));
}

#[test]
fn the_cluster_block_takes_both_names_of_its_ports() {
    let config = json!({"cluster_config": {"enabled": true, "node_id": "n1", "region": "eu", "peers": ["h:1"], "gossip": {"port": 7},
        "grpc": {"port": 8}, "secret": "env.SET", "previous_secrets": ["old"],
        "discovery": {"type": "dns", "dns_names": ["nodes.local"]}}});
    let cluster = load(&config).unwrap().config.cluster;
    assert!(cluster.enabled);
    assert_eq!((cluster.gossip_port, cluster.rpc_port), (7, 8));
    assert_eq!(cluster.peers, ["h:1", "nodes.local:7"]);
    assert_eq!(cluster.secret.unwrap().expose(), "sk-from-env");
    let newer = json!({"cluster_config": {"rpc": {"port": 9}}});
    let newer = load(&newer).unwrap().config.cluster;
    assert_eq!((newer.rpc_port, newer.enabled), (9, false));
}

#[test]
fn a_login_is_on_unless_it_is_switched_off() {
    let login = |fields: Value| load(&json!({"auth_config": fields})).unwrap().config.admin;
    let on = json!({"admin_username": "root", "admin_password": "pw"});
    assert_eq!(login(on.clone()).unwrap().user.unwrap().name, "root");
    let mut off = on;
    off["is_enabled"] = json!(false);
    assert_eq!(login(off), None);
    let keys =
        json!({"api_keys": [{"name": "ci", "value": "bfst-1", "scopes": ["AdaptiveRouter:View"]}]});
    let scope = &login(keys).unwrap().api_keys[0].scopes[0];
    assert!(scope.permits("AdaptiveRouter", "View") && !scope.permits("AdaptiveRouter", "Update"));
}

#[test]
fn debug_of_a_config_shows_no_secret() {
    let config = json!({"encryption_key": "topsecret-1", "auth_config": {"admin_username": "root", "admin_password": "topsecret-2"},
        "cluster_config": {"secret": "topsecret-3"}, "providers": {"openai": {"network_config": {"extra_headers": {"x-a": "topsecret-4"}},
        "keys": [key(&json!({"value": "topsecret-5", "azure_key_config": {"client_secret": "topsecret-6"}}))]}}});
    let shown = format!("{:?}", load(&config).unwrap());
    assert!(!shown.contains("topsecret"), "{shown}");
}

#[test]
fn a_file_that_is_not_there_is_one_line() {
    let told = Config::load(Some(Path::new("no/such/config.json"))).unwrap_err();
    assert!(
        told.to_string()
            .starts_with("cannot read no/such/config.json: ")
    );
    assert!(Config::load(None).unwrap().config.providers.is_empty());
}

#[test]
fn failure_rules_are_read_in_order() {
    let config = json!({
        "client": {"extended_failure_signals": false, "moderation_403_holds": true},
        "failure_rules": [
            {"provider": "openai", "status": 403, "code": "c", "type": "t", "message_contains": "Words", "class": "quota"},
            {"status": 524, "class": "transient"},
        ],
    });
    let classifier = load(&config).unwrap().config.classifier;
    assert!(!classifier.extended_signals && classifier.moderation_holds);
    let [first, second] = &classifier.own[..] else {
        panic!("{:?}", classifier.own);
    };
    assert_eq!(first.class.as_str(), "quota");
    assert_eq!(
        (first.code.as_deref(), first.kind.as_deref()),
        (Some("c"), Some("t"))
    );
    assert_eq!((second.status, &second.provider), (Some(524), &None));
}

#[test]
fn a_rule_that_would_match_too_much_is_refused() {
    let config = json!({"failure_rules": [
        {"class": "quota"},
        {"provider": "openai", "class": "quota"},
        {"status": 403, "class": "out_of_money"},
        {"status": 403, "class": "cancelled"},
        {"status": 403},
        {"status": 403, "message": "x", "class": "quota"},
        {"status": 42, "code": "", "class": "quota"},
        7,
    ]});
    insta::assert_snapshot!(errors(&config));
    let elsewhere =
        json!({"failure_rules": [{"provider": "lab", "status": 403, "class": "quota"}]});
    assert!(
        warnings(&elsewhere).starts_with("failure_rules[0].provider: is no provider of this file")
    );
}
