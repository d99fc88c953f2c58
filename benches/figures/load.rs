//! Many requests over few kept connections, read with as little work as possible.
//!
//! The generator shares the machine with what it measures: it sends prepared bytes and looks only for
//! the end of each answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::upstream::CHUNKS;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A whole answer.
    Plain,
    /// So many events and the end.
    Stream { chunks: u32 },
}

/// Prepared requests for one port.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    port: u16,
    requests: Arc<Vec<Vec<u8>>>,
    connections: usize,
}

/// One kept connection.
#[derive(Debug)]
pub(crate) struct Line {
    socket: TcpStream,
    buffer: Vec<u8>,
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
            Shape::Plain => String::new(),
            Shape::Stream { chunks } => format!("\"stream\":true,{CHUNKS}{chunks},"),
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
        let mut line = Line::open(self.port).await?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let request = &self.requests[number % self.requests.len()];
            line.socket.write_all(request).await?;
            line.read_answer(status).await?;
        }
    }
}

impl Line {
    pub(crate) async fn open(port: u16) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let buffer = Vec::with_capacity(64 << 10);
        Ok(Self { socket, buffer })
    }

    /// From the request's last byte to the first event of its answer, which is read to its end.
    pub(crate) async fn time_to_first_event(&mut self, request: &[u8]) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.socket.write_all(request).await?;
        self.buffer.clear();
        while memmem::find(&self.buffer, b"\ndata: ").is_none() {
            self.read_more().await?;
        }
        let first = start.elapsed();
        self.read_on(200).await?;
        Ok(first)
    }

    async fn read_answer(&mut self, status: u16) -> anyhow::Result<()> {
        self.buffer.clear();
        self.read_more().await?;
        self.read_on(status).await
    }

    /// Reads an answer, whose beginning is there, to its end.
    async fn read_on(&mut self, status: u16) -> anyhow::Result<()> {
        let mut end = None;
        loop {
            if end.is_none() {
                end = find_end(&self.buffer, status)?;
            }
            match end {
                Some(End::At(length)) if self.buffer.len() >= length => return Ok(()),
                Some(End::LastChunk) if self.buffer.ends_with(b"\r\n0\r\n\r\n") => return Ok(()),
                Some(End::At(_) | End::LastChunk) | None => self.read_more().await?,
            }
        }
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        let read = self.socket.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the connection ended within an answer");
        Ok(())
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
