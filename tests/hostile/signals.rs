//! SIGTERM: what is in flight is finished, nothing new is begun, and the node leaves with exit code 0.

use std::process::{ExitStatus, Output};
use std::time::{Duration, Instant};

use holdline_chaos::poll;

use crate::node::{self, LIMIT, Node, Place};

/// Sends SIGTERM and waits for the end.
pub(crate) async fn stop(mut node: Node) -> ExitStatus {
    terminate(&node);
    let ended = tokio::time::timeout(LIMIT, node.child.wait()).await;
    ended.expect("a node that goes on").unwrap()
}

fn terminate(node: &Node) {
    let pid = node.pid().to_string();
    let output = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .output();
    let Output { status, .. } = output.unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_end() {
    let mock = node::mock(Duration::from_millis(1_500)).await;
    let place = Place::new();
    place.write_config(&node::config(&mock).to_string());
    let node = place.start(place.serve()).await;
    let api = node.api.clone();
    let request = tokio::spawn(async move { api.chat(node::chat("in-flight")).await });
    arrived(&mock).await;
    terminate(&node);
    let refused = poll::until(LIMIT, "a closed port", async || {
        let connected = tokio::net::TcpStream::connect(("127.0.0.1", place.ports.http)).await;
        anyhow::ensure!(connected.is_err(), "it still takes connections");
        Ok(())
    });
    refused.await.unwrap();
    let reply = request.await.unwrap().unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    let mut node = node;
    let ended = tokio::time::timeout(LIMIT, node.child.wait()).await;
    assert_eq!(ended.unwrap().unwrap().code(), Some(0), "{}", node.log());
}

#[tokio::test]
async fn a_second_signal_ends_the_node_at_once() {
    let mock = node::mock(Duration::from_secs(25)).await;
    let place = Place::new();
    place.write_config(&node::config(&mock).to_string());
    let mut node = place.start(place.serve()).await;
    let api = node.api.clone();
    let request = tokio::spawn(async move { api.chat(node::chat("in-flight")).await });
    arrived(&mock).await;
    terminate(&node);
    let draining = poll::until(LIMIT, "a draining node", async || {
        anyhow::ensure!(node.log().contains("draining"), "{}", node.log());
        Ok(())
    });
    draining.await.unwrap();
    assert!(
        node.child.try_wait().unwrap().is_none(),
        "it waited for nobody"
    );
    let start = Instant::now();
    terminate(&node);
    let ended = tokio::time::timeout(LIMIT, node.child.wait()).await;
    ended.expect("a node that goes on").unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert!(request.await.unwrap().is_err());
}

async fn arrived(mock: &holdline_chaos::mock::Mock) {
    let arrived = poll::until(LIMIT, "a request at the provider", async || {
        let calls = mock.calls("sk-key-a", 0).len() + mock.calls("sk-key-b", 0).len();
        anyhow::ensure!(calls == 1, "{calls} calls");
        Ok(())
    });
    arrived.await.unwrap();
}
