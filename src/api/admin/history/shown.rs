//! History as the API shows it.

use std::collections::BTreeMap;

use holdline_core::ids::KeyId;
use holdline_core::incidents::{Event, Extent, Incident, Summary};
use serde_json::{Value, json};

use crate::node::history::NodeScores;
use crate::store::scores::STATES;
use crate::timestamp::wall_text;

pub(super) fn issue(incident: &Incident) -> Value {
    let key_ids: Vec<&KeyId> = incident.keys.keys().collect();
    json!({
        "id": incident.id,
        "entity": incident.entity.to_string(),
        "scope": incident.entity.extent().name(),
        "status": incident.status.name(),
        "reason": incident.cause.words(),
        "failure_class": incident.cause.class(),
        "status_code": Some(incident.status_code).filter(|code| *code > 0),
        "message": incident.words,
        "provider": incident.entity.provider(),
        "models": incident.models,
        "key_ids": key_ids,
        "key_names": incident.keys,
        "worst_state": incident.worst.name(),
        "opened_at": wall_text(incident.opened_at),
        "resolved_at": incident.resolved_at.map(wall_text),
        "duration_ms": incident.duration_ms,
        "nodes": incident.nodes,
        "regions": incident.regions,
        "refused_again": incident.refused_again,
        "pinned_kept_failed": incident.pinned_kept_failed,
        "reopened": incident.reopened,
        "timeline": incident.timeline.iter().map(event).collect::<Vec<_>>(),
    })
}

fn event(event: &Event) -> Value {
    json!({
        "at": wall_text(event.at),
        "node_id": event.node,
        "event": event.turn.name(),
        "failure_class": event.class,
    })
}

pub(super) fn summary(summary: &Summary) -> Value {
    json!({
        "attention": summary.attention,
        "ongoing": summary.ongoing,
        "resolved": summary.resolved,
        "median_resolve_ms": summary.median_resolve_ms,
        "longest_ongoing_ms": summary.longest_ongoing_ms,
        "pinned_kept_failed": summary.pinned_kept_failed,
    })
}

/// The names of the keys that these are about.
pub(super) fn key_names<'a>(
    listed: impl Iterator<Item = &'a Incident>,
) -> BTreeMap<&'a KeyId, &'a str> {
    listed
        .flat_map(|incident| &incident.keys)
        .map(|(id, name)| (id, name.as_str()))
        .collect()
}

pub(super) fn series(node: &NodeScores) -> impl Iterator<Item = Value> {
    node.series.iter().map(|series| {
        let entity = &series.entity;
        let points = series.points.iter().map(|point| {
            let state = STATES.get(usize::from(point.state));
            json!([wall_text(point.at), point.value, state])
        });
        json!({
            "node_id": node.node_id,
            "region": node.region,
            "entity": entity.to_string(),
            "provider": entity.provider(),
            "model": entity.model(),
            "key_id": entity.key(),
            "value": if entity.extent() == Extent::Direction { "score" } else { "weight" },
            "points": points.collect::<Vec<_>>(),
        })
    })
}
