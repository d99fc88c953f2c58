//! What nodes tell one another of token limits: backoffs within their region, releases to all.

use crate::support::{Node, eventually, fleet, start_all};

fn dry(nodes: &[Node], key: &str) -> Vec<bool> {
    let dry = nodes.iter().map(|node| node.table.dry_ms(key).is_some());
    dry.collect()
}

/// n0 and n2 are in the east, n1 and n3 in the west.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backoff_reaches_its_region_only_and_a_release_from_anywhere_ends_it() {
    let mut nodes = fleet(4);
    start_all(&mut nodes).await;
    nodes[0].run_dry("k-east", 60_000);
    nodes[3].run_dry("k-west", 60_000);
    nodes[3].run_dry("k-west-2", 60_000);
    eventually("each region knows of its own", || {
        let west = |key| dry(&nodes, key)[1];
        dry(&nodes, "k-east")[2] && west("k-west") && west("k-west-2")
    })
    .await;
    let left_ms = nodes[2].table.dry_ms("k-east").unwrap();
    assert!((40_000..=60_000).contains(&left_ms), "{left_ms}");

    // Whoever hears of a release has heard what the same node said before.
    nodes[0].clear("k-west-2");
    eventually("released in the west", || {
        !dry(&nodes, "k-west-2").contains(&true)
    })
    .await;
    assert_eq!(dry(&nodes, "k-east"), [true, false, true, false]);
    nodes[3].clear("k-east");
    eventually("released in the east", || {
        !dry(&nodes, "k-east").contains(&true)
    })
    .await;
    assert_eq!(dry(&nodes, "k-west"), [false, true, false, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_hears_of_its_region_from_those_that_are_there() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    nodes[0].run_dry("k-east", 60_000);
    let mut east = Node::new("n-east", "east", &[&nodes[0]]);
    let mut west = Node::new("n-west", "west", &[&nodes[0]]);
    east.start().await;
    west.start().await;
    eventually("the joiner knows", || east.table.dry_ms("k-east").is_some()).await;
    assert_eq!(west.table.dry_ms("k-east"), None);
    assert_eq!(east.handle().counters().signals_received, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backoff_runs_out_for_all_at_about_the_same_time() {
    let mut nodes = fleet(3);
    start_all(&mut nodes).await;
    nodes[0].run_dry("k-a", 6_000);
    eventually("n2 knows", || dry(&nodes, "k-a")[2]).await;
    let (here, there) = (nodes[0].table.dry_ms("k-a"), nodes[2].table.dry_ms("k-a"));
    let apart_ms = here.unwrap_or_default().abs_diff(there.unwrap_or_default());
    assert!(apart_ms < 2_000, "{here:?} {there:?}");
    eventually("it is over", || dry(&nodes, "k-a") == [false; 3]).await;
}
