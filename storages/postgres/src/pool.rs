//! Connection pool: connections are opened on demand up to a limit, returned when a call ended cleanly, and
//! closed when it did not. Waiting for one is bounded.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::{Clock, Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Address;
use crate::error::from_connect;
use crate::session::Session;
use crate::tls;

/// Oldest server version that supports every statement.
const VERSION_MIN: u32 = 13;

/// Settings of new connections, and the idle connections.
pub(crate) struct Pool {
    pub(crate) address: Address,
    connector: MakeRustlsConnect,
    clock: Arc<dyn Clock>,
    settings: String,
    /// Whether the server accepts settings at the start of a session; a pooler does not.
    takes_settings: AtomicBool,
    pub(crate) unnamed: Arc<AtomicBool>,
    pub(crate) is_auto: bool,
    free: Mutex<Vec<Session<'static>>>,
    permits: Arc<Semaphore>,
    /// Permits for the transactions of handlers, which keep a connection for as long as they run.
    handler_permits: Arc<Semaphore>,
    size: u32,
    timeout: Duration,
}

/// Opened connection: its client, and the part that has to be polled.
pub(crate) type OpenedConnection = (
    Client,
    Connection<Socket, <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream>,
);

/// Options of a pool.
pub(crate) struct PoolOptions {
    pub(crate) address: Address,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) size: usize,
    pub(crate) statement_timeout: Duration,
    /// None to detect it.
    pub(crate) unnamed: Option<bool>,
}

impl Pool {
    pub(crate) fn new(options: PoolOptions) -> Result<Self> {
        let statement_timeout = options.statement_timeout;
        Ok(Self {
            connector: tls::connector(&options.address.trust)?,
            address: options.address,
            clock: options.clock,
            settings: settings(statement_timeout),
            takes_settings: AtomicBool::new(options.unnamed != Some(true)),
            unnamed: Arc::new(AtomicBool::new(options.unnamed == Some(true))),
            is_auto: options.unnamed.is_none(),
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(options.size)),
            handler_permits: Arc::new(Semaphore::new(options.size)),
            size: u32::try_from(options.size).unwrap_or(u32::MAX),
            timeout: statement_timeout.saturating_add(Duration::from_secs(5)),
        })
    }

    /// Returns the time limit of a call.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Gets a connection for exclusive use.
    pub(crate) async fn get(self: &Arc<Self>) -> Result<PooledSession> {
        self.get_by(&self.permits).await
    }

    /// Gets a connection for the transaction of a handler, without taking one from the calls of the engine.
    pub(crate) async fn get_for_handler(self: &Arc<Self>) -> Result<PooledSession> {
        self.get_by(&self.handler_permits).await
    }

    async fn get_by(self: &Arc<Self>, permits: &Arc<Semaphore>) -> Result<PooledSession> {
        let until = add(self.clock.now(), self.timeout);
        let waiting = Arc::clone(permits).acquire_owned();
        let permit = within(&*self.clock, until, waiting).await;
        let permit = permit.ok_or_else(|| {
            Error::unavailable(
                "all connections are in use; raise pool_size or lower the concurrency",
            )
        })?;
        let permit = permit.map_err(|_| Error::unavailable("the storage was closed"))?;
        while let Some(session) = self.pop() {
            if !session.client().is_closed() {
                return Ok(PooledSession {
                    session: Some(session),
                    pool: Arc::clone(self),
                    clean: false,
                    _permit: permit,
                });
            }
        }
        // Rare and large: boxed, so that it is not part of every call's future.
        let session = Box::pin(self.open()).await?;
        Ok(PooledSession {
            session: Some(session),
            pool: Arc::clone(self),
            clean: false,
            _permit: permit,
        })
    }

    fn pop(&self) -> Option<Session<'static>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Closes every idle connection.
    pub(crate) fn clear(&self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits for the connections in use, then closes all of them.
    pub(crate) async fn close(&self) {
        let until = add(self.clock.now(), self.timeout);
        let all = self.permits.acquire_many(self.size);
        // A connection that is still in use after that time is closed.
        let _closed = within(&*self.clock, until, all).await;
        self.permits.close();
        self.handler_permits.close();
        self.clear();
    }

    async fn open(&self) -> Result<Session<'static>> {
        let (client, connection) = self.connect(&self.address, "punctual").await?;
        check_version(connection.parameter("server_version"))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        Ok(Session::new(client, Arc::clone(&self.unnamed)))
    }

    /// Opens a connection, without settings when a pooler refuses them.
    pub(crate) async fn connect(&self, address: &Address, name: &str) -> Result<OpenedConnection> {
        let mut config = address.config.clone();
        if config.get_application_name().is_none() {
            config.application_name(name);
        }
        if self.takes_settings.load(Ordering::Relaxed) && config.get_options().is_none() {
            let plain = config.clone();
            config.options(self.settings.as_str());
            match self.connect_once(&config, &address.place()).await {
                Err(refused) if indicates_pooler(&refused) => {
                    self.takes_settings.store(false, Ordering::Relaxed);
                    if self.is_auto {
                        self.unnamed.store(true, Ordering::Relaxed);
                    }
                    return self.connect_once(&plain, &address.place()).await;
                }
                result => return result,
            }
        }
        self.connect_once(&config, &address.place()).await
    }

    async fn connect_once(
        &self,
        config: &tokio_postgres::Config,
        place: &str,
    ) -> Result<OpenedConnection> {
        let until = add(self.clock.now(), self.timeout);
        let connecting = config.connect(self.connector.clone());
        let result = within(&*self.clock, until, connecting).await;
        let result = result.ok_or_else(|| {
            Error::unavailable(format!(
                "PostgreSQL at {place} did not respond within statement_timeout plus five seconds"
            ))
        })?;
        result.map_err(|error| from_connect(error, place))
    }
}

/// Connection in use. It is closed when it is dropped without being returned.
pub(crate) struct PooledSession {
    session: Option<Session<'static>>,
    pool: Arc<Pool>,
    clean: bool,
    _permit: OwnedSemaphorePermit,
}

impl PooledSession {
    /// Returns the connection to the pool; it has no open transaction.
    pub(crate) fn give_back(mut self) {
        self.clean = true;
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if self.clean && !session.is_open() && !session.client().is_closed() {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}

impl Deref for PooledSession {
    type Target = Session<'static>;
    #[allow(clippy::expect_used)] // taken in `drop` only
    fn deref(&self) -> &Session<'static> {
        self.session.as_ref().expect("a session until it is dropped")
    }
}

impl DerefMut for PooledSession {
    #[allow(clippy::expect_used)] // taken in `drop` only
    fn deref_mut(&mut self) -> &mut Session<'static> {
        self.session.as_mut().expect("a session until it is dropped")
    }
}

/// Returns the settings of every session. Plans must not change with the statistics of a table that is empty
/// one moment and full the next: generic plans, along the indexes and in their order, so that rows are locked
/// in the order of ids, and never compiled.
fn settings(statement_timeout: Duration) -> String {
    format!(
        "-c statement_timeout={} -c idle_in_transaction_session_timeout=60000 \
         -c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
         -c enable_bitmapscan=off -c jit=off \
         -c default_transaction_isolation=read\\ committed -c TimeZone=UTC",
        statement_timeout.as_millis().clamp(1, 2_147_483_647)
    )
}

/// Returns whether settings at the start were refused, as poolers do.
fn indicates_pooler(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("startup parameter")
}

fn check_version(version: Option<&str>) -> Result<()> {
    let text = version.unwrap_or_default();
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u32>() {
        Ok(major) if major < VERSION_MIN => Err(Error::unsupported(format!(
            "the server is PostgreSQL {text}; use version {VERSION_MIN} or newer"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_by_its_version() {
        assert!(check_version(Some("15.3 (Debian 15.3-1)")).is_ok());
        assert!(check_version(Some("18beta1")).is_ok());
        let error = check_version(Some("12.20")).unwrap_err();
        assert_eq!(error.kind(), punctual::ErrorKind::Unsupported);
        assert!(error.to_string().contains("12.20"), "{error}");
    }
}
