//! A region that is cut off from the other. Needs root and `ip`; without them these tests say so and prove nothing.

use std::sync::Arc;

use holdline_chaos::demo::KEYS;
use holdline_chaos::mock::Fault;
use holdline_chaos::net::Net;
use holdline_chaos::{laws, poll};

use crate::support::{AGREE_LIMIT, LISTEN, Running, SPREAD_LIMIT};

/// n1 and n2, n3 and n4.
const US_EAST: [usize; 2] = [0, 1];
const EU_WEST: [usize; 2] = [2, 3];

#[tokio::test(flavor = "multi_thread")]
async fn a_region_that_is_cut_off_serves_and_catches_up() {
    let Some(net) = net() else { return };
    let mut cluster = Running::start_on(Arc::clone(&net), 4, 2).await;
    net.cut(&US_EAST, &EU_WEST).unwrap();
    cluster.stage.mock.refuse(KEYS[0].secret, Fault::Revoked);
    assert_eq!(cluster.ask("n1", Some(KEYS[0])).await, 401);
    wait_held(&mut cluster, "n2", true).await;

    tokio::time::sleep(LISTEN).await;
    wait_held(&mut cluster, "n3", false).await;
    assert_eq!(
        cluster.ask("n4", Some(KEYS[1])).await,
        200,
        "the other side serves"
    );

    net.mend(&US_EAST, &EU_WEST).unwrap();
    cluster
        .stage
        .fleet
        .wait_held(KEYS[0].key_id, AGREE_LIMIT)
        .await
        .unwrap();
    cluster.stage.fleet.wait_agreed(AGREE_LIMIT).await.unwrap();
    laws::tables_are_equal(&cluster.stage.fleet.views().await.unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_on_one_side_of_a_cut_wins_when_it_is_mended() {
    let Some(net) = net() else { return };
    let mut cluster = Running::start_on(Arc::clone(&net), 4, 2).await;
    cluster.hold("n1", KEYS[0]).await;
    net.cut(&US_EAST, &EU_WEST).unwrap();
    cluster.stage.mock.restore(KEYS[0].secret);
    let released = cluster
        .api("n3")
        .release(KEYS[0].provider, KEYS[0].key_id)
        .await
        .unwrap();
    assert_eq!(released, 1);
    wait_held(&mut cluster, "n4", false).await;
    wait_held(&mut cluster, "n2", true).await;

    net.mend(&US_EAST, &EU_WEST).unwrap();
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

#[expect(
    clippy::print_stdout,
    reason = "the runner shows why nothing was proved"
)]
fn net() -> Option<Arc<Net>> {
    if !Net::possible() {
        println!("skipped: network namespaces need root and `ip`");
        return None;
    }
    Some(Arc::new(Net::new(US_EAST.len() + EU_WEST.len()).unwrap()))
}

async fn wait_held(cluster: &mut Running, node: &str, wanted: bool) {
    let api = cluster.api(node);
    let what = format!("{node}: held is {wanted}");
    let held = poll::until(SPREAD_LIMIT, &what, async || {
        let held = api.held(KEYS[0].key_id).await?.is_some();
        anyhow::ensure!(held == wanted, "it is {held}");
        Ok(())
    });
    held.await.unwrap();
}
