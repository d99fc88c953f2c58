//! One accepted connection: TLS where that is wanted, then HTTP/1.1, or HTTP/2 from clients that agreed on
//! it in the TLS handshake or start with its preface.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::linger::Lingering;
use super::peer::{Peer, WithPeer};
use super::strict::{HeadLimits, Refusal, Strict, WithRefusal};
use super::{Body, Limits, tls};

/// How HTTP/2 connections begin; no HTTP/1 method does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// How long the rest of a preface may take before it is looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Serves the connection to its end; after `shutdown` to the end of the request in flight.
pub(super) async fn serve<S>(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    service: S,
    limits: Limits,
    shutdown: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let Ok(address) = stream.peer_addr() else {
        return;
    };
    let peer = Peer {
        address,
        has_tls: acceptor.is_some(),
    };
    let served = if let Some(acceptor) = acceptor {
        let shaken = tokio::select! {
            () = shutdown.cancelled() => return,
            shaken = timeout(limits.head_timeout, acceptor.accept(stream)) => shaken,
        };
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%error, "no TLS connection came about"),
            Err(_) => return,
        };
        if stream.get_ref().1.alpn_protocol() == Some(tls::H2) {
            http2(stream, service, peer, limits, shutdown).await
        } else {
            http1(stream, service, peer, limits, shutdown).await
        }
    } else {
        let peeked = tokio::select! {
            () = shutdown.cancelled() => return,
            peeked = timeout(limits.head_timeout, begins_http2(&stream)) => peeked,
        };
        let Ok(Ok(is_http2)) = peeked else {
            return;
        };
        if is_http2 {
            http2(stream, service, peer, limits, shutdown).await
        } else {
            http1(stream, service, peer, limits, shutdown).await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection ended early");
    }
}

/// What came is only looked at, and stays for who serves it.
async fn begins_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let came = stream.peek(&mut first).await?;
        if came == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let fits = PREFACE.starts_with(&first[..came]);
        if came == PREFACE.len() || !fits {
            return Ok(fits);
        }
        // It came in pieces. While the first one stays, nothing tells that there is more.
        sleep(LOOK_AGAIN).await;
    }
}

async fn http1<S>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: S,
    peer: Peer,
    limits: Limits,
    shutdown: CancellationToken,
) -> hyper::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    let refusal = Refusal::default();
    let head = HeadLimits {
        bytes: limits.max_head_bytes,
        time: limits.head_timeout,
    };
    let strict = Strict::new(Lingering::new(stream), head, Refusal::clone(&refusal));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout)
        .max_header_size(limits.max_head_bytes);
    let service = WithRefusal::new(WithPeer::new(service, peer), refusal);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(strict), service));
    tokio::select! {
        served = connection.as_mut() => served,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

async fn http2<S>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: S,
    peer: Peer,
    limits: Limits,
    shutdown: CancellationToken,
) -> hyper::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(limits.head_timeout);
    let service = WithPeer::new(service, peer);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        served = connection.as_mut() => served,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_preface_may_come_in_pieces() {
        for (pieces, is_http2) in [
            ([b"PRI *".as_slice(), b" HTTP/2.0\r\n"], true),
            ([b"P", b"OST / HTTP/1.1\r\n"], false),
            ([b"PRI * HTTP/", b"1.1\r\n\r\n"], false),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await;
            let mut client = client.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            client.write_all(pieces[0]).await.unwrap();
            stream.readable().await.unwrap();
            let mut found = pin!(begins_http2(&stream));
            assert!(poll!(found.as_mut()).is_pending(), "{pieces:?}");
            client.write_all(pieces[1]).await.unwrap();
            assert_eq!(found.await.unwrap(), is_http2, "{pieces:?}");
        }
    }
}
