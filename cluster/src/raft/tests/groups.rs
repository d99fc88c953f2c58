//! A region's group over its life.

use tokio::time::Instant;

use super::memory::{record, released};
use super::net::Net;
use super::secs;
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
