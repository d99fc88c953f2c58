//! Providers that speak OpenAI's chat API, refuse keys on demand, and count every call.
//!
//! One mock is several providers: `/openai/v1/chat/completions` and `/spare/v1/chat/completions` are
//! two of them, told apart by the first path segment. What it remembers is bounded.
//!
//! | call | effect |
//! | --- | --- |
//! | `POST /mock/keys/KEY/revoke` | 401 from now on |
//! | `POST /mock/keys/KEY/quota` | 429 `insufficient_quota` |
//! | `POST /mock/keys/KEY/limit?retry_after=SECONDS` | 429 with `retry-after` |
//! | `POST /mock/keys/KEY/deny` | 404 `model_not_found` |
//! | `POST /mock/keys/KEY/break` | 500 |
//! | `POST /mock/keys/KEY/restore` | served again |
//! | `GET /mock/keys` | calls, refusals and present fault per key |
//! | `GET /mock/calls?key=KEY&since_ms=T` | the calls themselves |

mod answer;
mod control;
mod fault;
mod record;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use fault::Fault;
use record::Record;
pub use record::{Call, KeyCount};

/// A running mock; it ends when dropped.
#[derive(Debug)]
pub struct Mock {
    address: SocketAddr,
    record: Arc<Record>,
    accepting: JoinHandle<()>,
}

impl Mock {
    /// Listens on `address` (port 0: any free one) and answers each call after `latency`.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(address: SocketAddr, latency: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("the mock providers cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let record = Arc::new(Record::new());
        let accepting = tokio::spawn(serve::accept(listener, Arc::clone(&record), latency));
        Ok(Self {
            address,
            record,
            accepting,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL of one provider.
    #[must_use]
    pub fn provider_url(&self, provider: &str) -> String {
        format!("http://{}/{provider}", self.address)
    }

    /// From the next call on, this key is refused so.
    pub fn refuse(&self, key: &str, fault: Fault) {
        self.record.set_fault(key, Some(fault));
    }

    /// From the next call on, this key is served again.
    pub fn restore(&self, key: &str) {
        self.record.set_fault(key, None);
    }

    /// The mock's clock: milliseconds since it started.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.record.now_ms()
    }

    /// Calls with this key that arrived at `since_ms` or later, oldest first.
    #[must_use]
    pub fn calls(&self, key: &str, since_ms: u64) -> Vec<Call> {
        self.record.calls(Some(key), since_ms)
    }

    /// Runs until the task is aborted or fails.
    ///
    /// # Errors
    /// When the accept loop panicked.
    pub async fn serve(mut self) -> anyhow::Result<()> {
        (&mut self.accepting)
            .await
            .context("the mock providers stopped")
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[cfg(test)]
mod tests;
