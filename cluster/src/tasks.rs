//! The tasks of a node, and their end.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::task::JoinSet;

/// Owns tasks: they end with [`Tasks::end`], or when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.lock().spawn(task);
    }

    /// Aborts all and waits until they are gone.
    pub(crate) async fn end(&self) {
        let mut tasks = std::mem::take(&mut *self.lock());
        tasks.shutdown().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
