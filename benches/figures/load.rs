//! Many requests over few kept connections, read with as little work as possible.
//!
//! The generator shares the machine with what it measures: it sends prepared bytes and looks only for
//! the end of each answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A whole answer.
    Plain,
    /// Events.
    Stream,
}

/// Prepared requests for one port.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    port: u16,
    requests: Arc<Vec<Vec<u8>>>,
    connections: usize,
}

/// Where an answer ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Behind so many bytes, head included.
    At(usize),
    /// With the last chunk.
    LastChunk,
}

impl Load {
    /// `requests` are sent in turns, over `connections` connections at a time.
    pub(crate) fn new(port: u16, requests: Vec<Vec<u8>>, connections: usize) -> Self {
        Self {
            port,
            requests: Arc::new(requests),
            connections,
        }
    }

    /// A chat request as it stands on the wire; `headers` are whole lines.
    pub(crate) fn request(model: &str, headers: &str, shape: Shape) -> Vec<u8> {
        let stream = match shape {
            Shape::Plain => "",
            Shape::Stream => "\"stream\":true,",
        };
        // About the size of a short conversation.
        let prompt = "Say in one sentence what a lighthouse is for. ".repeat(16);
        let body = format!(
            "{{\"model\":\"{model}\",{stream}\"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}]}}"
        );
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// Sends `count` requests; every answer must have this status.
    pub(crate) async fn run(&self, count: usize, status: u16) -> anyhow::Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..self.connections {
            let (load, next) = (self.clone(), Arc::clone(&next));
            tasks.spawn(async move { load.one_connection(&next, count, status).await });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    async fn one_connection(
        &self,
        next: &AtomicUsize,
        count: usize,
        status: u16,
    ) -> anyhow::Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut buffer = Vec::with_capacity(64 << 10);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let request = &self.requests[number % self.requests.len()];
            socket.write_all(request).await?;
            read_answer(&mut socket, &mut buffer, status).await?;
        }
    }
}

async fn read_answer(
    socket: &mut TcpStream,
    buffer: &mut Vec<u8>,
    status: u16,
) -> anyhow::Result<()> {
    buffer.clear();
    let mut end = None;
    loop {
        let read = socket.read_buf(buffer).await?;
        ensure!(read > 0, "the connection ended within an answer");
        if end.is_none() {
            end = find_end(buffer, status)?;
        }
        match end {
            Some(End::At(length)) if buffer.len() >= length => return Ok(()),
            Some(End::LastChunk) if buffer.ends_with(b"\r\n0\r\n\r\n") => return Ok(()),
            Some(End::At(_) | End::LastChunk) | None => {}
        }
    }
}

/// None while the head is not whole.
fn find_end(buffer: &[u8], status: u16) -> anyhow::Result<Option<End>> {
    let Some(head) = memmem::find(buffer, b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&buffer[..head]).context("a head that is no text")?;
    let (line, headers) = text.split_once("\r\n").unwrap_or((text, ""));
    if line.split(' ').nth(1) != Some(status.to_string().as_str()) {
        bail!(
            "{line}: {}",
            String::from_utf8_lossy(&buffer[head..]).trim()
        );
    }
    for header in headers.split("\r\n") {
        let (name, value) = header.split_once(':').unwrap_or((header, ""));
        if name.eq_ignore_ascii_case("content-length") {
            let length: usize = value.trim().parse()?;
            return Ok(Some(End::At(head + 4 + length)));
        }
    }
    Ok(Some(End::LastChunk))
}
