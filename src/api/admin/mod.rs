//! The admin API: an axum router over the node. Handlers parse, call the node, answer.
//!
//! An edit is in this node's database before the answer, and in force; other nodes hear of it at once.

mod body;
mod classify;
mod cluster;
mod conditions;
mod config;
mod edits;
mod explain;
mod history;
mod keys;
mod logs;
mod providers;
mod redact;
pub(crate) mod refusal;
mod session;
mod settings;
mod status;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, Uri};

use super::auth::{Auth, Permission};
use super::{health, metrics, paths};
use crate::node::Node;
use crate::server::Peer;
use crate::store::StoreError;
use refusal::Refusal;

/// What handlers work on.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    node: Arc<Node>,
    auth: Arc<Auth>,
}

type Answer = Result<Response, Refusal>;

/// Serves `/health`, `/ready`, `/metrics` and `/api/*`. Callers' addresses come as the request
/// extension [`Peer`].
pub fn router(node: Arc<Node>) -> Router {
    let auth = Auth::new(node.config.admin.clone(), node.place.http.ip());
    let health = health::router(Arc::clone(&node));
    let metrics = metrics::router(Arc::clone(&node));
    let admin = Admin {
        node,
        auth: Arc::new(auth),
    };
    Router::new()
        .route(paths::VERSION, get(config::version))
        .route(paths::CONFIG, get(config::show))
        .route(paths::SESSION_LOGIN, post(session::login))
        .route(paths::SESSION_LOGOUT, post(session::logout))
        .route(
            paths::SESSION_IS_AUTH_ENABLED,
            get(session::is_auth_enabled),
        )
        .route(
            paths::PROVIDERS,
            get(providers::list).post(providers::create),
        )
        .route(
            paths::PROVIDER,
            get(providers::show)
                .put(providers::replace)
                .delete(providers::delete),
        )
        .route(paths::PROVIDER_KEYS, get(keys::list).post(keys::create))
        .route(
            paths::PROVIDER_KEY,
            get(keys::show).put(keys::replace).delete(keys::delete),
        )
        .route(paths::KEYS, get(keys::list_all))
        .route(
            paths::ADAPTIVE_CONFIG,
            get(settings::show).put(settings::replace),
        )
        .route(
            paths::LOAD_BALANCER_CONFIG,
            get(settings::show_deprecated).put(settings::replace_deprecated),
        )
        .route(paths::ADAPTIVE_STATUS, get(status::show))
        .route(paths::EXPLAIN, get(explain::show))
        .route(paths::CONDITIONS, get(conditions::list))
        .route(paths::CONDITIONS_CLEAR, post(conditions::clear))
        .route(paths::HISTORY_ISSUES, get(history::issues))
        .route(paths::HISTORY_SCORES, get(history::scores))
        .route(paths::CLASSIFY, post(classify::classify))
        .route(paths::CLUSTER_STATUS, get(cluster::status))
        .route(paths::LOGS, get(logs::list))
        .route(paths::LOG, get(logs::show))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .with_state(admin.clone())
        .merge(health.method_not_allowed_fallback(wrong_method))
        .merge(metrics.method_not_allowed_fallback(wrong_method))
        .layer(middleware::from_fn_with_state(admin, guard))
        .layer(middleware::from_fn(name_path))
}

/// Tells the front door which path matched: what metrics are counted by.
async fn name_path(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(path) = path {
        response.extensions_mut().insert(path);
    }
    response
}

/// Every call passes here: public paths, others with the permission they need.
async fn guard(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !is_public(path) {
        let needs = permission(path, request.method());
        let peer = peer(&request);
        let checked = admin
            .auth
            .check(request.headers(), peer, needs, now_seconds())
            .and_then(|()| refuse_foreign_name(&admin, &request))
            .and_then(|()| refuse_foreign_page(&admin, request.method(), request.headers()));
        if let Err(refusal) = checked {
            return refusal.into_response();
        }
    }
    next.run(request).await
}

fn is_public(path: &str) -> bool {
    [
        paths::HEALTH,
        paths::READY,
        paths::SESSION_LOGIN,
        paths::SESSION_IS_AUTH_ENABLED,
    ]
    .contains(&path)
}

/// What a scoped API key needs for a path. Paths that do not exist need something too, so that nobody
/// can find out which do.
fn permission(path: &str, method: &Method) -> Permission {
    let starts = |prefix: &str| path.starts_with(prefix);
    let writes = *method != Method::GET && *method != Method::HEAD;
    let operation = match method.as_str() {
        "POST" => "Create",
        "DELETE" => "Delete",
        _ if writes => "Update",
        _ => "View",
    };
    let only_update = if writes { "Update" } else { "View" };
    let (resource, operation) = if starts(paths::PROVIDERS) || starts(paths::KEYS) {
        ("ModelProvider", operation)
    } else if starts("/api/adaptive-routing") || starts(paths::LOAD_BALANCER_CONFIG) {
        ("AdaptiveRouter", only_update)
    } else if path == paths::CLASSIFY {
        // It changes nothing.
        ("AdaptiveRouter", "View")
    } else if starts("/api/cluster") {
        ("Cluster", only_update)
    } else if starts(paths::LOGS) {
        ("Logs", operation)
    } else if starts(paths::METRICS) {
        ("Metrics", operation)
    } else {
        ("Governance", only_update)
    };
    Permission {
        resource,
        operation,
    }
}

/// Without a login a name that leads to this node by somebody else's DNS must not make a browser's page
/// one of ours.
fn refuse_foreign_name(admin: &Admin, request: &Request) -> Result<(), Refusal> {
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let authority = host.and_then(|host| host.parse::<Authority>().ok());
    let authority = authority.as_ref().or(request.uri().authority());
    let Some(name) = authority
        .map(Authority::host)
        .filter(|_| !admin.auth.is_enabled())
    else {
        return Ok(());
    };
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    let own = name == "localhost" || name == admin.node.place.advertise_host;
    if own || address.is_ok() {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "without a login the admin API is called by address, localhost or the advertised host: set auth_config",
    ))
}

/// A page of another site must not change anything through its visitor's browser.
fn refuse_foreign_page(admin: &Admin, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(ORIGIN).filter(|_| *method != Method::GET) else {
        return Ok(());
    };
    let uri: Option<Uri> = origin.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    let host = authority.map(Authority::host).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let near = host == "localhost" || address.is_ok_and(|ip| ip.is_loopback());
    let own = authority.is_some_and(|authority| Some(authority.as_str()) == text(HOST));
    let allowed = &admin.node.config.client.allowed_origins;
    if near || own || allowed.iter().any(|allowed| allowed == origin) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "pages of another origin may not change anything here: see client.allowed_origins",
    ))
}

async fn nothing_there(uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::not_found(format!(
        "there is nothing at {path}: see docs/api.md for the admin API"
    ))
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path} does not take {method}"),
    )
}

fn peer(request: &Request) -> Option<IpAddr> {
    request
        .extensions()
        .get::<Peer>()
        .map(|peer| peer.address.ip())
}

fn now_seconds() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

impl Admin {
    /// Runs what waits for the disk where it may wait.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Node) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let node = Arc::clone(&self.node);
        Ok(tokio::task::spawn_blocking(move || work(&node)).await??)
    }

    /// Saves edits: durable and in force here when this returns. `None` deletes.
    async fn save(&self, edits: Vec<(String, Option<String>)>) -> Result<(), Refusal> {
        self.blocking(move |node| node.write_documents(edits)).await
    }
}

#[cfg(test)]
mod tests;
