//! Carries out the plan: founds, joins, forgets and heals the group of the region.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::{ChangeMembers, RaftMetrics};
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::RegionMember;
use super::leading::leads;
use super::plan::{Action, Cause, View, plan};
use super::shared::{Life, Shared};
use super::types::{Command, Peer};
use crate::store::StoreError;

/// A change of the membership that takes longer is looked at again.
const CHANGE_WITHIN: Duration = Duration::from_secs(2);
/// A learner this many entries behind may become a voter.
const CAUGHT_UP_WITHIN: u64 = 8;
/// Between two attempts to start a raft that failed.
const REBUILD_APART: Duration = Duration::from_secs(1);

/// Runs until the task is ended.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut members = shared.options.members.clone();
    let mut leaving = shared.leaving.subscribe();
    let mut control = Control::new(shared);
    loop {
        control.step().await;
        let tick = control.shared.timings.tick;
        tokio::select! {
            () = tokio::time::sleep(tick) => {}
            changed = members.changed() => if changed.is_err() {
                tokio::time::sleep(tick).await;
            },
            _ = leaving.changed() => {}
        }
    }
}

/// What has to be remembered between two looks.
struct Control {
    shared: Arc<Shared>,
    leaderless_since: Instant,
    free_since: Option<Instant>,
    seen_alive: BTreeMap<u64, Instant>,
    heard_of: BTreeMap<u64, Instant>,
    given_up: BTreeMap<u64, Instant>,
    failed: bool,
    named: bool,
}

impl Control {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            leaderless_since: Instant::now(),
            free_since: None,
            seen_alive: BTreeMap::new(),
            heard_of: BTreeMap::new(),
            given_up: BTreeMap::new(),
            failed: false,
            named: false,
        }
    }

    async fn step(&mut self) {
        let Some(life) = self.shared.life() else {
            return self.rebuild("it did not start").await;
        };
        let metrics = life.raft.metrics().borrow().clone();
        if let Err(fatal) = &metrics.running_state {
            return self.rebuild(&fatal.to_string()).await;
        }
        let view = self.look(&metrics);
        if view.leaderless.is_zero() {
            self.failed = false;
        }
        if view.leads {
            self.name_group(&life, &view).await;
        }
        let action = plan(&view, &self.shared.timings);
        match action {
            Action::Wait => {}
            Action::Found => match self.shared.found().await {
                Ok(()) => info!(region = %self.shared.options.region, "started a raft group"),
                Err(error) => debug!(%error, "cannot start a raft group yet"),
            },
            Action::Forget(cause) => self.forget(view.uid, cause).await,
            Action::Change(change) => carry_out(&life, change).await,
        }
    }

    /// The group as it is, and for how long things have been as they are.
    fn look(&mut self, metrics: &RaftMetrics<u64, Peer>) -> View {
        let shared = &self.shared;
        let (me, now) = (shared.options.raft_id, Instant::now());
        let members = shared.options.members.borrow().clone();
        let others: Vec<RegionMember> = members
            .into_iter()
            .filter(|member| member.raft_id != me && member.node_id != shared.options.node_id)
            .collect();
        let membership = metrics.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let nodes: BTreeMap<u64, String> = membership
            .nodes()
            .map(|(id, peer)| (*id, peer.node_id.clone()))
            .collect();
        let leadership = shared.leadership.borrow().clone();
        if leadership.leader.is_some() && !leadership.acting {
            self.leaderless_since = now;
        }
        let (away, silent) = self.measure(&others, &nodes, now);
        let lasting = 2 * self.shared.timings.give_up_after;
        self.given_up.retain(|_, at| now - *at < lasting);
        let shared = &self.shared;
        let mut view = View {
            me,
            node_id: shared.options.node_id.to_string(),
            uid: *shared.uid.borrow(),
            leads: leads(metrics, &shared.timings),
            leaderless: now - self.leaderless_since,
            caught_up: caught_up(metrics),
            voters,
            nodes,
            leaving: shared.still_leaving(&others),
            others,
            away,
            silent,
            given_up: self.given_up.keys().copied().collect(),
            free: Duration::ZERO,
        };
        if view.uid.is_some() || view.is_blocked(&shared.timings) {
            self.free_since = None;
        } else {
            view.free = now - *self.free_since.get_or_insert(now);
        }
        view
    }

    /// How long nodes have been away, and how long groups have been silent.
    fn measure(
        &mut self,
        others: &[RegionMember],
        nodes: &BTreeMap<u64, String>,
        now: Instant,
    ) -> (BTreeMap<u64, Duration>, BTreeMap<u64, Duration>) {
        let me = self.shared.options.raft_id;
        let live = |other: &&RegionMember| other.alive && !other.left;
        let alive: BTreeSet<u64> = others.iter().filter(live).map(|o| o.raft_id).collect();
        let known = others.iter().map(|other| other.raft_id);
        let known: BTreeSet<u64> = known.chain(nodes.keys().copied()).collect();
        refresh(&mut self.seen_alive, &known, &alive, now);
        let speaking = others.iter().filter(live).filter_map(|o| o.group_uid);
        let speaking: BTreeSet<u64> = speaking.collect();
        let groups = others.iter().filter_map(|other| other.group_uid).collect();
        refresh(&mut self.heard_of, &groups, &speaking, now);
        let away = |(id, at): (&u64, &Instant)| (*id, now - *at);
        let gone = |(id, _): &(&u64, &Instant)| **id != me && !alive.contains(id);
        (
            self.seen_alive.iter().filter(gone).map(away).collect(),
            self.heard_of.iter().map(away).collect(),
        )
    }

    /// Starts a raft that failed again. Said once, until it works.
    async fn rebuild(&mut self, why: &str) {
        if !std::mem::replace(&mut self.failed, true) {
            warn!(error = why, "raft has failed: starting it again");
        }
        if let Err(error) = self.shared.rebuild().await {
            debug!(%error, "raft does not start");
        }
        tokio::time::sleep(REBUILD_APART).await;
    }

    async fn forget(&mut self, uid: Option<u64>, cause: Cause) {
        info!(?uid, ?cause, region = %self.shared.options.region, "leaving the raft group");
        match self.shared.forget().await {
            Ok(()) => match cause {
                Cause::Met(_) => {}
                Cause::Destroyed | Cause::Abandoned | Cause::NoQuorum => {
                    self.given_up.extend(uid.map(|uid| (uid, Instant::now())));
                }
            },
            Err(StoreError(error)) => warn!(error, "cannot forget the raft group"),
        }
        self.named = false;
        self.leaderless_since = Instant::now();
    }

    /// Writes the group's uid into its log, once per leader: an entry that says it again is harmless.
    async fn name_group(&mut self, life: &Life, view: &View) {
        let Some(uid) = view.uid.filter(|_| !self.named) else {
            return;
        };
        let named = life.raft.client_write(Command::Init { uid });
        self.named = matches!(timeout(CHANGE_WITHIN, named).await, Ok(Ok(_)));
    }
}

impl Shared {
    /// Those that said they are leaving and are still there. One that comes back is welcome again.
    fn still_leaving(&self, others: &[RegionMember]) -> BTreeSet<u64> {
        let me = self.options.raft_id;
        let there = |id: u64| others.iter().any(|o| o.raft_id == id && o.alive && !o.left);
        self.leaving.send_if_modified(|leaving| {
            leaving.retain(|id| *id == me || there(*id));
            false
        });
        self.leaving.borrow().clone()
    }
}

/// Nodes whose log is nearly as long as the leader's.
fn caught_up(metrics: &RaftMetrics<u64, Peer>) -> BTreeSet<u64> {
    let last = metrics.last_log_index.unwrap_or(0);
    let replication = metrics.replication.iter().flatten();
    replication
        .filter(|(_, matched)| {
            matched.is_some_and(|matched| matched.index + CAUGHT_UP_WITHIN >= last)
        })
        .map(|(id, _)| *id)
        .chain([metrics.id])
        .collect()
}

/// Notes when each of `known` was last among `present`; new ones count from now.
fn refresh(
    seen: &mut BTreeMap<u64, Instant>,
    known: &BTreeSet<u64>,
    present: &BTreeSet<u64>,
    now: Instant,
) {
    seen.retain(|id, _| known.contains(id));
    for id in known {
        let at = seen.entry(*id).or_insert(now);
        if present.contains(id) {
            *at = now;
        }
    }
}

/// Changes the membership. What does not succeed is planned again.
async fn carry_out(life: &Life, change: ChangeMembers<u64, Peer>) {
    let changing = life.raft.change_membership(change.clone(), true);
    match timeout(CHANGE_WITHIN, changing).await {
        Ok(Ok(_)) => info!(?change, "changed the raft group"),
        Ok(Err(error)) => debug!(?change, %error, "the raft group does not change yet"),
        Err(_) => debug!(?change, "the raft group has not changed yet"),
    }
}
