//! What all nodes saw, as one: sightings of one trouble become one incident.

use std::collections::{BTreeMap, BTreeSet};

use super::sighting::{Cause, Entity, Event, Phase, Sighting, Status, Worst};
use crate::ids::{KeyId, ModelId, NodeId, Region};
use crate::time::WallMs;

/// Turns that an incident tells: the last ones.
const MAX_TURNS: usize = 100;

/// One trouble, as the whole cluster saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// That of its first sighting.
    pub id: String,
    /// What it is about.
    pub entity: Entity,
    /// How it stands.
    pub status: Status,
    /// Why, by whoever saw it last.
    pub cause: Cause,
    /// How bad it got.
    pub worst: Worst,
    /// When it was first seen.
    pub opened_at: WallMs,
    /// When it was over for all who saw it.
    pub resolved_at: Option<WallMs>,
    /// From its opening to its end; of one that waits for traffic, to the end of the trouble; else to now.
    pub duration_ms: u64,
    /// The models it is about.
    pub models: BTreeSet<ModelId>,
    /// The key it is about, with its name.
    pub keys: BTreeMap<KeyId, String>,
    /// Who saw it.
    pub nodes: BTreeSet<NodeId>,
    /// Where it was seen.
    pub regions: BTreeSet<Region>,
    /// It was refused again after a wait had run out.
    pub refused_again: bool,
    /// Requests that named the failing provider and stayed there, on all nodes.
    pub pinned_kept_failed: u64,
    /// How often it came back, where it did so most.
    pub reopened: u32,
    /// The provider's words.
    pub words: String,
    /// The HTTP status of the refusal; 0 where there is none.
    pub status_code: u16,
    /// What happened, in order.
    pub timeline: Vec<Event>,
}

/// Makes incidents of sightings, whatever their order, and sorts them by opening.
///
/// Sightings of one entity are of one incident if they have the same id, if they overlap, or if one ended
/// for the same class of failure no longer than `near_ms` before the next began.
#[must_use]
pub fn merge(sightings: Vec<Sighting>, near_ms: u64, now: WallMs) -> Vec<Incident> {
    let mut by_entity: BTreeMap<Entity, Vec<Sighting>> = BTreeMap::new();
    for sighting in sightings {
        by_entity
            .entry(sighting.entity.clone())
            .or_default()
            .push(sighting);
    }
    let mut incidents: Vec<Incident> = by_entity
        .into_values()
        .flat_map(|sightings| groups(sightings, near_ms))
        .map(|group| incident(&group, now))
        .collect();
    incidents.sort_by(|a, b| (a.opened_at, &a.id).cmp(&(b.opened_at, &b.id)));
    incidents
}

fn groups(mut sightings: Vec<Sighting>, near_ms: u64) -> Vec<Vec<Sighting>> {
    sightings.sort_by(|a, b| order(a).cmp(&order(b)));
    let mut groups: Vec<Vec<Sighting>> = Vec::new();
    for sighting in sightings {
        let same = groups
            .last_mut()
            .filter(|group| group.iter().any(|one| is_same(one, &sighting, near_ms)));
        match same {
            Some(group) => group.push(sighting),
            None => groups.push(vec![sighting]),
        }
    }
    groups
}

/// The whole of it at last: of two that differ anywhere, every node takes the same one first.
fn order(sighting: &Sighting) -> impl Ord {
    (sighting.opened_at, &sighting.node, &sighting.id, sighting)
}

/// `next` began no earlier.
fn is_same(one: &Sighting, next: &Sighting, near_ms: u64) -> bool {
    let Some(ended_at) = one.ended_at else {
        return true;
    };
    let gap_ms = next.opened_at.0.saturating_sub(ended_at.0);
    let is_near = gap_ms < near_ms && one.cause.class() == next.cause.class();
    one.id == next.id || gap_ms == 0 || is_near
}

/// `group` is in order of opening, and never empty.
fn incident(group: &[Sighting], now: WallMs) -> Incident {
    let first = &group[0];
    let status = status(group);
    let rank = |s: &&Sighting| (s.phase == Phase::Standing, s.changed_at, s.node.clone());
    let latest = group.iter().max_by_key(rank).unwrap_or(first);
    let resolved_at = (!status.is_open())
        .then(|| group.iter().filter_map(|s| ended(s, status)).max())
        .flatten();
    let calmed_at = group.iter().filter_map(|s| s.calmed_at).max();
    let until = resolved_at
        .or(calmed_at.filter(|_| status == Status::Waiting))
        .unwrap_or(now);
    let named = group.iter().rev().find(|s| !s.key_name.is_empty());
    let name = named.map(|s| s.key_name.clone()).unwrap_or_default();
    let told: BTreeSet<&Event> = group.iter().flat_map(|s| &s.timeline).collect();
    let skipped = told.len().saturating_sub(MAX_TURNS);
    Incident {
        id: first.id.clone(),
        entity: first.entity.clone(),
        status,
        cause: latest.cause,
        worst: group.iter().map(|s| s.worst).max().unwrap_or(first.worst),
        opened_at: first.opened_at,
        resolved_at,
        duration_ms: until.0.saturating_sub(first.opened_at.0),
        models: group.iter().flat_map(|s| s.models.clone()).collect(),
        keys: first
            .entity
            .key()
            .map(|key| (key.clone(), name))
            .into_iter()
            .collect(),
        nodes: group.iter().map(|s| s.node.clone()).collect(),
        regions: group.iter().map(|s| s.region.clone()).collect(),
        refused_again: group.iter().any(|s| s.refused_again),
        pinned_kept_failed: group
            .iter()
            .fold(0, |sum, s| sum.saturating_add(s.pinned_kept_failed)),
        reopened: group.iter().map(|s| s.reopened).max().unwrap_or_default(),
        words: latest.words.clone(),
        status_code: latest.status_code,
        timeline: told.into_iter().skip(skipped).cloned().collect(),
    }
}

/// Trouble on any node is trouble; then the least certain end of it counts.
fn status(group: &[Sighting]) -> Status {
    let is = |status: Status| group.iter().any(|s| s.status() == status);
    for standing in [Status::Attention, Status::Mitigated, Status::Recovering] {
        if is(standing) {
            return standing;
        }
    }
    let waits = |s: &Sighting| s.phase == Phase::Waiting && !proved_elsewhere(s, group);
    if group.iter().any(waits) {
        Status::Waiting
    } else if is(Status::Resolved) {
        Status::Resolved
    } else {
        Status::Unobserved
    }
}

/// A provider that refused a key refuses it everywhere: what serves on one node is proved for all. What a
/// node measured of the way to a provider is proved by its own traffic only.
fn proved_elsewhere(waiting: &Sighting, group: &[Sighting]) -> bool {
    waiting.cause.class().is_some() && group.iter().any(|s| s.phase == Phase::Resolved)
}

fn ended(sighting: &Sighting, status: Status) -> Option<WallMs> {
    sighting.ended_at.filter(|_| sighting.status() == status)
}

#[cfg(test)]
mod tests;
