//! Who starts gets the table, from the right one.

use holdline_cluster::RestoredFrom;
use holdline_core::ids::NodeId;

use crate::support::{Node, all_hold, eventually, fleet, none_holds, start_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_gets_the_table_of_its_leader() {
    let mut nodes = fleet(3);
    start_all(&mut nodes).await;
    for number in 0..500 {
        nodes[1].hold(&format!("k-{number}"));
    }
    nodes[1].write("settings", "{}");
    all_hold(&nodes, "k-499").await;
    eventually("all know a leader of the east", || {
        let leads = |node: &Node| node.handle().status().leaders.contains_key("east");
        nodes.iter().all(leads)
    })
    .await;
    let leader: NodeId = nodes[1].handle().status().leaders["east"].clone();

    let mut joiner = Node::new("n9", "east", &[&nodes[1]]);
    joiner.start().await;
    let restored = joiner.ready().await;
    assert_eq!(restored.from, RestoredFrom::Leader(leader));
    assert_eq!((restored.held, joiner.table.held().len()), (500, 500));
    assert_eq!(joiner.table.read("settings").unwrap(), "{}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_seeds_are_silent_runs_on_its_store() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    nodes[0].hold("k-a");
    all_hold(&nodes, "k-a").await;
    eventually("it is saved", || nodes[0].disk.held() == 1).await;
    for node in &mut nodes {
        node.kill();
    }
    nodes[0].start().await;
    let restored = nodes[0].ready().await;
    assert_eq!((restored.from, restored.held), (RestoredFrom::Store, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_node_starts_with_nothing() {
    let mut node = Node::new("n0", "east", &[]);
    node.start().await;
    let restored = node.ready().await;
    assert_eq!((restored.from, restored.held), (RestoredFrom::Nothing, 0));
}

/// Each has something in its store that the other lacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_have_everything_when_they_are_ready() {
    let mut nodes = fleet(2);
    for (node, key) in nodes.iter_mut().zip(["k-a", "k-b"]) {
        node.start().await;
        node.ready().await;
        node.hold(key);
        eventually("it is saved", || node.disk.held() == 1).await;
        node.kill();
    }
    start_all(&mut nodes).await;
    for node in &nodes {
        assert_eq!(node.table.held(), ["k-a", "k-b"]);
    }
}

/// A release that only one node's disk had when all were killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_a_joiner_knows_gets_everywhere() {
    let mut nodes = fleet(4);
    start_all(&mut nodes[..3]).await;
    nodes[0].hold("k-a");
    all_hold(&nodes[..3], "k-a").await;
    nodes[3].options.seeds = vec![nodes[1].gossip_address()];
    nodes[3].disk.save(nodes[0].table.after_release("k-a"));
    let told = |node: &Node| {
        let counters = node.handle().counters();
        counters.records_received_by_push + counters.records_received_by_gossip
    };
    let before: Vec<u64> = nodes[..3].iter().map(told).collect();
    nodes[3].start().await;
    let (RestoredFrom::Leader(giver) | RestoredFrom::Peer(giver)) = nodes[3].ready().await.from
    else {
        panic!("nobody gave");
    };
    assert!(!nodes[3].holds("k-a"));
    none_holds(&nodes, "k-a").await;
    // Comparing digests would come to the same 3 s later, and tell nobody.
    let others = nodes[..3].iter().zip(before);
    let others = others.filter(|(node, _)| node.options.node_id != giver);
    for (node, before) in others {
        eventually("it is told", || told(node) > before).await;
    }
}
