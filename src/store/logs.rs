//! Request log records, in a database of their own with one writer thread.

mod queue;
#[cfg(test)]
pub(super) mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdline_core::failure::FailureClass;
use holdline_core::ids::{KeyId, ModelId, NodeId, ProviderId};
use holdline_core::time::WallMs;
use holdline_core::trail::{AttemptEntry, Engine, LogLine};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension};
use rusqlite_migration::{M, Migrations};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use time::OffsetDateTime;

use super::{Fault, Store, StoreError, open, unsigned};
use crate::protocols::talk::Usage;
use crate::timestamp;
use queue::{Batch, Queue};

/// One request, as `GET /api/logs/{id}` answers it. Made on the request's way: it holds what is cheap to
/// take along, and becomes text on the writer's thread.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct RequestLog {
    /// The request's id.
    pub id: String,
    /// When it arrived.
    #[serde(serialize_with = "timestamp::serialize_wall")]
    pub timestamp: WallMs,
    /// `chat_completion`, `chat_completion_stream` …
    pub object: &'static str,
    /// Which node served it.
    pub node_id: NodeId,
    /// The provider that served or was asked last; empty where the request was refused before.
    pub provider: ProviderId,
    /// The model.
    pub model: ModelId,
    /// `success` or `error`.
    pub status: &'static str,
    /// Milliseconds, whole request.
    pub latency: u64,
    /// What the client was answered.
    pub status_code: u16,
    /// Streamed.
    pub is_stream: bool,
    /// `{prompt_tokens, completion_tokens, total_tokens}` where the provider told.
    pub token_usage: Option<Usage>,
    /// The caller's virtual key, where it showed one.
    pub virtual_key_id: Option<String>,
    /// Its name.
    pub virtual_key_name: Option<String>,
    /// The key that served; none when all attempts failed.
    pub selected_key_id: Option<KeyId>,
    /// Its name.
    pub selected_key_name: Option<String>,
    /// Attempts after the first.
    pub number_of_retries: u32,
    /// 0 primary, 1 first fallback.
    pub fallback_index: u32,
    /// Class and status of the error that was answered.
    pub error_details: Option<ErrorDetails>,
    /// Engines that wrote to `routing_engine_logs`.
    pub routing_engines_used: Vec<Engine>,
    /// Decisions.
    pub routing_engine_logs: Vec<StampedLine>,
    /// Attempts.
    pub attempt_trail: Vec<AttemptEntry>,
}

/// The error that was answered: classes and numbers, no words of a provider.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ErrorDetails {
    /// What the client was answered.
    pub status_code: u16,
    /// What it means, where it is of an attempt.
    pub failure_class: Option<FailureClass>,
    /// Of the closed set.
    pub error_type: &'static str,
}

/// A decision with its time.
#[derive(Clone, Debug, Serialize)]
pub struct StampedLine {
    /// Engine, level, message.
    #[serde(flatten)]
    pub line: LogLine,
    /// Milliseconds since the Unix epoch.
    pub timestamp: u64,
}

/// Which records to list; every list may be empty for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Provider names.
    pub providers: Vec<String>,
    /// Models.
    pub models: Vec<String>,
    /// `success`, `error`.
    pub status: Vec<String>,
    /// `chat_completion` …
    pub objects: Vec<String>,
    /// Keys that served.
    pub key_ids: Vec<String>,
    /// Not before, RFC 3339 in UTC with milliseconds.
    pub from: Option<String>,
    /// Not after.
    pub to: Option<String>,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// How many records.
    pub limit: u32,
    /// How many to pass over.
    pub offset: u64,
}

/// One page of records, and figures over all that match.
#[derive(Debug)]
pub struct LogPage {
    /// As they were written.
    pub logs: Vec<Box<RawValue>>,
    /// Matching records.
    pub total: u64,
    /// Of them, those that were served.
    pub served: u64,
    /// Their mean latency in milliseconds.
    pub average_latency: f64,
    /// Their tokens.
    pub tokens: u64,
}

const MIGRATIONS: &[M<'_>] = &[M::up(include_str!("migrations/logs/0001-requests.sql"))];
/// How long a reader waits for what was handed over before it asked.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);
/// How often old records are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// The oldest records go beyond this size.
const MAX_BYTES: u64 = 1 << 30;

/// The log database: one writer thread, one connection for readers.
#[derive(Debug)]
pub(super) struct Logs {
    reader: Mutex<Connection>,
    queue: Arc<Queue>,
    writer: Mutex<Option<JoinHandle<()>>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    dropped: AtomicU64,
    broken: Mutex<Option<String>>,
}

impl Logs {
    /// Opens the database. A damaged one is set aside: a node can live without its old log.
    pub(super) fn open(path: &Path, retention_days: u32) -> Result<Self, StoreError> {
        let migrations = Migrations::from_slice(MIGRATIONS);
        let writer = match open::database(path, &migrations, "NORMAL") {
            Ok(connection) => connection,
            Err(error) if error.0.contains("is damaged") => {
                let aside =
                    open::set_aside(path).map_err(|e| StoreError(format!("{error} ({e})")))?;
                tracing::warn!(%error, aside = %aside.display(), "request log set aside, starting an empty one");
                open::database(path, &migrations, "NORMAL")?
            }
            Err(error) => return Err(error),
        };
        let reader = Connection::open(path)
            .map_err(|error| StoreError(format!("{} cannot be opened: {error}", path.display())))?;
        let queue = Arc::new(Queue::default());
        let state = Arc::new(State::default());
        let (taken, shared) = (Arc::clone(&queue), Arc::clone(&state));
        let retention = Duration::from_secs(u64::from(retention_days) * 86_400);
        let thread = thread::Builder::new()
            .name("request-log".to_owned())
            .spawn(move || write_all(writer, &taken, &shared, retention))
            .map_err(|error| StoreError(format!("cannot start the log writer: {error}")))?;
        Ok(Self {
            reader: Mutex::new(reader),
            queue,
            writer: Mutex::new(Some(thread)),
            state,
        })
    }

    pub(super) fn broken(&self) -> Option<String> {
        let broken = self.state.broken.lock();
        broken.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the writer once everything queued is written.
    pub(super) fn close(&self) {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer {
            self.queue.end();
            // Fails only if the thread panicked, which it reported itself.
            drop(writer.join());
        }
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.queue.flush(FLUSH_PATIENCE);
        let connection = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        query(&connection)
            .map_err(|fault| StoreError(format!("cannot read the request log: {fault}")))
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store {
    /// Keeps a record soon. Never blocks: a full queue drops and counts.
    pub fn log(&self, log: RequestLog) {
        if !self.logs.queue.push(log) {
            self.logs.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that were dropped since the start.
    #[must_use]
    pub fn logs_dropped(&self) -> u64 {
        self.logs.state.dropped.load(Ordering::Relaxed)
    }

    /// The newest record of this request id, as JSON: also one that was handed over a moment ago.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn find_log(&self, id: &str) -> Result<Option<Box<RawValue>>, StoreError> {
        let newest = "SELECT record FROM requests WHERE id = ?1 ORDER BY number DESC LIMIT 1";
        self.logs.read(|connection| {
            let found: Option<String> = connection
                .prepare_cached(newest)?
                .query_row([id], |row| row.get(0))
                .optional()?;
            Ok(found.map(RawValue::from_string).transpose()?)
        })
    }

    /// One page of records, newest first unless asked otherwise.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn list_logs(&self, query: &LogQuery) -> Result<LogPage, StoreError> {
        self.logs.read(|connection| list(connection, query))
    }
}

fn list(connection: &Connection, query: &LogQuery) -> Result<LogPage, Fault> {
    let mut conditions = vec!["1".to_owned()];
    let mut values: Vec<&dyn ToSql> = Vec::new();
    let lists = [
        ("provider", &query.providers),
        ("model", &query.models),
        ("status", &query.status),
        ("object", &query.objects),
        ("key_id", &query.key_ids),
    ];
    for (column, wanted) in lists.into_iter().filter(|(_, wanted)| !wanted.is_empty()) {
        let marks = vec!["?"; wanted.len()].join(",");
        conditions.push(format!("{column} IN ({marks})"));
        values.extend(wanted.iter().map(|text| text as &dyn ToSql));
    }
    for (comparison, bound) in [("at >= ?", &query.from), ("at <= ?", &query.to)] {
        if let Some(bound) = bound {
            conditions.push(comparison.to_owned());
            values.push(bound);
        }
    }
    let filter = conditions.join(" AND ");
    let figures = format!(
        "SELECT count(*), coalesce(sum(status = 'success'), 0), coalesce(avg(latency), 0.0), coalesce(sum(tokens), 0) FROM requests WHERE {filter}"
    );
    let (total, served, average_latency, tokens) =
        connection.query_row(&figures, values.as_slice(), |row| {
            let count = |n| row.get(n).map(unsigned);
            Ok((count(0)?, count(1)?, row.get(2)?, count(3)?))
        })?;
    let order = if query.ascending { "ASC" } else { "DESC" };
    let page = format!(
        "SELECT record FROM requests WHERE {filter} ORDER BY number {order} LIMIT ? OFFSET ?"
    );
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
    values.push(&query.limit);
    values.push(&offset);
    let mut statement = connection.prepare(&page)?;
    let rows = statement.query_map(values.as_slice(), |row| row.get::<_, String>(0))?;
    let mut logs = Vec::new();
    for record in rows {
        logs.push(RawValue::from_string(record?)?);
    }
    let page = LogPage {
        logs,
        total,
        served,
        average_latency,
        tokens,
    };
    Ok(page)
}

/// The writer thread: gathers what is queued, one transaction a batch, until it is told to end.
fn write_all(mut connection: Connection, queue: &Queue, state: &State, retention: Duration) {
    let mut pruned: Option<Instant> = None;
    let mut batch = Batch::default();
    let mut goes_on = true;
    while goes_on {
        goes_on = queue.next(&mut batch, PRUNE_EVERY);
        let mut done = insert(&mut connection, &batch.records);
        if done.is_ok() && pruned.is_none_or(|at| at.elapsed() >= PRUNE_EVERY) {
            pruned = Some(Instant::now());
            done = prune(&connection, retention);
        }
        let lost = u64::try_from(batch.records.len()).unwrap_or(u64::MAX);
        let mut broken = state.broken.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(()) => *broken = None,
            Err(fault) => {
                state.dropped.fetch_add(lost, Ordering::Relaxed);
                let reason = format!("cannot keep request logs: {fault}");
                if broken.replace(reason.clone()).is_none() {
                    tracing::warn!(%reason, "request logs are being lost");
                }
            }
        }
    }
}

fn insert(connection: &mut Connection, batch: &[RequestLog]) -> Result<(), Fault> {
    if batch.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare_cached(
            "INSERT INTO requests (id, at, provider, model, status, object, key_id, latency, tokens, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        let mut record = Vec::new();
        for log in batch {
            record.clear();
            serde_json::to_writer(&mut record, log)?;
            insert.execute((
                &log.id,
                timestamp::wall_text(log.timestamp),
                log.provider.as_str(),
                log.model.as_str(),
                log.status,
                log.object,
                log.selected_key_id.as_ref().map(KeyId::as_str),
                i64::try_from(log.latency).unwrap_or(i64::MAX),
                tokens(log),
                ToSqlOutput::Borrowed(ValueRef::Text(&record)),
            ))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn tokens(log: &RequestLog) -> i64 {
    let total = log.token_usage.map_or(0, |usage| usage.total());
    i64::try_from(total).unwrap_or(i64::MAX)
}

/// Drops what is older than the retention, and the oldest twentieth of a database that is too large.
fn prune(connection: &Connection, retention: Duration) -> Result<(), Fault> {
    let oldest = OffsetDateTime::now_utc() - retention;
    connection.execute(
        "DELETE FROM requests WHERE number <= (SELECT max(number) FROM (SELECT number, at FROM requests ORDER BY number LIMIT 10000) WHERE at < ?1)",
        [timestamp::rfc3339(oldest)],
    )?;
    let used: i64 = connection.query_row(
        "SELECT (SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count)",
        [],
        |row| row.get(0),
    )?;
    let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    if u64::try_from(used.saturating_mul(page)).is_ok_and(|bytes| bytes > MAX_BYTES) {
        connection.execute(
            "DELETE FROM requests WHERE number < (SELECT min(number) + (max(number) - min(number)) / 20 FROM requests)",
            [],
        )?;
    }
    Ok(())
}

/// The wall clock.
pub(super) fn wall_now() -> WallMs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since_epoch.unwrap_or_default().as_millis();
    WallMs(u64::try_from(ms).unwrap_or(u64::MAX))
}
