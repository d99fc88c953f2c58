//! What the cluster needs of its node: the replicated state in memory, and a place to keep things.

use holdline_core::holds::{Incoming, Record};
use holdline_core::ids::NodeId;
use holdline_core::replica::Document;
use holdline_core::time::WallMs;
use holdline_core::tpm::IncomingSignal;

/// The node's replicated state. Calls are short, take no await, and may come from any task.
pub trait State: Send + Sync + 'static {
    /// Takes in records from elsewhere and makes them effective. Returns how many changed something.
    fn merge_records(&self, incoming: Vec<Incoming>) -> usize;
    /// The whole table with ages.
    fn export_records(&self) -> Vec<Incoming>;
    /// Some records with ages, those that exist, for a push.
    fn export_some(&self, records: &[Record]) -> Vec<Incoming>;
    /// 128-bit hash over held registers.
    fn record_digest(&self) -> u128;
    /// How many subjects this node shows as held.
    fn held_count(&self) -> usize;
    /// Takes in documents, makes them effective and keeps them. Returns how many were newer.
    fn merge_documents(&self, documents: Vec<Document>) -> usize;
    /// All documents, tombstones included.
    fn export_documents(&self) -> Vec<Document>;
    /// Hash over names and stamps.
    fn document_digest(&self) -> u64;
    /// Takes in what other nodes know of token limits. Returns how many changed something.
    fn merge_signals(&self, signals: Vec<IncomingSignal>) -> usize;
    /// The wall clock.
    fn wall(&self) -> WallMs;
    /// Answers another node's question, which the cluster only carries: see [`crate::Handle::ask_all`].
    /// May wait for the disk. None where the question makes no sense here.
    fn answer(&self, from: &NodeId, question: &[u8]) -> Option<Vec<u8>> {
        let _ = (from, question);
        None
    }
}

/// Something could not be kept or read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// One saved state of the held keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Who, when, how much.
    pub info: SnapshotInfo,
    /// True: replaces what was saved before. False: these rows are newer than the saved ones.
    pub whole: bool,
    /// Records with their ages at `info.saved_at`.
    pub records: Vec<Incoming>,
}

/// What operators see of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SnapshotInfo {
    /// When the regional leader proposed it.
    pub saved_at: WallMs,
    /// That leader.
    pub saved_by: NodeId,
    /// Held subjects in the table then; never counts released records.
    pub held: usize,
    /// Provenance: the group and its term.
    pub group_uid: u64,
    /// See `group_uid`.
    pub term: u64,
}

/// Durable storage, implemented by the node on SQLite. Calls block (call them from blocking tasks or
/// where a few milliseconds do not matter); each is atomic, and durable before it returns.
pub trait Store: Send + Sync + 'static {
    /// A small value of raft's (vote, applied state, membership, purge mark, group uid …).
    ///
    /// # Errors
    /// When the database cannot be read.
    fn raft_value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Keeps it.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn put_raft_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError>;
    /// Appends or overwrites log entries.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn append_log(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError>;
    /// Entries with from <= index < to, in order.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn log_range(&self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError>;
    /// The last entry.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn last_log(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError>;
    /// Drops entries from this index on.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn truncate_log(&self, from: u64) -> Result<(), StoreError>;
    /// Drops entries up to this index.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn purge_log(&self, to: u64) -> Result<(), StoreError>;
    /// Forgets the raft group (log and values), but no snapshot of held keys.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn wipe_raft(&self) -> Result<(), StoreError>;
    /// Merges a snapshot into the saved table and, in the same transaction, keeps raft values (the
    /// applied state), so that an entry is applied once.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn save_snapshot(
        &self,
        snapshot: &Snapshot,
        raft_values: &[(&str, Vec<u8>)],
    ) -> Result<(), StoreError>;
    /// The saved table, ages counted to now.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn load_snapshot(&self) -> Result<Option<Snapshot>, StoreError>;
}
