//! The outbox: messages, settlements and inbox notes inside a transaction the application has opened
//! on its own connection. They become true with its commit and vanish with its rollback. Nobody is
//! notified inside it; the storage is told afterwards, or the lookout finds it.

use std::collections::HashMap;
use std::sync::Arc;

use punctual::jiff::Timestamp;
use punctual::model::{MessageId, Queue};
use punctual::storage::{Enqueued, Entry, Line, Settled, Settlement};
use punctual::{Admitted, Error, Outbox, Result};
use punctual_rows::instant::micros_up;
use tokio_postgres::Transaction;

use crate::PostgresStorage;
use crate::inbox;
use crate::inner::Inner;
use crate::session::Session;

/// An open transaction of the application, into which messages are put.
///
/// ```no_run
/// # async fn example(storage: punctual_postgres::PostgresStorage, mut client: tokio_postgres::Client, entries: Vec<punctual::storage::Entry>, now: punctual::jiff::Timestamp) -> Result<(), Box<dyn std::error::Error>> {
/// use punctual::Outbox as _;
///
/// let transaction = client.transaction().await?;
/// transaction.execute("UPDATE orders SET paid = true WHERE id = 7", &[]).await?;
/// let mut outbox = storage.outbox(&transaction);
/// outbox.enqueue(entries, now).await?;
/// let told = outbox.finish();
/// transaction.commit().await?;
/// told.committed();
/// # Ok(())
/// # }
/// ```
pub struct PostgresOutbox<'a> {
    inner: Arc<Inner>,
    session: Session<'a>,
    due: HashMap<Queue, i64>,
}

/// What becomes due with a commit: say [`Told::committed`] after it, and who waits is woken at once.
/// Not saying it loses nothing; the next look finds the messages.
#[must_use = "who waits is woken by Told::committed"]
pub struct Told {
    inner: Arc<Inner>,
    due: HashMap<Queue, i64>,
}

impl PostgresStorage {
    /// Puts messages into a transaction of the application, on the same database.
    pub fn outbox<'a>(&self, transaction: &'a Transaction<'_>) -> PostgresOutbox<'a> {
        PostgresOutbox {
            inner: Arc::clone(&self.inner),
            session: Session::within(transaction.client()),
            due: HashMap::new(),
        }
    }
}

impl PostgresOutbox<'_> {
    /// Settles an attempt with the handler's own writes: with the commit the message is done. A lease
    /// that is no longer the current one is an error, so that the transaction is rolled back.
    pub async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        let message = settlement.lease.message;
        let settled = self.inner.settle_within(&self.session, &[settlement], now).await;
        match settled.map_err(|failure| failure.into_error().during("settle"))? {
            Settled::Applied => Ok(()),
            Settled::CancelRequested => Err(Error::conflict(format!(
                "the message {message} is to be cancelled; roll the transaction back"
            ))),
            Settled::Lost => Err(Error::conflict(format!(
                "the lease of the message {message} is no longer ours; roll the transaction back"
            ))),
        }
    }

    /// Notes that a group deals with a message, with the handler's own writes.
    pub async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<Admitted> {
        let schema = &self.inner.schema.quoted;
        let noted = inbox::admit(&self.session, schema, (group, message), now).await;
        noted.map_err(|failure| failure.into_error().during("admit"))
    }

    /// Nothing more goes into the transaction.
    pub fn finish(self) -> Told {
        Told { inner: self.inner, due: self.due }
    }
}

impl Told {
    /// The transaction has been committed: wakes who waits, here and elsewhere.
    pub fn committed(self) {
        for (queue, due_at) in self.due {
            self.inner.tell(Line::Queue(queue), due_at);
        }
    }
}

impl Outbox for PostgresOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, _now: Timestamp) -> Result<Vec<Enqueued>> {
        self.inner.ready().await?;
        // Inside somebody else's transaction nothing can be tried again.
        let stored = self.inner.store(&self.session, &entries, 0).await;
        let answers = stored.map_err(|failure| failure.into_error().during("enqueue"))?;
        for (entry, answer) in entries.iter().zip(&answers) {
            if !matches!(answer, Enqueued::Duplicate(_)) {
                let due_at = micros_up(entry.message.due_at);
                let first = self.due.entry(entry.message.queue.clone()).or_insert(due_at);
                *first = due_at.min(*first);
            }
        }
        Ok(answers)
    }
}

impl std::fmt::Debug for PostgresOutbox<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOutbox").field("due", &self.due).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Told").field("due", &self.due).finish_non_exhaustive()
    }
}
