//! `holdline mock`: the demo's providers on their own, for a cluster that somebody starts by hand.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use holdline_chaos::mock::Mock;

use super::say;

pub(super) const EXAMPLES: &str = "Examples:
  holdline mock                          providers on http://127.0.0.1:9100/NAME, any NAME
  curl -X POST http://127.0.0.1:9100/mock/keys/sk-a/revoke
  curl -X POST http://127.0.0.1:9100/mock/keys/sk-a/limit?retry_after=60
  curl -X POST http://127.0.0.1:9100/mock/keys/sk-a/restore
  curl http://127.0.0.1:9100/mock/keys   what it counted";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address to listen on
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST.into())]
    host: IpAddr,
    /// Port to listen on
    #[arg(long, default_value_t = 9100)]
    port: u16,
    /// How long it thinks about a call
    #[arg(long, value_name = "MS", default_value_t = 5)]
    latency_ms: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(serve(args))
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let address = SocketAddr::new(args.host, args.port);
    let mock = Mock::start(address, Duration::from_millis(args.latency_ms)).await?;
    say(&format!(
        "mock providers on {0}/NAME, control on {0}/mock",
        mock.url()
    ));
    tokio::select! {
        served = mock.serve() => served,
        () = ended() => Ok(()),
    }
}

/// Ctrl-C or SIGTERM: as the first process of a container, this one has to ask for both.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
