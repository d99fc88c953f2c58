//! The life of a hold under traffic: silence, one check per node, one rung for all, the release.

use std::time::Duration;

use holdline_chaos::demo::{KEYS, MODEL};
use holdline_chaos::{laws, poll};

use crate::support::{LISTEN, PROPAGATION_MS, Running, SPREAD_LIMIT};

/// The first hold lasts 3 s, the second 6 s.
const TIME_SCALE: f64 = 10.0;
const CREDENTIAL_CAP_MS: u64 = 15 * 60 * 1_000;
/// The second hold in real time, less jitter.
const SECOND_HOLD_MS: u64 = 5_400;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_check_climbs_one_rung_for_all_and_a_served_one_releases() {
    let mut cluster = Running::start(4, 2, TIME_SCALE).await;
    let [key, ..] = KEYS;
    let refused_ms = cluster.hold("n1", key).await;
    let traffic = cluster.traffic();
    let mock = &cluster.stage.mock;

    let first_check = poll::until(Duration::from_secs(10), "a check", async || {
        let calls = mock.calls(key.secret, refused_ms + PROPAGATION_MS);
        calls
            .into_iter()
            .next()
            .ok_or_else(|| anyhow::anyhow!("none yet"))
    });
    let (first_check, _) = first_check.await.unwrap();
    assert!(
        first_check.at_ms >= refused_ms + 2_700,
        "a check before the hold was over: {first_check:?}"
    );
    tokio::time::sleep(LISTEN).await;
    let calls = mock.calls(key.secret, refused_ms);
    let to_ms = mock.now_ms().min(first_check.at_ms + SECOND_HOLD_MS);
    laws::one_check_per_node(&calls, refused_ms + PROPAGATION_MS, to_ms).unwrap();
    for node in cluster.stage.fleet.live() {
        let condition = node.api().held(key.key_id).await.unwrap().unwrap();
        laws::ladder_is_climbed(&condition, 1, CREDENTIAL_CAP_MS).unwrap();
    }

    mock.restore(key.secret);
    cluster
        .stage
        .fleet
        .wait_released(key.key_id, SPREAD_LIMIT)
        .await
        .unwrap();
    laws::tables_are_equal(&cluster.stage.fleet.views().await.unwrap()).unwrap();
    let failed: u64 = traffic.tallies().values().map(|tally| tally.failed).sum();
    assert_eq!(failed, 0, "{MODEL} was served by other keys all the time");
}
