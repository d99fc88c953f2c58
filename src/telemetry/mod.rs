//! What people see of a node: metrics and its own log.

mod labels;
mod log;
mod metrics;
mod scrape;
mod together;

pub use labels::Called;
pub use log::{LogFormat, start_log};
pub use metrics::{Active, Fault, HttpAnswer, Metrics};
pub use scrape::scrape;
