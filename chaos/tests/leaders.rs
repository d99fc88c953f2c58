//! The leader of a region dies while everybody works.

use std::time::Instant;

use holdline_chaos::demo::KEYS;
use holdline_chaos::laws;

use crate::support::{ELECTION_LIMIT, LISTEN, PROPAGATION_MS, Running};

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_under_traffic_costs_no_request_elsewhere() {
    let mut cluster = Running::start(4, 2, 1.0).await;
    let traffic = cluster.traffic();
    tokio::time::sleep(LISTEN).await;
    let (old, _) = cluster
        .stage
        .fleet
        .leader("us-east", None, ELECTION_LIMIT)
        .await
        .unwrap();

    let killed_at = Instant::now();
    cluster
        .stage
        .fleet
        .node(&old)
        .unwrap()
        .kill()
        .await
        .unwrap();
    // Holds never wait for a leader: this one is found while there is none.
    cluster.hold("n4", KEYS[0]).await;
    // All know it now; what was sent before may still arrive.
    let from_ms = cluster.stage.mock.now_ms() + PROPAGATION_MS;
    tokio::time::sleep(LISTEN).await;
    let calls = cluster.stage.mock.calls(KEYS[0].secret, from_ms);
    laws::silence(&calls, from_ms, cluster.stage.mock.now_ms()).unwrap();
    assert_eq!(traffic.failures(killed_at, &[&old]), Vec::<String>::new());
    cluster.restart(&old).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_region_elects_another_leader() {
    let mut cluster = Running::start(3, 1, 1.0).await;
    let (old, _) = cluster
        .stage
        .fleet
        .leader("us-east", None, ELECTION_LIMIT)
        .await
        .unwrap();
    cluster
        .stage
        .fleet
        .node(&old)
        .unwrap()
        .kill()
        .await
        .unwrap();
    let (new, _) = cluster
        .stage
        .fleet
        .leader("us-east", Some(&old), ELECTION_LIMIT)
        .await
        .unwrap();
    assert_ne!(new, old);
    cluster.restart(&old).await;
}
