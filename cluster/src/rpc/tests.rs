//! Connections: who is let in, what cannot be repeated.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::channel::{Channel, ChannelError};
use super::message::Hello;
use crate::seal::Keyring;

fn keys(secret: &str) -> Keyring {
    Keyring::new(Some(secret), &[], "tests")
}

fn hello(to: &str) -> Hello {
    Hello {
        from: "caller".into(),
        to: to.into(),
    }
}

/// Answers one call as the node `answerer`, then echoes its messages. Gives what became of the call.
fn answerer(
    listener: TcpListener,
    secret: &str,
) -> tokio::task::JoinHandle<Result<(), ChannelError>> {
    let keys = keys(secret);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut channel, _) = Channel::answer(stream, &keys, &"answerer".into()).await?;
        loop {
            let message = channel.receive(1 << 20).await?;
            channel.send(&message).await?;
        }
    })
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn call(address: SocketAddr, secret: &str, to: &str) -> Result<Channel, ChannelError> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (keys, hello) = (keys(secret), hello(to));
    let called = Channel::call(stream, &keys, 0, &hello);
    let in_time = tokio::time::timeout(Duration::from_secs(5), called).await;
    in_time.unwrap()
}

#[tokio::test]
async fn messages_of_any_size_pass() {
    let (listener, address) = listen().await;
    let _answerer = answerer(listener, "s");
    let mut channel = call(address, "s", "answerer")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    for size in [1, 1_000, 256 << 10, (256 << 10) + 1, 1 << 20] {
        let message = vec![7; size];
        assert_eq!(channel.ask(&message).await.unwrap(), message);
    }
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused() {
    let (listener, address) = listen().await;
    let answerer = answerer(listener, "s");
    let mut channel = call(address, "s", "answerer")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    channel.send(&vec![7; (1 << 20) + 1]).await.unwrap();
    let refused = answerer.await.unwrap();
    assert!(matches!(refused, Err(ChannelError::TooLarge)));
}

#[tokio::test]
async fn another_secret_is_refused_on_both_sides() {
    let (listener, address) = listen().await;
    let answerer = answerer(listener, "s");
    let called = call(address, "t", "answerer").await;
    assert!(matches!(called, Err(ChannelError::Secret)));
    assert!(matches!(answerer.await.unwrap(), Err(ChannelError::Secret)));
}

#[tokio::test]
async fn another_node_is_refused_by_name() {
    let (listener, address) = listen().await;
    let answerer = answerer(listener, "s");
    let called = call(address, "s", "somebody").await;
    assert!(matches!(called, Err(ChannelError::WrongNode(node)) if node == "answerer"));
    assert!(matches!(
        answerer.await.unwrap(),
        Err(ChannelError::WrongNode(_))
    ));
}

/// Everything a caller sent, sent again on a new connection.
#[tokio::test]
async fn a_recorded_session_cannot_be_played_again() {
    let (behind, real) = listen().await;
    let first = answerer(behind, "s");
    let (relay, address) = listen().await;
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let recording = Arc::clone(&recorded);
    let relaying = tokio::spawn(async move {
        let (caller, _) = relay.accept().await.unwrap();
        let answerer = TcpStream::connect(real).await.unwrap();
        let (mut from_caller, mut to_caller) = caller.into_split();
        let (mut from_answerer, mut to_answerer) = answerer.into_split();
        let forth = async {
            let mut buffer = [0; 4_096];
            while let Ok(bytes @ 1..) = from_caller.read(&mut buffer).await {
                recording
                    .lock()
                    .unwrap()
                    .extend_from_slice(&buffer[..bytes]);
                to_answerer.write_all(&buffer[..bytes]).await.unwrap();
            }
            drop(to_answerer);
        };
        let back = tokio::io::copy(&mut from_answerer, &mut to_caller);
        tokio::join!(forth, back).0
    });
    let mut channel = call(address, "s", "answerer")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(channel.ask(b"hold k-a").await.unwrap(), b"hold k-a");
    drop(channel);
    relaying.await.unwrap();
    assert!(
        matches!(first.await.unwrap(), Err(ChannelError::Io(_))),
        "it was let in"
    );

    let (listener, address) = listen().await;
    let second = answerer(listener, "s");
    let mut replayer = TcpStream::connect(address).await.unwrap();
    let bytes = recorded.lock().unwrap().clone();
    replayer.write_all(&bytes).await.unwrap();
    assert!(matches!(second.await.unwrap(), Err(ChannelError::Secret)));
}
