//! Driver: the operations that the statements of a transaction need, so that they are written once for our own
//! connections, for those of an application with tokio-postgres, and for those of sqlx.

use std::future::Future;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::StorageError;
use crate::session::Session;
use crate::statements::Sql;
use crate::value::Param;

/// Connection that runs statements.
pub(crate) trait Driver: Sync {
    /// Row that a statement returns.
    type Row: Cells + Send + Sync;

    /// Runs one of the named statements and returns its rows.
    fn query(
        &self,
        sql: &Sql,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, StorageError>> + Send;

    /// Runs one of the named statements and returns the number of affected rows.
    fn execute(
        &self,
        sql: &Sql,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64, StorageError>> + Send;

    /// Runs a statement with ad hoc text and returns its rows.
    fn query_text(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, StorageError>> + Send;

    /// Runs a statement with ad hoc text and returns the number of affected rows.
    fn execute_text(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64, StorageError>> + Send;
}

/// Row whose columns can be decoded.
pub(crate) trait Cells {
    /// Decodes the column at a position.
    fn cell<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T, StorageError>;

    /// Decodes the column with a name.
    fn named<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T, StorageError>;
}

impl Cells for Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T, StorageError> {
        Ok(self.try_get(at)?)
    }

    fn named<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T, StorageError> {
        Ok(self.try_get(name)?)
    }
}

impl Driver for Session<'_> {
    type Row = Row;

    async fn query(&self, sql: &Sql, params: &[Param<'_>]) -> Result<Vec<Row>, StorageError> {
        Session::query(self, sql, params).await
    }

    async fn execute(&self, sql: &Sql, params: &[Param<'_>]) -> Result<u64, StorageError> {
        Session::execute(self, sql, params).await
    }

    async fn query_text(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StorageError> {
        Session::query_text(self, text, params).await
    }

    async fn execute_text(&self, text: &str, params: &[Param<'_>]) -> Result<u64, StorageError> {
        Session::execute_text(self, text, params).await
    }
}
