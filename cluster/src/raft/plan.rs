//! What a group should do next, decided from what a node sees. Pure: the caller measures time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::ChangeMembers;

use super::RegionMember;
use super::types::{Peer, Timings};

/// A group has at most this many voters; every other node is a learner.
const MAX_VOTERS: usize = 5;

/// The group and the region as one node sees them.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// This node's raft id.
    pub(super) me: u64,
    /// This node's id.
    pub(super) node_id: String,
    /// The group it belongs to.
    pub(super) uid: Option<u64>,
    /// This node leads, and a quorum said so lately.
    pub(super) leads: bool,
    /// How long there has been no leader.
    pub(super) leaderless: Duration,
    /// Who votes.
    pub(super) voters: BTreeSet<u64>,
    /// Voters and learners, with their node ids.
    pub(super) nodes: BTreeMap<u64, String>,
    /// Nodes whose log is as long as the leader's, more or less.
    pub(super) caught_up: BTreeSet<u64>,
    /// The other nodes of the region.
    pub(super) others: Vec<RegionMember>,
    /// Nodes that want to hand on their vote.
    pub(super) leaving: BTreeSet<u64>,
    /// How long each node has not been alive. Missing: it is alive, or unknown.
    pub(super) away: BTreeMap<u64, Duration>,
    /// How long no live node has said that it belongs to this group.
    pub(super) silent: BTreeMap<u64, Duration>,
    /// Groups that this node has given up lately.
    pub(super) given_up: BTreeSet<u64>,
    /// How long nothing has stood in the way of founding a group.
    pub(super) free: Duration,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Wait,
    /// Start a group of this node alone.
    Found,
    /// Forget the group and join or start another.
    Forget(Cause),
    /// Add a learner, move votes, or stop waiting for learners.
    Change(ChangeMembers<u64, Peer>),
}

/// Why a group is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The region has another group, with a lower uid.
    Met(u64),
    /// So many voters lost their disks that it cannot have a leader again.
    Destroyed,
    /// No voter has been alive for a long time.
    Abandoned,
    /// There has been no live quorum for a very long time.
    NoQuorum,
}

/// What to do next.
pub(super) fn plan(view: &View, timings: &Timings) -> Action {
    match view.uid {
        None if view.is_blocked(timings) || view.free < timings.boot_wait => Action::Wait,
        None => {
            let lowest = view.others.iter().all(|other| {
                !is_live(other) || view.leaving.contains(&other.raft_id) || other.raft_id > view.me
            });
            if lowest { Action::Found } else { Action::Wait }
        }
        Some(uid) => match view.forget(uid, timings) {
            Some(cause) => Action::Forget(cause),
            None if view.leads => view.lead(uid, timings),
            None => Action::Wait,
        },
    }
}

const fn is_live(member: &RegionMember) -> bool {
    member.alive && !member.left
}

impl View {
    /// Whether a group exists that this node should wait for.
    ///
    /// A dead node's group counts until it has been silent for long; a node that left has handed its
    /// vote on, so only others can speak for its group.
    pub(super) fn is_blocked(&self, timings: &Timings) -> bool {
        self.others.iter().filter(|other| !other.left).any(|other| {
            other.group_uid.is_some_and(|uid| {
                let silent = self.silent.get(&uid).copied().unwrap_or_default();
                is_live(other) || (silent < timings.give_up_after && !self.given_up.contains(&uid))
            })
        })
    }

    fn forget(&self, uid: u64, timings: &Timings) -> Option<Cause> {
        let lower = self.others.iter().filter(|other| is_live(other));
        let lower = lower.filter_map(|other| other.group_uid);
        // A group given up here may still be believed in by a node that has not noticed yet.
        let lower = lower.filter(|other| *other < uid && !self.given_up.contains(other));
        if let Some(met) = lower.min() {
            return Some(Cause::Met(met));
        }
        if self.leaderless < timings.acting_after {
            return None;
        }
        let quorum = self.voters.len() / 2 + 1;
        let with = |keep: &dyn Fn(u64) -> bool| self.voters.iter().filter(|id| keep(**id)).count();
        let possible = with(&|id| !self.is_superseded(id));
        let recent = |within: Duration| with(&move |id| self.away_for(id) < within);
        if !self.voters.is_empty() && possible < quorum {
            Some(Cause::Destroyed)
        } else if self.leaderless >= timings.give_up_after && recent(timings.give_up_after) == 0 {
            Some(Cause::Abandoned)
        } else if self.leaderless >= timings.give_up_quorum_after
            && recent(timings.give_up_quorum_after) < quorum
        {
            Some(Cause::NoQuorum)
        } else {
            None
        }
    }

    fn lead(&self, uid: u64, timings: &Timings) -> Action {
        if let Some(learner) = self.next_learner(uid) {
            let node_id = learner.node_id.to_string();
            let learner = BTreeMap::from([(learner.raft_id, Peer { node_id })]);
            return Action::Change(ChangeMembers::AddNodes(learner));
        }
        let voters = self.desired_voters(timings);
        if voters != self.voters {
            return Action::Change(ChangeMembers::ReplaceAllVoters(voters));
        }
        let gone: BTreeSet<u64> = self
            .nodes
            .keys()
            .copied()
            .filter(|id| *id != self.me && !self.voters.contains(id))
            .filter(|id| self.has_gone(*id) || self.away_for(*id) >= timings.give_up_after)
            .collect();
        if gone.is_empty() {
            Action::Wait
        } else {
            Action::Change(ChangeMembers::RemoveNodes(gone))
        }
    }

    fn next_learner(&self, uid: u64) -> Option<&RegionMember> {
        self.others.iter().find(|other| {
            is_live(other)
                && !self.nodes.contains_key(&other.raft_id)
                && !self.leaving.contains(&other.raft_id)
                && other.group_uid.is_none_or(|group| group == uid)
        })
    }

    /// Odd in number, at most five: the present voters as far as they are there, then live learners
    /// that have caught up, in order of raft id.
    fn desired_voters(&self, timings: &Timings) -> BTreeSet<u64> {
        let replaced = self.voters_without(timings.replace_after);
        if replaced.len() >= self.voters.len() {
            return replaced;
        }
        let kept = self.voters_without(timings.drop_after);
        if kept.is_empty() {
            self.voters.clone()
        } else {
            kept
        }
    }

    fn voters_without(&self, away_for: Duration) -> BTreeSet<u64> {
        let stays = |id: &u64| !self.has_gone(*id) && self.away_for(*id) < away_for;
        let mut want: BTreeSet<u64> = self.voters.iter().copied().filter(stays).collect();
        let ready = self.others.iter().filter(|other| is_live(other));
        let ready = ready.map(|other| other.raft_id).chain([self.me]);
        let ready: BTreeSet<u64> = ready
            .filter(|id| self.nodes.contains_key(id) && self.caught_up.contains(id))
            .filter(|id| !self.has_gone(*id))
            .collect();
        for id in ready {
            if want.len() < MAX_VOTERS {
                want.insert(id);
            }
        }
        if want.len().is_multiple_of(2) && want.len() > 1 {
            let spare = self.spare(&want);
            want.retain(|id| Some(*id) != spare);
        }
        want
    }

    /// Whom an even number does without: one that does not vote yet, one that is away, any but the
    /// leader.
    fn spare(&self, want: &BTreeSet<u64>) -> Option<u64> {
        let others = || want.iter().rev().copied().filter(|id| *id != self.me);
        others()
            .find(|id| !self.voters.contains(id))
            .or_else(|| others().find(|id| !self.away_for(*id).is_zero()))
            .or_else(|| others().next())
    }

    fn away_for(&self, id: u64) -> Duration {
        self.away.get(&id).copied().unwrap_or_default()
    }

    /// Whether it left or lost its disk: it does not come back as what it was.
    fn has_gone(&self, id: u64) -> bool {
        let left = |other: &RegionMember| other.raft_id == id && other.left;
        self.leaving.contains(&id) || self.is_superseded(id) || self.others.iter().any(left)
    }

    /// Whether its node lives on with another raft id.
    fn is_superseded(&self, id: u64) -> bool {
        self.nodes.get(&id).is_some_and(|name| {
            let renewed = |node_id: &str, raft_id: u64| node_id == name && raft_id != id;
            let others = || self.others.iter();
            renewed(&self.node_id, self.me)
                || others().any(|other| renewed(other.node_id.as_str(), other.raft_id))
        })
    }
}
