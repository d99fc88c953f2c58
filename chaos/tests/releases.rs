//! Releases: by an operator, at the instant before everything dies; by an edit of the key.

use std::fs;

use holdline_chaos::demo::KEYS;
use holdline_chaos::laws;

use crate::support::{Running, SAVED};

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_release_survives_the_whole_fleet_at_that_instant() {
    let mut cluster = Running::start(4, 2, 1.0).await;
    cluster.hold("n1", KEYS[0]).await;
    // Every store has the hold: only the release can make the difference.
    tokio::time::sleep(SAVED).await;
    cluster.stage.mock.restore(KEYS[0].secret);
    let released = cluster
        .api("n4")
        .release(KEYS[0].provider, KEYS[0].key_id)
        .await
        .unwrap();
    assert_eq!(released, 1);
    cluster.restart_everything().await;

    let views = cluster.stage.fleet.views().await.unwrap();
    laws::no_release_is_undone(KEYS[0].key_id, &views).unwrap();
    for id in cluster.ids() {
        assert_eq!(cluster.ask(&id, Some(KEYS[0])).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_is_another_subject_after_a_restart() {
    let mut cluster = Running::start(2, 1, 1.0).await;
    cluster.hold("n1", KEYS[0]).await;
    tokio::time::sleep(SAVED).await;
    let config = cluster.stage.fleet.nodes()[0].spec().config.clone();
    let rotated = fs::read_to_string(&config)
        .unwrap()
        .replace(KEYS[0].secret, "sk-demo-rotated");
    fs::write(&config, rotated).unwrap();
    cluster.restart_everything().await;

    let views = cluster.stage.fleet.views().await.unwrap();
    laws::no_release_is_undone(KEYS[0].key_id, &views).unwrap();
    assert_eq!(cluster.ask("n2", Some(KEYS[0])).await, 200);
}
