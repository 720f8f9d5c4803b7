//! The thread itself: gathers what waits, has it done and committed, and tells who has to know.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::{Error, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Order;
use super::batch::{self, Batch};
use super::call::Step;
use crate::bells::Bells;
use crate::connection::open_writer;
use crate::due;
use crate::effects::Effects;
use crate::fault::{Fault, Tried};
use crate::patience::pause;
use crate::settings::Settings;

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

/// What the thread owns.
pub(super) struct Thread {
    connection: Option<Connection>,
    settings: Settings,
    bells: Arc<Bells>,
    commits: Arc<AtomicU64>,
    /// The number by which SQLite tells that another connection wrote.
    seen: i64,
    /// How many more transactions leave room for a neighbour.
    courtesies: u32,
}

impl Thread {
    pub(super) fn new(
        settings: Settings,
        bells: Arc<Bells>,
        commits: Arc<AtomicU64>,
    ) -> Tried<Self> {
        let connection = Some(open_writer(&settings)?);
        Ok(Self { connection, settings, bells, commits, seen: UNSEEN, courtesies: 0 })
    }

    pub(super) fn run(mut self, mut waiting: mpsc::Receiver<Order>) {
        let mut closing = Vec::new();
        while let Some(first) = waiting.blocking_recv() {
            let steps = gather(first, &mut waiting, &mut closing, |()| self.look());
            if !closing.is_empty() {
                waiting.close();
            }
            // A defect in a step must not end the storage: whoever waits is told, the rest goes on.
            if catch_unwind(AssertUnwindSafe(|| self.batch(steps))).is_err() {
                self.connection = None;
            }
            // The watcher asks for looks, but gets none in while many wait.
            if !waiting.is_empty() {
                self.look();
            }
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
        let mut done = self.attempt(&mut batch);
        if done.as_ref().is_err_and(Fault::is_full) && self.copy_journal().is_ok() {
            done = self.attempt(&mut batch);
        }
        match done {
            Ok(effects) => {
                self.commits.fetch_add(1, Ordering::Release);
                self.bells.tell(&effects);
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

    fn attempt(&mut self, batch: &mut Batch) -> Tried<Effects> {
        let (connection, settings) = self.connected()?;
        batch.run(connection, settings.patience, |fault| {
            fault.told(&settings.path, settings.patience)
        })
    }

    /// Copies the journal into the file and empties it: on a full disk that may be all the room there
    /// is. Somebody who reads may keep it alive; whoever closes last copies the rest.
    fn copy_journal(&mut self) -> Tried<()> {
        let (connection, _) = self.connected()?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
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
        if self.seen == data_version {
            return;
        }
        if self.seen != UNSEEN {
            self.courtesies = COURTESIES;
        }
        self.seen = data_version;
        let lines = self.bells.lines();
        let due = self.connected().and_then(|(connection, _)| {
            Ok((due::due(connection, &lines)?, due::has_cancels(connection)?))
        });
        match due {
            Ok((due, has_cancels)) => self.bells.hear(&lines, &due, has_cancels),
            Err(_) => self.bells.ring_all(),
        }
    }

    fn finish(&mut self) -> Tried<()> {
        if self.connection.is_none() {
            return Ok(());
        }
        match self.copy_journal() {
            Err(fault) if !fault.is_busy() => return Err(fault),
            _ => {}
        }
        let closed = self.connection.take().map(Connection::close);
        closed.unwrap_or(Ok(())).map_err(|(_, error)| error.into())
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
