//! Starting a node, and ending it.
//!
//! Order at start: store, what the store had, catalog and view, cluster. The caller may serve as soon
//! as [`start`] returns; `/ready` tells when the table of the cluster is here.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::ArcSwap;
use holdline_cluster::{Options, Spread};
use holdline_core::holds::{Ledger, Subject};
use holdline_core::ids::Fingerprint;
use holdline_core::replica::Documents;
use holdline_core::time::Mono;
use holdline_core::tpm::Table as Backoffs;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::incidents::Incidents;
use super::place::Place;
use super::replicated::ClusterSide;
use super::{Clock, Node, Readiness, Replicated, keep};
use crate::config::Config;
use crate::store::{Store, StoreError, StoreOptions};
use crate::telemetry::Metrics;

/// How often free records and long past holds are looked for.
const PRUNE_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cluster's ports, or its secret.
    #[error(transparent)]
    Cluster(#[from] holdline_cluster::StartError),
}

/// A node and its tasks.
#[derive(Debug)]
pub struct Running {
    /// The node.
    pub node: Arc<Node>,
    end: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts a node: opens the store, restores, joins the cluster.
///
/// The caller binds and serves `place.http`.
///
/// # Errors
/// When the data folder cannot be used, or the cluster's ports cannot be bound.
pub async fn start(config: Config, place: Place, data_dir: &Path) -> Result<Running, StartError> {
    start_with(config, place, data_dir, Spread::default()).await
}

/// [`start`] with one way of spreading records switched off, for measurements.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    config: Config,
    place: Place,
    data_dir: &Path,
    spread: Spread,
) -> Result<Running, StartError> {
    let clock = Clock::start(place.time_scale);
    let store = Arc::new(Store::open(
        data_dir,
        &StoreOptions::of(&config, place.time_scale),
    )?);
    let node = Arc::new(Node::restore(config, place, clock, store)?);
    let handle = node.join(spread).await?;
    node.cluster.get_or_init(|| handle);
    let end = CancellationToken::new();
    let tasks = vec![
        tokio::spawn(Arc::clone(&node).keep_holds(end.clone())),
        tokio::spawn(Arc::clone(&node).prune_holds(end.clone())),
        tokio::spawn(Arc::clone(&node).follow_incidents(end.clone())),
        tokio::spawn(Arc::clone(&node).recompute_health(end.clone())),
    ];
    Ok(Running { node, end, tasks })
}

impl Running {
    /// Leaves the cluster, writes what is not written, ends every task.
    pub async fn stop(self) {
        if let Some(cluster) = self.node.cluster() {
            cluster.leave().await;
        }
        self.end.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the node had failed");
            }
        }
        let store = Arc::clone(self.node.store());
        if let Err(error) = tokio::task::spawn_blocking(move || store.close()).await {
            tracing::error!(%error, "closing the store failed");
        }
    }
}

impl Node {
    /// A node with what its store has.
    fn restore(
        config: Config,
        place: Place,
        clock: Clock,
        store: Arc<Store>,
    ) -> Result<Self, StoreError> {
        let instance = Fingerprint::of(&[
            place.node_id.as_str().as_bytes(),
            &store.generation().to_be_bytes(),
        ]);
        let mut ledger = Ledger::new(place.node_id.clone(), place.region.clone(), instance.0);
        for row in store.load_holds(clock.wall())? {
            ledger.merge(row, clock.now());
        }
        let mut documents = Documents::default();
        for document in store.load_documents()? {
            ledger.observe(document.stamp);
            documents.merge(document);
        }
        let node = Self {
            id: place.node_id.clone(),
            region: place.region.clone(),
            incidents: Incidents::new(place.node_id.clone(), place.region.clone()),
            place,
            config,
            clock,
            metrics: Arc::new(Metrics::default()),
            readiness: Readiness::default(),
            live: ArcSwap::default(),
            replicated: Mutex::new(Replicated {
                ledger,
                documents,
                tpm: Backoffs::default(),
            }),
            health: Mutex::default(),
            store,
            unsaved: keep::Unsaved::default(),
            cluster: OnceLock::new(),
            snapshot_interval: watch::Sender::new(std::time::Duration::from_secs(300)),
            models: super::models::Models::default(),
        };
        node.rebuild(&node.lock());
        Ok(node)
    }

    async fn join(
        self: &Arc<Self>,
        spread: Spread,
    ) -> Result<holdline_cluster::Handle, holdline_cluster::StartError> {
        let place = &self.place;
        let options = Options {
            node_id: self.id.clone(),
            region: self.region.clone(),
            cluster_id: place.cluster_id.clone(),
            generation: self.store.generation(),
            raft_id: self.store.raft_id(),
            gossip_bind: place.gossip,
            rpc_bind: place.rpc,
            advertise_host: place.advertise_host.clone(),
            http_address: format!("{}:{}", place.advertise_host, place.http.port()),
            seeds: place.peers.clone(),
            secret: place.secret.as_ref().map(|s| s.expose().to_owned()),
            previous_secrets: place
                .previous_secrets
                .iter()
                .map(|s| s.expose().to_owned())
                .collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            snapshot_interval: self.snapshot_interval.subscribe(),
            time_scale: self.clock.scale(),
            spread,
        };
        let state = Arc::new(ClusterSide(Arc::clone(self)));
        let store: Arc<dyn holdline_cluster::Store> = self.store.clone();
        if place.clustered {
            holdline_cluster::start(options, state, store).await
        } else {
            Ok(holdline_cluster::alone(options, state, store))
        }
    }

    fn prune(&self, now: Mono) -> Vec<Subject> {
        let mut state = self.lock();
        let dropped = state.ledger.prune(now);
        self.show(&state, &dropped);
        let over = state.tpm.prune(now);
        self.show_dry(&state, &over);
        dropped
    }

    /// Forgets what has not mattered for a week.
    async fn prune_holds(self: Arc<Self>, end: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(PRUNE_EVERY) => {}
                () = end.cancelled() => return,
            }
            let dropped = self.prune(self.clock.now());
            if !dropped.is_empty() {
                tracing::debug!(subjects = dropped.len(), "old records were dropped");
                let node = Arc::clone(&self);
                let forgotten =
                    tokio::task::spawn_blocking(move || node.store.forget_holds(&dropped)).await;
                if let Ok(Err(error)) = forgotten {
                    tracing::warn!(%error, "old records stay in the store");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
