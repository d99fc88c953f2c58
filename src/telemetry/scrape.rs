//! `/metrics`: what was counted, and what is held in this moment.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use holdline_cluster::Counters;
use holdline_core::holds::HeldRow;

use crate::node::{Live, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    provider: String,
    key_id: String,
    key_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeldLabels {
    provider: String,
    scope: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabels {
    path: &'static str,
}

/// The node's metrics as Prometheus reads them.
///
/// # Errors
/// When they cannot be written, which nothing that is known here brings about.
pub fn scrape(node: &Node) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    encode_registry(&mut text, &node.metrics.registry)?;
    encode_registry(&mut text, &of_this_moment(&node.live(), &node.held(), node))?;
    if let Some(cluster) = node.cluster() {
        encode_registry(&mut text, &of_the_cluster(&cluster.counters()))?;
    }
    encode_eof(&mut text)?;
    Ok(text)
}

/// Gauges that are read, not kept: they are never behind the ledger.
fn of_this_moment(live: &Live, held: &[HeldRow], node: &Node) -> Registry {
    let mut registry = Registry::default();
    let key_up = Family::<KeyLabels, Gauge>::default();
    let whole_key = |provider: &str, key: &str| {
        held.iter().any(|row| {
            let subject = &row.record.subject;
            subject.provider.as_str() == provider
                && subject.key.as_str() == key
                && subject.scope.model().is_none()
        })
    };
    for provider in live.catalog.providers.values() {
        for key in &provider.keys {
            let labels = KeyLabels {
                provider: provider.id.as_str().to_owned(),
                key_id: key.spec.id.as_str().to_owned(),
                key_name: key.spec.name.clone(),
            };
            let up = !whole_key(provider.id.as_str(), key.spec.id.as_str());
            key_up.get_or_create(&labels).set(i64::from(up));
        }
    }
    let held_now = Family::<HeldLabels, Gauge>::default();
    for row in held {
        let subject = &row.record.subject;
        let labels = HeldLabels {
            provider: subject.provider.as_str().to_owned(),
            scope: if subject.scope.model().is_some() {
                "model"
            } else {
                "key"
            },
        };
        held_now.get_or_create(&labels).inc();
    }
    let uptime = Gauge::<i64>::default();
    uptime.set(i64::try_from(node.clock.uptime().as_secs()).unwrap_or(i64::MAX));
    registry.register(
        "bifrost_provider_key_up",
        "1 unless the whole key is held",
        key_up,
    );
    registry.register(
        "holdline_held_subjects",
        "Keys and models of keys out of rotation",
        held_now,
    );
    registry.register("holdline_uptime_seconds", "Since the node started", uptime);
    registry.register(
        "holdline_request_logs_dropped",
        "Request records that a full queue lost",
        ConstCounter::new(node.store().logs_dropped()),
    );
    let degraded = Gauge::<i64>::default();
    degraded.set(i64::try_from(node.degraded().len()).unwrap_or(i64::MAX));
    registry.register(
        "holdline_degraded",
        "What does not work although the node serves; /ready names it",
        degraded,
    );
    registry
}

/// What the cluster counts by itself.
fn of_the_cluster(counted: &Counters) -> Registry {
    let mut registry = Registry::default();
    let received = Family::<PathLabels, Counter>::default();
    for (path, count) in [
        ("push", counted.records_received_by_push),
        ("gossip", counted.records_received_by_gossip),
    ] {
        received.get_or_create(&PathLabels { path }).inc_by(count);
    }
    registry.register(
        "holdline_records_received",
        "Records that other nodes told, by how they came",
        received,
    );
    for (name, help, count) in [
        (
            "holdline_datagrams_refused",
            "Gossip datagrams that did not open, came twice or made no sense",
            counted.datagrams_refused,
        ),
        (
            "holdline_rpcs_refused",
            "RPC connections and messages that did not open or made no sense",
            counted.rpcs_refused,
        ),
        (
            "holdline_records_pushed",
            "Records that another node acknowledged, once per node",
            counted.records_pushed,
        ),
        (
            "holdline_records_not_queued",
            "Records that found a push queue full and were left to gossip",
            counted.push_queue_full,
        ),
        (
            "holdline_token_signals_received",
            "What other nodes told of token limits that this one did not know",
            counted.signals_received,
        ),
        (
            "holdline_leader_changes",
            "Changes of this region's leader that this node saw",
            counted.leader_changes,
        ),
    ] {
        registry.register(name, help, ConstCounter::new(count));
    }
    registry
}
