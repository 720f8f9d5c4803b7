//! Outbox for transactions of sqlx. The statements are those of every other outbox; this module only converts
//! parameters and rows for sqlx.

use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Error, InboxResult, Outbox, Result};
use rusqlite::types::Value;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Executor as _, Row as _, TypeInfo as _, ValueRef as _};
use tokio::sync::Mutex;

use crate::application_transaction;
use crate::driver::Driver;
use crate::error::{StorageError, StorageResult};
use crate::value::Param;

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
    driver: SqlxConnection<'a>,
}

impl<'a> SqliteSqlxOutbox<'a> {
    /// Creates an outbox in this transaction. A storage must have opened the file before, so that the tables
    /// exist.
    pub fn new(transaction: &'a mut SqliteConnection) -> Self {
        Self { driver: SqlxConnection(Mutex::new(transaction)) }
    }

    /// Settles an attempt in the transaction of the handler's own writes: the message is done when it commits.
    /// Fails when the lease is no longer the current one, so that the transaction is rolled back.
    pub async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        application_transaction::settle(&self.driver, settlement, now).await
    }

    /// Records in the transaction that a group processes a message.
    pub async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<InboxResult> {
        application_transaction::admit(&self.driver, group, message, now).await
    }
}

impl Outbox for SqliteSqlxOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        application_transaction::enqueue(&self.driver, &entries, now).await
    }
}

/// Connection of sqlx. Calls never overlap; the lock only provides mutability behind the shared reference.
#[derive(Debug)]
struct SqlxConnection<'a>(Mutex<&'a mut SqliteConnection>);

impl Driver for SqlxConnection<'_> {
    /// The text: sqlx keeps the prepared statements of a connection by their text.
    type Statement = String;

    fn prepare(&self, sql: &str) -> StorageResult<String> {
        Ok(sql.to_owned())
    }

    async fn execute(&self, sql: &mut String, params: &[Param<'_>]) -> StorageResult<usize> {
        let query = sqlx::query_with(AssertSqlSafe(sql.as_str()), arguments(params)?);
        let mut connection = self.0.lock().await;
        let done = connection.execute(query).await.map_err(from_sqlx)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    async fn query(
        &self,
        sql: &mut String,
        params: &[Param<'_>],
    ) -> StorageResult<Vec<Vec<Value>>> {
        let query = sqlx::query_with(AssertSqlSafe(sql.as_str()), arguments(params)?);
        let mut connection = self.0.lock().await;
        // All rows are fetched, so that the statement has ended.
        let rows = connection.fetch_all(query).await.map_err(from_sqlx)?;
        rows.iter().map(cells).collect()
    }
}

fn arguments(params: &[Param<'_>]) -> StorageResult<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    for param in params {
        let added = match param {
            Param::Null => arguments.add(None::<i64>),
            Param::Integer(number) => arguments.add(*number),
            Param::Text(text) => arguments.add(&**text),
            Param::Blob(bytes) => arguments.add(*bytes),
            Param::Id(bytes) => arguments.add(&bytes[..]),
        };
        added.map_err(|error| Error::internal(format!("a value does not fit: {error}")))?;
    }
    Ok(arguments)
}

/// Decodes a row, each column by the type of its value.
fn cells(row: &SqliteRow) -> StorageResult<Vec<Value>> {
    let cell = |column| {
        let value = row.try_get_raw(column)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        match value.type_info().name() {
            "TEXT" => row.try_get(column).map(Value::Text),
            "BLOB" => row.try_get(column).map(Value::Blob),
            _ => row.try_get(column).map(Value::Integer),
        }
    };
    (0..row.len()).map(|column| cell(column).map_err(from_sqlx)).collect()
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
