//! The outbox: messages, settlements and inbox notes inside a transaction the application has opened
//! on its own connection to the same file. They become true with its commit and vanish with its
//! rollback; the watcher of every storage on the file hears the commit.

use std::path::Path;
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::storage::{Enqueued, Entry, Settled, Settlement};
use punctual::{Admitted, Outbox, Result};
use rusqlite::{Connection, Transaction};

use crate::effects::Effects;
use crate::fault::{Fault, Tried};
use crate::{inbox, work};

/// An open transaction of the application, into which messages are put.
///
/// The connection is the application's: opened by it on the same file, with rusqlite. Begin with
/// `BEGIN IMMEDIATE` (rusqlite's `TransactionBehavior::Immediate`) and set a busy timeout, so that
/// waiting for the writer happens where it can; a transaction that has read first cannot wait.
///
/// ```
/// # fn example(mut connection: rusqlite::Connection, entries: Vec<punctual::storage::Entry>, now: punctual::jiff::Timestamp) -> Result<(), Box<dyn std::error::Error>> {
/// use punctual_sqlite::SqliteOutbox;
/// use punctual_sqlite::rusqlite::TransactionBehavior;
///
/// let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
/// transaction.execute("UPDATE orders SET paid = 1 WHERE id = 7", [])?;
/// SqliteOutbox::new(&transaction).enqueue(&entries, now)?;
/// transaction.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SqliteOutbox<'a> {
    transaction: &'a Connection,
}

impl<'a> SqliteOutbox<'a> {
    /// Puts messages into this transaction. The file must be one a storage has opened before, so that
    /// its tables are there.
    pub fn new(transaction: &'a Transaction<'_>) -> Self {
        Self { transaction }
    }

    /// Stores a batch like [`Storage::enqueue`](punctual::Storage::enqueue) does, for the time being.
    /// After an error the transaction must be rolled back.
    pub fn enqueue(&self, entries: &[Entry], now: Timestamp) -> Result<Vec<Enqueued>> {
        self.run("enqueue", |tx, effects| work::enqueue(tx, entries, now, effects))
    }

    /// Settles an attempt with the handler's own writes: with the commit the message is done. A lease
    /// that is no longer the current one is an error, so that the transaction is rolled back.
    pub fn settle(&self, settlement: Settlement, now: Timestamp) -> Result<()> {
        let message = settlement.lease.message;
        let settled = self.run("settle", |tx, effects| {
            work::settle(tx, std::slice::from_ref(&settlement), now, effects)
        })?;
        settled.first().unwrap_or(&Settled::Lost).or_roll_back(message)
    }

    /// Notes that a group deals with a message, with the handler's own writes.
    pub fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<Admitted> {
        self.run("admit", |tx, _| inbox::admit(tx, group, message, now))
    }

    fn run<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection, &mut Effects) -> Tried<T>,
    ) -> Result<T> {
        // The watchers ring for what is committed; nobody is told before.
        let mut effects = Effects::default();
        let done = work(self.transaction, &mut effects).and_then(|answer| {
            effects.write(self.transaction)?;
            Ok(answer)
        });
        done.map_err(|fault: Fault| {
            let path = self.transaction.path().unwrap_or("the database");
            fault.told(Path::new(path), Duration::ZERO).during(operation)
        })
    }
}

impl Outbox for SqliteOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<Enqueued>> {
        Self::enqueue(self, &entries, now)
    }
}
