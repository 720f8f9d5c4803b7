//! Outbox for transactions of sqlx. The statements are those of every other outbox; this module only converts
//! parameters and rows for sqlx.

use bytes::BytesMut;
use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Error, ErrorKind, InboxResult, Outbox, Result};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnection, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{
    Arguments as _, AssertSqlSafe, Encode, Executor as _, Postgres, Row as _, ValueRef as _,
};
use tokio::sync::Mutex;
use tokio_postgres::types::{FromSql, IsNull as Null, Type};

use crate::PostgresStorage;
use crate::application_transaction::ApplicationTransaction;
use crate::driver::{Cells, Driver};
use crate::error::{self, StorageError};
use crate::statements::Sql;
use crate::value::Param;

/// Outbox in a transaction of sqlx.
///
/// ```no_run
/// # async fn example(punctual: punctual::Punctual, storage: punctual_postgres::PostgresStorage, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let mut transaction = pool.begin().await?;
/// sqlx::query("UPDATE orders SET paid = true WHERE id = 7").execute(&mut *transaction).await?;
/// let mut outbox = storage.sqlx_outbox(&mut transaction);
/// punctual.publisher().publish("order-paid", &7).in_tx(&mut outbox).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct PostgresSqlxOutbox<'a> {
    transaction: ApplicationTransaction<SqlxSession<'a>>,
}

impl PostgresStorage {
    /// Returns an outbox in a transaction of sqlx on the same database: pass `&mut transaction`, or a
    /// connection with an open transaction.
    pub fn sqlx_outbox<'a>(&self, transaction: &'a mut PgConnection) -> PostgresSqlxOutbox<'a> {
        PostgresSqlxOutbox {
            transaction: ApplicationTransaction::new(
                &self.inner,
                SqlxSession(Mutex::new(transaction)),
            ),
        }
    }
}

impl PostgresSqlxOutbox<'_> {
    /// Settles an attempt in the transaction of the handler's own writes: the message is done when it commits.
    /// Fails when the lease is no longer the current one, so that the transaction is rolled back.
    pub async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        self.transaction.settle(settlement, now).await
    }

    /// Records in the transaction that a group processes a message.
    pub async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<InboxResult> {
        self.transaction.admit(group, message, now).await
    }
}

impl Outbox for PostgresSqlxOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.transaction.enqueue(&entries, now).await
    }
}

impl std::fmt::Debug for PostgresSqlxOutbox<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresSqlxOutbox").finish_non_exhaustive()
    }
}

/// Connection of sqlx. Calls never overlap; the lock only provides mutability behind the shared reference.
struct SqlxSession<'a>(Mutex<&'a mut PgConnection>);

impl Driver for SqlxSession<'_> {
    type Row = PgRow;

    async fn query(&self, sql: &Sql, params: &[Param<'_>]) -> Result<Vec<PgRow>, StorageError> {
        self.query_text(&sql.text, params).await
    }

    async fn execute(&self, sql: &Sql, params: &[Param<'_>]) -> Result<u64, StorageError> {
        self.execute_text(&sql.text, params).await
    }

    async fn query_text(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<PgRow>, StorageError> {
        let query = sqlx::query_with(AssertSqlSafe(text), arguments(params)?);
        let mut connection = self.0.lock().await;
        connection.fetch_all(query).await.map_err(from_sqlx)
    }

    async fn execute_text(&self, text: &str, params: &[Param<'_>]) -> Result<u64, StorageError> {
        let query = sqlx::query_with(AssertSqlSafe(text), arguments(params)?);
        let mut connection = self.0.lock().await;
        Ok(connection.execute(query).await.map_err(from_sqlx)?.rows_affected())
    }
}

/// Parameter in the encoding of tokio-postgres.
struct Bound<'a>(&'a Param<'a>);

impl sqlx::Type<Postgres> for Bound<'_> {
    fn type_info() -> PgTypeInfo {
        // Every value has its own type; see `produces`.
        PgTypeInfo::with_oid(Oid(Type::UNKNOWN.oid()))
    }
}

impl Encode<'_, Postgres> for Bound<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let (value, of) = self.0;
        let mut bytes = BytesMut::new();
        Ok(match value.to_sql_checked(of, &mut bytes)? {
            Null::Yes => IsNull::Yes,
            Null::No => {
                buffer.extend_from_slice(&bytes);
                IsNull::No
            }
        })
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.0.1.oid())))
    }
}

fn arguments(params: &[Param<'_>]) -> Result<PgArguments, StorageError> {
    let mut arguments = PgArguments::default();
    for param in params {
        arguments
            .add(Bound(param))
            .map_err(|error| StorageError::Mapped(conversion_error(error)))?;
    }
    Ok(arguments)
}

impl Cells for PgRow {
    fn cell<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T, StorageError> {
        read(self.try_get_raw(at).map_err(from_sqlx)?)
    }

    fn named<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T, StorageError> {
        read(self.try_get_raw(name).map_err(from_sqlx)?)
    }
}

fn read<'a, T: FromSql<'a>>(value: PgValueRef<'a>) -> Result<T, StorageError> {
    let of = value.type_info().oid().and_then(|oid| Type::from_oid(oid.0)).unwrap_or(Type::UNKNOWN);
    let convert_error = |error: BoxDynError| StorageError::Mapped(conversion_error(error));
    if !T::accepts(&of) {
        return Err(convert_error(format!("a column is of the type {of}").into()));
    }
    if value.is_null() {
        return T::from_sql_null(&of).map_err(convert_error);
    }
    T::from_sql(&of, value.as_bytes().map_err(convert_error)?).map_err(convert_error)
}

fn conversion_error(error: BoxDynError) -> Error {
    Error::internal(format!("a value does not fit its column: {error}"))
}

fn from_sqlx(error: sqlx::Error) -> StorageError {
    let (kind, sentence) = match error.as_database_error() {
        Some(reason) => {
            error::classify(reason.code().as_deref().unwrap_or_default(), reason.message())
        }
        None => (ErrorKind::Unavailable, format!("the connection to PostgreSQL failed: {error}")),
    };
    StorageError::Mapped(Error::new(kind, sentence).caused_by(error))
}
