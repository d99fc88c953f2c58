//! Who is at the other end of a connection, told to every request on it.

use std::net::SocketAddr;

use http::Request;
use hyper::service::Service;

/// Who calls: a request extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// From where.
    pub address: SocketAddr,
    /// By TLS.
    pub has_tls: bool,
}

/// Adds the connection's [`Peer`] to each request.
pub(super) struct WithPeer<S> {
    service: S,
    peer: Peer,
}

impl<S> WithPeer<S> {
    pub(super) const fn new(service: S, peer: Peer) -> Self {
        Self { service, peer }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for WithPeer<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.service.call(request)
    }
}
