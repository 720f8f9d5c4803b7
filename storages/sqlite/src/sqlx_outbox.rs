//! Outbox for transactions of sqlx: the statements of the other outbox, run by another driver. Only the
//! decisions between the statements are repeated here, and tested against the results of the storage.

mod enqueue;
mod settle;

use std::path::Path;
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::storage::{EnqueueResult, Entry, Settlement};
use punctual::{Error, InboxResult, Outbox, Result};
use punctual_columns::instant::micros;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Executor as _, Row as _, Sqlite};

use crate::effects::{COUNT, Effects};
use crate::error::{StorageError, StorageResult};
use crate::inbox::ADMIT;
use crate::operations::{FORGET_WAITING, FREE_WAITING, end_of_time};

/// Outbox in a transaction of sqlx on the file of a storage.
///
/// Begin with `BEGIN IMMEDIATE` and set a busy timeout, so that the transaction waits for the write lock at its
/// beginning. The watcher of every storage on the file notices the commit.
///
/// ```
/// # async fn example(punctual: punctual::Punctual, pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// use punctual_sqlite::SqliteSqlxOutbox;
///
/// let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
/// sqlx::query("UPDATE orders SET paid = 1 WHERE id = 7").execute(&mut *transaction).await?;
/// let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
/// punctual.publisher().publish("order-paid", &7).in_tx(&mut outbox).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SqliteSqlxOutbox<'a> {
    driver: Driver<'a>,
}

impl<'a> SqliteSqlxOutbox<'a> {
    /// Creates an outbox in this transaction. A storage must have opened the file before, so that the tables
    /// exist.
    pub fn new(transaction: &'a mut SqliteConnection) -> Self {
        Self { driver: Driver(transaction) }
    }

    /// Settles an attempt in the transaction of the handler's own writes: the message is done when it commits.
    /// Fails when the lease is no longer the current one, so that the transaction is rolled back.
    pub async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        let message = settlement.lease.message;
        let settled = settle::settle(&mut self.driver, &settlement, now).await;
        settled.map_err(|error| map_error(&error, "settle"))?.or_roll_back(message)
    }

    /// Records in the transaction that a group processes a message.
    pub async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<InboxResult> {
        let insert = sqlx::query(ADMIT).bind(group).bind(blob(message)).bind(micros(now));
        let inserted =
            self.driver.execute(insert).await.map_err(|error| map_error(&error, "admit"))?;
        Ok(if inserted == 1 { InboxResult::First } else { InboxResult::Again })
    }
}

impl Outbox for SqliteSqlxOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        let stored = enqueue::enqueue(&mut self.driver, &entries, now).await;
        stored.map_err(|error| map_error(&error, "enqueue"))
    }
}

type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Connection of sqlx.
#[derive(Debug)]
struct Driver<'a>(&'a mut SqliteConnection);

impl Driver<'_> {
    /// Runs a statement and returns the number of affected rows.
    async fn execute(&mut self, statement: Statement<'_>) -> StorageResult<u64> {
        Ok(self.0.execute(statement).await.map_err(from_sqlx)?.rows_affected())
    }

    /// Runs a statement and returns its only row.
    async fn row(&mut self, statement: Statement<'_>) -> StorageResult<Option<SqliteRow>> {
        // All rows are fetched, so that the statement has ended.
        Ok(self.0.fetch_all(statement).await.map_err(from_sqlx)?.pop())
    }

    /// Makes messages due that waited for a batch that has ended, and writes the counts. Sends no notification:
    /// the watchers notice the commit.
    async fn conclude(&mut self, mut effects: Effects) -> StorageResult<()> {
        for batch in effects.take_batches() {
            let free = sqlx::query(FREE_WAITING).bind(batch.to_vec()).bind(end_of_time());
            self.row(free).await?;
            self.execute(sqlx::query(FORGET_WAITING).bind(batch.to_vec())).await?;
        }
        for (queue, state, count) in effects.counts() {
            let statement = sqlx::query(COUNT).bind(queue).bind(state).bind(count);
            self.execute(statement).await?;
        }
        Ok(())
    }
}

/// Decodes the batch of a column, if there is one.
fn batch(row: &SqliteRow, column: usize) -> StorageResult<Option<[u8; 16]>> {
    let bytes: Option<&[u8]> = row.try_get(column).map_err(from_sqlx)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
}

fn blob(id: MessageId) -> Vec<u8> {
    id.as_uuid().into_bytes().to_vec()
}

/// Maps an error of sqlx as the same error of SQLite would be.
fn from_sqlx(error: sqlx::Error) -> StorageError {
    let reason = error.as_database_error().and_then(|reason| {
        let code = reason.code()?.parse().ok()?;
        Some((rusqlite::ffi::Error::new(code), reason.message().to_owned()))
    });
    match reason {
        Some((code, text)) => {
            StorageError::Database(rusqlite::Error::SqliteFailure(code, Some(text)))
        }
        None => StorageError::Mapped(Error::unavailable(format!("the connection failed: {error}"))),
    }
}

fn map_error(error: &StorageError, operation: &'static str) -> Error {
    error.error_for_caller(Path::new("the database"), Duration::ZERO).during(operation)
}
