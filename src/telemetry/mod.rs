//! What people see of a node: metrics and its own log.

/// Prometheus metrics of one node.
#[derive(Debug, Default)]
pub struct Metrics {}
