//! Who does not know the secret can do nothing and learns nothing.

use std::time::Duration;

use holdline_cluster::{MemberState, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::support::{Node, all_hold, eventually, fleet, start_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_secret_or_cluster_is_not_let_in() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    nodes[0].hold("k-a");
    all_hold(&nodes, "k-a").await;
    let refused = nodes[0].handle().counters().datagrams_refused;

    let mut stranger = Node::new("n1", "west", &[&nodes[0], &nodes[1]]);
    stranger.options.secret = Some("another secret".to_owned());
    let mut foreigner = Node::new("n8", "west", &[&nodes[0], &nodes[1]]);
    foreigner.options.cluster_id = "another cluster".to_owned();
    for outsider in [&mut stranger, &mut foreigner] {
        outsider.start().await;
        outsider.ready().await;
        assert_eq!(outsider.table.held(), Vec::<String>::new());
        assert_eq!(outsider.handle().status().nodes.len(), 1);
        outsider.hold("k-b");
    }
    eventually("their datagrams are counted", || {
        nodes[0].handle().counters().datagrams_refused > refused + 4
    })
    .await;
    for node in &nodes {
        assert_eq!(node.table.held(), ["k-a"]);
        assert_eq!(node.handle().status().nodes.len(), 2);
        let claimed = node.row("n1").unwrap();
        assert_eq!(claimed.gossip_address, nodes[1].gossip_address());
        // A busy machine makes it suspect for a moment.
        eventually("alive", || node.sees("n1", MemberState::Alive)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_rpc_port_is_refused_and_counted() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    let before = nodes[0].handle().counters().rpcs_refused;
    let mut claimed_large = b"HLRP\x01".to_vec();
    claimed_large.extend_from_slice(&[0; 32]);
    claimed_large.extend_from_slice(&u32::MAX.to_be_bytes());
    let mut unsealed = claimed_large[..37].to_vec();
    unsealed.extend_from_slice(&100u32.to_be_bytes());
    unsealed.extend_from_slice(&[7; 100]);
    let pieces: [&[u8]; 6] = [
        b"POST /push HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 60_000],
        b"HLRP\x02 another version of the protocol, in a distant future",
        &claimed_large,
        &unsealed,
    ];
    for (piece, answer_bytes) in pieces.into_iter().zip([0, 0, 0, 0, 37, 37]) {
        let mut stream = TcpStream::connect(nodes[0].rpc_address()).await.unwrap();
        let _ = stream.write_all(piece).await; // it may hang up before the end
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.len() <= answer_bytes, "{} bytes", answer.len());
    }
    eventually("all are counted", || {
        nodes[0].handle().counters().rpcs_refused == before + 6
    })
    .await;
    nodes[1].hold("k-a");
    all_hold(&nodes, "k-a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strange_and_replayed_datagrams_are_refused_and_counted() {
    // Everything the seed would hear is caught by a relay in its place.
    let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut nodes = fleet(2);
    nodes[1]
        .options
        .seeds
        .push(relay.local_addr().unwrap().to_string());
    nodes[1].start().await;
    nodes[0].start().await;
    let target = nodes[0].gossip_address();
    let mut buffer = [0; 2_000];
    let mut caught = Vec::new();
    while caught.len() < 5 {
        let read = relay.recv(&mut buffer);
        let bytes = tokio::time::timeout(Duration::from_secs(5), read)
            .await
            .unwrap()
            .unwrap();
        assert!(bytes < 1_200);
        caught.push(buffer[..bytes].to_vec());
    }
    for datagram in &caught {
        relay.send_to(datagram, &target).await.unwrap();
    }
    eventually("the genuine ones are taken", || {
        nodes[0].row("n1").is_some()
    })
    .await;
    let refused = || nodes[0].handle().counters().datagrams_refused;
    assert_eq!(refused(), 0);
    for datagram in &caught {
        relay.send_to(datagram, &target).await.unwrap();
        let mut bent = datagram.clone();
        bent[40] ^= 1;
        relay.send_to(&bent, &target).await.unwrap();
        relay.send_to(&datagram[..30], &target).await.unwrap();
    }
    relay.send_to(&[], &target).await.unwrap();
    eventually("all are refused", || refused() == 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_secret_rolls_out_node_by_node() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    nodes[0].kill();
    nodes[0].options.secret = Some("the new secret".to_owned());
    nodes[0].options.previous_secrets = vec!["a secret of tests".to_owned()];
    nodes[0].options.seeds = vec![nodes[1].gossip_address()];
    nodes[0].start().await;
    nodes[0].ready().await;
    nodes[1].hold("k-old");
    nodes[0].hold("k-new");
    all_hold(&nodes, "k-old").await;
    all_hold(&nodes, "k-new").await;
}

#[tokio::test]
async fn without_a_secret_only_loopback_is_bound() {
    let mut node = Node::new("n0", "east", &[]);
    node.options.secret = None;
    node.options.rpc_bind = "0.0.0.0:0".parse().unwrap();
    let error = node.try_start().await.unwrap_err();
    assert!(matches!(error, StartError::SecretMissing(_)));
    assert!(error.to_string().contains("secret"));
    node.options.rpc_bind = "127.0.0.1:0".parse().unwrap();
    node.try_start().await.unwrap();
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut node = Node::new("n0", "east", &[]);
    node.options.rpc_bind = taken.local_addr().unwrap();
    let error = node.try_start().await.unwrap_err();
    let port = taken.local_addr().unwrap().port().to_string();
    assert!(
        error.to_string().contains("rpc") && error.to_string().contains(&port),
        "{error}"
    );
}
