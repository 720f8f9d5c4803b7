//! What a doctor looks at: whether the file is sound, how it stands, and what is odd about it.

use std::fs;

use punctual::Result;
use rusqlite::Connection;

use crate::fault::Tried;
use crate::migrate::{VERSION, version};
use crate::sqlite_storage::SqliteStorage;

/// How many damages are listed at most.
const DAMAGES_MAX: u32 = 20;
/// A journal beyond this many bytes is worth a word.
const JOURNAL_ODD: u64 = 256 << 20;
/// Free pages beyond this share of the file are worth a word.
const FREE_ODD: u64 = 2;

/// How a file stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is wrong or odd, in sentences; empty when all is well.
    pub findings: Vec<String>,
    /// Whether the file itself is sound; none when nobody looked.
    pub sound: Option<bool>,
    /// The version of the tables.
    pub schema_version: i64,
    /// The version this program works with.
    pub schema_known: i64,
    /// The journal mode; `wal` when all is well.
    pub journal_mode: String,
    /// How many pages the file has.
    pub pages: u64,
    /// How many of them are free to be used again.
    pub pages_free: u64,
    /// How many bytes a page has.
    pub page_length: u64,
    /// How many bytes wait in the journal to be copied into the file.
    pub journal_length: u64,
    /// Whether somebody else holds the write lock right now.
    pub is_locked: bool,
}

impl SqliteStorage {
    /// Looks at the whole file, which takes as long as reading it. Changes nothing.
    pub async fn check(&self) -> Result<Check> {
        self.look(true).await
    }

    /// Looks at how the file stands and not at what is in it, which takes a moment however large it is.
    pub async fn glance(&self) -> Result<Check> {
        self.look(false).await
    }

    async fn look(&self, at_all: bool) -> Result<Check> {
        let journal = fs::metadata(self.settings.wal_path()).map_or(0, |journal| journal.len());
        let path = self.settings.path.clone();
        let found = self.readers.read_together(move |held| look(held, at_all)).await?;
        let is_locked = self.readers.read(move |_| is_locked(&path)).await?;
        let mut check = Check { journal_length: journal, is_locked, ..found };
        judge(&mut check);
        Ok(check)
    }
}

fn look(connection: &Connection, at_all: bool) -> Tried<Check> {
    let (mut sound, mut findings) = (None, Vec::new());
    if at_all {
        findings = damages(connection)?;
        sound = Some(findings.is_empty());
        findings.extend(miscounts(connection)?);
    }
    let number = |pragma: &str| -> Tried<u64> {
        let value: i64 = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
        Ok(u64::try_from(value).unwrap_or(0))
    };
    Ok(Check {
        sound,
        findings,
        schema_version: version(connection)?,
        schema_known: VERSION,
        journal_mode: connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?,
        pages: number("page_count")?,
        pages_free: number("freelist_count")?,
        page_length: number("page_size")?,
        journal_length: 0,
        is_locked: false,
    })
}

fn damages(connection: &Connection) -> Tried<Vec<String>> {
    let sql = format!("PRAGMA integrity_check({DAMAGES_MAX})");
    let mut statement = connection.prepare(&sql)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: rusqlite::Result<Vec<String>> = lines.collect();
    let damages = lines?.into_iter().filter(|line| line != "ok");
    Ok(damages.map(|line| format!("the file is damaged: {line}")).collect())
}

/// Queues whose counts are not those of their messages, as after an edit by hand.
fn miscounts(connection: &Connection) -> Tried<Vec<String>> {
    let mut statement = connection.prepare(include_str!("check/miscounts.sql"))?;
    let odd = statement.query_map([], |row| {
        let (queue, counted, there): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(format!(
            "the queue {queue:?} is said to have {counted} messages in a state in which it has {there}; \
             were rows changed by hand?"
        ))
    })?;
    let odd: rusqlite::Result<Vec<String>> = odd.take(DAMAGES_MAX as usize).collect();
    Ok(odd?)
}

/// Whether a write would have to wait, found out by beginning one that does nothing.
fn is_locked(path: &std::path::Path) -> Tried<bool> {
    let connection =
        Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    match connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
        Ok(()) => Ok(false),
        Err(error) => {
            let fault = crate::fault::Fault::from(error);
            if fault.is_busy() { Ok(true) } else { Err(fault) }
        }
    }
}

fn judge(check: &mut Check) {
    if check.schema_version != check.schema_known {
        check.findings.push(format!(
            "the tables have version {} and this program knows version {}; update it",
            check.schema_version, check.schema_known
        ));
    }
    if check.journal_mode != "wal" {
        let mode = &check.journal_mode;
        check.findings.push(format!("the journal mode is {mode:?} and should be \"wal\""));
    }
    if check.journal_length > JOURNAL_ODD {
        check.findings.push(format!(
            "{} MiB wait in the journal; somebody reads for so long that they cannot be copied into the file",
            check.journal_length >> 20
        ));
    }
    if check.pages_free > 1_000 && check.pages_free > check.pages / FREE_ODD {
        check.findings.push(format!(
            "{} of {} pages are free; VACUUM would give the room back to the disk",
            check.pages_free, check.pages
        ));
    }
}
