//! How a storage is made: where the database is, and the few things that can be set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::model::{IdSource as _, Ids};
use punctual::{Clock, Error, Result, SystemClock};

use crate::PostgresStorage;
use crate::address::Address;
use crate::inner::Inner;
use crate::migrate::{self, Schema};
use crate::pool::{Making, Pool};

/// The schema unless said otherwise.
const SCHEMA: &str = "punctual";
/// How many connections a process has at most, beside the one that listens.
const POOL_SIZE: usize = 8;
/// How long one statement may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether statements are prepared under a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prepared {
    /// They are, until a pooler in transaction mode shows itself; from then on they are not.
    #[default]
    Auto,
    /// Always: there is no pooler, or it keeps a session for each of its clients.
    Named,
    /// Never: there is a pooler that gives each transaction another session.
    Unnamed,
}

/// What can be set about a [`PostgresStorage`]; made by [`PostgresStorage::builder`].
#[must_use]
pub struct PostgresBuilder {
    url: String,
    listener_url: Option<String>,
    schema: String,
    pool_size: usize,
    statement_timeout: Duration,
    prepared: Prepared,
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
            prepared: Prepared::Auto,
            clock: Arc::new(SystemClock),
        }
    }

    /// The schema of the tables; "punctual" unless said otherwise. It is made when it is not there.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// The most connections; 8 unless said otherwise. One more listens.
    pub fn pool_size(mut self, count: usize) -> Self {
        self.pool_size = count;
        self
    }

    /// How long one statement may take before it is given up; 30 seconds unless said otherwise.
    pub fn statement_timeout(mut self, length: Duration) -> Self {
        self.statement_timeout = length;
        self
    }

    /// Whether statements are prepared under a name; found out unless said otherwise.
    pub fn prepared(mut self, prepared: Prepared) -> Self {
        self.prepared = prepared;
        self
    }

    /// The address for the connection that listens, when the usual one leads to a pooler that does not
    /// keep sessions.
    pub fn listener_url(mut self, url: impl Into<String>) -> Self {
        self.listener_url = Some(url.into());
        self
    }

    /// The clock for waiting and for timeouts. What is due and whose lease has ended is judged by the
    /// database's own time.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Connects, and makes or brings up to date what has to be there.
    pub async fn connect(self) -> Result<PostgresStorage> {
        let storage = self.build()?;
        storage.inner.prepare().await?;
        storage.listen();
        Ok(storage)
    }

    /// Gives a storage at once, also when the database is not there: every call is answered as
    /// unavailable until it is. Must be called within a tokio runtime.
    pub fn connect_lazy(self) -> Result<PostgresStorage> {
        let storage = self.build()?;
        storage.listen();
        Ok(storage)
    }

    /// The SQL that makes the tables, for who has the right to run it.
    pub fn migration_sql(&self) -> Result<String> {
        Ok(migrate::sql(&Schema::new(&self.schema)?))
    }

    /// Returns what is wrong with an address that leads to another machine and says nothing of TLS.
    pub fn tls_warning(&self) -> Option<String> {
        Address::parse(&self.url).ok()?.warning()
    }

    fn build(self) -> Result<PostgresStorage> {
        if self.pool_size == 0 || self.pool_size > 1_000 {
            return Err(Error::invalid(format!(
                "pool_size {} must be from 1 to 1000",
                self.pool_size
            )));
        }
        let schema = Schema::new(&self.schema)?;
        let address = Address::parse(&self.url)?;
        if let Some(warning) = address.warning() {
            tracing::warn!("{warning}");
        }
        let listener = self.listener_url.as_deref().map(Address::parse).transpose()?;
        let pool = Pool::new(Making {
            address: address.clone(),
            clock: Arc::clone(&self.clock),
            size: self.pool_size,
            statement_timeout: self.statement_timeout,
            unnamed: match self.prepared {
                Prepared::Auto => None,
                Prepared::Named => Some(false),
                Prepared::Unnamed => Some(true),
            },
        })?;
        // Tells our own notifications from those of others.
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
