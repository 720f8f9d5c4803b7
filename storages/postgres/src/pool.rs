//! The connections: as many as asked for, opened when needed, given back when a call ended cleanly
//! and thrown away when it did not. Waiting for one has an end.

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
use crate::failure::from_connect;
use crate::session::Session;
use crate::tls;

/// The oldest server that has everything the statements use.
const VERSION_MIN: u32 = 13;

/// How connections are made, and those that nobody uses just now.
pub(crate) struct Pool {
    pub(crate) address: Address,
    connector: MakeRustlsConnect,
    clock: Arc<dyn Clock>,
    settings: String,
    /// Whether the server takes settings at the start of a session; a pooler does not.
    takes_settings: AtomicBool,
    pub(crate) unnamed: Arc<AtomicBool>,
    pub(crate) is_auto: bool,
    free: Mutex<Vec<Session<'static>>>,
    permits: Arc<Semaphore>,
    /// For the transactions of handlers, which hold a connection for as long as they run.
    lent: Arc<Semaphore>,
    size: u32,
    patience: Duration,
}

/// A connection that is opened: its client, and what has to be driven.
pub(crate) type Opened = (
    Client,
    Connection<Socket, <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream>,
);

/// What a pool is made of.
pub(crate) struct Making {
    pub(crate) address: Address,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) size: usize,
    pub(crate) statement_timeout: Duration,
    /// Nothing means: find out.
    pub(crate) unnamed: Option<bool>,
}

impl Pool {
    pub(crate) fn new(making: Making) -> Result<Self> {
        let timeout = making.statement_timeout;
        Ok(Self {
            connector: tls::connector(&making.address.trust)?,
            address: making.address,
            clock: making.clock,
            settings: settings(timeout),
            takes_settings: AtomicBool::new(making.unnamed != Some(true)),
            unnamed: Arc::new(AtomicBool::new(making.unnamed == Some(true))),
            is_auto: making.unnamed.is_none(),
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(making.size)),
            lent: Arc::new(Semaphore::new(making.size)),
            size: u32::try_from(making.size).unwrap_or(u32::MAX),
            patience: timeout.saturating_add(Duration::from_secs(5)),
        })
    }

    /// How long a call may take as seen from here.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// A connection that nobody else uses.
    pub(crate) async fn get(self: &Arc<Self>) -> Result<Held> {
        self.get_by(&self.permits).await
    }

    /// The same for the transaction of a handler: never at the cost of those who get one for a call.
    pub(crate) async fn get_for_handler(self: &Arc<Self>) -> Result<Held> {
        self.get_by(&self.lent).await
    }

    async fn get_by(self: &Arc<Self>, permits: &Arc<Semaphore>) -> Result<Held> {
        let until = add(self.clock.now(), self.patience);
        let waiting = Arc::clone(permits).acquire_owned();
        let permit = within(&*self.clock, until, waiting).await;
        let permit = permit.ok_or_else(|| {
            Error::unavailable(
                "every connection is in use; raise pool_size or ask for less at once",
            )
        })?;
        let permit = permit.map_err(|_| Error::unavailable("the storage was closed"))?;
        while let Some(session) = self.pop() {
            if !session.client().is_closed() {
                return Ok(Held {
                    session: Some(session),
                    pool: Arc::clone(self),
                    clean: false,
                    _permit: permit,
                });
            }
        }
        // Seldom, and large: not part of every call.
        let session = Box::pin(self.open()).await?;
        Ok(Held { session: Some(session), pool: Arc::clone(self), clean: false, _permit: permit })
    }

    fn pop(&self) -> Option<Session<'static>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Forgets every connection nobody uses.
    pub(crate) fn clear(&self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits for the connections in use, then closes all of them.
    pub(crate) async fn close(&self) {
        let until = add(self.clock.now(), self.patience);
        let all = self.permits.acquire_many(self.size);
        // Who is still at it after that long is cut off.
        let _ended = within(&*self.clock, until, all).await;
        self.permits.close();
        self.lent.close();
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

    /// Opens a connection; settings are left out where a pooler refuses them.
    pub(crate) async fn connect(&self, address: &Address, name: &str) -> Result<Opened> {
        let mut config = address.config.clone();
        if config.get_application_name().is_none() {
            config.application_name(name);
        }
        if self.takes_settings.load(Ordering::Relaxed) && config.get_options().is_none() {
            let plain = config.clone();
            config.options(self.settings.as_str());
            match self.connect_once(&config, &address.place()).await {
                Err(refused) if is_pooler(&refused) => {
                    self.takes_settings.store(false, Ordering::Relaxed);
                    if self.is_auto {
                        self.unnamed.store(true, Ordering::Relaxed);
                    }
                    return self.connect_once(&plain, &address.place()).await;
                }
                answer => return answer,
            }
        }
        self.connect_once(&config, &address.place()).await
    }

    async fn connect_once(&self, config: &tokio_postgres::Config, place: &str) -> Result<Opened> {
        let until = add(self.clock.now(), self.patience);
        let connecting = config.connect(self.connector.clone());
        let answer = within(&*self.clock, until, connecting).await;
        let answer = answer.ok_or_else(|| {
            Error::unavailable(format!("PostgreSQL at {place} did not answer in time"))
        })?;
        answer.map_err(|error| from_connect(error, place))
    }
}

/// A connection in use. Dropped before it is said to be clean, it is closed.
pub(crate) struct Held {
    session: Option<Session<'static>>,
    pool: Arc<Pool>,
    clean: bool,
    _permit: OwnedSemaphorePermit,
}

impl Held {
    /// Whatever was begun has ended; somebody else may have it.
    pub(crate) fn give_back(mut self) {
        self.clean = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if self.clean && !session.is_open() && !session.client().is_closed() {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}

impl Deref for Held {
    type Target = Session<'static>;
    #[allow(clippy::expect_used)] // taken in `drop` only
    fn deref(&self) -> &Session<'static> {
        self.session.as_ref().expect("a connection that is held")
    }
}

impl DerefMut for Held {
    #[allow(clippy::expect_used)] // taken in `drop` only
    fn deref_mut(&mut self) -> &mut Session<'static> {
        self.session.as_mut().expect("a connection that is held")
    }
}

/// What holds for every session of ours. Plans must not change with the statistics of a table that is
/// empty one moment and full the next: generic plans, along the indexes and in their order, so that who
/// locks rows does so in the order of ids, and never compiled.
fn settings(statement_timeout: Duration) -> String {
    format!(
        "-c statement_timeout={} -c idle_in_transaction_session_timeout=60000 \
         -c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
         -c enable_bitmapscan=off -c jit=off \
         -c default_transaction_isolation=read\\ committed -c TimeZone=UTC",
        statement_timeout.as_millis().clamp(1, 2_147_483_647)
    )
}

/// Whether settings at the start are refused, as poolers do.
fn is_pooler(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("startup parameter")
}

fn check_version(version: Option<&str>) -> Result<()> {
    let text = version.unwrap_or_default();
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u32>() {
        Ok(major) if major < VERSION_MIN => Err(Error::unsupported(format!(
            "the server is PostgreSQL {text}; at least version {VERSION_MIN} is needed"
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
