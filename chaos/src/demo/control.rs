//! How another terminal reaches a running demo: a loopback endpoint, its address in the data folder.

use std::convert::Infallible;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::http::Http;

/// File with the endpoint's URL.
const ADDRESS_FILE: &str = "control";
/// A restart may take as long as a start.
const ASK_LIMIT: Duration = Duration::from_secs(120);
/// Commands that wait while one is obeyed.
const QUEUE: usize = 8;

/// What to do with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Kill,
    Restart,
}

/// One command, and who waits for its outcome.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) verb: Verb,
    pub(super) node: String,
    reply: oneshot::Sender<anyhow::Result<String>>,
}

impl Command {
    pub(super) fn answer(self, outcome: anyhow::Result<String>) {
        // Whoever asked may have left.
        let _ = self.reply.send(outcome);
    }
}

/// The endpoint; it and its address file go when dropped.
#[derive(Debug)]
pub(super) struct Control {
    commands: mpsc::Receiver<Command>,
    accepting: JoinHandle<()>,
    address_file: PathBuf,
}

impl Control {
    pub(super) async fn start(port: u16, data_dir: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        fs::create_dir_all(data_dir)
            .with_context(|| format!("cannot write {}", data_dir.display()))?;
        let address_file = data_dir.join(ADDRESS_FILE);
        fs::write(
            &address_file,
            format!("http://{}\n", listener.local_addr()?),
        )?;
        let (sender, commands) = mpsc::channel(QUEUE);
        let accepting = tokio::spawn(accept(listener, sender));
        Ok(Self {
            commands,
            accepting,
            address_file,
        })
    }

    /// The next command; never ends while the endpoint is there.
    pub(super) async fn next(&mut self) -> Command {
        match self.commands.recv().await {
            Some(command) => command,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = fs::remove_file(&self.address_file);
    }
}

/// Gives a command to the demo that runs on `data_dir`, and returns its answer.
pub(super) async fn ask(data_dir: &Path, node: &str, verb: &str) -> anyhow::Result<String> {
    let none = || {
        anyhow!(
            "no demo runs with its data in {}: start one with `make run`",
            data_dir.display()
        )
    };
    let url = fs::read_to_string(data_dir.join(ADDRESS_FILE)).map_err(|_| none())?;
    if node.is_empty() || !node.chars().all(|letter| letter.is_ascii_alphanumeric()) {
        return Err(anyhow!("`{node}` is not the name of a node: try n2"));
    }
    let url = format!("{}/nodes/{node}/{verb}", url.trim());
    let reply = Http::new()
        .send(Method::POST, &url, &[], None, ASK_LIMIT)
        .await
        .map_err(|_| none())?;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    if reply.status.is_success() {
        Ok(text)
    } else {
        Err(anyhow!(text))
    }
}

async fn accept(listener: TcpListener, commands: mpsc::Sender<Command>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let commands = commands.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let commands = commands.clone();
                async move { Ok::<_, Infallible>(pass_on(request, commands).await) }
            });
            // A caller that goes away has given its command all the same.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn pass_on(
    request: Request<Incoming>,
    commands: mpsc::Sender<Command>,
) -> Response<Full<Bytes>> {
    let segments: Vec<&str> = request
        .uri()
        .path()
        .split('/')
        .filter(|s| !s.is_empty())
        .collect();
    let (verb, node) = match (request.method(), segments.as_slice()) {
        (&Method::POST, ["nodes", node, "kill"]) => (Verb::Kill, *node),
        (&Method::POST, ["nodes", node, "restart"]) => (Verb::Restart, *node),
        _ => {
            return text(
                StatusCode::NOT_FOUND,
                "there is POST /nodes/NODE/{kill,restart}",
            );
        }
    };
    let (reply, outcome) = oneshot::channel();
    if commands
        .send(Command {
            verb,
            node: node.to_owned(),
            reply,
        })
        .await
        .is_err()
    {
        return text(StatusCode::SERVICE_UNAVAILABLE, "the demo is stopping");
    }
    match outcome.await {
        Ok(Ok(line)) => text(StatusCode::OK, &line),
        Ok(Err(error)) => text(StatusCode::CONFLICT, &format!("{error:#}")),
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the demo is stopping"),
    }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_reaches_the_demo_and_its_answer_comes_back() {
        let dir = std::env::temp_dir().join(format!("holdline-control-{}", std::process::id()));
        assert!(
            ask(&dir, "n1", "kill")
                .await
                .unwrap_err()
                .to_string()
                .contains("no demo runs")
        );

        let mut control = Control::start(0, &dir).await.unwrap();
        let demo = async {
            let command = control.next().await;
            assert_eq!((command.verb, command.node.as_str()), (Verb::Kill, "n2"));
            command.answer(Ok("killed".to_owned()));
            control.next().await.answer(Err(anyhow!("no such node")));
        };
        let person = async {
            assert_eq!(ask(&dir, "n2", "kill").await.unwrap(), "killed");
            assert_eq!(
                ask(&dir, "n9", "restart").await.unwrap_err().to_string(),
                "no such node"
            );
            assert!(ask(&dir, "../n1", "kill").await.is_err());
        };
        tokio::join!(demo, person);
        drop(control);
        assert!(!dir.join(ADDRESS_FILE).exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
