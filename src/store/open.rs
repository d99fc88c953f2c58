//! Opens a data folder: one node at a time, one clear line for everything that can be wrong with it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};
use rusqlite_migration::{Migrations, SchemaVersion};

use super::StoreError;

/// `HLDL`: tells our databases from others.
const APPLICATION_ID: i32 = 0x484c_444c;

/// Makes the folder, for its owner only, and takes its lock: two nodes must never share one.
pub(super) fn lock(folder: &Path) -> Result<File, StoreError> {
    let told = |what: &str, error: &dyn std::fmt::Display| {
        StoreError(format!(
            "the data folder {} {what}: {error}",
            folder.display()
        ))
    };
    if folder.exists() && !folder.is_dir() {
        return Err(StoreError(format!(
            "the data folder {} is not a directory: choose another with --data-dir",
            folder.display()
        )));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|e| told("cannot be made", &e))?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("node.lock"))
        .map_err(|e| told("cannot be written to", &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError(format!(
            "the data folder {} is used by another running node: stop it, or choose another with --data-dir",
            folder.display()
        ))),
        Err(TryLockError::Error(error)) => Err(told("cannot be locked", &error)),
    }
}

/// Opens a database, checks that it is whole and ours, and brings its tables up to date.
pub(super) fn database(
    path: &Path,
    migrations: &Migrations<'_>,
    synchronous: &str,
) -> Result<Connection, StoreError> {
    let told = |error: rusqlite::Error| explain(path, &error);
    let mut connection = Connection::open(path).map_err(told)?;
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .map_err(told)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(told)?;
    connection
        .pragma_update(None, "synchronous", synchronous)
        .map_err(told)?;
    let whole: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(told)?;
    if whole != "ok" {
        return Err(corrupt(path, &whole));
    }
    let id: i32 = connection
        .query_row("PRAGMA application_id", [], |row| row.get(0))
        .map_err(told)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(told)?;
    if id != APPLICATION_ID && tables > 0 {
        return Err(StoreError(format!(
            "{} is a database of another program: choose another folder with --data-dir",
            path.display()
        )));
    }
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(told)?;
    if let Ok(SchemaVersion::Outside(_)) = migrations.current_version(&connection) {
        return Err(StoreError(format!(
            "{} was written by a newer Holdline: start that version, or choose another folder with --data-dir",
            path.display()
        )));
    }
    migrations.to_latest(&mut connection).map_err(|error| {
        StoreError(format!(
            "{} cannot be brought up to date: {error}",
            path.display()
        ))
    })?;
    Ok(connection)
}

/// Moves a database that cannot be read out of the way; its node can live without it.
pub(super) fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let aside = path.with_extension("sqlite.corrupt");
    fs::rename(path, &aside)?;
    for tail in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(tail);
        // Absent after a clean end.
        drop(fs::remove_file(PathBuf::from(beside)));
    }
    Ok(aside)
}

fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            corrupt(path, &error.to_string())
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError(format!(
                "{} cannot be opened for writing ({error}): make it writable, or choose another folder with --data-dir",
                path.display()
            ))
        }
        Some(ErrorCode::DiskFull) => StoreError(format!(
            "{} cannot be written, the disk is full: free some space",
            path.display()
        )),
        Some(_) | None => StoreError(format!("{} cannot be opened: {error}", path.display())),
    }
}

fn corrupt(path: &Path, detail: &str) -> StoreError {
    StoreError(format!(
        "{} is damaged ({detail}): move it away and start again; the node then gets its holds and edits from its peers",
        path.display()
    ))
}
