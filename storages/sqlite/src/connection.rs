//! Connections to the file and their settings. Only the writer's connection can write.

use std::path::Path;
use std::time::Duration;

use punctual::{Error, ErrorKind};
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::builder::{Durability, Settings};
use crate::busy_timeout::retry_while_busy;
use crate::error::{StorageError, StorageResult};
use crate::migrate::migrate;
use crate::transaction::deny_transaction_control;

/// Capacity of the cache of prepared statements: enough for all.
const STATEMENTS_MAX: usize = 128;
/// Pages after which the writer copies its journal back into the file: 16 MiB.
const CHECKPOINT_PAGES: u32 = 4_000;
/// Size in bytes to which the journal is truncated when it restarts.
const JOURNAL_BYTES_MAX: u32 = 64 << 20;
/// Kilobytes of pages that each connection caches.
const CACHE_KILOBYTES: u32 = 16 << 10;

/// Opens the connection that writes, and creates or migrates the tables.
pub(crate) fn open_writer(settings: &Settings) -> StorageResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    create_for_owner(&settings.path);
    let mut connection = Connection::open_with_flags(&settings.path, flags)?;
    // The crate waits itself; see `busy_timeout.rs`.
    connection.busy_timeout(Duration::ZERO)?;
    retry_while_busy(settings.timeout, || use_wal(&connection, settings))?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(read_only(settings));
    }
    connection.pragma_update(None, "synchronous", settings.durability.pragma())?;
    // Needed where fsync does not reach the disk, as on macOS; has no effect on other systems.
    let flushes_fully = settings.durability == Durability::Full;
    connection.pragma_update(None, "fullfsync", flushes_fully)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES_MAX)?;
    if let Some(pages) = settings.pages_max {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    prepare(&connection)?;
    migrate(&mut connection, settings)?;
    deny_transaction_control(&connection)?;
    Ok(connection)
}

/// Creates the file so that only its owner may read it, if it does not exist yet: it contains message bodies,
/// hashes of passwords and secrets of jobs. SQLite gives the journal the same permissions.
#[cfg(unix)]
fn create_for_owner(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt as _;
    // An error is reported when the file is opened.
    let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// On other systems the folder determines who may read it.
#[cfg(not(unix))]
fn create_for_owner(_: &Path) {}

/// Opens a connection that only reads.
pub(crate) fn open_reader(settings: &Settings) -> StorageResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&settings.path, flags)?;
    connection.busy_timeout(settings.timeout)?;
    prepare(&connection)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> StorageResult<()> {
    connection.pragma_update(None, "cache_size", -i64::from(CACHE_KILOBYTES))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

/// Switches to a write-ahead log, which the file keeps.
fn use_wal(connection: &Connection, settings: &Settings) -> StorageResult<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    if connection.is_readonly(MAIN_DB)? {
        return Err(read_only(settings));
    }
    Err(StorageError::Mapped(Error::unsupported(format!(
        "{} does not support a write-ahead log (its journal mode stays {mode:?}); keep it on a local disk",
        settings.path.display()
    ))))
}

fn read_only(settings: &Settings) -> StorageError {
    let sentence = format!(
        "{} cannot be written to; make the file and its folder writable for this user",
        settings.path.display()
    );
    StorageError::Mapped(Error::new(ErrorKind::Unavailable, sentence))
}
