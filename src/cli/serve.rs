//! `holdline serve`: one node, until a signal ends it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::api::{Gateway, router};
use crate::config::{Config, Secret};
use crate::node::{Node, Overrides, Place, Running};
use crate::pipeline::listing::keep_lists;
use crate::server::tls::{Certificate, LOOK_EVERY};
use crate::server::{Limits, Server};
use crate::telemetry::{LogFormat, start_log};

pub(super) const EXAMPLES: &str = "Examples:
  holdline serve                                       built-in defaults, no provider yet: add one by the admin API
  holdline serve --config config.json --port 9000
  HOLDLINE_CLUSTER_SECRET=... holdline serve --node-id n1 --region us-east \\
      --host 0.0.0.0 --advertise-host 10.0.0.1 --peers 10.0.0.2:10101,10.0.1.1:10101";

/// Flags of `serve`. A flag beats its environment variable, that beats the config file.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// The config file, in Bifrost's shape; ./config.json if it exists
    #[arg(long, env = "HOLDLINE_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    /// Where this node keeps everything
    #[arg(
        long,
        env = "HOLDLINE_DATA_DIR",
        value_name = "PATH",
        default_value = "holdline-data"
    )]
    data_dir: PathBuf,
    /// Address of inference, admin API and metrics [default: 127.0.0.1]
    #[arg(long, env = "HOLDLINE_HOST")]
    host: Option<IpAddr>,
    /// Port of inference, admin API and metrics [default: 8080]
    #[arg(long, env = "HOLDLINE_PORT")]
    port: Option<u16>,
    /// Unique in the cluster [default: the host's name]
    #[arg(long, env = "HOLDLINE_NODE_ID")]
    node_id: Option<String>,
    /// One leader is elected per region [default: unknown]
    #[arg(long, env = "HOLDLINE_REGION")]
    region: Option<String>,
    /// UDP [default: 10101]
    #[arg(long, env = "HOLDLINE_GOSSIP_PORT")]
    gossip_port: Option<u16>,
    /// TCP [default: 10102]
    #[arg(long, env = "HOLDLINE_RPC_PORT")]
    rpc_port: Option<u16>,
    /// The address that peers dial [default: the bound host]
    #[arg(long, env = "HOLDLINE_ADVERTISE_HOST")]
    advertise_host: Option<String>,
    /// Gossip addresses of some peers; turns cluster mode on
    #[arg(
        long,
        env = "HOLDLINE_PEERS",
        value_delimiter = ',',
        value_name = "HOST:PORT,.."
    )]
    peers: Option<Vec<String>>,
    /// Authenticates and encrypts gossip and RPC (better set by the environment)
    #[arg(long, env = "HOLDLINE_CLUSTER_SECRET", hide_env_values = true)]
    cluster_secret: Option<String>,
    /// Demos and tests only: every wait of routing passes so many times faster
    #[arg(long, env = "HOLDLINE_TIME_SCALE", value_name = "X")]
    time_scale: Option<f64>,
    /// How this process logs
    #[arg(long, env = "HOLDLINE_LOG_FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// Tracing filter, such as `info` or `holdline=debug`
    #[arg(long, env = "HOLDLINE_LOG", default_value = "info")]
    log_level: String,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
        }
    }
}

pub(super) fn run(args: ServeArgs) -> anyhow::Result<()> {
    start_log(args.log_format.into(), &args.log_level).map_err(anyhow::Error::msg)?;
    let path = args.config.clone().or_else(|| {
        let default = PathBuf::from("config.json");
        default.exists().then_some(default)
    });
    let loaded = Config::load(path.as_deref())?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let place = Place::resolve(&loaded.config.cluster, args.overrides())?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(serve(loaded.config, place, args.data_dir))
}

impl ServeArgs {
    fn overrides(&self) -> Overrides {
        Overrides {
            host: self.host,
            port: self.port,
            node_id: self.node_id.clone(),
            region: self.region.clone(),
            gossip_port: self.gossip_port,
            rpc_port: self.rpc_port,
            advertise_host: self.advertise_host.clone(),
            peers: self.peers.clone(),
            cluster_secret: self.cluster_secret.clone().map(Secret::from),
            time_scale: self.time_scale,
        }
    }
}

async fn serve(config: Config, place: Place, data_dir: PathBuf) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let mut server = Server::bind(place.http, Limits::default()).await?;
    let certificate = match &config.server_tls {
        Some(files) => Some(Certificate::load(&files.cert_file, &files.key_file)?),
        None => None,
    };
    if let Some(certificate) = &certificate {
        server = server.with_tls(certificate.acceptor());
    }
    warn_of_risks(&place, config.client.needs_virtual_key);
    let running = crate::node::start(config, place, &data_dir).await?;
    let node = Arc::clone(&running.node);
    let address = server.local_addr();
    tracing::info!(node = %node.id, region = %node.region, %address, "serving");

    node.expect_lists();
    let drain = CancellationToken::new();
    let serving = tokio::spawn(server.serve(
        Gateway::new(Arc::clone(&node), router(Arc::clone(&node))),
        drain.clone(),
    ));
    let listing = tokio::spawn(keep_lists(Arc::clone(&node), drain.clone()));
    let renewing =
        certificate.map(|found| tokio::spawn(found.keep_renewed(LOOK_EVERY, drain.clone())));
    signals.first().await;
    end(&node, running, drain, serving, signals).await;
    listing.abort();
    if let Some(renewing) = renewing {
        renewing.abort();
    }
    Ok(())
}

/// Stop accepting, finish what is in flight, leave, keep, exit. A second signal ends at once.
async fn end(
    node: &Node,
    running: Running,
    drain: CancellationToken,
    serving: tokio::task::JoinHandle<usize>,
    mut signals: Signals,
) {
    tracing::info!("draining: no new connections; requests in flight have 30 s");
    node.readiness.drain();
    drain.cancel();
    let finish = async {
        match serving.await {
            Ok(0) => {}
            Ok(cut) => tracing::warn!(requests = cut, "cut off after 30 s of draining"),
            Err(error) => tracing::error!(%error, "the server had failed"),
        }
        running.stop().await;
    };
    tokio::select! {
        () = finish => tracing::info!("stopped"),
        () = signals.first() => tracing::warn!("second signal: ending at once"),
    }
}

fn warn_of_risks(place: &Place, needs_virtual_key: bool) {
    if (place.time_scale - 1.0).abs() > f64::EPSILON {
        tracing::warn!(
            time_scale = place.time_scale,
            "waits pass faster than real time: for demos and tests only"
        );
    }
    if !place.http.ip().is_loopback() && !needs_virtual_key {
        tracing::warn!(
            address = %place.http,
            "anybody who reaches this address may use the providers' keys: set client.enforce_auth_on_inference, or guard the network"
        );
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
        })
    }

    async fn first(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
