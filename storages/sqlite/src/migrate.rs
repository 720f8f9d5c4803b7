//! Migrations: the tables and their versions. Each version is a numbered file that is never edited after its
//! release. Only names that begin with `punctual_` are used, so an application may keep its own tables in the
//! same file.

use punctual::Error;
use punctual_columns::instant::micros;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::builder::Settings;
use crate::busy_timeout::retry_while_busy;
use crate::error::{StorageError, StorageResult};

/// Step from one version to the next.
struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; 6] = [
    Migration { version: 1, name: "tables", sql: include_str!("../migrations/0001_tables.sql") },
    Migration { version: 2, name: "views", sql: include_str!("../migrations/0002_views.sql") },
    Migration {
        version: 3,
        name: "documents",
        sql: include_str!("../migrations/0003_documents.sql"),
    },
    Migration { version: 4, name: "lists", sql: include_str!("../migrations/0004_lists.sql") },
    Migration { version: 5, name: "rates", sql: include_str!("../migrations/0005_rates.sql") },
    Migration {
        version: 6,
        name: "views of jobs",
        sql: include_str!("../migrations/0006_job_views.sql"),
    },
];

/// Version of the tables that this code works with.
pub(crate) const VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS punctual_migration (
    version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT";

/// Migrates the tables to the current version, all steps or none. A second process finds them migrated.
pub(crate) fn migrate(connection: &mut Connection, settings: &Settings) -> StorageResult<()> {
    let found = retry_while_busy(settings.timeout, || check(connection, settings))?;
    if found == VERSION {
        return Ok(());
    }
    retry_while_busy(settings.timeout, || apply(connection, settings))
}

/// Returns the version of a file; 0 without tables of Punctual.
pub(crate) fn version(connection: &Connection) -> StorageResult<i64> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'punctual_migration'";
    if connection.query_row(exists, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(version), 0) FROM punctual_migration";
    Ok(connection.query_row(newest, [], |row| row.get(0))?)
}

fn check(connection: &Connection, settings: &Settings) -> StorageResult<i64> {
    let found = version(connection)?;
    if found > VERSION {
        return Err(StorageError::Mapped(Error::conflict(format!(
            "the tables in {} have version {found} and this program supports up to version {VERSION}; a newer \
             Punctual has migrated it: update this program, or use another file",
            settings.path.display()
        ))));
    }
    Ok(found)
}

fn apply(connection: &mut Connection, settings: &Settings) -> StorageResult<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = check(&transaction, settings)?;
    transaction.execute_batch(CREATE)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        transaction.execute_batch(migration.sql)?;
        let row = params![migration.version, migration.name, micros(settings.clock.now())];
        let insert = "INSERT INTO punctual_migration (version, name, applied_at) VALUES (?, ?, ?)";
        transaction.execute(insert, row)?;
    }
    transaction.commit()?;
    Ok(())
}
