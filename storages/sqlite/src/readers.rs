//! Readers: a few threads, each with a connection that cannot write. In a write-ahead log a reader never waits
//! for the writer, and reads a consistent snapshot of the file.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use punctual::Result;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::builder::Settings;
use crate::connection::open_reader;
use crate::error::{StorageError, StorageResult};
use crate::writer::{closed, gone, spawn};

/// Most reads that may wait; further callers wait until one is taken.
const WAITING_MAX: usize = 256;

/// Read with its caller. Returns the connection unless it is broken.
type ReadCall = Box<dyn FnOnce(&Settings, Option<Connection>) -> Option<Connection> + Send>;

/// Handle of the reader threads.
#[derive(Debug)]
pub(crate) struct Readers {
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    readings: mpsc::Sender<ReadCall>,
    /// Closed when the last thread has ended.
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

    /// Runs a read with one statement.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StorageResult<T> + Send + 'static,
    {
        let (caller, result) = oneshot::channel();
        let reading: ReadCall = Box::new(move |settings, connection| {
            if caller.is_closed() {
                return connection;
            }
            let opened = connection.map_or_else(|| open_reader(settings), Ok);
            let (connection, read) = match opened {
                Ok(connection) => {
                    let read = work(&connection);
                    (Some(connection), read)
                }
                Err(error) => (None, Err(error)),
            };
            let is_broken = read.as_ref().is_err_and(StorageError::breaks_connection);
            let result =
                read.map_err(|error| error.error_for_caller(&settings.path, settings.timeout));
            let _ = caller.send(result);
            connection.filter(|_| !is_broken)
        });
        let readings = self.readings().ok_or_else(closed)?;
        readings.send(reading).await.map_err(|_| closed())?;
        drop(readings);
        result.await.map_err(|_| gone())?
    }

    /// Runs a read with several statements in one transaction.
    pub(crate) async fn read_together<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StorageResult<T> + Send + 'static,
    {
        self.read(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
        .await
    }

    /// Accepts no more reads, and waits for the accepted ones.
    pub(crate) async fn close(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Open { readings, mut ended }) = open {
            drop(readings);
            ended.recv().await;
        }
    }

    fn readings(&self) -> Option<mpsc::Sender<ReadCall>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| open.readings.clone())
    }
}

fn run(waiting: &Mutex<mpsc::Receiver<ReadCall>>, settings: &Settings) {
    let mut connection = None;
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(reading) = next else { break };
        // A panic in a read must not end the thread; its caller receives an error.
        let before = connection.take();
        connection =
            catch_unwind(AssertUnwindSafe(|| reading(settings, before))).unwrap_or_default();
    }
}
