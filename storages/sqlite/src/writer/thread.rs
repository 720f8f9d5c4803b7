//! Writer thread: collects the waiting calls, runs and commits them, and notifies subscribers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::{Error, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Request;
use super::batch::{self, Batch};
use super::call::Step;
use crate::builder::Settings;
use crate::busy_timeout::pause;
use crate::connection::open_writer;
use crate::effects::Effects;
use crate::error::{StorageError, StorageResult};
use crate::notifications::Notifications;
use crate::operations::next_due;

/// Most calls of one transaction.
const CALLS_MAX: usize = 1_024;
/// Approximate number of rows of one transaction.
const ROWS_MAX: usize = 8_192;

/// Data version before the first check for writes of other connections.
const NOT_READ: i64 = i64::MIN;
/// After a write of another process, this number of our transactions are each followed by a pause in which the
/// lock is free: a process that waits for the lock can only retry at intervals, and would hardly ever find it
/// free.
const PAUSES: u32 = 64;
const PAUSE: Duration = Duration::from_micros(500);

/// State of the thread.
pub(super) struct Thread {
    connection: Option<Connection>,
    settings: Settings,
    notifications: Arc<Notifications>,
    commits: Arc<AtomicU64>,
    /// Data version of SQLite, which changes when another connection writes.
    data_version: i64,
    /// Number of further transactions that are followed by a pause.
    pauses: u32,
}

impl Thread {
    pub(super) fn new(
        settings: Settings,
        notifications: Arc<Notifications>,
        commits: Arc<AtomicU64>,
    ) -> StorageResult<Self> {
        let connection = Some(open_writer(&settings)?);
        Ok(Self { connection, settings, notifications, commits, data_version: NOT_READ, pauses: 0 })
    }

    pub(super) fn run(mut self, mut waiting: mpsc::Receiver<Request>) {
        let mut closing = Vec::new();
        while let Some(first) = waiting.blocking_recv() {
            let steps = gather(first, &mut waiting, &mut closing, |()| self.check_for_writes());
            if !closing.is_empty() {
                waiting.close();
            }
            // A panic in a step must not end the storage: its callers receive an error, the others continue.
            if catch_unwind(AssertUnwindSafe(|| self.batch(steps))).is_err() {
                self.connection = None;
            }
            // The watcher requests checks, but they are dropped while many calls wait.
            if !waiting.is_empty() {
                self.check_for_writes();
            }
            if self.pauses > 0 {
                self.pauses -= 1;
                pause(PAUSE);
            }
        }
        let closed = self.finish();
        for done in closing {
            let result = closed.as_ref().map_err(|error| self.map_error(error)).copied();
            let _ = done.send(result);
        }
    }

    fn map_error(&self, error: &StorageError) -> Error {
        error.error_for_caller(&self.settings.path, self.settings.timeout)
    }

    fn batch(&mut self, steps: Vec<Box<dyn Step>>) {
        if steps.is_empty() {
            return;
        }
        let mut batch = Batch::new(steps);
        let mut done = self.attempt(&mut batch);
        if done.as_ref().is_err_and(StorageError::is_full) && self.checkpoint_journal().is_ok() {
            done = self.attempt(&mut batch);
        }
        match done {
            Ok(effects) => {
                self.commits.fetch_add(1, Ordering::Release);
                self.notifications.notify(&effects);
            }
            Err(error) => {
                batch.fail(|| self.map_error(&error));
                if error.breaks_connection() {
                    self.connection = None;
                }
            }
        }
        batch.reply();
    }

    fn attempt(&mut self, batch: &mut Batch) -> StorageResult<Effects> {
        let (connection, settings) = self.connected()?;
        batch.run(connection, settings.timeout, |error| {
            error.error_for_caller(&settings.path, settings.timeout)
        })
    }

    /// Copies the journal into the file and truncates it: on a full disk that may be the only free space. A
    /// reader may prevent it; the last connection that closes copies the rest.
    fn checkpoint_journal(&mut self) -> StorageResult<()> {
        let (connection, _) = self.connected()?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    /// Returns the connection, opened again if it was broken.
    fn connected(&mut self) -> StorageResult<(&mut Connection, &Settings)> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open_writer(&self.settings)?,
        };
        Ok((self.connection.insert(connection), &self.settings))
    }

    /// Checks whether another process wrote, without a transaction.
    fn check_for_writes(&mut self) {
        let version = self.connected().and_then(|(connection, _)| batch::data_version(connection));
        if let Ok(version) = version {
            self.on_external_write(version);
        }
    }

    fn on_external_write(&mut self, data_version: i64) {
        if self.data_version == data_version {
            return;
        }
        if self.data_version != NOT_READ {
            self.pauses = PAUSES;
        }
        self.data_version = data_version;
        let sources = self.notifications.sources();
        let due = self.connected().and_then(|(connection, _)| {
            Ok((next_due::next_due_all(connection, &sources)?, next_due::has_cancels(connection)?))
        });
        match due {
            Ok((due, has_cancels)) => {
                self.notifications.notify_external(&sources, &due, has_cancels);
            }
            Err(_) => self.notifications.notify_all(),
        }
    }

    fn finish(&mut self) -> StorageResult<()> {
        if self.connection.is_none() {
            return Ok(());
        }
        match self.checkpoint_journal() {
            Err(error) if !error.is_busy() => return Err(error),
            _ => {}
        }
        let closed = self.connection.take().map(Connection::close);
        closed.unwrap_or(Ok(())).map_err(|(_, error)| error.into())
    }
}

/// Collects all waiting calls up to the bounds, except those whose callers stopped waiting.
fn gather(
    first: Request,
    waiting: &mut mpsc::Receiver<Request>,
    closing: &mut Vec<oneshot::Sender<Result<()>>>,
    mut check: impl FnMut(()),
) -> Vec<Box<dyn Step>> {
    let mut steps: Vec<Box<dyn Step>> = Vec::new();
    let mut rows = 0;
    let mut next = Some(first);
    while let Some(request) = next {
        match request {
            Request::Step(step) if step.is_wanted() => {
                rows += step.rows();
                steps.push(step);
            }
            Request::Step(_) => {}
            Request::CheckForWrites => check(()),
            Request::Close(done) => closing.push(done),
        }
        let has_room = steps.len() < CALLS_MAX && rows < ROWS_MAX;
        next = if has_room { waiting.try_recv().ok() } else { None };
    }
    steps
}
