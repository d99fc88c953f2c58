//! SIGKILL: one node after another, and the whole fleet at once.

use holdline_chaos::demo::KEYS;
use holdline_chaos::laws;

use crate::support::{AGREE_LIMIT, FIRST_HOLD_MS, LISTEN, Running, SAVED, SPREAD_LIMIT};

#[tokio::test(flavor = "multi_thread")]
async fn each_node_in_turn_is_killed_and_the_hold_stays() {
    let mut cluster = Running::start(4, 2, 1.0).await;
    cluster.hold("n1", KEYS[0]).await;
    let before = cluster.stage.fleet.views().await.unwrap();
    for id in cluster.ids() {
        cluster.stage.fleet.node(&id).unwrap().kill().await.unwrap();
        let after = cluster.stage.fleet.views().await.unwrap();
        laws::no_hold_is_lost(&before, &after).unwrap();

        cluster.restart(&id).await;
        let after = cluster.stage.fleet.views().await.unwrap();
        laws::no_hold_is_lost(&before, &after).unwrap();
        laws::tables_are_equal(&after).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_fleet_is_killed_and_no_node_calls_the_held_key() {
    let mut cluster = Running::start(4, 2, 1.0).await;
    let refused_ms = cluster.hold("n3", KEYS[0]).await;
    let before = cluster.stage.fleet.views().await.unwrap();
    tokio::time::sleep(SAVED).await;
    cluster.restart_everything().await;

    let from_ms = cluster.stage.mock.now_ms();
    laws::no_hold_is_lost(&before, &cluster.stage.fleet.views().await.unwrap()).unwrap();
    let traffic = cluster.traffic();
    tokio::time::sleep(LISTEN).await;
    let to_ms = cluster.stage.mock.now_ms();
    assert!(
        to_ms < refused_ms + FIRST_HOLD_MS,
        "the restart outlasted the hold: nothing was proved"
    );
    laws::silence(
        &cluster.stage.mock.calls(KEYS[0].secret, from_ms),
        from_ms,
        to_ms,
    )
    .unwrap();
    assert!(
        traffic
            .tallies()
            .values()
            .all(|tally| tally.served > 0 && tally.failed == 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_down_while_a_key_was_refused_starts_with_its_hold() {
    let mut cluster = Running::start(3, 1, 1.0).await;
    cluster
        .stage
        .fleet
        .node("n3")
        .unwrap()
        .kill()
        .await
        .unwrap();
    cluster.hold("n1", KEYS[0]).await;

    let node = cluster.stage.fleet.node("n3").unwrap();
    node.start().unwrap();
    node.wait_ready(crate::support::START_LIMIT).await.unwrap();
    let held = node.api().held(KEYS[0].key_id).await.unwrap();
    assert!(held.is_some(), "ready means: holds what the others hold");
    cluster.stage.fleet.wait_agreed(AGREE_LIMIT).await.unwrap();
    cluster
        .stage
        .fleet
        .wait_held(KEYS[0].key_id, SPREAD_LIMIT)
        .await
        .unwrap();
}
