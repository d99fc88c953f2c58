//! Raft's log and its small values.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::{Fault, signed, unsigned};

pub(super) fn value(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>, Fault> {
    let query = "SELECT value FROM raft_values WHERE name = ?1";
    Ok(connection
        .prepare_cached(query)?
        .query_row([name], |row| row.get(0))
        .optional()?)
}

pub(super) fn put_value(t: &Transaction<'_>, name: &str, value: &[u8]) -> Result<(), Fault> {
    t.prepare_cached("INSERT OR REPLACE INTO raft_values (name, value) VALUES (?1, ?2)")?
        .execute((name, value))?;
    Ok(())
}

pub(super) fn append(t: &Transaction<'_>, entries: &[(u64, Vec<u8>)]) -> Result<(), Fault> {
    let mut put =
        t.prepare_cached("INSERT OR REPLACE INTO raft_log (log_index, entry) VALUES (?1, ?2)")?;
    for (index, entry) in entries {
        put.execute((signed(*index), entry))?;
    }
    Ok(())
}

pub(super) fn range(
    connection: &Connection,
    from: u64,
    to: u64,
) -> Result<Vec<(u64, Vec<u8>)>, Fault> {
    let query = "SELECT log_index, entry FROM raft_log WHERE log_index >= ?1 AND log_index < ?2 ORDER BY log_index";
    let mut statement = connection.prepare_cached(query)?;
    // An open end is u64::MAX, which would be negative in SQLite.
    let bound = |index: u64| i64::try_from(index).unwrap_or(i64::MAX);
    let rows = statement.query_map((bound(from), bound(to)), |row| {
        Ok((unsigned(row.get(0)?), row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn last(connection: &Connection) -> Result<Option<(u64, Vec<u8>)>, Fault> {
    let query = "SELECT log_index, entry FROM raft_log ORDER BY log_index DESC LIMIT 1";
    Ok(connection
        .prepare_cached(query)?
        .query_row([], |row| Ok((unsigned(row.get(0)?), row.get(1)?)))
        .optional()?)
}

pub(super) fn truncate(t: &Transaction<'_>, from: u64) -> Result<(), Fault> {
    t.execute("DELETE FROM raft_log WHERE log_index >= ?1", [signed(from)])?;
    Ok(())
}

pub(super) fn purge(t: &Transaction<'_>, to: u64) -> Result<(), Fault> {
    t.execute("DELETE FROM raft_log WHERE log_index <= ?1", [signed(to)])?;
    Ok(())
}

pub(super) fn wipe(t: &Transaction<'_>) -> Result<(), Fault> {
    t.execute_batch("DELETE FROM raft_log; DELETE FROM raft_values;")?;
    Ok(())
}
