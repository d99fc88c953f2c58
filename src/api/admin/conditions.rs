//! Held keys: the view that is the same on every node, and releasing by hand.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use holdline_core::failure::{FailureClass, Scope};
use holdline_core::holds::{Body, HeldRow, HoldState, Register, Selector, Subject};
use holdline_core::ids::{KeyId, ModelId, ProviderId};
use holdline_core::time::WallMs;
use serde::Serialize;
use serde_json::json;

use super::refusal::Refusal;
use super::{Admin, Answer, body};
use crate::node::Node;
use crate::timestamp::serialize_wall;

/// One line of the view.
#[derive(Debug, Serialize)]
struct Condition {
    provider: ProviderId,
    key_id: KeyId,
    key_name: String,
    scope: Scope,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ModelId>,
    failure_class: FailureClass,
    reason: &'static str,
    status_code: u16,
    message: String,
    rung: u8,
    wait_ms: u64,
    wait_source: &'static str,
    #[serde(serialize_with = "serialize_wall")]
    held_at: WallMs,
    #[serde(serialize_with = "serialize_wall")]
    last_refused_at: WallMs,
    #[serde(serialize_with = "serialize_wall")]
    next_check_at: WallMs,
    state: &'static str,
    origin_node: String,
    origin_region: String,
    version: String,
}

/// `GET /api/adaptive-routing/conditions`.
pub(super) async fn list(State(admin): State<Admin>) -> Answer {
    let node = &admin.node;
    let conditions: Vec<Condition> = node
        .held()
        .into_iter()
        .filter_map(|row| condition(node, row))
        .collect();
    let view = json!({
        "node_id": node.id,
        "region": node.region,
        "digest": node.digest(),
        "count": conditions.len(),
        "conditions": conditions,
    });
    Ok(Json(view).into_response())
}

fn condition(node: &Node, row: HeldRow) -> Option<Condition> {
    let Body::Held {
        rung, reason, wait, ..
    } = row.record.register.body
    else {
        return None;
    };
    let (subject, details) = (row.record.subject, row.record.details);
    let live = node.live();
    let key = live.key(&subject.provider, &subject.key);
    Some(Condition {
        key_name: key.map(|key| key.spec.name.clone()).unwrap_or_default(),
        scope: subject.scope.kind(),
        model: subject.scope.model().cloned(),
        provider: subject.provider,
        key_id: subject.key,
        failure_class: reason.class(),
        reason: reason.words(),
        status_code: details.status,
        message: details.words,
        rung,
        wait_ms: wait.ms,
        wait_source: if wait.stated { "provider" } else { "ladder" },
        held_at: details.held_at,
        last_refused_at: details.refused_at,
        next_check_at: node.clock.wall_at(row.due),
        state: match row.state {
            HoldState::Held => "held",
            HoldState::Due => "due",
            HoldState::Checking => "checking",
        },
        origin_node: details.origin,
        origin_region: details.origin_region,
        version: version(&row.record.register),
    })
}

/// The register's place in the order of its subject's registers, as text.
fn version(register: &Register) -> String {
    let Register {
        release,
        seq,
        stamp,
        ..
    } = register;
    format!(
        "{}.{}.{:x}/{seq}/{}.{}.{:x}",
        release.ms, release.counter, release.node, stamp.ms, stamp.counter, stamp.node
    )
}

/// `POST /api/adaptive-routing/conditions/clear`.
pub(super) async fn clear(State(admin): State<Admin>, body: Bytes) -> Answer {
    let what = selector(&body)?;
    let released = admin.blocking(move |node| node.release(&what)).await?;
    let cleared: Vec<String> = released
        .iter()
        .map(|record| name(&record.subject))
        .collect();
    tracing::info!(count = cleared.len(), "held keys released by hand");
    Ok(Json(json!({"count": cleared.len(), "cleared": cleared})).into_response())
}

/// What the body names. A field that is not known would release more than was meant: it is refused.
fn selector(bytes: &[u8]) -> Result<Selector, Refusal> {
    let fields = body::object(bytes)?;
    for name in fields.keys() {
        if !["provider", "key_id", "model"].contains(&name.as_str()) {
            return Err(Refusal::bad(format!(
                "unknown field {name:?}: the body names provider, key_id and model"
            )));
        }
    }
    let provider = body::text(&fields, "provider")?.map(ProviderId::from);
    let key = body::text(&fields, "key_id")?.map(KeyId::from);
    let model = body::text(&fields, "model")?.map(ModelId::from);
    match (provider, key, model) {
        (None, None, None) => Ok(Selector::All),
        (Some(provider), None, None) => Ok(Selector::Provider(provider)),
        (Some(provider), Some(key), None) => Ok(Selector::Key(provider, key)),
        (Some(provider), Some(key), Some(model)) => Ok(Selector::Model(provider, key, model)),
        (None, Some(_), None) => Err(Refusal::bad("key_id needs provider beside it")),
        (_, _, Some(_)) => Err(Refusal::bad("model needs provider and key_id beside it")),
    }
}

/// How a released subject is told: a whole key by its id, a model by its route.
fn name(subject: &Subject) -> String {
    match subject.scope.model() {
        None => subject.key.to_string(),
        Some(model) => format!(
            "{}:lb-identifier:{model}:lb-identifier:{}",
            subject.provider, subject.key
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_all_a_provider_a_key_or_a_model() {
        let read = |body: &str| selector(body.as_bytes()).unwrap();
        assert_eq!(read(""), Selector::All);
        assert_eq!(read("{\"model\":null}"), Selector::All);
        assert_eq!(read("{\"provider\":\"p\"}"), Selector::Provider("p".into()));
        assert_eq!(
            read("{\"provider\":\"p\",\"key_id\":\"k\",\"model\":\"m\"}"),
            Selector::Model("p".into(), "k".into(), "m".into())
        );
    }

    #[test]
    fn what_could_mean_more_than_was_meant_is_refused() {
        for body in [
            "{\"key_id\":\"k\"}",
            "{\"model\":\"m\"}",
            "{\"provider\":\"p\",\"model\":\"m\"}",
            "{\"provider\":\"\"}",
            "{\"provider\":7}",
            "{\"provder\":\"p\"}",
            "[]",
            "{not json",
        ] {
            assert!(selector(body.as_bytes()).is_err(), "{body}");
        }
    }
}
