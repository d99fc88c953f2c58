//! What this node sees of incidents: it looks at its view after changes and after every recompute, follows
//! what is in trouble, keeps it and tells the other nodes, all off the request path.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use holdline_cluster::Join;
use holdline_core::health::tuning::RECOMPUTE_MS;
use holdline_core::health::{Attempted, Ended, State};
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::{Answer, Record};
use holdline_core::ids::{ModelId, ProviderId};
use holdline_core::incidents::{Entity, MAX_OPEN, REOPEN_MS, Sighting, Tracker, Traffic};
use holdline_core::routing::View;
use holdline_core::time::WallMs;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Live, Node, NodeId, Region};
use crate::store::{HistoryBatch, Reading, StoreError};

/// However fast the node lives.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// Changes of one moment are looked at together.
const GATHER: Duration = Duration::from_millis(50);
/// How often changes are written, at most.
const SAVE_EVERY: Duration = Duration::from_millis(500);
/// How often the node notes that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// How often old history is looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Changes of holds that wait to be looked at; beyond it the whole table is.
const MAX_HEARD: usize = 10_000;
/// Directions of which kept requests are counted between two looks.
const MAX_KEPT: usize = 1_000;
/// Routes and directions whose scores are kept, per recompute.
const MAX_READINGS: usize = 2_000;
/// Readings that wait to be written, and sightings where the store is broken.
const MAX_UNSAVED: usize = 20_000;

/// What a node has of incidents.
#[derive(Debug)]
pub(super) struct Incidents {
    followed: Mutex<Followed>,
    heard: Mutex<Heard>,
    changed: Notify,
    counts: ArcSwap<BTreeMap<Entity, Counts>>,
    /// The table of the cluster is here, and what was kept too.
    begun: AtomicBool,
    /// It was told that there is more than is followed.
    overlooks: AtomicBool,
}

#[derive(Debug)]
struct Followed {
    tracker: Tracker,
    /// By id: not in the store yet.
    unsaved: BTreeMap<String, Sighting>,
}

/// What came in since the last look.
#[derive(Debug, Default)]
struct Heard {
    records: VecDeque<Record>,
    /// Records were left out: look at the whole table.
    overflown: bool,
    kept: BTreeMap<(ProviderId, ModelId), u64>,
}

/// Requests that reached what is followed.
#[derive(Clone, Debug, Default)]
struct Counts(Arc<[AtomicU64; 2]>);

impl Counts {
    fn add(&self, served: bool) {
        self.0[usize::from(served)].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Traffic {
        let [other, served] = [0, 1].map(|n: usize| self.0[n].load(Ordering::Relaxed));
        Traffic {
            answered: other + served,
            served,
        }
    }
}

impl Incidents {
    pub(super) fn new(node: NodeId, region: Region) -> Self {
        Self {
            followed: Mutex::new(Followed {
                tracker: Tracker::new(node, region),
                unsaved: BTreeMap::new(),
            }),
            heard: Mutex::new(Heard {
                overflown: true,
                ..Heard::default()
            }),
            changed: Notify::new(),
            counts: ArcSwap::default(),
            begun: AtomicBool::new(false),
            overlooks: AtomicBool::new(false),
        }
    }

    /// Holds changed.
    pub(super) fn hear(&self, records: impl Iterator<Item = Record>) {
        {
            let mut heard = lock(&self.heard);
            for record in records {
                if heard.records.len() < MAX_HEARD {
                    heard.records.push_back(record);
                } else {
                    heard.overflown = true;
                }
            }
        }
        self.changed.notify_one();
    }

    /// Something else that a look would see changed.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// A request of this route was answered. Costs one load where nothing is followed.
    pub(super) fn answered(&self, route: &RouteKey, answer: &Answer) {
        let counts = self.counts.load();
        if counts.is_empty() || *answer == Answer::Cancelled {
            return;
        }
        let RouteKey {
            provider,
            key,
            model,
            ..
        } = route.clone();
        let entities = [
            Entity::Key {
                provider: provider.clone(),
                key: key.clone(),
            },
            Entity::Direction {
                provider: provider.clone(),
                model: model.clone(),
            },
            Entity::Route {
                provider,
                model,
                key,
            },
        ];
        for entity in &entities {
            if let Some(counts) = counts.get(entity) {
                counts.add(*answer == Answer::Served);
            }
        }
    }

    /// A request of a provider without keys ended: no hold hears of it.
    pub(super) fn keyless_ended(&self, attempted: Attempted<'_>, ended: &Ended) {
        let counts = self.counts.load();
        let served = match ended {
            Ended::Served { .. } => true,
            Ended::Failed(_) => false,
            Ended::Nothing => return,
        };
        let entity = Entity::Direction {
            provider: attempted.provider.clone(),
            model: attempted.model.clone(),
        };
        if let Some(counts) = counts.get(&entity) {
            counts.add(served);
        }
    }

    fn kept(&self, provider: &ProviderId, model: &ModelId) {
        let mut heard = lock(&self.heard);
        let place = (provider.clone(), model.clone());
        if heard.kept.len() < MAX_KEPT || heard.kept.contains_key(&place) {
            *heard.kept.entry(place).or_default() += 1;
        }
    }

    /// Counts from here on what is followed, and no more what is not.
    fn count_followed(&self, tracker: &Tracker) {
        let before = self.counts.load();
        if before.keys().eq(tracker.followed()) {
            return;
        }
        let counts = tracker.followed().map(|entity| {
            let known = before.get(entity).cloned();
            (entity.clone(), known.unwrap_or_default())
        });
        self.counts.store(Arc::new(counts.collect()));
    }
}

impl Node {
    /// A request that named a failing provider stays there.
    pub fn count_kept_on_failing(&self, provider: &ProviderId, model: &ModelId) {
        if self.settings().history_enabled {
            self.incidents.kept(provider, model);
        }
    }

    /// What is kept of this node's sightings and what is not written yet, as of now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn own_sightings(&self) -> Result<Vec<Sighting>, StoreError> {
        self.look_for_incidents();
        let kept = self.store.sightings_of(&self.id)?;
        let mut all: BTreeMap<String, Sighting> =
            kept.into_iter().map(|s| (s.id.clone(), s)).collect();
        all.extend(lock(&self.incidents.followed).unsaved.clone());
        Ok(all.into_values().collect())
    }

    /// Takes in what changed, and looks at the view as it is.
    pub(super) fn look_for_incidents(&self) {
        let incidents = &self.incidents;
        if !incidents.begun.load(Ordering::Acquire) {
            return;
        }
        let mut followed = lock(&incidents.followed);
        let heard = std::mem::take(&mut *lock(&incidents.heard));
        // Loaded after the records were taken: it shows all of them.
        let live = Arc::clone(&self.live());
        let tracker = &mut followed.tracker;
        let (now, wall) = (self.clock.now(), self.clock.wall());
        if live.view.settings.history_enabled {
            if heard.overflown {
                for row in self.held() {
                    tracker.hold_changed(&row.record, key_name(&live, &row.record), now, wall);
                }
            }
            for record in heard.records.iter().filter(|r| live.has(&r.subject)) {
                tracker.hold_changed(record, key_name(&live, record), now, wall);
            }
            for ((provider, model), requests) in heard.kept {
                tracker.kept_on_failing(&provider, &model, requests);
            }
            let counts = incidents.counts.load();
            let traffic = |entity: &Entity| {
                let found = counts.get(entity);
                found.map_or_else(Traffic::default, Counts::read)
            };
            tracker.observe(&live.view, traffic, now, wall);
        } else {
            tracker.switch_off(wall);
            // What is held by then is looked at when history is switched on again.
            lock(&incidents.heard).overflown = true;
        }
        incidents.count_followed(tracker);
        let overlooked = tracker.overlooked() > 0;
        if overlooked && !incidents.overlooks.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                followed = MAX_OPEN,
                "more is in trouble than is followed: some incidents are missing"
            );
        }
        let changed = tracker.take_changed();
        // Who looks to answer a question leaves it to the task to write and tell what was new.
        if !changed.is_empty() {
            incidents.changed.notify_one();
        }
        for sighting in changed {
            followed.unsaved.insert(sighting.id.clone(), sighting);
        }
    }

    /// Looks after every change and recompute, writes and tells what changed, until `end`.
    pub(super) async fn follow_incidents(self: Arc<Self>, end: CancellationToken) {
        tokio::select! {
            () = self.has_joined() => {}
            () = end.cancelled() => return,
        }
        self.restore_incidents().await;
        let mut follower = Follower::default();
        while !end.is_cancelled() {
            // A recompute of health is the only change without a word.
            let pause = self.clock.real(RECOMPUTE_MS).max(MIN_PAUSE);
            let look_at = follower.looked.map_or_else(Instant::now, |at| at + pause);
            let until = follower
                .save_at(&self)
                .map_or(look_at, |at| at.min(look_at));
            tokio::select! {
                () = self.incidents.changed.notified() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep_until(until.into()) => {}
                () = end.cancelled() => {}
            }
            if Instant::now() >= look_at {
                follower.looked = Some(Instant::now());
                follower.read(&self);
            }
            self.look_for_incidents();
            if is_time(&mut follower.saved, SAVE_EVERY) || end.is_cancelled() {
                follower.save(&self).await;
            }
            if is_time(&mut follower.pruned, PRUNE_EVERY) {
                prune(&self).await;
            }
        }
        follower.end().await;
    }

    /// Until the table of the cluster is here: without it every kept hold would look released.
    async fn has_joined(&self) {
        let Some(cluster) = self.cluster.get() else {
            return;
        };
        let mut joined = cluster.joined();
        let is_here = |join: &Join| match join {
            Join::Pending => false,
            Join::Ready(_) | Join::Degraded(_) => true,
        };
        // The cluster ends only with the node.
        let _ = joined.wait_for(is_here).await;
    }

    async fn restore_incidents(self: &Arc<Self>) {
        let node = Arc::clone(self);
        let reopen_ms = u64::try_from(self.clock.real(REOPEN_MS).as_millis()).unwrap_or(u64::MAX);
        let ended_since = WallMs(self.clock.wall().0.saturating_sub(reopen_ms));
        let restored = tokio::task::spawn_blocking(move || {
            node.store.restore_sightings(&node.id, ended_since)
        });
        match restored.await {
            Ok(Ok((sightings, alive_at))) => {
                let mut followed = lock(&self.incidents.followed);
                followed
                    .tracker
                    .restore(sightings, alive_at, self.clock.now());
                self.incidents.count_followed(&followed.tracker);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "incidents of the last life are not followed");
            }
            Err(error) => tracing::error!(%error, "reading history failed"),
        }
        self.incidents.begun.store(true, Ordering::Release);
    }
}

/// What the task that follows incidents keeps from turn to turn.
#[derive(Debug, Default)]
struct Follower {
    looked: Option<Instant>,
    saved: Option<Instant>,
    alive: Option<Instant>,
    pruned: Option<Instant>,
    readings: Vec<Reading>,
    /// By id: not told yet.
    untold: BTreeMap<String, Sighting>,
    telling: Option<JoinHandle<()>>,
    failed: bool,
}

impl Follower {
    /// Reads the scores of the view.
    fn read(&mut self, node: &Node) {
        let live = node.live();
        let room = MAX_UNSAVED.saturating_sub(self.readings.len());
        if live.view.settings.history_enabled {
            let readings = readings(&live.view, node);
            self.readings.extend(readings.into_iter().take(room));
        }
    }

    /// When what is not written or told yet must be.
    fn save_at(&self, node: &Node) -> Option<Instant> {
        let waits = !self.untold.is_empty() || !lock(&node.incidents.followed).unsaved.is_empty();
        let last = self.saved.filter(|_| waits)?;
        Some(last + SAVE_EVERY)
    }

    /// Writes what changed; tells the other nodes.
    async fn save(&mut self, node: &Arc<Node>) {
        let sightings = lock(&node.incidents.followed).unsaved.clone();
        let alive = is_time(&mut self.alive, ALIVE_EVERY);
        if !sightings.is_empty() || !self.readings.is_empty() || alive {
            let batch = HistoryBatch {
                sightings: sightings.values().cloned().collect(),
                readings: std::mem::take(&mut self.readings),
                alive,
            };
            let writer = Arc::clone(node);
            let saved = tokio::task::spawn_blocking(move || {
                writer.store.save_history(&batch, writer.clock.wall())
            });
            match saved.await {
                Ok(Ok(())) => {
                    self.failed = false;
                    let mut followed = lock(&node.incidents.followed);
                    followed
                        .unsaved
                        .retain(|id, s| sightings.get(id) != Some(s));
                }
                Ok(Err(error)) => self.note_failure(&error.to_string(), node),
                Err(error) => self.note_failure(&error.to_string(), node),
            }
            self.untold.extend(sightings);
        }
        let is_telling = self
            .telling
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if !is_telling && !self.untold.is_empty() {
            let untold = std::mem::take(&mut self.untold).into_values().collect();
            let node = Arc::clone(node);
            self.telling = Some(tokio::spawn(
                async move { node.tell_sightings(untold).await },
            ));
        }
    }

    /// Sightings wait for the next try; too many of them do not.
    fn note_failure(&mut self, error: &str, node: &Node) {
        if !std::mem::replace(&mut self.failed, true) {
            tracing::warn!(error, "history is not kept; trying again");
        }
        let mut followed = lock(&node.incidents.followed);
        while followed.unsaved.len() > MAX_UNSAVED {
            followed.unsaved.pop_first();
        }
    }

    async fn end(&mut self) {
        if let Some(telling) = self.telling.take()
            && let Err(error) = telling.await
        {
            tracing::error!(%error, "telling of incidents failed");
        }
    }
}

async fn prune(node: &Arc<Node>) {
    let days = u64::from(node.settings().history_retention_days);
    let now = node.clock.wall();
    let oldest = WallMs(now.0.saturating_sub(days * 86_400_000));
    lock(&node.incidents.followed)
        .tracker
        .forget_waiting(oldest);
    let pruner = Arc::clone(node);
    let pruned =
        tokio::task::spawn_blocking(move || pruner.store.prune_history(&pruner.id, oldest, now));
    if let Ok(Err(error)) = pruned.await {
        tracing::warn!(%error, "old history stays in the store");
    }
}

/// The weight of every route that was used, and the score of its provider for the model.
fn readings(view: &View, node: &Node) -> Vec<Reading> {
    let (now, at) = (node.clock.now(), node.clock.wall());
    let mut readings = Vec::new();
    for (provider_id, provider) in &view.providers {
        for (model, health) in provider.health.iter() {
            let direction = view.direction(provider, model, now);
            readings.push(Reading {
                entity: Entity::Direction {
                    provider: provider_id.clone(),
                    model: model.clone(),
                },
                at,
                value: direction.score,
                state: place(direction.state),
            });
            let used = provider.keys.iter().zip(&health.routes);
            readings.extend(used.filter(|(_, route)| route.tried).map(|(key, route)| {
                let entity = Entity::Route {
                    provider: provider_id.clone(),
                    model: model.clone(),
                    key: key.spec.id.clone(),
                };
                let is_free =
                    key.holds.standing(model, now) == holdline_core::holds::view::Standing::Free;
                Reading {
                    entity,
                    at,
                    value: if is_free { route.weight } else { 0.0 },
                    state: place(if is_free { route.state } else { State::Failed }),
                }
            }));
            if readings.len() >= MAX_READINGS {
                return readings;
            }
        }
    }
    readings
}

/// In [`crate::store::scores::STATES`].
const fn place(state: State) -> u8 {
    match state {
        State::Healthy => 0,
        State::Degraded => 1,
        State::Recovering => 2,
        State::Failed => 3,
    }
}

fn key_name<'a>(live: &'a Live, record: &Record) -> &'a str {
    let key = live.key(&record.subject.provider, &record.subject.key);
    key.map_or("", |key| key.spec.name.as_str())
}

/// True once per `every`.
fn is_time(last: &mut Option<Instant>, every: Duration) -> bool {
    let due = last.is_none_or(|last| last.elapsed() >= every);
    if due {
        *last = Some(Instant::now());
    }
    due
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is lost in a panic elsewhere is history at most.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
