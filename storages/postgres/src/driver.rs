//! What the statements of a transaction need of a driver, so that they are written once: for our own
//! connections, for those of an application, and for those of sqlx.

use std::future::Future;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::failure::Failure;
use crate::session::Session;
use crate::statements::Sql;
use crate::value::Param;

/// Something that runs statements.
pub(crate) trait Driver: Sync {
    /// What it answers with.
    type Row: Cells + Send + Sync;

    /// Runs one of the statements and answers its rows.
    fn query(
        &self,
        sql: &Sql,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, Failure>> + Send;

    /// Runs one of the statements and answers how many rows it touched.
    fn execute(
        &self,
        sql: &Sql,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// Runs a statement that is put together each time.
    fn ask(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, Failure>> + Send;

    /// Runs a statement that is put together each time; answers how many rows it touched.
    fn tell(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// A row whose columns can be read.
pub(crate) trait Cells {
    /// The column at a place.
    fn cell<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T, Failure>;

    /// The column with a name.
    fn named<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T, Failure>;
}

impl Cells for Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T, Failure> {
        Ok(self.try_get(at)?)
    }

    fn named<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T, Failure> {
        Ok(self.try_get(name)?)
    }
}

impl Driver for Session<'_> {
    type Row = Row;

    async fn query(&self, sql: &Sql, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        Session::query(self, sql, params).await
    }

    async fn execute(&self, sql: &Sql, params: &[Param<'_>]) -> Result<u64, Failure> {
        Session::execute(self, sql, params).await
    }

    async fn ask(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        Session::ask(self, text, params).await
    }

    async fn tell(&self, text: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
        Session::tell(self, text, params).await
    }
}
