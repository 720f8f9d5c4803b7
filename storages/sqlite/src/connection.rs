//! Connections to the file and what they are set to. The writer's is the only one that writes.

use std::path::Path;
use std::time::Duration;

use punctual::{Error, ErrorKind};
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::fault::{Fault, Tried};
use crate::migrate::migrate;
use crate::patience::patiently;
use crate::settings::{Durability, Settings};
use crate::transaction::guard;

/// Every statement there is, prepared once.
const STATEMENTS_MAX: usize = 128;
/// Pages after which the writer copies its journal back into the file: 16 MiB.
const CHECKPOINT_PAGES: u32 = 4_000;
/// To how many bytes the journal is cut when it starts again.
const JOURNAL_LENGTH_MAX: u32 = 64 << 20;
/// Kilobytes of pages each connection keeps in memory.
const CACHE_KILOBYTES: u32 = 16 << 10;

/// The connection that writes, with every table in place.
pub(crate) fn open_writer(settings: &Settings) -> Tried<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    create_for_owner(&settings.path);
    let mut connection = Connection::open_with_flags(&settings.path, flags)?;
    // We wait ourselves; see `patience.rs`.
    connection.busy_timeout(Duration::ZERO)?;
    patiently(settings.patience, || use_wal(&connection, settings))?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(read_only(settings));
    }
    connection.pragma_update(None, "synchronous", settings.durability.pragma())?;
    // Where a flush does not reach the disk by itself, as on macOS; elsewhere it changes nothing.
    let flushes_fully = settings.durability == Durability::Full;
    connection.pragma_update(None, "fullfsync", flushes_fully)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_LENGTH_MAX)?;
    if let Some(pages) = settings.pages_max {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    prepare(&connection)?;
    migrate(&mut connection, settings)?;
    guard(&connection)?;
    Ok(connection)
}

/// Creates the file so that only its owner may read it, where it does not exist yet: it holds every body, hashes
/// of passwords and secrets of jobs. SQLite gives the journal beside it the same permissions.
#[cfg(unix)]
fn create_for_owner(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt as _;
    // What keeps it from being created is reported when it is opened.
    let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// Elsewhere the folder says who may read it.
#[cfg(not(unix))]
fn create_for_owner(_: &Path) {}

/// A connection that only reads.
pub(crate) fn open_reader(settings: &Settings) -> Tried<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&settings.path, flags)?;
    connection.busy_timeout(settings.patience)?;
    prepare(&connection)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> Tried<()> {
    connection.pragma_update(None, "cache_size", -i64::from(CACHE_KILOBYTES))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

/// Switches to a write-ahead log, which the file remembers.
fn use_wal(connection: &Connection, settings: &Settings) -> Tried<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    if connection.is_readonly(MAIN_DB)? {
        return Err(read_only(settings));
    }
    Err(Fault::Refused(Error::unsupported(format!(
        "{} cannot have a write-ahead log (its journal mode stays {mode:?}); keep it on a local disk",
        settings.path.display()
    ))))
}

fn read_only(settings: &Settings) -> Fault {
    let sentence = format!(
        "{} cannot be written to; make the file and its folder writable for this user",
        settings.path.display()
    );
    Fault::Refused(Error::new(ErrorKind::Unavailable, sentence))
}
