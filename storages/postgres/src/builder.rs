//! Builder of a storage: the address of the database and the options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::model::{IdSource as _, Ids};
use punctual::{Clock, Error, Result, SystemClock};

use crate::PostgresStorage;
use crate::address::Address;
use crate::inner::Inner;
use crate::migrate::{self, Schema};
use crate::pool::{Pool, PoolOptions};

/// Default of the schema.
const SCHEMA: &str = "punctual";
/// Default of the number of connections, besides that of the listener.
const POOL_SIZE: usize = 8;
/// Default time limit of a statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Mode of prepared statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatementPreparation {
    /// Statements are prepared by name until a pooler in transaction mode is detected, and unnamed from then
    /// on.
    #[default]
    Auto,
    /// Statements are always prepared by name: there is no pooler, or it keeps a session for each client.
    Named,
    /// Statements are never prepared by name: a pooler gives each transaction another session.
    Unnamed,
}

/// Options of a [`PostgresStorage`]; created by [`PostgresStorage::builder`].
#[must_use]
pub struct PostgresBuilder {
    url: String,
    listener_url: Option<String>,
    schema: String,
    pool_size: usize,
    statement_timeout: Duration,
    prepared: StatementPreparation,
    clock: Arc<dyn Clock>,
}

impl PostgresBuilder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            listener_url: None,
            schema: SCHEMA.to_owned(),
            pool_size: POOL_SIZE,
            statement_timeout: STATEMENT_TIMEOUT,
            prepared: StatementPreparation::Auto,
            clock: Arc::new(SystemClock),
        }
    }

    /// Sets the schema of the tables; default `punctual`. It is created when it does not exist.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the maximum number of connections; default 8. The listener has one more.
    pub fn pool_size(mut self, count: usize) -> Self {
        self.pool_size = count;
        self
    }

    /// Sets the time limit of a statement; default 30 seconds.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Sets whether statements are prepared by name; detected by default.
    pub fn prepared(mut self, prepared: StatementPreparation) -> Self {
        self.prepared = prepared;
        self
    }

    /// Sets the address for the listener, when the usual address leads to a pooler that does not keep sessions.
    pub fn listener_url(mut self, url: impl Into<String>) -> Self {
        self.listener_url = Some(url.into());
        self
    }

    /// Sets the clock for waiting and for timeouts; default is the system's. Due times and ends of leases are
    /// compared with the clock of the database.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Connects, and creates or migrates the tables.
    pub async fn connect(self) -> Result<PostgresStorage> {
        let storage = self.build()?;
        storage.inner.prepare().await?;
        storage.listen();
        Ok(storage)
    }

    /// Creates a storage without connecting: calls fail as unavailable until the database can be reached. Must
    /// be called within a tokio runtime.
    pub fn connect_lazy(self) -> Result<PostgresStorage> {
        let storage = self.build()?;
        storage.listen();
        Ok(storage)
    }

    /// Returns the SQL that creates the tables, to be run by a role with the right to do so.
    pub fn migration_sql(&self) -> Result<String> {
        Ok(migrate::sql(&Schema::new(&self.schema)?))
    }

    /// Returns a warning for an address that leads to another machine and has no `sslmode`.
    pub fn tls_warning(&self) -> Option<String> {
        Address::parse(&self.url).ok()?.warning()
    }

    fn build(self) -> Result<PostgresStorage> {
        if self.pool_size == 0 || self.pool_size > 1_000 {
            return Err(Error::invalid(format!(
                "pool_size {} is out of range, use 1 to 1000",
                self.pool_size
            )));
        }
        let schema = Schema::new(&self.schema)?;
        let address = Address::parse(&self.url)?;
        if let Some(warning) = address.warning() {
            tracing::warn!("{warning}");
        }
        let listener = self.listener_url.as_deref().map(Address::parse).transpose()?;
        let pool = Pool::new(PoolOptions {
            address: address.clone(),
            clock: Arc::clone(&self.clock),
            size: self.pool_size,
            statement_timeout: self.statement_timeout,
            unnamed: match self.prepared {
                StatementPreparation::Auto => None,
                StatementPreparation::Named => Some(false),
                StatementPreparation::Unnamed => Some(true),
            },
        })?;
        // Distinguishes our own notifications from those of other processes.
        let (_, sender) = Ids::random().next(self.clock.now()).as_u64_pair();
        let inner = Arc::new(Inner::new(Arc::new(pool), self.clock, schema, sender));
        Ok(PostgresStorage::from_inner(inner, listener.unwrap_or(address)))
    }
}

impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBuilder")
            .field("schema", &self.schema)
            .field("pool_size", &self.pool_size)
            .field("statement_timeout", &self.statement_timeout)
            .field("prepared", &self.prepared)
            .finish_non_exhaustive()
    }
}
