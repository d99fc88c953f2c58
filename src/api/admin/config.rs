//! What the node was told, without secrets, and which version it is.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use super::{Admin, Answer};

/// `GET /api/config`.
pub(super) async fn show(State(admin): State<Admin>) -> Answer {
    let node = &admin.node;
    let (client, rules) = (&node.config.client, &node.config.client.rules);
    let user = node
        .config
        .admin
        .as_ref()
        .and_then(|auth| auth.user.as_ref());
    let healthy = node.store().health().is_none();
    let answer = json!({
        "client_config": {
            "enable_logging": client.enable_logging,
            "log_retention_days": client.log_retention_days,
            "allowed_origins": client.allowed_origins,
            "max_request_body_size_mb": rules.max_body_bytes >> 20,
            "allow_direct_keys": rules.allow_direct_keys,
            "moderation_403_holds": rules.moderation_403_holds,
            "extended_failure_signals": rules.extended_failure_signals,
            "max_attempts_per_request": rules.max_attempts_per_request,
            "required_headers": rules.required_headers,
        },
        "failure_rules": node.config.classifier.own.len(),
        "auth_config": {
            "is_enabled": admin.auth.is_enabled(),
            "admin_username": user.map(|user| user.name.as_str()),
        },
        "source_of_truth": if node.config.file_wins { "config.json" } else { "split" },
        "node_id": node.id,
        "region": node.region,
        "is_db_connected": healthy,
        "is_logs_connected": healthy,
        "is_cache_connected": false,
        "problems": problems(&admin),
    });
    Ok(Json(answer).into_response())
}

/// `GET /api/version`.
pub(super) async fn version() -> Answer {
    Ok(Json(concat!("v", env!("CARGO_PKG_VERSION"))).into_response())
}

/// Saved edits that this node cannot use.
fn problems(admin: &Admin) -> Vec<String> {
    let live = admin.node.live();
    live.catalog
        .problems
        .iter()
        .map(ToString::to_string)
        .collect()
}
