//! Check of the file: its integrity, its size and journal, and oddities.

use std::fs;

use punctual::Result;
use rusqlite::Connection;

use crate::error::StorageResult;
use crate::migrate::{VERSION, version};
use crate::storage::SqliteStorage;

/// Most damages that are listed.
const DAMAGES_MAX: u32 = 20;
/// Size of the journal in bytes above which a finding is reported.
const JOURNAL_BYTES_MAX: u64 = 256 << 20;
/// Divisor of the number of pages: more free pages than that are reported.
const FREE_PAGES_DIVISOR: u64 = 2;

/// State of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteCheck {
    /// Problems and oddities as sentences; empty when there are none.
    pub findings: Vec<String>,
    /// Whether the integrity check found no damage; none when it was not run.
    pub sound: Option<bool>,
    /// Version of the tables.
    pub schema_version: i64,
    /// Version of the tables that this program works with.
    pub schema_known: i64,
    /// Journal mode; must be `wal`.
    pub journal_mode: String,
    /// Number of pages of the file.
    pub pages: u64,
    /// Number of pages that are free to be used again.
    pub pages_free: u64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Bytes in the journal that are not yet copied into the file.
    pub journal_bytes: u64,
    /// Whether another process has the write lock.
    pub is_locked: bool,
}

impl SqliteStorage {
    /// Checks the whole file, which takes as long as reading it. Changes nothing.
    pub async fn check(&self) -> Result<SqliteCheck> {
        self.run_check(true).await
    }

    /// Checks the state of the file without its contents, which takes a moment for any size.
    pub async fn check_summary(&self) -> Result<SqliteCheck> {
        self.run_check(false).await
    }

    async fn run_check(&self, is_full: bool) -> Result<SqliteCheck> {
        let journal = fs::metadata(self.settings.wal_path()).map_or(0, |journal| journal.len());
        let path = self.settings.path.clone();
        let found =
            self.readers.read_together(move |connection| inspect_file(connection, is_full)).await?;
        let is_locked = self.readers.read(move |_| is_locked(&path)).await?;
        let mut check = SqliteCheck { journal_bytes: journal, is_locked, ..found };
        add_findings(&mut check);
        Ok(check)
    }
}

fn inspect_file(connection: &Connection, is_full: bool) -> StorageResult<SqliteCheck> {
    let (mut sound, mut findings) = (None, Vec::new());
    if is_full {
        findings = damages(connection)?;
        sound = Some(findings.is_empty());
        findings.extend(miscounts(connection)?);
    }
    let number = |pragma: &str| -> StorageResult<u64> {
        let value: i64 = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
        Ok(u64::try_from(value).unwrap_or(0))
    };
    Ok(SqliteCheck {
        sound,
        findings,
        schema_version: version(connection)?,
        schema_known: VERSION,
        journal_mode: connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?,
        pages: number("page_count")?,
        pages_free: number("freelist_count")?,
        page_bytes: number("page_size")?,
        journal_bytes: 0,
        is_locked: false,
    })
}

fn damages(connection: &Connection) -> StorageResult<Vec<String>> {
    let sql = format!("PRAGMA integrity_check({DAMAGES_MAX})");
    let mut statement = connection.prepare(&sql)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: rusqlite::Result<Vec<String>> = lines.collect();
    let damages = lines?.into_iter().filter(|line| line != "ok");
    Ok(damages.map(|line| format!("the file is damaged: {line}")).collect())
}

/// Returns the queues whose stored counts differ from their messages, as after a manual edit.
fn miscounts(connection: &Connection) -> StorageResult<Vec<String>> {
    let mut statement = connection.prepare(include_str!("check/miscounts.sql"))?;
    let odd = statement.query_map([], |row| {
        let (queue, counted, there): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(format!(
            "the queue {queue:?} has the count {counted} for a state in which it has {there} messages; \
             rows were probably changed by hand"
        ))
    })?;
    let odd: rusqlite::Result<Vec<String>> = odd.take(DAMAGES_MAX as usize).collect();
    Ok(odd?)
}

/// Returns whether a write would have to wait, by beginning a transaction that writes nothing.
fn is_locked(path: &std::path::Path) -> StorageResult<bool> {
    let connection =
        Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    match connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
        Ok(()) => Ok(false),
        Err(error) => {
            let error = crate::error::StorageError::from(error);
            if error.is_busy() { Ok(true) } else { Err(error) }
        }
    }
}

fn add_findings(check: &mut SqliteCheck) {
    if check.schema_version != check.schema_known {
        check.findings.push(format!(
            "the tables have version {} and this program supports version {}; update it",
            check.schema_version, check.schema_known
        ));
    }
    if check.journal_mode != "wal" {
        let mode = &check.journal_mode;
        check.findings.push(format!("the journal mode is {mode:?} and should be \"wal\""));
    }
    if check.journal_bytes > JOURNAL_BYTES_MAX {
        check.findings.push(format!(
            "the journal has {} MiB; a long read transaction keeps them from being copied into the file, end it",
            check.journal_bytes >> 20
        ));
    }
    if check.pages_free > 1_000 && check.pages_free > check.pages / FREE_PAGES_DIVISOR {
        check.findings.push(format!(
            "{} of {} pages are free; run VACUUM to give the space back to the disk",
            check.pages_free, check.pages
        ));
    }
}
