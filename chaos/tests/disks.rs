//! A node that comes back without its data.

use holdline_chaos::demo::KEYS;
use holdline_chaos::laws;

use crate::support::{AGREE_LIMIT, ELECTION_LIMIT, Running, START_LIMIT};

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_joins_and_holds_what_the_giver_holds() {
    let mut cluster = Running::start(3, 1, 1.0).await;
    cluster.hold("n1", KEYS[0]).await;
    let (leader, _) = cluster
        .stage
        .fleet
        .leader("us-east", None, ELECTION_LIMIT)
        .await
        .unwrap();
    // The worst one to lose: it votes, leads and gives.
    let node = cluster.stage.fleet.node(&leader).unwrap();
    node.kill().await.unwrap();
    node.wipe().unwrap();
    node.start().unwrap();
    node.wait_ready(START_LIMIT).await.unwrap();

    let restored = node.api().cluster().await.unwrap().restored.unwrap();
    assert!(
        restored.from.contains(':'),
        "nothing but a peer can have given it: {restored:?}"
    );
    assert_eq!(restored.held, 1);
    cluster.stage.fleet.wait_agreed(AGREE_LIMIT).await.unwrap();
    laws::tables_are_equal(&cluster.stage.fleet.views().await.unwrap()).unwrap();
}
