//! The config of the demo's nodes: two providers, both played by the mock.

use serde_json::{Value, json};

/// What the demo's traffic asks for.
pub const MODEL: &str = "openai/gpt-4o";

/// A key of the demo: its id in the config, and the secret that the mock sees.
#[derive(Clone, Copy, Debug)]
pub struct DemoKey {
    /// The provider's name.
    pub provider: &'static str,
    /// Key id.
    pub key_id: &'static str,
    /// Its value.
    pub secret: &'static str,
}

/// The keys that serve [`MODEL`].
pub const KEYS: [DemoKey; 3] = [
    DemoKey {
        provider: "openai",
        key_id: "openai-a",
        secret: "sk-demo-openai-a",
    },
    DemoKey {
        provider: "openai",
        key_id: "openai-b",
        secret: "sk-demo-openai-b",
    },
    DemoKey {
        provider: "openai",
        key_id: "openai-c",
        secret: "sk-demo-openai-c",
    },
];

/// The config file: `openai` with three keys, `spare` with one, both at the mock.
#[must_use]
pub fn config_file(mock_url: &str) -> Value {
    let key = |id: &str, secret: &str| json!({ "id": id, "name": id, "value": secret, "models": ["*"], "weight": 1 });
    let network = |provider: &str| {
        json!({
            "base_url": format!("{mock_url}/{provider}"),
            "max_retries": 2,
            "retry_backoff_initial": 50,
            "retry_backoff_max": 500,
        })
    };
    json!({
        "version": 2,
        "client": { "enable_logging": true },
        "providers": {
            "openai": {
                "keys": KEYS.map(|k| key(k.key_id, k.secret)),
                "network_config": network("openai"),
            },
            "spare": {
                "keys": [key("spare-a", "sk-demo-spare-a")],
                "network_config": network("spare"),
                "custom_provider_config": { "base_provider_type": "openai" },
            },
        },
        "load_balancer_config": { "enabled": true },
    })
}

/// Lets the nodes call a mock on a private network, and asks admins for this token.
pub(super) fn open_to_network(config: &mut Value, token: &str) {
    for provider in ["openai", "spare"] {
        config["providers"][provider]["network_config"]["allow_private_network"] = true.into();
    }
    config["auth_config"] = json!({
        "is_enabled": true,
        "api_keys": [{ "name": "chaos", "value": token, "scopes": ["*:*"] }],
    });
}
