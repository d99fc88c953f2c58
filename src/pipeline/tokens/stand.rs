//! A server that stands in for who grants tokens and keys: tests only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use holdline_core::time::WallMs;

use super::{Trouble, World};
use crate::config::Network;
use crate::pipeline::upstream::Upstream;

/// Answers by path, and remembers what it was asked.
#[derive(Clone, Default)]
pub(super) struct Stand {
    answers: BTreeMap<&'static str, (u16, &'static str)>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stand {
    pub(super) fn with(answers: &[(&'static str, u16, &'static str)]) -> Self {
        let answers = answers
            .iter()
            .map(|(path, status, body)| (*path, (*status, *body)));
        Self {
            answers: answers.collect(),
            ..Self::default()
        }
    }

    /// Its address, once it listens.
    pub(super) async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stand = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stand.answer(stream).await;
            }
        });
        format!("http://{address}")
    }

    async fn answer(&self, mut stream: TcpStream) {
        let (mut read, mut buffer) = (Vec::new(), [0; 4_096]);
        let length = loop {
            let count = stream.read(&mut buffer).await.unwrap();
            read.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&read).to_lowercase();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.split("content-length: ").nth(1);
                let length = length.and_then(|rest| rest.lines().next()?.parse::<usize>().ok());
                if body.len() >= length.unwrap_or(0) || count == 0 {
                    break length;
                }
            }
        };
        let text = String::from_utf8_lossy(&read).into_owned();
        let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push(text);
        assert!(length.is_none_or(|length| length < buffer.len()));
        let (status, body) = self.answers.get(&*path).copied().unwrap_or((404, ""));
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).await.unwrap();
    }

    pub(super) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let first = |text: &String| text.lines().next().unwrap_or_default().to_owned();
        asked.iter().map(first).collect()
    }

    pub(super) fn heard(&self, words: &str) -> bool {
        let asked = self.asked.lock().unwrap();
        asked.iter().any(|text| text.contains(words))
    }
}

/// What is wrong, in words.
pub(super) fn words(trouble: Trouble) -> String {
    match trouble {
        Trouble::Failed(failed) => failed.error.message,
        Trouble::Refused { status, body, .. } => {
            format!("{status} {}", String::from_utf8_lossy(&body))
        }
    }
}

/// A search at a certain time, with these variables of the environment.
pub(super) async fn in_world<T>(
    variables: &[(&str, String)],
    search: impl AsyncFnOnce(World<'_>) -> T,
) -> T {
    let upstream = Upstream::new();
    let network = Network::default();
    let env = |name: &str| {
        let found = variables.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| value.clone())
    };
    let world = World {
        upstream: &upstream,
        network: &network,
        env: &env,
        now: WallMs(1_796_036_400_000),
    };
    search(world).await
}
