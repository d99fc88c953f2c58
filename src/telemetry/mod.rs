//! What people see of a node: metrics and its own log.

mod log;
mod metrics;
mod scrape;

pub use log::{LogFormat, start_log};
pub use metrics::Metrics;
pub use scrape::scrape;
