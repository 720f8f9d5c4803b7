//! The one thread that writes. It takes everything that waits, does it in one transaction, commits
//! once, and only then answers: many callers share one flush of the disk. When it is idle it begins
//! at once; it never waits for more to come.
//!
//! A batch is first done as a whole. Only when a call in it fails is it rolled back and done again
//! with a savepoint around each call, so that the one that fails takes no other with it.

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
use crate::bells::Bells;
use crate::effects::Effects;
use crate::fault::Tried;
use crate::settings::Settings;

/// How many calls may wait; who comes after waits to be let in.
const WAITING_MAX: usize = 1_024;
/// What the thread is asked for.
enum Order {
    Step(Box<dyn Step>),
    /// Find out whether somebody else wrote.
    Look,
    Close(oneshot::Sender<Result<()>>),
}

/// The way to the thread that writes.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    orders: mpsc::Sender<Order>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread, opens the file and brings its tables up to date.
    pub(crate) async fn start(settings: Settings, bells: Arc<Bells>) -> Result<Self> {
        let (orders, waiting) = mpsc::channel(WAITING_MAX);
        let (opened, is_open) = oneshot::channel();
        let commits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commits);
        let thread = move || {
            let (path, patience) = (settings.path.clone(), settings.patience);
            match Thread::new(settings, bells, counted) {
                Err(fault) => drop(opened.send(Err(fault.told(&path, patience)))),
                Ok(thread) if opened.send(Ok(())).is_ok() => thread.run(waiting),
                Ok(_) => {}
            }
        };
        spawn("punctual-sqlite-writer", thread)?;
        is_open.await.map_err(|_| gone())??;
        Ok(Self { orders, commits })
    }

    /// Does a step in a transaction; answers once it is committed. `rows` is its size, roughly.
    pub(crate) async fn write<T, F>(&self, rows: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection, &mut Effects) -> Tried<T> + Send + 'static,
    {
        let (call, answer) = Call::new(rows, work);
        self.orders.send(Order::Step(Box::new(call))).await.map_err(|_| closed())?;
        answer.await.map_err(|_| gone())?
    }

    /// Asks the thread to find out whether somebody else wrote; when it is busy it finds out anyway.
    pub(crate) fn look(&self) {
        let _ = self.orders.try_send(Order::Look);
    }

    /// How many transactions were committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// Finishes what waits, copies the journal into the file and closes it.
    pub(crate) async fn close(&self) -> Result<()> {
        let (done, is_done) = oneshot::channel();
        if self.orders.send(Order::Close(done)).await.is_err() {
            return Ok(());
        }
        is_done.await.unwrap_or(Ok(()))
    }
}

/// Starts a thread by name.
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
    Error::internal("the thread that was asked gave no answer; repeat the call, and report this")
}
