//! The outbox for transactions of sqlx: the statements of every other one, carried by another driver.
//! Only what is decided between them is said here once more, and tried against the storage's own answers.

mod entries;
mod settling;

use std::path::Path;
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::storage::{Enqueued, Entry, Settlement};
use punctual::{Admitted, Error, Outbox, Result};
use punctual_rows::instant::micros;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Executor as _, Row as _, Sqlite};

use crate::effects::{COUNT, Effects};
use crate::fault::{Fault, Tried};
use crate::inbox::ADMIT;
use crate::work::{FORGET_WAITING, FREE_WAITING, end_of_time};

/// A transaction of sqlx on the file of a storage, into which messages are put.
///
/// Begin with `BEGIN IMMEDIATE` and set a busy timeout, so that waiting for the writer happens where it
/// can. The watcher of every storage on the file hears the commit.
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
    /// Puts messages into this transaction. The file must be one a storage has opened before, so that
    /// its tables are there.
    pub fn new(transaction: &'a mut SqliteConnection) -> Self {
        Self { driver: Driver(transaction) }
    }

    /// Settles an attempt with the handler's own writes: with the commit the message is done. A lease
    /// that is no longer the current one is an error, so that the transaction is rolled back.
    pub async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        let message = settlement.lease.message;
        let settled = settling::settle(&mut self.driver, &settlement, now).await;
        settled.map_err(|fault| told(&fault, "settle"))?.or_roll_back(message)
    }

    /// Notes that a group deals with a message, with the handler's own writes.
    pub async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<Admitted> {
        let note = sqlx::query(ADMIT).bind(group).bind(blob(message)).bind(micros(now));
        let noted = self.driver.execute(note).await.map_err(|fault| told(&fault, "admit"))?;
        Ok(if noted == 1 { Admitted::First } else { Admitted::Again })
    }
}

impl Outbox for SqliteSqlxOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<Enqueued>> {
        let stored = entries::enqueue(&mut self.driver, &entries, now).await;
        stored.map_err(|fault| told(&fault, "enqueue"))
    }
}

type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// A connection of sqlx.
#[derive(Debug)]
struct Driver<'a>(&'a mut SqliteConnection);

impl Driver<'_> {
    /// Runs a statement; answers how many rows it touched.
    async fn execute(&mut self, statement: Statement<'_>) -> Tried<u64> {
        Ok(self.0.execute(statement).await.map_err(fault)?.rows_affected())
    }

    /// Runs a statement; answers its only row.
    async fn row(&mut self, statement: Statement<'_>) -> Tried<Option<SqliteRow>> {
        // All of them, so that the statement has ended.
        Ok(self.0.fetch_all(statement).await.map_err(fault)?.pop())
    }

    /// Makes due what waited for a batch that has ended, and writes what was counted. Nobody is rung for: the
    /// watchers hear the commit.
    async fn conclude(&mut self, mut effects: Effects) -> Tried<()> {
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

/// The batch in a column, if there is one.
fn batch(row: &SqliteRow, column: usize) -> Tried<Option<[u8; 16]>> {
    let bytes: Option<&[u8]> = row.try_get(column).map_err(fault)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
}

fn blob(id: MessageId) -> Vec<u8> {
    id.as_uuid().into_bytes().to_vec()
}

/// What SQLite said is what it would have said to us.
fn fault(error: sqlx::Error) -> Fault {
    let reason = error.as_database_error().and_then(|reason| {
        let code = reason.code()?.parse().ok()?;
        Some((rusqlite::ffi::Error::new(code), reason.message().to_owned()))
    });
    match reason {
        Some((code, words)) => Fault::Sqlite(rusqlite::Error::SqliteFailure(code, Some(words))),
        None => Fault::Refused(Error::unavailable(format!("the connection failed: {error}"))),
    }
}

fn told(fault: &Fault, operation: &'static str) -> Error {
    fault.told(Path::new("the database"), Duration::ZERO).during(operation)
}
