//! Driver: the operations that the statements of a transaction need, so that storing and settling are written
//! once for our own connections, for those of an application with rusqlite, and for those of sqlx.

use std::future::{Future, ready};
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use punctual::Error;
use rusqlite::types::{FromSql, Value, ValueRef};
use rusqlite::{CachedStatement, Connection, Row};

use crate::error::StorageResult;
use crate::value::Param;

/// Connection with an open transaction.
pub(crate) trait Driver {
    /// Statement that can be run many times.
    type Statement;

    /// Returns the path of the file, for errors.
    fn place(&self) -> &Path {
        Path::new("the database")
    }

    /// Prepares a statement.
    fn prepare(&self, sql: &str) -> StorageResult<Self::Statement>;

    /// Runs a statement and returns the number of affected rows.
    fn execute(
        &self,
        statement: &mut Self::Statement,
        params: &[Param<'_>],
    ) -> impl Future<Output = StorageResult<usize>>;

    /// Runs a statement and returns its rows.
    fn query(
        &self,
        statement: &mut Self::Statement,
        params: &[Param<'_>],
    ) -> impl Future<Output = StorageResult<Vec<Vec<Value>>>>;

    /// Prepares and runs a statement, and returns the number of affected rows.
    async fn run(&self, sql: &str, params: &[Param<'_>]) -> StorageResult<usize> {
        let mut statement = self.prepare(sql)?;
        self.execute(&mut statement, params).await
    }

    /// Prepares and runs a statement, and returns its rows.
    async fn rows(&self, sql: &str, params: &[Param<'_>]) -> StorageResult<Vec<Vec<Value>>> {
        let mut statement = self.prepare(sql)?;
        self.query(&mut statement, params).await
    }

    /// Prepares and runs a statement, and returns its only row.
    async fn row(&self, sql: &str, params: &[Param<'_>]) -> StorageResult<Option<Vec<Value>>> {
        Ok(self.rows(sql, params).await?.pop())
    }
}

impl<'a> Driver for &'a Connection {
    type Statement = CachedStatement<'a>;

    fn place(&self) -> &Path {
        Path::new(self.path().unwrap_or("the database"))
    }

    fn prepare(&self, sql: &str) -> StorageResult<CachedStatement<'a>> {
        Ok(self.prepare_cached(sql)?)
    }

    fn execute(
        &self,
        statement: &mut Self::Statement,
        params: &[Param<'_>],
    ) -> impl Future<Output = StorageResult<usize>> {
        ready(execute(statement, params))
    }

    fn query(
        &self,
        statement: &mut Self::Statement,
        params: &[Param<'_>],
    ) -> impl Future<Output = StorageResult<Vec<Vec<Value>>>> {
        ready(query(statement, params))
    }
}

fn bind(statement: &mut CachedStatement<'_>, params: &[Param<'_>]) -> StorageResult<()> {
    for (index, param) in params.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, param)?;
    }
    Ok(())
}

fn execute(statement: &mut CachedStatement<'_>, params: &[Param<'_>]) -> StorageResult<usize> {
    bind(statement, params)?;
    Ok(statement.raw_execute()?)
}

fn query(
    statement: &mut CachedStatement<'_>,
    params: &[Param<'_>],
) -> StorageResult<Vec<Vec<Value>>> {
    bind(statement, params)?;
    let columns = statement.column_count();
    let (mut found, mut rows) = (Vec::new(), statement.raw_query());
    while let Some(row) = rows.next()? {
        let cells = (0..columns).map(|column| row.get(column));
        found.push(cells.collect::<rusqlite::Result<Vec<Value>>>()?);
    }
    Ok(found)
}

/// Runs an operation on a [`Connection`], which never waits.
pub(crate) fn at_once<T, E: From<Error>>(
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match pin!(operation).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::internal("a statement of rusqlite waited").into()),
    }
}

/// Row whose columns can be decoded.
pub(crate) trait Cells {
    /// Returns the value of a column.
    fn cell(&self, column: usize) -> rusqlite::Result<ValueRef<'_>>;

    /// Decodes a column.
    fn get<T: FromSql>(&self, column: usize) -> rusqlite::Result<T> {
        Ok(T::column_result(self.cell(column)?)?)
    }
}

impl Cells for Row<'_> {
    fn cell(&self, column: usize) -> rusqlite::Result<ValueRef<'_>> {
        self.get_ref(column)
    }
}

impl Cells for Vec<Value> {
    fn cell(&self, column: usize) -> rusqlite::Result<ValueRef<'_>> {
        let value = self.as_slice().get(column);
        value.map(ValueRef::from).ok_or(rusqlite::Error::InvalidColumnIndex(column))
    }
}
