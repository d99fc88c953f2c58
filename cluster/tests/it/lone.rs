//! A cluster of one keeps its holds in its own store.

use std::sync::Arc;
use std::time::Duration;

use holdline_cluster::{Handle, RestoredFrom, alone};

use crate::support::{Node, Table, eventually};

fn start(node: &mut Node) -> Handle {
    node.table = Arc::new(Table::new(&node.options, 0));
    let state = Arc::clone(&node.table);
    alone(node.options.clone(), state, Arc::clone(&node.disk) as _)
}

#[tokio::test(start_paused = true)]
async fn it_saves_changes_and_restores_them() {
    let mut node = Node::new("n0", "east", &[]);
    let handle = start(&mut node);
    let status = handle.status();
    assert_eq!(status.restored.unwrap().from, RestoredFrom::Nothing);
    assert_eq!(status.leaders["east"].as_str(), "n0");
    assert!(status.converged && status.nodes[0].is_leader && status.snapshot.is_none());

    handle.publish(&node.table.refuse("k-a"));
    handle.publish(&node.table.refuse("k-b"));
    let took = eventually("both are saved", || node.disk.held() == 2).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    handle.publish(&node.table.release("k-b"));
    eventually("the release is saved", || node.disk.held() == 1).await;
    eventually("it is shown", || {
        handle
            .status()
            .snapshot
            .is_some_and(|snapshot| snapshot.held == 1)
    })
    .await;
    drop(handle); // without a goodbye

    let handle = start(&mut node);
    assert_eq!(node.table.held(), ["k-a"]);
    let restored = handle.status().restored.unwrap();
    assert_eq!((restored.from, restored.held), (RestoredFrom::Store, 1));
}

#[tokio::test(start_paused = true)]
async fn leaving_saves_what_waits() {
    let mut node = Node::new("n0", "east", &[]);
    let handle = start(&mut node);
    handle.publish(&node.table.refuse("k-a"));
    handle.leave().await;
    assert_eq!(node.disk.held(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_store_is_tried_again() {
    let mut node = Node::new("n0", "east", &[]);
    let handle = start(&mut node);
    node.disk.break_down(true);
    handle.publish(&node.table.refuse("k-a"));
    tokio::time::sleep(Duration::from_millis(400)).await; // past the first try
    assert_eq!(node.disk.held(), 0);
    node.disk.break_down(false);
    eventually("it is saved", || node.disk.held() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_table_is_saved_every_interval() {
    let mut node = Node::new("n0", "east", &[]);
    let (interval, receiver) = tokio::sync::watch::channel(Duration::from_secs(300));
    node.options.snapshot_interval = receiver;
    let handle = start(&mut node);
    interval.send_replace(Duration::from_millis(50));
    eventually("it is saved again and again", || node.disk.saves() > 2).await;
    drop(handle);
}
