//! The accept loop: connections in, one HTTP service call per request, a drain at the end.
//!
//! Promises: `TCP_NODELAY` on every accepted socket; a head that idles or drips is refused after
//! [`Limits::head_timeout`]; requests that can be read in two ways are refused ([`BadHead`]); heads over [`Limits::max_head_bytes`] get 431; no more than
//! [`Limits::max_connections`] at once, later ones wait in the kernel's queue. It knows no routes.

mod body;
mod connection;
mod head;
mod linger;
mod peer;
mod strict;
pub mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use body::{Body, BodyError};
pub use head::BadHead;
pub use peer::Peer;

/// What a listener allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub max_connections: usize,
    /// From a connection's begin, or a later request's first byte, to the end of that request's head.
    pub head_timeout: Duration,
    /// How long a connection is kept that waits for another request.
    pub idle_timeout: Duration,
    /// Bytes of a request's line and headers.
    pub max_head_bytes: usize,
    /// How long requests in flight may go on after the shutdown signal.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            head_timeout: Duration::from_secs(15),
            // Longer than the pools of common clients and balancers keep theirs: who closes first while
            // the other sends costs a request.
            idle_timeout: Duration::from_secs(120),
            max_head_bytes: 64 << 10,
            drain: Duration::from_secs(30),
        }
    }
}

/// The port cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on port {} of {} (HTTP)", .address.port(), .address.ip())]
pub struct BindError {
    /// What was asked for.
    pub address: SocketAddr,
    /// Why not.
    #[source]
    pub source: io::Error,
}

/// A bound listener.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    tls: Option<TlsAcceptor>,
}

impl Server {
    /// Binds. Port 0 picks a free one: see [`Server::local_addr`].
    ///
    /// # Errors
    /// When the address cannot be bound; the message names the port.
    pub async fn bind(address: SocketAddr, limits: Limits) -> Result<Self, BindError> {
        let named = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(named)?;
        let address = listener.local_addr().map_err(named)?;
        Ok(Self {
            listener,
            address,
            limits,
            tls: None,
        })
    }

    /// The same for clients that speak TLS, and only for them: see [`tls::Certificate`].
    #[must_use]
    pub fn with_tls(mut self, acceptor: TlsAcceptor) -> Self {
        self.tls = Some(acceptor);
        self
    }

    /// Where it listens.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`, then lets requests in flight finish within [`Limits::drain`]. What is
    /// left then is cut off. Returns how many connections were.
    pub async fn serve<S>(self, service: S, shutdown: CancellationToken) -> usize
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let Self {
            listener,
            limits,
            tls,
            ..
        } = self;
        let free = Arc::new(Semaphore::new(limits.max_connections));
        let mut open = JoinSet::new();
        loop {
            let permit = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(_) = open.join_next() => continue,
                permit = Arc::clone(&free).acquire_owned() => permit,
            };
            let stream = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accept(&listener) => accepted,
            };
            let (service, shutdown) = (service.clone(), shutdown.clone());
            let tls = tls.clone();
            open.spawn(async move {
                connection::serve(stream, tls, service, limits, shutdown).await;
                drop(permit);
            });
            while open.try_join_next().is_some() {}
        }
        drop(listener);
        drain(open, limits.drain).await
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Server")
            .field("address", &self.address)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The next connection. Failures (a peer that left, no descriptors left) are waited out.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    warn!(%error, "TCP_NODELAY cannot be set: streams may stutter");
                }
                return stream;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

async fn drain(mut open: JoinSet<()>, limit: Duration) -> usize {
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(limit, all).await.is_ok() {
        info!("every request in flight was finished");
        return 0;
    }
    let left = open.len();
    warn!(left, "the drain limit is over: cutting connections off");
    open.shutdown().await;
    left
}

#[cfg(test)]
mod tests;
