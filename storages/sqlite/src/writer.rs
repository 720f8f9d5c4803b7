//! The one thread that writes. It takes everything that waits, does it in one transaction, commits
//! once, and only then answers: many callers share one flush of the disk. When it is idle it begins
//! at once; it never waits for more to come.
//!
//! A batch is first done as a whole. Only when a call in it fails is it rolled back and done again
//! with a savepoint around each call, so that the one that fails takes no other with it.

mod batch;
mod call;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use punctual::{Error, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use self::batch::Batch;
use self::call::{Call, Step};
use crate::bells::Bells;
use crate::connection::open_writer;
use crate::effects::Effects;
use crate::fault::{Fault, Tried};
use crate::patience::pause;
use crate::settings::Settings;

/// How many calls may wait; who comes after waits to be let in.
const WAITING_MAX: usize = 1_024;
/// How many calls share a transaction at most.
const CALLS_MAX: usize = 1_024;
/// How many rows, more or less, share a transaction at most.
const ROWS_MAX: usize = 8_192;

/// Before the first look at whether somebody else wrote.
const UNSEEN: i64 = i64::MIN;
/// After another process wrote, this many of our transactions are each followed by a moment in which
/// the lock is free: whoever waits for it can only look now and then, and would hardly ever find it so.
const COURTESIES: u32 = 64;
const COURTESY: Duration = Duration::from_micros(500);

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
    activity: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread, opens the file and brings its tables up to date.
    pub(crate) async fn start(settings: Settings, bells: Arc<Bells>) -> Result<Self> {
        let (orders, waiting) = mpsc::channel(WAITING_MAX);
        let (opened, is_open) = oneshot::channel();
        let commits = Arc::new(AtomicU64::new(0));
        let activity = Arc::new(AtomicU64::new(0));
        let counted = (Arc::clone(&commits), Arc::clone(&activity));
        let thread = move || {
            let connection = match open_writer(&settings) {
                Ok(connection) => connection,
                Err(fault) => {
                    let _ = opened.send(Err(fault.told(&settings.path, settings.patience)));
                    return;
                }
            };
            if opened.send(Ok(())).is_ok() {
                let (commits, activity) = counted;
                let connection = Some(connection);
                Thread {
                    connection,
                    settings,
                    bells,
                    commits,
                    activity,
                    seen: UNSEEN,
                    courtesies: 0,
                }
                .run(waiting);
            }
        };
        spawn("punctual-sqlite-writer", thread)?;
        is_open.await.map_err(|_| gone())??;
        Ok(Self { orders, commits, activity })
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

    /// Counted up when a transaction begins and when it has ended: odd in between.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Acquire)
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
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
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

/// What the thread owns.
struct Thread {
    connection: Option<Connection>,
    settings: Settings,
    bells: Arc<Bells>,
    commits: Arc<AtomicU64>,
    activity: Arc<AtomicU64>,
    /// The number by which SQLite tells that another connection wrote.
    seen: i64,
    /// How many more transactions leave room for a neighbour.
    courtesies: u32,
}

impl Thread {
    fn run(mut self, mut waiting: mpsc::Receiver<Order>) {
        let mut closing = Vec::new();
        while let Some(first) = waiting.blocking_recv() {
            let steps = gather(first, &mut waiting, &mut closing, |()| self.look());
            if !closing.is_empty() {
                waiting.close();
            }
            // A defect in a step must not end the storage: whoever waits is told, the rest goes on.
            self.activity.fetch_add(1, Ordering::AcqRel);
            if catch_unwind(AssertUnwindSafe(|| self.batch(steps))).is_err() {
                self.connection = None;
            }
            self.activity.fetch_add(1, Ordering::AcqRel);
            if self.courtesies > 0 {
                self.courtesies -= 1;
                pause(COURTESY);
            }
        }
        let closed = self.finish();
        for done in closing {
            let answer = closed.as_ref().map_err(|fault| self.told(fault)).copied();
            let _ = done.send(answer);
        }
    }

    fn told(&self, fault: &Fault) -> Error {
        fault.told(&self.settings.path, self.settings.patience)
    }

    fn batch(&mut self, steps: Vec<Box<dyn Step>>) {
        if steps.is_empty() {
            return;
        }
        let mut batch = Batch::new(steps);
        let done = self.connected().and_then(|(connection, settings)| {
            batch.run(connection, settings.patience, |fault| {
                fault.told(&settings.path, settings.patience)
            })
        });
        match done {
            Ok(done) => {
                self.commits.fetch_add(1, Ordering::Release);
                self.somebody_else(done.data_version);
                self.bells.tell(&done.effects);
            }
            Err(fault) => {
                batch.fail(|| self.told(&fault));
                if fault.spoils_the_connection() {
                    self.connection = None;
                }
            }
        }
        batch.answer();
    }

    /// The connection, opened again when it was given up.
    fn connected(&mut self) -> Tried<(&mut Connection, &Settings)> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open_writer(&self.settings)?,
        };
        Ok((self.connection.insert(connection), &self.settings))
    }

    /// Whether somebody else wrote, without a transaction.
    fn look(&mut self) {
        let seen = self.connected().and_then(|(connection, _)| batch::data_version(connection));
        if let Ok(seen) = seen {
            self.somebody_else(seen);
        }
    }

    fn somebody_else(&mut self, data_version: i64) {
        if self.seen != data_version {
            if self.seen != UNSEEN {
                self.courtesies = COURTESIES;
            }
            self.seen = data_version;
            self.bells.ring_all();
        }
    }

    fn finish(&mut self) -> Tried<()> {
        let Some(connection) = self.connection.take() else { return Ok(()) };
        // Somebody who reads may keep the journal alive; whoever closes last copies the rest.
        let copied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(fault) = copied.map_err(Fault::from)
            && !fault.is_busy()
        {
            return Err(fault);
        }
        connection.close().map_err(|(_, error)| error.into())
    }
}

/// Everything that waits, up to the bounds. Whoever has stopped waiting is left out.
fn gather(
    first: Order,
    waiting: &mut mpsc::Receiver<Order>,
    closing: &mut Vec<oneshot::Sender<Result<()>>>,
    mut look: impl FnMut(()),
) -> Vec<Box<dyn Step>> {
    let mut steps: Vec<Box<dyn Step>> = Vec::new();
    let mut rows = 0;
    let mut next = Some(first);
    while let Some(order) = next {
        match order {
            Order::Step(step) if step.is_wanted() => {
                rows += step.rows();
                steps.push(step);
            }
            Order::Step(_) => {}
            Order::Look => look(()),
            Order::Close(done) => closing.push(done),
        }
        let has_room = steps.len() < CALLS_MAX && rows < ROWS_MAX;
        next = if has_room { waiting.try_recv().ok() } else { None };
    }
    steps
}
