//! The least that a gateway can do: take a request, send it on, hand back the answer.
//!
//! Runs in a process of its own, so that the kernel counts its CPU time apart. It reads nothing of
//! what it passes on.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The first argument of the child that plays it.
pub(crate) const ARGUMENT: &str = "pass-through";

/// A running one; killed when dropped.
#[derive(Debug)]
pub(crate) struct PassThrough {
    child: Child,
    port: u16,
}

impl PassThrough {
    /// In front of what listens at `to`, an `http://` URL.
    pub(crate) fn start(to: &str) -> anyhow::Result<Self> {
        let to = to.trim_start_matches("http://");
        let mut child = Command::new(std::env::current_exe()?)
            .args([ARGUMENT, to])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the pass-through")?;
        let out = child.stdout.take().context("no pipe to the pass-through")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let port = line
            .trim()
            .parse()
            .context("the pass-through named no port")?;
        Ok(Self { child, port })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for PassThrough {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Body = http_body_util::combinators::BoxBody<Bytes, hyper::Error>;
type Upstream = Client<HttpConnector, Incoming>;

/// Serves until it is killed; its only argument is where to. Prints its port first.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let to: Authority = words
        .next()
        .context("pass-through needs HOST:PORT")?
        .parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(to))
}

async fn serve(to: Authority) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", listener.local_addr()?.port())?;
    out.flush()?;

    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Upstream = Client::builder(TokioExecutor::new()).build(connector);
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(socket, client.clone(), to.clone()));
    }
}

async fn connection(socket: TcpStream, client: Upstream, to: Authority) {
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let (client, to) = (client.clone(), to.clone());
        async move { Ok::<_, Infallible>(pass(request, &client, to).await) }
    });
    // A caller that goes away is not the pass-through's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

async fn pass(mut request: Request<Incoming>, client: &Upstream, to: Authority) -> Response<Body> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(to);
    let Ok(uri) = Uri::from_parts(parts) else {
        return failed(StatusCode::BAD_REQUEST);
    };
    *request.uri_mut() = uri;
    request.headers_mut().remove(header::HOST);
    match client.request(request).await {
        Ok(response) => response.map(BodyExt::boxed),
        Err(_) => failed(StatusCode::BAD_GATEWAY),
    }
}

fn failed(status: StatusCode) -> Response<Body> {
    let empty = Empty::new().map_err(|never| match never {});
    let mut response = Response::new(empty.boxed());
    *response.status_mut() = status;
    response
}
