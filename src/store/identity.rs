//! Who a data folder belongs to: a raft id drawn once, and a generation that grows with every start.

use holdline_core::time::WallMs;
use rusqlite::{Connection, OptionalExtension};

use super::{Fault, signed, unsigned};

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub raft_id: u64,
    /// The wall clock, or one more than the last.
    pub generation: u64,
}

pub(super) fn begin(connection: &mut Connection, wall: WallMs) -> Result<Identity, Fault> {
    let transaction = connection.transaction()?;
    let before = transaction
        .query_row("SELECT raft_id, generation FROM identity", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })
        .optional()?;
    let identity = match before {
        Some((raft_id, last)) => Identity {
            raft_id: unsigned(raft_id),
            generation: wall.0.max(unsigned(last).saturating_add(1)),
        },
        None => Identity {
            // Zero is what a careless default looks like.
            raft_id: rand::random_range(1..=u64::MAX),
            generation: wall.0,
        },
    };
    transaction.execute(
        "INSERT OR REPLACE INTO identity (one, raft_id, generation) VALUES (1, ?1, ?2)",
        (signed(identity.raft_id), signed(identity.generation)),
    )?;
    transaction.commit()?;
    Ok(identity)
}
