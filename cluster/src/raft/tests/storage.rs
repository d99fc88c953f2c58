//! openraft's own suite for storages, over ours.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use tokio::sync::watch;

use super::memory::{Memory, Table};
use crate::raft::disk::Disk;
use crate::raft::log::Log;
use crate::raft::machine::Machine;
use crate::raft::types::Types;

struct InMemory;

impl StoreBuilder<Types, Log, Machine> for InMemory {
    async fn build(&self) -> Result<((), Log, Machine), StorageError<u64>> {
        let disk = Disk::new(Arc::new(Memory::default()));
        let machine = Machine::load(
            disk.clone(),
            Arc::new(Table::default()),
            watch::Sender::new(None),
            watch::Sender::new(None),
        );
        let machine = machine.await.expect("an empty store is readable");
        Ok(((), Log::new(disk), machine))
    }
}

#[test]
fn log_and_machine_do_what_openraft_expects() {
    Suite::test_all(InMemory).unwrap();
}
