//! Everything a node keeps, in SQLite: holds, documents, raft, request logs, identity. All SQL is here.

pub mod logs;

pub use logs::RequestLog;

/// The database of one data folder.
#[derive(Debug)]
pub struct Store {}

/// Something could not be kept or read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);
