//! A region's group over its life.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::memory::{record, released};
use super::net::Net;
use super::secs;
use crate::raft::codec;
use crate::raft::wire::{Envelope, Request};
use crate::store::Store;

#[tokio::test(start_paused = true)]
async fn a_region_of_any_size_forms_itself() {
    for (nodes, voters) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (7, 5)] {
        let started = Instant::now();
        let net = Net::of(nodes).await;
        let leader = net.leader(secs(8)).await;
        println!(
            "{nodes} nodes: {leader} leads after {:?}",
            started.elapsed()
        );
        net.eventually(secs(8), "voters", || {
            let (voting, learning) = net.membership(&leader);
            let nodes = usize::try_from(nodes).unwrap();
            ((voting.len(), learning.len()) == (voters, nodes - voters)).then_some(())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn snapshots_reach_every_store() {
    let net = Net::of(4).await;
    let leader = net.leader(secs(8)).await;
    net.merge(&[record(1, 1), record(2, 1)]);
    for (change, held) in [
        (record(3, 1), 3),
        (released(1, 9), 2),
        (released(2, 9), 1),
        (released(3, 9), 0),
    ] {
        net.merge(&[change]);
        net.eventually(secs(1), "snapshot", || {
            let saved = net.running().into_iter().map(|name| net.saved(&name));
            let mut saved = saved.map(|info| info.map(|info| (info.held, info.saved_by)));
            saved
                .all(|saved| saved == Some((held, leader.as_str().into())))
                .then_some(())
        })
        .await;
    }
    for name in net.running() {
        let saved = net.store(&name).load_snapshot().unwrap().unwrap();
        assert_eq!(saved.records.len(), 3, "{name}");
    }
}

/// Kills the leader of a region of `nodes`, and tells how long it had none.
async fn time_to_replace(nodes: u64, first_raft_id: u64) -> Duration {
    let net = Net::of(0).await;
    for number in 1..=nodes {
        let raft_id = first_raft_id.wrapping_mul(number * 2 + 1) >> 1;
        net.add(&format!("n{number}"), raft_id).await;
    }
    let leader = net.leader(secs(8)).await;
    net.voters(&leader, usize::try_from(nodes).unwrap()).await;
    net.kill(&leader).await;
    let killed = Instant::now();
    let next = net.leader(secs(6)).await;
    assert_ne!(next, leader);
    killed.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_replaced_within_two_seconds() {
    for nodes in [3, 5] {
        let mut took = Vec::new();
        for seed in 1..=15_u64 {
            took.push(time_to_replace(nodes, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)).await);
        }
        took.sort();
        let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
        println!("{nodes} nodes: another leads after {median:?}, at most {most:?}");
        assert!(median < secs(2), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_restarts_goes_on_with_its_group() {
    for nodes in [1, 2, 3] {
        let net = Net::of(nodes).await;
        let leader = net.leader(secs(8)).await;
        net.merge(&[record(1, 1)]);
        net.settle(secs(3)).await;
        let before = net.leadership(&leader);
        for name in net.running() {
            net.kill(&name).await;
        }
        for number in 1..=nodes {
            net.start(&format!("n{number}")).await;
        }
        assert_eq!(net.saved(&leader).map(|info| info.held), Some(1));
        let restarted = Instant::now();
        let leader = net.leader(secs(3)).await;
        println!(
            "{nodes} nodes: {leader} leads {:?} after a restart",
            restarted.elapsed()
        );
        let after = net.leadership(&leader);
        assert_eq!(after.group_uid, before.group_uid);
        assert!(after.term >= before.term, "the vote was kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_disk_is_a_new_member() {
    let net = Net::of(3).await;
    let leader = net.leader(secs(8)).await;
    net.voters(&leader, 3).await;
    let group = net.leadership(&leader).group_uid;
    let lost = if leader == "n3" { "n2" } else { "n3" };
    let old = net.raft_id(lost);
    net.kill(lost).await;
    net.wipe(lost, 77);
    net.start(lost).await;
    net.eventually(secs(4), "new member", || {
        let (voters, learners) = net.membership(&leader);
        (voters.contains(&77) && !voters.contains(&old) && !learners.contains(&old)).then_some(())
    })
    .await;
    net.leader(secs(2)).await;
    assert_eq!(net.leadership(lost).group_uid, group);
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_voters_all_lost_their_disks_is_replaced() {
    let net = Net::of(2).await;
    assert_eq!(net.leader(secs(8)).await, "n1");
    net.settle(secs(2)).await;
    let old = net.leadership("n2").group_uid;
    net.kill("n1").await;
    net.wipe("n1", 77);
    net.start("n1").await;
    net.leader(secs(15)).await;
    assert_ne!(net.leadership("n1").group_uid, old);
}

#[tokio::test(start_paused = true)]
async fn of_two_groups_that_meet_the_lower_uid_stays() {
    let net = Net::of(5).await;
    net.cut(&["n1", "n2"]);
    net.settle(secs(6)).await;
    let uids = ["n1", "n3"].map(|name| net.leadership(name).group_uid.unwrap());
    assert_ne!(uids[0], uids[1]);
    net.heal();
    net.settle(secs(1)).await;
    let leader = net.leader(secs(6)).await;
    assert_eq!(net.leadership(&leader).group_uid, uids.into_iter().min());
    net.voters(&leader, 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_lone_learner_acts_as_leader_and_saves() {
    let net = Net::of(2).await;
    assert_eq!(net.leader(secs(8)).await, "n1");
    net.settle(secs(2)).await;
    net.kill("n1").await;
    net.eventually(secs(7), "acting leader", || {
        let seen = net.leadership("n2");
        (seen.acting && seen.leader == Some("n2".into())).then_some(())
    })
    .await;
    net.merge(&[record(1, 1)]);
    net.eventually(secs(1), "snapshot", || {
        let saved = net.saved("n2")?;
        ((saved.held, saved.saved_by.as_str(), saved.group_uid) == (1, "n2", 0)).then_some(())
    })
    .await;
    net.start("n1").await;
    assert_eq!(net.leader(secs(3)).await, "n1");
}

#[tokio::test(start_paused = true)]
async fn a_group_without_voters_is_given_up_after_a_minute() {
    let net = Net::of(7).await;
    let leader = net.leader(secs(8)).await;
    net.voters(&leader, 5).await;
    net.settle(secs(1)).await;
    let (voters, learners) = net.membership(&leader);
    let old = net.leadership(&leader).group_uid;
    let names = |ids: &BTreeSet<u64>| -> Vec<String> {
        ids.iter().map(|id| format!("n{}", id / 10)).collect()
    };
    for name in names(&voters) {
        net.kill(&name).await;
    }
    let acting = names(&learners).remove(0);
    net.settle(secs(50)).await;
    for name in names(&learners) {
        let seen = net.leadership(&name);
        assert_eq!(
            (seen.leader.unwrap().as_str(), seen.acting),
            (acting.as_str(), true)
        );
        assert_eq!(seen.group_uid, old);
    }
    net.leader(secs(25)).await;
    assert_ne!(net.leadership(&acting).group_uid, old);
    for name in names(&voters) {
        net.start(&name).await;
    }
    // The old group goes on without its learners until both meet.
    let leader = net.leader(secs(130)).await;
    net.voters(&leader, 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_hands_its_vote_on() {
    for nodes in [2, 3, 5] {
        let net = Net::of(nodes).await;
        let leader = net.leader(secs(8)).await;
        net.voters(
            &leader,
            if nodes == 2 {
                1
            } else {
                usize::try_from(nodes).unwrap()
            },
        )
        .await;
        net.settle(secs(1)).await;
        let leaving = Instant::now();
        net.leave(&leader).await;
        let left = leaving.elapsed();
        let next = net.leader(secs(3)).await;
        println!(
            "{nodes} nodes: left after {left:?}, {next} leads after {:?}",
            leaving.elapsed()
        );
        assert!(
            left < secs(1),
            "the vote was handed on before the time was up"
        );
        let (voters, _) = net.membership(&next);
        assert!(!voters.contains(&net.raft_id(&leader)), "{voters:?}");
        net.start(&leader).await;
        net.leader(secs(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_leaves_hands_its_vote_on() {
    let net = Net::of(3).await;
    let leader = net.leader(secs(8)).await;
    net.voters(&leader, 3).await;
    net.settle(secs(1)).await;
    let leaving = Instant::now();
    net.leave(if leader == "n3" { "n2" } else { "n3" }).await;
    assert!(leaving.elapsed() < secs(1));
    assert_eq!(net.membership(&leader).0.len(), 1);
    assert_eq!(net.leader(secs(1)).await, leader);
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_stops_claiming_to_lead() {
    let net = Net::of(5).await;
    let leader = net.leader(secs(8)).await;
    net.voters(&leader, 5).await;
    net.cut(&[&leader]);
    net.settle(secs(3)).await;
    assert_eq!(net.leadership(&leader).leader, None);
    let rest: Vec<_> = net
        .running()
        .into_iter()
        .filter(|name| *name != leader)
        .collect();
    let next = net.agreed(&rest).expect("the others have elected another");
    net.heal();
    assert_eq!(net.leader(secs(3)).await, next);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_and_works_again_takes_raft_with_it_only_for_so_long() {
    for broken in ["n1", "n2"] {
        let net = Net::of(3).await;
        let leader = net.leader(secs(8)).await;
        net.voters(&leader, 3).await;
        net.store(broken).break_down(true);
        net.merge(&[record(1, 1)]);
        net.settle(secs(10)).await;
        net.store(broken).break_down(false);
        net.leader(secs(5)).await;
        net.merge(&[record(2, 1)]);
        net.eventually(secs(3), "snapshot", || {
            net.saved(broken).filter(|saved| saved.held == 2)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_table_and_a_long_history_reach_a_newcomer() {
    let net = Net::of(3).await;
    let leader = net.leader(secs(8)).await;
    net.voters(&leader, 3).await;
    net.every(&leader, secs(2));
    let table: Vec<_> = (0..3_000).map(|number| record(number, 1)).collect();
    net.merge(&table);
    net.settle(secs(60)).await;
    assert!(net.store(&leader).log_len() < 700, "the log is bounded");
    net.add("n4", 40).await;
    net.eventually(secs(8), "the whole table", || {
        let saved = net.store("n4").load_snapshot().unwrap()?;
        (saved.records.len() == 3_000).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_meant_for_another_is_refused() {
    let net = Net::of(1).await;
    net.leader(secs(8)).await;
    let (group, uid) = (net.group("n1"), net.leadership("n1").group_uid.unwrap());
    for (group_uid, target, taken) in [(uid, 10, true), (uid, 20, false), (uid ^ 1, 10, false)] {
        let request = Request::Leaving(99);
        let envelope = codec::encode(&Envelope {
            group_uid,
            target,
            request,
        });
        let answer = group.answer(&envelope.unwrap()).await;
        assert_eq!(answer.is_ok(), taken, "{answer:?}");
    }
    assert!(group.answer(b"nonsense").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_group_keeps_its_leader() {
    let net = Net::of(5).await;
    let leader = net.leader(secs(8)).await;
    net.voters(&leader, 5).await;
    let term = net.leadership(&leader).term;
    net.settle(secs(60)).await;
    assert_eq!(net.leader(secs(1)).await, leader);
    assert_eq!(net.leadership(&leader).term, term);
}
