//! Outbox: messages, settlements and inbox records inside a transaction that the application has opened on its
//! own connection to the same file. They take effect with its commit and vanish with its rollback; the watcher
//! of every storage on the file notices the commit.

use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{InboxResult, Outbox, Result};
use rusqlite::{Connection, Transaction};

use crate::application_transaction;
use crate::driver::at_once;

/// Outbox in an open transaction of the application.
///
/// The connection belongs to the application: opened with rusqlite on the same file. Begin with `BEGIN
/// IMMEDIATE` (rusqlite's `TransactionBehavior::Immediate`) and set a busy timeout, so that the transaction
/// waits for the write lock at its beginning; one that has read first cannot wait.
///
/// ```
/// # fn example(mut connection: rusqlite::Connection, entries: Vec<punctual::backend::storage::Entry>, now: punctual::jiff::Timestamp) -> Result<(), Box<dyn std::error::Error>> {
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
    /// Creates an outbox in this transaction. A storage must have opened the file before, so that the tables
    /// exist.
    pub fn new(transaction: &'a Transaction<'_>) -> Self {
        Self { transaction }
    }

    /// Stores a batch as [`Storage::enqueue`](punctual::Storage::enqueue) does, as part of the transaction.
    /// After an error the transaction must be rolled back.
    pub fn enqueue(&self, entries: &[Entry], now: Timestamp) -> Result<Vec<EnqueueResult>> {
        at_once(application_transaction::enqueue(&self.transaction, entries, now))
    }

    /// Settles an attempt in the transaction of the handler's own writes: the message is done when it commits.
    /// Fails when the lease is no longer the current one, so that the transaction is rolled back.
    pub fn settle(&self, settlement: Settlement, now: Timestamp) -> Result<()> {
        at_once(application_transaction::settle(&self.transaction, settlement, now))
    }

    /// Records in the transaction that a group processes a message.
    pub fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<InboxResult> {
        at_once(application_transaction::admit(&self.transaction, group, message, now))
    }
}

impl Outbox for SqliteOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        Self::enqueue(self, &entries, now)
    }
}
