//! Who is listed as what.

use holdline_cluster::{MemberState, RpcLink};

use crate::support::{Node, all_hold, eventually, fleet, none_holds, start_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_is_suspect_then_dead_and_alive_again() {
    let mut nodes = fleet(3);
    start_all(&mut nodes).await;
    let row = nodes[0].row("n1").unwrap();
    assert_eq!(
        (row.region.as_str(), row.version.as_str()),
        ("west", "1.2.3")
    );
    assert_eq!(row.http_address, "n1:8080");
    eventually("the link is up", || {
        nodes[0]
            .row("n1")
            .and_then(|row| row.link)
            .map(|link| link.rpc)
            == Some(RpcLink::Ok)
    })
    .await;

    nodes[1].kill();
    let took = eventually("suspect", || nodes[0].sees("n1", MemberState::Suspect)).await;
    println!("suspect after {took:?}");
    eventually("dead", || nodes[0].sees("n1", MemberState::Dead)).await;
    nodes[0].hold("k-a");
    eventually("n2 hears it", || nodes[2].holds("k-a")).await;

    nodes[1].start().await;
    nodes[1].ready().await;
    assert!(nodes[1].holds("k-a"));
    for node in &nodes {
        eventually("alive", || node.sees("n1", MemberState::Alive)).await;
        assert_eq!(node.handle().status().nodes.len(), 3, "one row per node id");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_is_listed_as_left() {
    let mut nodes = fleet(3);
    start_all(&mut nodes).await;
    nodes[2].leave().await;
    for node in &nodes[..2] {
        eventually("left", || node.sees("n2", MemberState::Left)).await;
    }
    nodes[2].start().await;
    for node in &nodes {
        eventually("alive", || node.sees("n2", MemberState::Alive)).await;
    }
}

/// What a former life published stays in gossip for a while: it must not bring a hold back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_beats_what_a_former_life_published() {
    let mut nodes = fleet(3);
    start_all(&mut nodes).await;
    nodes[1].hold("k-a");
    all_hold(&nodes, "k-a").await;
    nodes[1].kill();
    nodes[0].release("k-a");
    none_holds(&nodes[..1], "k-a").await;
    nodes[1].start().await;
    let mut joiner = Node::new("n7", "east", &[&nodes[2]]);
    joiner.start().await;
    joiner.ready().await;
    nodes[1].ready().await;
    eventually("the former keyspace has arrived", || {
        joiner.handle().status().nodes.len() == 4 && joiner.handle().status().converged
    })
    .await;
    nodes.push(joiner);
    assert!(!nodes.iter().any(|node| node.holds("k-a")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_region_has_a_leader_that_all_know() {
    let mut nodes = fleet(4);
    start_all(&mut nodes).await;
    eventually("both regions have one leader in all eyes", || {
        let leaders = nodes[0].handle().status().leaders;
        leaders.len() == 2 && nodes.iter().all(|n| n.handle().status().leaders == leaders)
    })
    .await;
    let status = nodes[0].handle().status();
    for row in &status.nodes {
        let leads = status.leaders[&row.region] == row.node_id;
        assert_eq!(row.is_leader, leads);
    }
}

/// Two that run with one id, as after a copied folder: the newer life is the node, the other is not listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_with_one_id_the_newer_counts() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    let mut twin = Node::new("n1", "west", &[&nodes[0]]);
    twin.start().await;
    eventually("the newer one is listed", || {
        let row = nodes[0].row("n1");
        row.is_some_and(|row| row.rpc_address == twin.rpc_address())
    })
    .await;
    assert_eq!(nodes[0].handle().status().nodes.len(), 2);
    twin.ready().await;
    nodes[0].hold("k-a");
    eventually("it is pushed to the newer one", || twin.holds("k-a")).await;
    assert_eq!(
        twin.handle().status().nodes.len(),
        2,
        "it lists itself once"
    );
}
