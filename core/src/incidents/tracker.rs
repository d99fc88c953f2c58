//! Follows the troubles of one node from observation to observation. Pure: views, records and counts come
//! in, sightings come out.

use std::collections::{BTreeMap, BTreeSet};

use super::scene::{Presence, Scene, Trouble};
use super::sighting::{Cause, Entity, Event, Phase, Sighting, Turn, Worst};
use super::{QUIET_MS, REOPEN_MS};
use crate::failure::{FailureClass, Reason};
use crate::holds::{Body, Record};
use crate::ids::{ModelId, NodeId, ProviderId, Region};
use crate::routing::View;
use crate::time::{Mono, WallMs};

/// The most troubles that are followed at once. Further ones are overlooked until others end.
pub const MAX_OPEN: usize = 5_000;

/// Requests that reached something since it is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Answered, whatever the answer.
    pub answered: u64,
    /// Served.
    pub served: u64,
}

/// The troubles of one node.
#[derive(Debug)]
pub struct Tracker {
    node: NodeId,
    region: Region,
    open: BTreeMap<Entity, Open>,
    /// What ended a short while ago, and may come back.
    ended: BTreeMap<Entity, (Sighting, Mono)>,
    kept: BTreeMap<Entity, u64>,
    changed: BTreeMap<String, Sighting>,
    overlooked: u64,
}

/// One trouble that is followed.
#[derive(Debug)]
struct Open {
    sighting: Sighting,
    /// As of the last observation that found it in trouble: what was served since proves something.
    before: Traffic,
    calm: Option<Calm>,
    /// It comes from the store and was not observed yet.
    restored: Option<WallMs>,
}

/// A trouble that is over.
#[derive(Clone, Copy, Debug)]
struct Calm {
    /// As of the last observation that found requests.
    heard: Mono,
    answered: u64,
    waited: bool,
}

/// One moment.
#[derive(Clone, Copy)]
struct At {
    now: Mono,
    wall: WallMs,
}

impl Tracker {
    /// Follows nothing yet.
    #[must_use]
    pub const fn new(node: NodeId, region: Region) -> Self {
        Self {
            node,
            region,
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
            kept: BTreeMap::new(),
            changed: BTreeMap::new(),
            overlooked: 0,
        }
    }

    /// Goes on where the last life of the node ended: its sightings, those that ended no longer than
    /// [`REOPEN_MS`] ago among them, and when it was last known to live.
    pub fn restore(&mut self, sightings: Vec<Sighting>, alive_at: WallMs, now: Mono) {
        for sighting in sightings {
            let entity = sighting.entity.clone();
            if !sighting.phase.is_open() {
                self.ended.insert(entity, (sighting, now));
                continue;
            }
            let calm = (sighting.phase != Phase::Standing).then_some(Calm {
                heard: now,
                answered: 0,
                waited: sighting.phase == Phase::Waiting,
            });
            let open = Open {
                restored: Some(alive_at.max(sighting.changed_at)),
                before: Traffic::default(),
                calm,
                sighting,
            };
            self.open.insert(entity, open);
        }
    }

    /// What is followed.
    pub fn followed(&self) -> impl Iterator<Item = &Entity> {
        self.open.keys()
    }

    /// What is followed, as it stands.
    pub fn sightings(&self) -> impl Iterator<Item = &Sighting> {
        self.open.values().map(|open| &open.sighting)
    }

    /// Troubles that were not followed because too many were.
    #[must_use]
    pub const fn overlooked(&self) -> u64 {
        self.overlooked
    }

    /// The sightings that changed since this was last asked.
    pub fn take_changed(&mut self) -> Vec<Sighting> {
        std::mem::take(&mut self.changed).into_values().collect()
    }

    /// A request that named a failing provider stays there.
    pub fn kept_on_failing(&mut self, provider: &ProviderId, model: &ModelId, requests: u64) {
        let entity = Entity::Direction {
            provider: provider.clone(),
            model: model.clone(),
        };
        if self.kept.len() < MAX_OPEN || self.kept.contains_key(&entity) {
            *self.kept.entry(entity).or_default() += requests;
        }
    }

    /// A hold of a configured key changed: who found out, and what, before the next observation shows it.
    pub fn hold_changed(&mut self, record: &Record, key_name: &str, now: Mono, wall: WallMs) {
        let entity = Entity::of(&record.subject);
        match record.register.body {
            Body::Held {
                refused,
                rung,
                reason,
                ..
            } => {
                if !self.open.contains_key(&entity) {
                    self.open_held(&entity, record, reason, key_name, At { now, wall });
                } else if let Some(open) = self.open.get_mut(&entity) {
                    open.held_again(record, (refused, rung, reason));
                }
            }
            Body::Free { .. } => {
                let Some(open) = self.open.get_mut(&entity) else {
                    return;
                };
                if open.sighting.hold.take().is_some() {
                    let at = WallMs(record.register.release.ms);
                    open.sighting.tell(turn(at, record, Turn::Released, None));
                    open.sighting.rung = 0;
                }
            }
        }
        self.note(&entity);
    }

    fn open_held(
        &mut self,
        entity: &Entity,
        record: &Record,
        reason: Reason,
        key_name: &str,
        at: At,
    ) {
        let details = &record.details;
        let trouble = Trouble {
            cause: Cause::Refused(reason),
            worst: Worst::Failed,
            hold: None,
            models: entity.model().cloned().into_iter().collect(),
            key_name: key_name.to_owned(),
            contained: true,
        };
        let id = held_id(entity, details.held_at);
        let class = Some(reason.class());
        let event = turn(details.held_at, record, Turn::Held, class);
        self.open(entity, id, &trouble, event, at);
        let Some(open) = self.open.get_mut(entity) else {
            return;
        };
        let rung = record.register.rung().unwrap_or_default();
        open.hear(record, rung);
        // It was held for a while when this node heard of it.
        if rung > 0 && details.refused_at > details.held_at {
            open.sighting.refused_again = true;
            let again = turn(details.refused_at, record, Turn::RefusedAgain, class);
            open.sighting.tell(again);
        }
    }

    /// Looks at a view: opens, follows and ends. `traffic` counts requests since something is followed.
    pub fn observe(
        &mut self,
        view: &View,
        traffic: impl Fn(&Entity) -> Traffic,
        now: Mono,
        wall: WallMs,
    ) {
        let at = At { now, wall };
        self.ended
            .retain(|_, (_, since)| now.since_ms(*since) < REOPEN_MS);
        let looked_at = self.open.keys().chain(self.kept.keys());
        let scene = Scene::new(view, now, looked_at);
        let followed: Vec<Entity> = self.open.keys().cloned().collect();
        for entity in &followed {
            self.follow(entity, &scene, traffic(entity), at);
        }
        for (entity, trouble) in &scene.troubles {
            if !self.open.contains_key(entity) && !self.is_part_of_a_key(entity, trouble, &scene) {
                self.open_seen(entity, trouble, at);
            }
        }
        self.count_kept();
    }

    /// Ends everything: nothing is followed from here on.
    pub fn switch_off(&mut self, wall: WallMs) {
        let open: Vec<Entity> = self.open.keys().cloned().collect();
        for entity in open {
            self.end(&entity, Phase::Unobserved, wall, Mono(0), wall);
        }
        self.ended.clear();
        self.kept.clear();
    }

    /// Forgets what waits for traffic since before this.
    pub fn forget_waiting(&mut self, before: WallMs) {
        self.open.retain(|_, open| {
            open.sighting.phase != Phase::Waiting
                || open.sighting.calmed_at.is_none_or(|at| at >= before)
        });
    }

    fn follow(&mut self, entity: &Entity, scene: &Scene<'_>, traffic: Traffic, at: At) {
        if scene.presence(entity) == Presence::Gone {
            self.end(entity, Phase::Unobserved, at.wall, at.now, at.wall);
            return;
        }
        let recovers = scene.recovers(entity);
        let Some(open) = self.open.get_mut(entity) else {
            return;
        };
        if let Some(trouble) = scene.troubles.get(entity) {
            open.restored = None;
            open.before = traffic;
            if open.stand(&self.node, entity, trouble, at.wall) {
                self.note(entity);
            }
            return;
        }
        let restored = open.restored.take();
        let is_direction = matches!(entity, Entity::Direction { .. });
        let measured = is_direction || open.sighting.cause.class().is_none();
        if let (Some(alive_at), true, None) = (restored, measured, open.calm) {
            // What was measured died with the node that measured it.
            self.end(entity, Phase::Unobserved, alive_at, at.now, at.wall);
            return;
        }
        let (changed, proved) = open.calm_down(&self.node, traffic, recovers, at);
        if proved {
            // It was over when it began to wait; that is known only now.
            let waited = open.calm.is_some_and(|calm| calm.waited);
            let since = open.sighting.calmed_at.filter(|_| waited);
            let ended_at = since.unwrap_or(at.wall);
            self.end(entity, Phase::Resolved, ended_at, at.now, at.wall);
        } else if changed {
            self.note(entity);
        }
    }

    /// What is measured of a key that is held, or was and comes back, is part of that trouble.
    fn is_part_of_a_key(&self, entity: &Entity, trouble: &Trouble, scene: &Scene<'_>) -> bool {
        let Entity::Route { provider, key, .. } = entity else {
            return false;
        };
        let whole = Entity::Key {
            provider: provider.clone(),
            key: key.clone(),
        };
        trouble.hold.is_none()
            && (self.open.contains_key(&whole) || scene.troubles.contains_key(&whole))
    }

    fn open_seen(&mut self, entity: &Entity, trouble: &Trouble, at: At) {
        let (id, since) = match trouble.hold {
            Some(hold) => (held_id(entity, hold.since), hold.since),
            None => {
                let node = self.node.as_str().as_bytes();
                let id = entity.trouble_id(&[node, &at.wall.0.to_be_bytes()]);
                (id, at.wall)
            }
        };
        let event = Event {
            at: since,
            node: self.node.as_str().to_owned(),
            turn: begins(trouble),
            class: trouble.cause.class(),
        };
        self.open(entity, id, trouble, event, at);
        if let (Some(open), Some(hold)) = (self.open.get_mut(entity), trouble.hold) {
            open.sighting.hold = Some(hold.release);
        }
        self.note(entity);
    }

    /// Opens a sighting, or opens again the one that ended a short while ago.
    fn open(&mut self, entity: &Entity, id: String, trouble: &Trouble, event: Event, at: At) {
        if self.open.len() >= MAX_OPEN {
            self.overlooked += 1;
            return;
        }
        let again = self.ended.remove(entity).filter(|(before, since)| {
            let is_near = at.now.since_ms(*since) < REOPEN_MS;
            before.id == id || (is_near && before.cause.class() == trouble.cause.class())
        });
        let mut sighting = match again {
            Some((mut before, _)) => {
                before.reopened = before.reopened.saturating_add(1);
                before.tell(Event {
                    turn: Turn::Reopened,
                    ..event.clone()
                });
                before
            }
            None => self.fresh(entity, id, trouble, event.at),
        };
        sighting.tell(event);
        sighting.phase = Phase::Standing;
        (sighting.calmed_at, sighting.ended_at) = (None, None);
        sighting.take(trouble);
        let open = Open {
            sighting,
            before: Traffic::default(),
            calm: None,
            restored: None,
        };
        self.open.insert(entity.clone(), open);
    }

    fn fresh(&self, entity: &Entity, id: String, trouble: &Trouble, at: WallMs) -> Sighting {
        Sighting {
            id,
            node: self.node.clone(),
            region: self.region.clone(),
            entity: entity.clone(),
            cause: trouble.cause,
            phase: Phase::Standing,
            contained: trouble.contained,
            worst: trouble.worst,
            opened_at: at,
            calmed_at: None,
            ended_at: None,
            changed_at: at,
            hold: None,
            rung: 0,
            refused_again: false,
            pinned_kept_failed: 0,
            reopened: 0,
            models: BTreeSet::new(),
            key_name: String::new(),
            words: String::new(),
            status_code: 0,
            timeline: Vec::new(),
        }
    }

    fn end(&mut self, entity: &Entity, phase: Phase, ended_at: WallMs, now: Mono, wall: WallMs) {
        let Some(Open { mut sighting, .. }) = self.open.remove(entity) else {
            return;
        };
        let last = match phase {
            Phase::Resolved => Turn::Resolved,
            Phase::Unobserved | Phase::Standing | Phase::Recovering | Phase::Waiting => {
                Turn::Unobserved
            }
        };
        sighting.tell(own_turn(&self.node, wall, last));
        sighting.phase = phase;
        sighting.hold = None;
        // Clocks of other nodes may be ahead: no trouble ends before it began.
        sighting.ended_at = Some(ended_at.max(sighting.opened_at));
        self.changed.insert(sighting.id.clone(), sighting.clone());
        self.ended.insert(entity.clone(), (sighting, now));
    }

    fn count_kept(&mut self) {
        for (entity, requests) in std::mem::take(&mut self.kept) {
            let Some(open) = self.open.get_mut(&entity) else {
                continue;
            };
            open.sighting.pinned_kept_failed =
                open.sighting.pinned_kept_failed.saturating_add(requests);
            self.note(&entity);
        }
    }

    fn note(&mut self, entity: &Entity) {
        if let Some(open) = self.open.get(entity) {
            let sighting = open.sighting.clone();
            self.changed.insert(sighting.id.clone(), sighting);
        }
    }
}

impl Open {
    /// The record of a hold, while its trouble is followed.
    fn held_again(&mut self, record: &Record, (refused, rung, reason): (bool, u8, Reason)) {
        let class = Some(reason.class());
        let is_same = self.sighting.hold == Some(record.register.release);
        let details = &record.details;
        if !is_same {
            let event = turn(details.held_at, record, Turn::Held, class);
            self.sighting.tell(event);
        } else if !refused {
            let event = turn(details.settled_at, record, Turn::Unsettled, None);
            self.sighting.tell(event);
        } else if rung > self.sighting.rung {
            self.sighting.refused_again = true;
            let event = turn(details.refused_at, record, Turn::RefusedAgain, class);
            self.sighting.tell(event);
        }
        self.sighting.cause = Cause::Refused(reason);
        self.hear(record, rung);
    }

    fn hear(&mut self, record: &Record, rung: u8) {
        self.sighting.hold = Some(record.register.release);
        self.sighting.rung = rung;
        self.sighting.words.clone_from(&record.details.words);
        self.sighting.status_code = record.details.status;
    }

    /// It is in trouble. True if anything about that is new.
    fn stand(&mut self, node: &NodeId, entity: &Entity, trouble: &Trouble, wall: WallMs) -> bool {
        let before = self.sighting.clone();
        let is_new = trouble.cause != before.cause || before.phase != Phase::Standing;
        // Holds tell of themselves, with who found out; a direction tells only that it came back.
        let tells = match entity {
            Entity::Direction { .. } => before.phase != Phase::Standing,
            Entity::Key { .. } | Entity::Route { .. } => is_new && trouble.hold.is_none(),
        };
        if tells {
            self.sighting.tell(own_turn(node, wall, begins(trouble)));
        }
        self.sighting.phase = Phase::Standing;
        self.sighting.calmed_at = None;
        self.calm = None;
        self.sighting.take(trouble);
        self.sighting.hold = trouble.hold.map(|hold| hold.release);
        self.sighting != before
    }

    /// It is out of trouble. Whether that changed anything, and whether traffic has proved it.
    fn calm_down(
        &mut self,
        node: &NodeId,
        traffic: Traffic,
        recovers: bool,
        at: At,
    ) -> (bool, bool) {
        let mut changed = false;
        let mut calm = self.calm.unwrap_or_else(|| {
            changed = true;
            self.sighting.calmed_at = Some(at.wall.max(self.sighting.opened_at));
            self.sighting.phase = Phase::Recovering;
            // An edited key is free without a release.
            self.sighting.hold = None;
            self.sighting
                .tell(own_turn(node, at.wall, Turn::Recovering));
            Calm {
                heard: at.now,
                answered: self.before.answered,
                waited: false,
            }
        });
        if traffic.answered > calm.answered {
            (calm.answered, calm.heard) = (traffic.answered, at.now);
            if self.sighting.phase == Phase::Waiting {
                changed = true;
                self.sighting.phase = Phase::Recovering;
                self.sighting
                    .tell(own_turn(node, at.wall, Turn::Recovering));
            }
        }
        let proved = !recovers && traffic.served > self.before.served;
        let is_quiet = at.now.since_ms(calm.heard) >= QUIET_MS;
        if !proved && is_quiet && self.sighting.phase == Phase::Recovering {
            changed = true;
            calm.waited = true;
            self.sighting.phase = Phase::Waiting;
            self.sighting.tell(own_turn(node, at.wall, Turn::Waiting));
        }
        self.calm = Some(calm);
        (changed, proved)
    }
}

impl Sighting {
    fn take(&mut self, trouble: &Trouble) {
        self.cause = trouble.cause;
        self.worst = self.worst.max(trouble.worst);
        self.contained = trouble.contained;
        self.name_models(&trouble.models);
        if !trouble.key_name.is_empty() {
            self.key_name.clone_from(&trouble.key_name);
        }
    }
}

fn begins(trouble: &Trouble) -> Turn {
    match trouble.cause {
        Cause::Refused(_) if trouble.hold.is_some() => Turn::Held,
        Cause::Degraded => Turn::Degraded,
        Cause::Refused(_) | Cause::Failing => Turn::Failed,
    }
}

fn own_turn(node: &NodeId, at: WallMs, turn: Turn) -> Event {
    Event {
        at,
        node: node.as_str().to_owned(),
        turn,
        class: None,
    }
}

/// A turn of a hold, by whoever found out: the same on every node.
fn turn(at: WallMs, record: &Record, turn: Turn, class: Option<FailureClass>) -> Event {
    Event {
        at,
        node: record.details.origin.clone(),
        turn,
        class,
    }
}

/// The same on every node that saw the hold: its first refusal travels with it.
fn held_id(entity: &Entity, held_at: WallMs) -> String {
    entity.trouble_id(&[&held_at.0.to_be_bytes()])
}

#[cfg(test)]
mod tests;
