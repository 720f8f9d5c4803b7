//! One connection: statements prepared once where sessions last, and unnamed ones behind a pooler.
//! It also knows whether a transaction is open, so that nobody else ever finds it half way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::failure::Failure;
use crate::statements::Sql;
use crate::value::Param;

/// A connection of the pool, or one that somebody else has opened a transaction on.
pub(crate) struct Session<'a> {
    client: Whose<'a>,
    prepared: Mutex<Vec<Option<Statement>>>,
    /// Shared by all connections: once a pooler was noticed, no statement is named any more.
    unnamed: Arc<AtomicBool>,
    open: bool,
}

enum Whose<'a> {
    Ours(Box<Client>),
    Theirs(&'a Client),
}

impl<'a> Session<'a> {
    pub(crate) fn new(client: Client, unnamed: Arc<AtomicBool>) -> Self {
        let client = Whose::Ours(Box::new(client));
        Self { client, prepared: Mutex::default(), unnamed, open: false }
    }

    /// The connection of an application with a transaction of its own; nothing is left behind on it.
    pub(crate) fn within(client: &'a Client) -> Self {
        let unnamed = Arc::new(AtomicBool::new(true));
        Self { client: Whose::Theirs(client), prepared: Mutex::default(), unnamed, open: false }
    }

    pub(crate) fn client(&self) -> &Client {
        match &self.client {
            Whose::Ours(client) => client,
            Whose::Theirs(client) => client,
        }
    }

    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.load(Ordering::Relaxed)
    }

    /// Whether a transaction is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        self.open = true;
        Ok(self.client().batch_execute("BEGIN").await?)
    }

    /// Begins a transaction by statements that do so.
    pub(crate) async fn begin_with(&mut self, text: &str) -> Result<(), Failure> {
        self.open = true;
        Ok(self.client().batch_execute(text).await?)
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Failure> {
        self.client().batch_execute("COMMIT").await?;
        self.open = false;
        Ok(())
    }

    pub(crate) async fn roll_back(&mut self) -> Result<(), Failure> {
        self.client().batch_execute("ROLLBACK").await?;
        self.open = false;
        Ok(())
    }

    /// Runs one of the statements and answers its rows.
    pub(crate) async fn query(&self, sql: &Sql, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        if self.is_unnamed() {
            return Ok(self.client().query_typed(&sql.text, params).await?);
        }
        let statement = self.statement(sql, params).await?;
        Ok(self.client().query(&statement, &values(params)).await?)
    }

    /// Runs one of the statements and answers how many rows it touched.
    pub(crate) async fn execute(&self, sql: &Sql, params: &[Param<'_>]) -> Result<u64, Failure> {
        if self.is_unnamed() {
            return Ok(self.client().execute_typed(&sql.text, params).await?);
        }
        let statement = self.statement(sql, params).await?;
        Ok(self.client().execute(&statement, &values(params)).await?)
    }

    /// Runs a statement that is put together each time.
    pub(crate) async fn ask(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        Ok(self.client().query_typed(text, params).await?)
    }

    /// Runs a statement that is put together each time; answers how many rows it touched.
    pub(crate) async fn tell(&self, text: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
        Ok(self.client().execute_typed(text, params).await?)
    }

    async fn statement(&self, sql: &Sql, params: &[Param<'_>]) -> Result<Statement, Failure> {
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
