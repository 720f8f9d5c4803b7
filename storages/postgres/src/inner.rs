//! Inner: the state shared by all calls (pool, statements, notifications), and the way a call runs: on one
//! connection, within a timeout, and again after a serialization failure or a deadlock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual::backend::storage::WakeSource;
use punctual::clock::{add, within};
use punctual::{Clock, Error, ErrorKind, Result};
use tokio::sync::Mutex;
use tokio_postgres::types::Type;

use crate::commit_watch::CommitWatch;
use crate::error::StorageError;
use crate::migrate::{self, Schema};
use crate::notifications::{self, Notifications};
use crate::operations::claim_cursor::ClaimCursors;
use crate::pool::{Pool, PooledSession};
use crate::statements::Statements;

/// Most times a call is repeated because of concurrent transactions.
const TRIES_MAX: u32 = 25;
/// How long a second notification about the same source is delayed.
const NOTIFICATION_INTERVAL: std::time::Duration = std::time::Duration::from_millis(10);
/// Most notifications in one statement.
const NOTIFICATIONS_MAX: usize = 1_000;

/// Shared state of a storage.
pub(crate) struct Inner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) schema: Schema,
    pub(crate) sql: Statements,
    /// Statements for attempts that may be in the history already.
    pub(crate) careful: Statements,
    pub(crate) notifications: Notifications,
    pub(crate) cursors: ClaimCursors,
    pub(crate) commit_watch: CommitWatch,
    pub(crate) sender: u64,
    pub(crate) channel: String,
    pub(crate) is_listening: AtomicBool,
    is_ready: AtomicBool,
    preparing: Mutex<()>,
}

/// Number of times that one call has been tried.
#[derive(Default)]
pub(crate) struct Tries(pub(crate) u32);

/// Runs a call on a pooled connection; retries on serialization failure, deadlock and lost races. The work may
/// read how often it was tried before.
macro_rules! attempt {
    ($inner:expr, |$session:ident, $tries:ident| $work:expr) => {{
        let inner = &$inner;
        inner.ready().await?;
        let mut tries = $crate::inner::Tries::default();
        loop {
            let mut session = inner.connection().await?;
            let result = {
                let $session: &mut $crate::session::Session<'_> = &mut session;
                let $tries = tries.0;
                inner.with_timeout($work).await
            };
            if let Some(result) = inner.finish_try(session, result, &mut tries).await {
                break result;
            }
        }
    }};
    ($inner:expr, |$session:ident| $work:expr) => {
        attempt!($inner, |$session, _tries| $work)
    };
}
pub(crate) use attempt;

/// Runs a call like [`attempt`], in a transaction.
macro_rules! transact {
    ($inner:expr, |$session:ident, $tries:ident| $work:expr) => {
        $crate::inner::attempt!($inner, |$session, $tries| async {
            $session.begin().await?;
            let result = $work.await?;
            $session.commit().await?;
            Ok(result)
        })
    };
    ($inner:expr, |$session:ident| $work:expr) => {
        $crate::inner::transact!($inner, |$session, _tries| $work)
    };
}
pub(crate) use transact;

impl Inner {
    pub(crate) fn new(pool: Arc<Pool>, clock: Arc<dyn Clock>, schema: Schema, sender: u64) -> Self {
        Self {
            pool,
            clock,
            sql: Statements::new(&schema.quoted),
            careful: Statements::careful(&schema.quoted),
            channel: format!("punctual {}", schema.name),
            schema,
            notifications: Notifications::default(),
            cursors: ClaimCursors::default(),
            commit_watch: CommitWatch::default(),
            sender,
            is_listening: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            preparing: Mutex::default(),
        }
    }

    /// Creates or migrates the tables on the first call; costs nothing after the first success.
    pub(crate) async fn ready(&self) -> Result<()> {
        if self.is_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        Box::pin(self.prepare()).await.map_err(later)
    }

    /// Checks the tables and creates or migrates them. Errors keep their kind.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let _guard = self.preparing.lock().await;
        if self.is_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut tries = Tries::default();
        loop {
            let mut session = self.pool.get().await?;
            let result = self
                .with_timeout(async {
                    migrate::migrate(&mut session, &self.schema).await?;
                    self.create_partitions(&mut session).await
                })
                .await;
            if let Some(result) = self.finish_try(session, result, &mut tries).await {
                result?;
                break;
            }
        }
        self.is_ready.store(true, Ordering::Release);
        Ok(())
    }

    /// Gets a connection for a call; maps every failure to a temporary error.
    pub(crate) async fn connection(&self) -> Result<PooledSession> {
        self.pool.get().await.map_err(later)
    }

    /// Waits for a call until the timeout.
    pub(crate) async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        let until = add(self.clock.now(), self.pool.timeout());
        within(&*self.clock, until, work).await.unwrap_or_else(|| {
            Err(StorageError::Mapped(Error::unavailable(
                "PostgreSQL did not respond within statement_timeout plus five seconds",
            )))
        })
    }

    /// Returns the connection to the pool and the result of the call; none means that the call is repeated.
    pub(crate) async fn finish_try<T>(
        &self,
        mut session: PooledSession,
        result: Result<T, StorageError>,
        tries: &mut Tries,
    ) -> Option<Result<T>> {
        let failure = match result {
            Ok(result) => {
                session.give_back();
                return Some(Ok(result));
            }
            Err(failure) => failure,
        };
        if failure.is_connection_lost() {
            // The failure that broke this connection has most likely broken the idle ones as well.
            self.pool.clear();
        } else if matches!(&failure, StorageError::Database(_) | StorageError::Raced)
            && (!session.is_open() || self.with_timeout(session.roll_back()).await.is_ok())
        {
            session.give_back();
        }
        tries.0 += 1;
        if failure.indicates_pooler() && self.pool.is_auto && tries.0 < TRIES_MAX {
            if !self.pool.unnamed.swap(true, Ordering::Relaxed) {
                tracing::info!(
                    "a pooler gives each transaction another session; statements are no longer prepared"
                );
            }
            return None;
        }
        if failure.is_retryable() && tries.0 < TRIES_MAX {
            return None;
        }
        Some(Err(failure.error_for_caller()))
    }

    /// Notifies subscribers of a source in this process, and other processes a moment later.
    pub(crate) fn notify(self: &Arc<Self>, source: WakeSource, due_at: i64) {
        self.notify_here(Some(&source), due_at);
        if self.notifications.queue_outgoing(source, due_at) {
            let inner = Arc::clone(self);
            tokio::spawn(async move { inner.send_notifications().await });
        }
    }

    /// Notifies subscribers in this process: a source is due at an instant. Without a source, all of them.
    pub(crate) fn notify_here(&self, source: Option<&WakeSource>, due_at: i64) {
        match source {
            None => self.notify_everything(),
            Some(source) => {
                if let WakeSource::Queue(queue) = source {
                    self.cursors.invalidate(queue, due_at);
                }
                self.notifications.notify(source, due_at);
            }
        }
    }

    /// Notifies every source: notifications may have been missed.
    pub(crate) fn notify_everything(&self) {
        self.cursors.invalidate_all();
        self.notifications.notify_all();
    }

    /// Notifies other processes until nothing is left to send: the first notification at once, then at most one
    /// for each source in an interval. Changes that cannot be sent are found by polling.
    async fn send_notifications(&self) {
        loop {
            let outgoing = self.notifications.take_outgoing();
            if outgoing.is_empty() {
                return;
            }
            for some in outgoing.chunks(NOTIFICATIONS_MAX) {
                let payloads: Vec<String> = some
                    .iter()
                    .map(|(source, due)| notifications::encode(self.sender, source, *due))
                    .collect();
                if let Err(error) = self.send_notify(&payloads).await {
                    tracing::debug!(%error, "other processes were not notified; they find the changes by polling");
                }
            }
            self.clock.sleep_until(add(self.clock.now(), NOTIFICATION_INTERVAL)).await;
        }
    }

    /// Sends a NOTIFY that only this process evaluates, to check that LISTEN works.
    pub(crate) async fn probe_listener(&self) -> Result<()> {
        self.send_notify(&[notifications::encode(self.sender, &WakeSource::Leases, i64::MAX)]).await
    }

    async fn send_notify(&self, payloads: &[String]) -> Result<()> {
        // Losing a notification in a crash of the server does no harm, so its commit need not wait for the
        // disk.
        let query = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload) \
                     FROM unnest($2::text[]) AS payload";
        attempt!(self, |session| async {
            let params: [crate::value::Param<'_>; 2] =
                [(&self.channel, Type::TEXT), (&payloads, Type::TEXT_ARRAY)];
            session.query_text(query, &params).await.map(|_| ())
        })
    }
}

/// Makes an error temporary: while the process runs, its cause may be repaired outside.
fn later(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Unsupported => error,
        _ => Error::unavailable(error.to_string()).caused_by(error),
    }
}
