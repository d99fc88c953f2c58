//! SIGSTOP: a node that the others took for dead wakes up with an old table and old beliefs.

use std::time::Duration;

use holdline_chaos::demo::KEYS;
use holdline_chaos::laws;

use crate::support::{AGREE_LIMIT, LISTEN, Running, SPREAD_LIMIT};

/// Long enough for the others to declare it dead and elect another leader.
const PAUSE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_undoes_no_release() {
    let mut cluster = Running::start(3, 1, 1.0).await;
    cluster.hold("n1", KEYS[0]).await;
    cluster.stage.fleet.node("n1").unwrap().pause().unwrap();
    cluster.stage.mock.restore(KEYS[0].secret);
    let released = cluster
        .api("n2")
        .release(KEYS[0].provider, KEYS[0].key_id)
        .await
        .unwrap();
    assert_eq!(released, 1);
    cluster
        .stage
        .fleet
        .wait_released(KEYS[0].key_id, SPREAD_LIMIT)
        .await
        .unwrap();
    tokio::time::sleep(PAUSE).await;

    cluster.stage.fleet.node("n1").unwrap().resume().unwrap();
    cluster
        .stage
        .fleet
        .wait_released(KEYS[0].key_id, AGREE_LIMIT)
        .await
        .unwrap();
    cluster.stage.fleet.wait_agreed(AGREE_LIMIT).await.unwrap();
    let views = cluster.stage.fleet.views().await.unwrap();
    laws::no_release_is_undone(KEYS[0].key_id, &views).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_learns_what_it_missed() {
    let mut cluster = Running::start(3, 1, 1.0).await;
    cluster.stage.fleet.node("n1").unwrap().pause().unwrap();
    cluster.hold("n2", KEYS[0]).await;
    tokio::time::sleep(PAUSE).await;

    cluster.stage.fleet.node("n1").unwrap().resume().unwrap();
    cluster
        .stage
        .fleet
        .wait_held(KEYS[0].key_id, AGREE_LIMIT)
        .await
        .unwrap();
    let from_ms = cluster.stage.mock.now_ms();
    let traffic = cluster.traffic();
    tokio::time::sleep(LISTEN).await;
    let calls = cluster.stage.mock.calls(KEYS[0].secret, from_ms);
    laws::silence(&calls, from_ms, cluster.stage.mock.now_ms()).unwrap();
    assert!(traffic.tallies()["n1"].served > 0, "it serves again");
    cluster.stage.fleet.wait_agreed(AGREE_LIMIT).await.unwrap();
    laws::tables_are_equal(&cluster.stage.fleet.views().await.unwrap()).unwrap();
}
