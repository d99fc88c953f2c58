//! Whether a node should be sent traffic, and what is wrong with it.

use std::sync::atomic::{AtomicBool, Ordering};

use holdline_cluster::{Join, RestoredFrom};
use serde_json::{Value, json};

use super::Node;

/// The part of readiness that is this process's own.
#[derive(Debug, Default)]
pub struct Readiness {
    draining: AtomicBool,
}

impl Readiness {
    /// From here on the node is not ready.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the node is about to leave.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

impl Node {
    /// The answer of `GET /ready`: whether it is ready, and the body.
    #[must_use]
    pub fn ready(&self) -> (bool, Value) {
        let degraded = self.degraded();
        let (ready, status) = if self.readiness.is_draining() {
            (false, "draining")
        } else {
            match self
                .cluster()
                .map(|cluster| cluster.joined().borrow().clone())
            {
                None | Some(Join::Pending) => (false, "joining"),
                Some(Join::Degraded(_)) => (true, "degraded"),
                Some(Join::Ready(_)) if degraded.is_empty() => (true, "ok"),
                Some(Join::Ready(_)) => (true, "degraded"),
            }
        };
        let body = json!({ "status": status, "node_id": self.id, "degraded": degraded });
        (ready, body)
    }

    /// What does not work although the node serves, in words for operators.
    #[must_use]
    pub fn degraded(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(reason) = self.store().health() {
            reasons.push(format!("store: {reason}"));
        }
        if let Some(cluster) = self.cluster()
            && let Join::Degraded(restored) = &*cluster.joined().borrow()
        {
            let from = match &restored.from {
                RestoredFrom::Store | RestoredFrom::Nothing => "only what the store had",
                RestoredFrom::Leader(_) | RestoredFrom::Peer(_) => "a table",
            };
            reasons.push(format!(
                "cluster: gossip works, but no node's RPC port answers; this node started with {from}"
            ));
        }
        if self.clock_ahead_ms() > CLOCK_ALARM_MS {
            reasons
                .push("clock: some node's wall clock is more than 60 s ahead of this one's".into());
        }
        reasons
    }
}

/// Beyond this the clocks of the cluster are wrong enough to tell.
const CLOCK_ALARM_MS: u64 = 60_000;
