//! Bad input, as a real node meets it: configs, files, disks, clients, networks and signals.
//!
//! Every test starts the program itself and looks at it from outside: exit code, what it says on
//! stderr, what it answers, and that it serves on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disk;
mod http;
mod network;
mod node;
mod signals;
mod start;
mod wire;
