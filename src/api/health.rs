//! `GET /health` and `GET /ready`: public, cheap, safe to ask every second.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::paths;
use crate::node::Node;

/// Both routes.
pub fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route(paths::HEALTH, get(health))
        .route(paths::READY, get(ready))
        .with_state(node)
}

/// 200 while the process can serve, with what does not work beside it.
async fn health(State(node): State<Arc<Node>>) -> Json<Value> {
    let store = if node.store().health().is_none() {
        "ok"
    } else {
        "degraded"
    };
    Json(json!({
        "status": "ok",
        "node_id": node.id,
        "version": env!("CARGO_PKG_VERSION"),
        "components": { "db_pings": store },
    }))
}

/// 200 once the table is here, 503 before and while draining.
async fn ready(State(node): State<Arc<Node>>) -> (StatusCode, Json<Value>) {
    let (ready, body) = node.ready();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(body))
}
