//! Documents get everywhere, and the newest wins.

use std::sync::Arc;

use crate::support::{eventually, fleet, start_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_document_is_everywhere() {
    let mut nodes = fleet(3);
    start_all(&mut nodes).await;
    nodes[0].write("settings", "old");
    eventually("all have it", || {
        nodes
            .iter()
            .all(|node| node.table.read("settings").is_some())
    })
    .await;
    nodes[1].write("settings", "new");
    eventually("all have the newest", || {
        let newest = |text: String| text == "new";
        nodes
            .iter()
            .all(|node| node.table.read("settings").is_some_and(newest))
    })
    .await;
}

/// Written without telling anybody, as if every push was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_document_is_repaired() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    let large = "x".repeat(300_000);
    let writer = Arc::clone(&nodes[1].table);
    writer.write("provider/openai", &large);
    eventually("both have it", || {
        nodes[0].table.read("provider/openai").as_ref() == Some(&large)
    })
    .await;
    eventually("both say so", || {
        nodes.iter().all(|node| node.handle().status().converged)
    })
    .await;
}
