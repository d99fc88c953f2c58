//! Real nodes on the loopback: killed, paused, wiped. What must hold is in [`holdline_chaos::laws`].

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disks;
mod holds;
mod incidents;
mod kills;
mod leaders;
mod partitions;
mod pauses;
mod releases;
mod support;
