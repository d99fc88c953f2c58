//! Records get everywhere: by push at once, by gossip behind it.

use holdline_cluster::Spread;

use crate::support::{Node, all_hold, eventually, fleet, none_holds, start_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_and_its_release_reach_six_nodes() {
    let mut nodes = fleet(6);
    start_all(&mut nodes).await;
    nodes[2].hold("k-a");
    let took = all_hold(&nodes, "k-a").await;
    println!("a hold was everywhere after {took:?}");
    eventually("all acknowledge", || {
        nodes[2].handle().counters().records_pushed == 5
    })
    .await;
    let counters = nodes[2].handle().counters();
    assert_eq!(
        (counters.push_round_trips, counters.push_queue_full),
        (5, 0)
    );

    nodes[3].release("k-a");
    none_holds(&nodes, "k-a").await;
    eventually("all converge", || {
        nodes.iter().all(|node| node.handle().status().converged)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_alone_spreads() {
    let nodes = spreads(Spread {
        push: true,
        gossip: false,
    })
    .await;
    let counters = nodes[2].handle().counters();
    // One that was acknowledged late comes again.
    assert!(counters.records_received_by_push >= 2, "{counters:?}");
    assert_eq!(counters.records_received_by_gossip, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gossip_alone_spreads() {
    let nodes = spreads(Spread {
        push: false,
        gossip: true,
    })
    .await;
    let counters = || nodes[2].handle().counters();
    eventually("both came by gossip", || {
        counters().records_received_by_gossip == 2
    })
    .await;
    assert_eq!(counters().records_received_by_push, 0);
}

/// Whole tables are exchanged after 3 s too: who calls sees in the counters that it was not that.
async fn spreads(spread: Spread) -> Vec<Node> {
    let mut nodes = fleet(3);
    for node in &mut nodes {
        node.options.spread = spread;
    }
    start_all(&mut nodes).await;
    nodes[0].hold("k-a");
    all_hold(&nodes, "k-a").await;
    nodes[1].release("k-a");
    none_holds(&nodes, "k-a").await;
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_stay_different_are_exchanged() {
    let mut nodes = fleet(2);
    for node in &mut nodes {
        node.options.spread = Spread {
            push: false,
            gossip: false,
        };
    }
    start_all(&mut nodes).await;
    nodes[0].hold("k-a");
    nodes[1].hold("k-b");
    all_hold(&nodes, "k-a").await;
    all_hold(&nodes, "k-b").await;
}

/// n2's clock is five minutes ahead: what it says of a hold's age must not make it older elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ages_in_gossip_follow_the_measured_clock() {
    let mut nodes = fleet(2);
    for node in &mut nodes {
        node.options.spread = Spread {
            push: false,
            gossip: true,
        };
    }
    nodes[1].table = std::sync::Arc::new(crate::support::Table::new(&nodes[1].options, 300_000));
    start_all(&mut nodes).await;
    nodes[0].hold("k-slow");
    nodes[1].hold("k-fast");
    all_hold(&nodes, "k-slow").await;
    all_hold(&nodes, "k-fast").await;
    assert!(nodes[0].table.age_ms("k-fast") < 10_000);
    assert!(
        nodes[1].table.age_ms("k-slow") < 10_000,
        "five minutes were added"
    );
}
