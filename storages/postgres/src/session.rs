//! Session: one connection, with named prepared statements where sessions last and unnamed ones behind a
//! pooler. It knows whether a transaction is open, so that no other call gets a connection with an unfinished
//! one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::error::StorageError;
use crate::statements::Sql;
use crate::value::Param;

/// Connection of the pool, or one on which the application has opened a transaction.
pub(crate) struct Session<'a> {
    client: ClientRef<'a>,
    prepared: Mutex<Vec<Option<Statement>>>,
    /// Shared by all connections: once a pooler is detected, no statement is named any more.
    unnamed: Arc<AtomicBool>,
    open: bool,
}

enum ClientRef<'a> {
    Owned(Box<Client>),
    Borrowed(&'a Client),
}

impl<'a> Session<'a> {
    pub(crate) fn new(client: Client, unnamed: Arc<AtomicBool>) -> Self {
        let client = ClientRef::Owned(Box::new(client));
        Self { client, prepared: Mutex::default(), unnamed, open: false }
    }

    /// Wraps the connection of an application with an open transaction; leaves no prepared statement behind.
    pub(crate) fn within(client: &'a Client) -> Self {
        let unnamed = Arc::new(AtomicBool::new(true));
        Self {
            client: ClientRef::Borrowed(client),
            prepared: Mutex::default(),
            unnamed,
            open: false,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        match &self.client {
            ClientRef::Owned(client) => client,
            ClientRef::Borrowed(client) => client,
        }
    }

    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.load(Ordering::Relaxed)
    }

    /// Returns whether a transaction is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) async fn begin(&mut self) -> Result<(), StorageError> {
        self.open = true;
        Ok(self.client().batch_execute("BEGIN").await?)
    }

    /// Begins a transaction with a given text.
    pub(crate) async fn begin_with(&mut self, text: &str) -> Result<(), StorageError> {
        self.open = true;
        Ok(self.client().batch_execute(text).await?)
    }

    pub(crate) async fn commit(&mut self) -> Result<(), StorageError> {
        self.client().batch_execute("COMMIT").await?;
        self.open = false;
        Ok(())
    }

    pub(crate) async fn roll_back(&mut self) -> Result<(), StorageError> {
        self.client().batch_execute("ROLLBACK").await?;
        self.open = false;
        Ok(())
    }

    /// Runs one of the named statements and returns its rows.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StorageError> {
        if self.is_unnamed() {
            return Ok(self.client().query_typed(&sql.text, params).await?);
        }
        let statement = self.statement(sql, params).await?;
        Ok(self.client().query(&statement, &values(params)).await?)
    }

    /// Runs one of the named statements and returns the number of affected rows.
    pub(crate) async fn execute(
        &self,
        sql: &Sql,
        params: &[Param<'_>],
    ) -> Result<u64, StorageError> {
        if self.is_unnamed() {
            return Ok(self.client().execute_typed(&sql.text, params).await?);
        }
        let statement = self.statement(sql, params).await?;
        Ok(self.client().execute(&statement, &values(params)).await?)
    }

    /// Runs a statement with ad hoc text and returns its rows.
    pub(crate) async fn query_text(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StorageError> {
        Ok(self.client().query_typed(text, params).await?)
    }

    /// Runs a statement with ad hoc text and returns the number of affected rows.
    pub(crate) async fn execute_text(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<u64, StorageError> {
        Ok(self.client().execute_typed(text, params).await?)
    }

    async fn statement(&self, sql: &Sql, params: &[Param<'_>]) -> Result<Statement, StorageError> {
        let known = {
            let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            prepared.get(sql.number).cloned().flatten()
        };
        if let Some(statement) = known {
            return Ok(statement);
        }
        let types: Vec<Type> = params.iter().map(|(_, of)| of.clone()).collect();
        let statement = self.client().prepare_typed(&sql.text, &types).await?;
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if prepared.len() <= sql.number {
            prepared.resize(sql.number + 1, None);
        }
        prepared[sql.number] = Some(statement.clone());
        Ok(statement)
    }
}

fn values<'a>(params: &[Param<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|(value, _)| *value).collect()
}
