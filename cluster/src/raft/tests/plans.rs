//! What is decided in which situation, as tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdline_core::ids::NodeId;
use openraft::ChangeMembers;

use super::secs;
use crate::raft::RegionMember;
use crate::raft::plan::{Action, Cause, View, plan};
use crate::raft::types::{Peer, Timings};

/// A member `n<id>` of a group.
fn member(raft_id: u64, group_uid: impl Into<Option<u64>>) -> RegionMember {
    RegionMember {
        node_id: NodeId::from(format!("n{raft_id}")),
        raft_id,
        group_uid: group_uid.into(),
        alive: true,
        left: false,
    }
}

fn dead(raft_id: u64, group_uid: impl Into<Option<u64>>) -> RegionMember {
    RegionMember {
        alive: false,
        ..member(raft_id, group_uid)
    }
}

fn left(raft_id: u64, group_uid: impl Into<Option<u64>>) -> RegionMember {
    RegionMember {
        left: true,
        ..dead(raft_id, group_uid)
    }
}

/// A node without a group, ready to found one.
fn outside(others: Vec<RegionMember>) -> View {
    View {
        me: 5,
        node_id: "n5".to_owned(),
        others,
        free: secs(2),
        ..View::default()
    }
}

/// Node 5 in group 100 with these voters and learners, all caught up.
fn inside(voters: &[u64], learners: &[u64], others: Vec<RegionMember>) -> View {
    let nodes: BTreeSet<u64> = voters.iter().chain(learners).copied().collect();
    View {
        uid: Some(100),
        voters: voters.iter().copied().collect(),
        caught_up: nodes.clone(),
        nodes: nodes.into_iter().map(|id| (id, format!("n{id}"))).collect(),
        ..outside(others)
    }
}

/// The same as the leader.
fn leading(voters: &[u64], learners: &[u64], others: Vec<RegionMember>) -> View {
    View {
        leads: true,
        ..inside(voters, learners, others)
    }
}

fn away(view: View, away: &[(u64, u64)]) -> View {
    let away = away.iter().map(|(id, seconds)| (*id, secs(*seconds)));
    View {
        away: away.collect(),
        ..view
    }
}

fn leaderless(view: View, seconds: u64) -> View {
    View {
        leaderless: secs(seconds),
        ..view
    }
}

fn decided(view: &View) -> Action {
    plan(view, &Timings::default())
}

fn voters(ids: &[u64]) -> Action {
    let ids = ids.iter().copied().collect();
    Action::Change(ChangeMembers::ReplaceAllVoters(ids))
}

fn learner(raft_id: u64) -> Action {
    let node_id = format!("n{raft_id}");
    let learner = BTreeMap::from([(raft_id, Peer { node_id })]);
    Action::Change(ChangeMembers::AddNodes(learner))
}

fn removed(ids: &[u64]) -> Action {
    Action::Change(ChangeMembers::RemoveNodes(ids.iter().copied().collect()))
}

#[test]
fn a_group_is_founded_by_the_lowest_live_node_when_there_is_none() {
    let silent = |view: View, seconds: u64| View {
        silent: BTreeMap::from([(100, secs(seconds))]),
        ..view
    };
    let cases = [
        ("alone", outside(vec![]), Action::Found),
        ("lowest", outside(vec![member(6, None)]), Action::Found),
        ("not lowest", outside(vec![member(4, None)]), Action::Wait),
        ("lower is dead", outside(vec![dead(4, None)]), Action::Found),
        (
            "too early",
            View {
                free: Duration::from_millis(1_900),
                ..outside(vec![])
            },
            Action::Wait,
        ),
        ("a group lives", outside(vec![member(6, 100)]), Action::Wait),
        ("a group died", outside(vec![dead(6, 100)]), Action::Wait),
        ("a group left", outside(vec![left(6, 100)]), Action::Found),
        (
            "a group died long ago",
            silent(outside(vec![dead(6, 100)]), 60),
            Action::Found,
        ),
        (
            "a group was given up",
            View {
                given_up: BTreeSet::from([100]),
                ..outside(vec![dead(6, 100)])
            },
            Action::Found,
        ),
        (
            "given up, but not by all",
            View {
                given_up: BTreeSet::from([100]),
                ..outside(vec![member(6, 100)])
            },
            Action::Wait,
        ),
    ];
    for (name, view, action) in cases {
        assert_eq!(decided(&view), action, "{name}");
    }
}

#[test]
fn of_two_groups_the_higher_uid_is_forgotten() {
    let met = |uid| Action::Forget(Cause::Met(uid));
    let cases = [
        ("lower", inside(&[5], &[], vec![member(6, 99)]), met(99)),
        (
            "higher",
            inside(&[5], &[], vec![member(6, 101)]),
            Action::Wait,
        ),
        (
            "dead lower",
            inside(&[5], &[], vec![dead(6, 99)]),
            Action::Wait,
        ),
        (
            "lower, given up here",
            View {
                given_up: BTreeSet::from([99]),
                ..inside(&[5], &[], vec![member(6, 99)])
            },
            Action::Wait,
        ),
    ];
    for (name, view, action) in cases {
        assert_eq!(decided(&view), action, "{name}");
    }
}

#[test]
fn a_group_is_forgotten_when_it_cannot_come_back() {
    let renewed = RegionMember {
        node_id: NodeId::from("n6"),
        ..member(77, None)
    };
    let cases = [
        (
            "the voter lost its disk",
            leaderless(inside(&[6], &[5], vec![renewed]), 5),
            Action::Forget(Cause::Destroyed),
        ),
        (
            "the voter is away for a while",
            away(
                leaderless(inside(&[6], &[5], vec![dead(6, 100)]), 59),
                &[(6, 59)],
            ),
            Action::Wait,
        ),
        (
            "the voter is away for good",
            away(
                leaderless(inside(&[6], &[5], vec![dead(6, 100)]), 60),
                &[(6, 60)],
            ),
            Action::Forget(Cause::Abandoned),
        ),
        (
            "one of three is alive",
            away(
                leaderless(inside(&[5, 6, 7], &[], vec![]), 70),
                &[(6, 70), (7, 70)],
            ),
            Action::Wait,
        ),
        (
            "one of three is alive, for ten minutes",
            away(
                leaderless(inside(&[5, 6, 7], &[], vec![]), 600),
                &[(6, 600), (7, 600)],
            ),
            Action::Forget(Cause::NoQuorum),
        ),
        (
            "named, but nothing came",
            leaderless(inside(&[], &[], vec![]), 60),
            Action::Forget(Cause::Abandoned),
        ),
    ];
    for (name, view, action) in cases {
        assert_eq!(decided(&view), action, "{name}");
    }
}

#[test]
fn votes_are_odd_at_most_five_and_go_to_those_who_are_there() {
    let all = |ids: &[u64]| ids.iter().map(|id| member(*id, 100)).collect::<Vec<_>>();
    let lags = |view: View, id: u64| View {
        caught_up: view
            .caught_up
            .iter()
            .copied()
            .filter(|up| *up != id)
            .collect(),
        ..view
    };
    let cases = [
        (
            "a newcomer learns",
            leading(&[5], &[], vec![member(6, None)]),
            learner(6),
        ),
        (
            "another group's does not",
            leading(&[5], &[], vec![member(6, 101)]),
            Action::Wait,
        ),
        ("two", leading(&[5], &[6], all(&[6])), Action::Wait),
        (
            "three",
            leading(&[5], &[6, 7], all(&[6, 7])),
            voters(&[5, 6, 7]),
        ),
        (
            "one lags",
            lags(leading(&[5], &[6, 7], all(&[6, 7])), 7),
            Action::Wait,
        ),
        (
            "six",
            leading(&[5, 6, 7, 8, 9], &[4], all(&[4, 6, 7, 8, 9])),
            Action::Wait,
        ),
        (
            "one is away for a moment",
            away(leading(&[5, 6, 7], &[8], all(&[6, 8])), &[(7, 9)]),
            Action::Wait,
        ),
        (
            "one is away, another takes its place",
            away(leading(&[5, 6, 7], &[8], all(&[6, 8])), &[(7, 10)]),
            voters(&[5, 6, 8]),
        ),
        (
            "one is away, nobody takes its place yet",
            away(leading(&[5, 6, 7], &[], all(&[6])), &[(7, 29)]),
            Action::Wait,
        ),
        (
            "one is away, nobody takes its place",
            away(leading(&[5, 6, 7], &[], all(&[6])), &[(7, 30)]),
            voters(&[5]),
        ),
    ];
    for (name, view, action) in cases {
        assert_eq!(decided(&view), action, "{name}");
    }
}

#[test]
fn who_leaves_hands_on_its_vote_and_who_has_gone_is_removed() {
    let all = |ids: &[u64]| ids.iter().map(|id| member(*id, 100)).collect::<Vec<_>>();
    let leaves = |view: View, id: u64| View {
        leaving: BTreeSet::from([id]),
        ..view
    };
    let cases = [
        (
            "a follower leaves",
            leaves(leading(&[5, 6, 7], &[], all(&[6, 7])), 7),
            voters(&[5]),
        ),
        (
            "the leader leaves",
            leaves(leading(&[5, 6, 7], &[], all(&[6, 7])), 5),
            voters(&[6]),
        ),
        (
            "the leader of two leaves",
            leaves(leading(&[5], &[6], all(&[6])), 5),
            voters(&[6]),
        ),
        (
            "nobody can take the vote",
            leaves(leading(&[5], &[], vec![]), 5),
            Action::Wait,
        ),
        (
            "a learner left",
            leading(&[5], &[6], vec![left(6, 100)]),
            removed(&[6]),
        ),
        (
            "a learner is away for good",
            away(leading(&[5], &[6], vec![dead(6, 100)]), &[(6, 60)]),
            removed(&[6]),
        ),
    ];
    for (name, view, action) in cases {
        assert_eq!(decided(&view), action, "{name}");
    }
}

#[test]
fn a_voter_that_lost_its_disk_loses_its_vote() {
    let renewed = RegionMember {
        node_id: NodeId::from("n7"),
        ..member(77, 100)
    };
    let region = || vec![member(6, 100), renewed.clone()];
    assert_eq!(
        decided(&leading(&[5, 6, 7], &[77], region()).renamed(77, "n7")),
        voters(&[5, 6, 77])
    );
    assert_eq!(
        decided(&leading(&[5, 6, 77], &[7], region()).renamed(77, "n7")),
        removed(&[7])
    );
}

impl View {
    fn renamed(mut self, raft_id: u64, name: &str) -> Self {
        self.nodes.insert(raft_id, name.to_owned());
        self
    }
}
