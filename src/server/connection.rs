//! One accepted connection: HTTP/1.1, or HTTP/2 from clients that start with its preface.

use std::convert::Infallible;
use std::pin::pin;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::linger::Lingering;
use super::peer::WithPeer;
use super::{Body, Limits};

/// How HTTP/2 connections begin; no HTTP/1 method does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Serves the connection to its end; after `shutdown` to the end of the request in flight.
pub(super) async fn serve<S>(
    stream: TcpStream,
    service: S,
    limits: Limits,
    shutdown: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let mut first = [0; PREFACE.len()];
    let peeked = tokio::select! {
        () = shutdown.cancelled() => return,
        peeked = timeout(limits.head_timeout, stream.peek(&mut first)) => peeked,
    };
    let Ok(Ok(1..)) = peeked else {
        return;
    };
    let Ok(peer) = stream.peer_addr() else {
        return;
    };
    let service = WithPeer::new(service, peer);
    let served = if first == PREFACE {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(limits.head_timeout);
        let io = TokioIo::new(stream);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_header_size(limits.max_head_bytes);
        let io = TokioIo::new(Lingering::new(stream));
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection ended early");
    }
}
