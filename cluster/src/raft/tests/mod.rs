//! Groups in one process: a router that can be cut, stores in memory, time that turns itself forward.
//!
//! tokio's clock is paused, so minutes of a region's life take seconds, and nothing depends on how
//! busy the machine is.

mod groups;
mod load;
mod memory;
mod net;
mod plans;
mod storage;

use std::time::Duration;

pub(in crate::raft) use memory::record;

/// A second of the clock that turns itself forward.
pub(in crate::raft) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
