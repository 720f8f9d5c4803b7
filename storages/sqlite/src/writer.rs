//! Writer: the one thread that writes. It takes all waiting calls, runs them in one transaction, commits once,
//! and only then returns their results: many callers share one flush of the disk. When it is idle it begins at
//! once; it never waits for more calls.
//!
//! A batch runs as a whole first. Only when a call in it fails, it is rolled back and repeated with a savepoint
//! around each call, so that a failing call affects no other.

mod batch;
mod call;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::{Error, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use self::call::{Call, Step};
use self::thread::Thread;
use crate::builder::Settings;
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::notifications::Notifications;

/// Most calls that may wait; further callers wait until one is taken.
const WAITING_MAX: usize = 1_024;
/// Request to the thread.
enum Request {
    Step(Box<dyn Step>),
    /// Find out whether another process wrote.
    CheckForWrites,
    Close(oneshot::Sender<Result<()>>),
}

/// Handle of the writer thread.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    requests: mpsc::Sender<Request>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread, opens the file and migrates its tables.
    pub(crate) async fn start(
        settings: Settings,
        notifications: Arc<Notifications>,
    ) -> Result<Self> {
        let (requests, waiting) = mpsc::channel(WAITING_MAX);
        let (opened, is_open) = oneshot::channel();
        let commits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commits);
        let thread = move || {
            let (path, timeout) = (settings.path.clone(), settings.timeout);
            match Thread::new(settings, notifications, counted) {
                Err(error) => drop(opened.send(Err(error.error_for_caller(&path, timeout)))),
                Ok(thread) if opened.send(Ok(())).is_ok() => thread.run(waiting),
                Ok(_) => {}
            }
        };
        spawn("punctual-sqlite-writer", thread)?;
        is_open.await.map_err(|_| gone())??;
        Ok(Self { requests, commits })
    }

    /// Runs a step in a transaction; returns after its commit. `rows` is its approximate size.
    pub(crate) async fn write<T, F>(&self, rows: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection, &mut Effects) -> StorageResult<T> + Send + 'static,
    {
        let (call, result) = Call::new(rows, work);
        self.requests.send(Request::Step(Box::new(call))).await.map_err(|_| closed())?;
        result.await.map_err(|_| gone())?
    }

    /// Requests a check for writes of other processes; a busy writer makes it anyway.
    pub(crate) fn check_for_writes(&self) {
        let _ = self.requests.try_send(Request::CheckForWrites);
    }

    /// Returns how many transactions were committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// Finishes the waiting calls, copies the journal into the file and closes it.
    pub(crate) async fn close(&self) -> Result<()> {
        let (done, is_done) = oneshot::channel();
        if self.requests.send(Request::Close(done)).await.is_err() {
            return Ok(());
        }
        is_done.await.unwrap_or(Ok(()))
    }
}

/// Starts a thread with a name.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map(drop).map_err(|error| {
        Error::unavailable(format!("no thread could be started: {error}")).caused_by(error)
    })
}

pub(crate) fn closed() -> Error {
    Error::unavailable("this handle on the storage was closed; open the file again")
}

pub(crate) fn gone() -> Error {
    Error::internal(
        "the thread of the storage ended without a result; repeat the call, and report this as a bug",
    )
}
