//! What goes into a transaction that is not ours, whatever driver it was opened with: messages,
//! settlements and inbox notes. Nobody is notified inside it; the storage watches for the commit.

use std::collections::HashSet;
use std::sync::Arc;

use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::storage::{Enqueued, Entry, Settlement};
use punctual::{Admitted, Result};
use punctual_rows::instant::micros_up;
use tokio_postgres::types::Type;

use crate::columns::Messages;
use crate::commits::Tidings;
use crate::driver::{Cells as _, Driver};
use crate::enqueue::{Range, dedupes_of, is_new_in_itself};
use crate::failure::Failure;
use crate::inbox;
use crate::inner::Inner;

/// The most times a batch is judged again because of others.
const TRIES_MAX: u32 = 5;

/// A transaction that is not ours, by way of its driver.
pub(crate) struct Within<D> {
    inner: Arc<Inner>,
    driver: D,
    /// The transaction's number, once something was stored in it.
    number: Option<String>,
}

impl<D: Driver> Within<D> {
    pub(crate) fn new(inner: &Arc<Inner>, driver: D) -> Self {
        Self { inner: Arc::clone(inner), driver, number: None }
    }

    pub(crate) async fn enqueue(&mut self, entries: &[Entry]) -> Result<Vec<Enqueued>> {
        self.inner.ready().await?;
        let stored = self.store(entries).await;
        let answers = stored.map_err(|failure| failure.into_error().during("enqueue"))?;
        let mut tidings = Tidings::default();
        for (entry, answer) in entries.iter().zip(&answers) {
            if !matches!(answer, Enqueued::Duplicate(_)) {
                tidings.is_due(&entry.message.queue, micros_up(entry.message.due_at));
            }
        }
        self.tell(tidings).await.map_err(|failure| failure.into_error().during("enqueue"))?;
        Ok(answers)
    }

    /// A lease that is no longer the current one is an error, so that the transaction is rolled back.
    pub(crate) async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        let during = |failure: Failure| failure.into_error().during("settle");
        let jobs = settle(&self.inner, &self.driver, settlement, now).await?;
        self.tell(Tidings { jobs, ..Tidings::default() }).await.map_err(during)
    }

    pub(crate) async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<Admitted> {
        self.inner.ready().await?;
        let schema = &self.inner.schema.quoted;
        let noted = inbox::admit(&self.driver, schema, (group, message), now).await;
        noted.map_err(|failure| failure.into_error().during("admit"))
    }

    /// One message that is new needs one statement; the rest goes the careful way, again when somebody
    /// else was faster.
    async fn store(&mut self, entries: &[Entry]) -> Result<Vec<Enqueued>, Failure> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        if entries.len() == 1 && is_new_in_itself(entries) && self.store_one(entries).await? {
            return Ok(vec![Enqueued::Stored]);
        }
        for _ in 0..TRIES_MAX {
            self.driver.tell("SAVEPOINT punctual_outbox", &[]).await?;
            match self.inner.store(&self.driver, entries, 0).await {
                Ok(answers) => {
                    self.driver.tell("RELEASE SAVEPOINT punctual_outbox", &[]).await?;
                    return Ok(answers);
                }
                Err(Failure::Raced) => {
                    self.driver.tell("ROLLBACK TO SAVEPOINT punctual_outbox", &[]).await?;
                    self.driver.tell("RELEASE SAVEPOINT punctual_outbox", &[]).await?;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Raced)
    }

    async fn store_one(&mut self, entries: &[Entry]) -> Result<bool, Failure> {
        let columns = Messages::of(entries.iter().map(|entry| &*entry.message))?;
        let range = Range::of(entries);
        let dedupes: Vec<&str> = dedupes_of(entries).collect();
        let mut params = columns.params();
        params.extend(range.params());
        params.push((&dedupes, Type::TEXT_ARRAY));
        let rows = self.driver.query(&self.inner.sql.store_one, &params).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        self.number = Some(row.cell(0)?);
        Ok(true)
    }

    /// Has it told after the commit.
    async fn tell(&mut self, tidings: Tidings) -> Result<(), Failure> {
        if tidings.is_empty() {
            return Ok(());
        }
        if self.number.is_none() {
            let rows = self.driver.ask("SELECT pg_current_xact_id()::text", &[]).await?;
            self.number = rows.first().map(|row| row.cell(0)).transpose()?;
        }
        if let Some(number) = &self.number {
            self.inner.tell_after(number.clone(), tidings);
        }
        Ok(())
    }
}

/// Settles an attempt in whatever transaction the driver is in; answers the job of which a message no
/// longer runs.
pub(crate) async fn settle(
    inner: &Inner,
    driver: &impl Driver,
    settlement: Settlement,
    now: Timestamp,
) -> Result<HashSet<String>> {
    inner.ready().await?;
    let message = settlement.lease.message;
    let settled = inner.settle_within(driver, &[settlement], now).await;
    let (settled, jobs) = settled.map_err(|failure| failure.into_error().during("settle"))?;
    settled.or_roll_back(message)?;
    Ok(jobs)
}
