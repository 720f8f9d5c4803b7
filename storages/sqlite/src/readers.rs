//! The threads that read: a few, each with a connection that cannot write. In a write-ahead log a
//! reader never waits for the writer, and sees one moment of the file.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use punctual::Result;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::connection::open_reader;
use crate::fault::{Fault, Tried};
use crate::settings::Settings;
use crate::writer::{closed, gone, spawn};

/// How many may wait to read; who comes after waits to be let in.
const WAITING_MAX: usize = 256;

/// A read that knows whom to answer. It gives the connection back unless it is spoilt.
type Reading = Box<dyn FnOnce(&Settings, Option<Connection>) -> Option<Connection> + Send>;

/// The way to the threads that read.
#[derive(Debug)]
pub(crate) struct Readers {
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    readings: mpsc::Sender<Reading>,
    /// Ends when the last thread has.
    ended: mpsc::Receiver<Infallible>,
}

impl Readers {
    /// Starts the threads; each opens its connection with its first read.
    pub(crate) fn start(settings: &Settings) -> Result<Self> {
        let (readings, waiting) = mpsc::channel(WAITING_MAX);
        let (alive, ended) = mpsc::channel(1);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..settings.readers {
            let (waiting, settings, alive) =
                (Arc::clone(&waiting), settings.clone(), alive.clone());
            spawn("punctual-sqlite-reader", move || {
                run(&waiting, &settings);
                drop(alive);
            })?;
        }
        Ok(Self { open: Mutex::new(Some(Open { readings, ended })) })
    }

    /// Reads with one statement.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Tried<T> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let reading: Reading = Box::new(move |settings, connection| {
            if caller.is_closed() {
                return connection;
            }
            let opened = connection.map_or_else(|| open_reader(settings), Ok);
            let (connection, read) = match opened {
                Ok(connection) => {
                    let read = work(&connection);
                    (Some(connection), read)
                }
                Err(fault) => (None, Err(fault)),
            };
            let is_spoilt = read.as_ref().is_err_and(Fault::spoils_the_connection);
            let told = read.map_err(|fault| fault.told(&settings.path, settings.patience));
            let _ = caller.send(told);
            connection.filter(|_| !is_spoilt)
        });
        let readings = self.readings().ok_or_else(closed)?;
        readings.send(reading).await.map_err(|_| closed())?;
        drop(readings);
        answer.await.map_err(|_| gone())?
    }

    /// Reads with several statements that all see the same moment.
    pub(crate) async fn read_together<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Tried<T> + Send + 'static,
    {
        self.read(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let answer = work(&transaction)?;
            transaction.commit()?;
            Ok(answer)
        })
        .await
    }

    /// Lets no more reads in, and waits for those that were.
    pub(crate) async fn close(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Open { readings, mut ended }) = open {
            drop(readings);
            ended.recv().await;
        }
    }

    fn readings(&self) -> Option<mpsc::Sender<Reading>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| open.readings.clone())
    }
}

fn run(waiting: &Mutex<mpsc::Receiver<Reading>>, settings: &Settings) {
    let mut connection = None;
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(reading) = next else { break };
        // A defect in a read must not end the thread: who asked is told that nobody answers.
        let before = connection.take();
        connection =
            catch_unwind(AssertUnwindSafe(|| reading(settings, before))).unwrap_or_default();
    }
}
