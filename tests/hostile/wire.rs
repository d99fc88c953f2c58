//! Bytes on a socket, as no HTTP library would send them.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an answer may take before the other side counts as silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Sends bytes and reads until the other side closes, or says nothing for long.
pub(crate) async fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let bytes = bytes.to_vec();
    // Whoever refuses early does not read the rest: writing may fail.
    let sending = tokio::spawn(async move {
        let _ = writing.write_all(&bytes).await;
        writing
    });
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(Ok(read @ 1..)) = timeout(SILENCE, reading.read(&mut buffer)).await {
        answer.extend_from_slice(&buffer[..read]);
    }
    sending.abort();
    answer
}

/// The status of every answer in these bytes.
pub(crate) fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    let lines = text.split("HTTP/1.1 ").skip(1);
    lines
        .filter_map(|rest| rest.get(..3)?.parse().ok())
        .collect()
}

/// A chat request with these further header lines; `body` goes as it is, without a length.
pub(crate) fn request(headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = b"POST /v1/chat/completions HTTP/1.1\r\nhost: node\r\n".to_vec();
    bytes.extend_from_slice(b"content-type: application/json\r\n");
    for header in headers {
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// The same with its length, as it should be.
pub(crate) fn sized(headers: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}", body.len());
    let headers: Vec<&str> = headers.iter().copied().chain([length.as_str()]).collect();
    request(&headers, body)
}
