//! `GET /metrics`, as Prometheus reads it. Whoever mounts it decides who may read it.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::paths;
use crate::node::Node;
use crate::telemetry;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The route.
pub fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route(paths::METRICS, get(metrics))
        .with_state(node)
}

async fn metrics(State(node): State<Arc<Node>>) -> Response {
    match telemetry::scrape(&node) {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
