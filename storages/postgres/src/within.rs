//! What goes into a transaction that is not ours, whatever driver it was opened with: messages,
//! settlements and inbox notes. Nobody is notified inside it; the storage watches for the commit.

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
use crate::enqueue::{Range, Stored, dedupes_of, is_new_in_itself};
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

    pub(crate) async fn enqueue(
        &mut self,
        entries: &[Entry],
        now: Timestamp,
    ) -> Result<Vec<Enqueued>> {
        self.inner.ready().await?;
        let stored = self.store(entries, now).await;
        let Stored { answers, freed } =
            stored.map_err(|failure| failure.into_error().during("enqueue"))?;
        let mut tidings = Tidings::default();
        tidings.are_due(freed);
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
        let tidings = settle(&self.inner, &self.driver, settlement, now).await?;
        self.tell(tidings).await.map_err(during)
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
    async fn store(&mut self, entries: &[Entry], now: Timestamp) -> Result<Stored, Failure> {
        let at_once = |answers| Stored { answers, freed: Vec::new() };
        if entries.is_empty() {
            return Ok(at_once(Vec::new()));
        }
        if entries.len() == 1 && is_new_in_itself(entries) && self.store_one(entries).await? {
            return Ok(at_once(vec![Enqueued::Stored]));
        }
        for _ in 0..TRIES_MAX {
            self.driver.tell("SAVEPOINT punctual_outbox", &[]).await?;
            match self.inner.store(&self.driver, entries, 0, now).await {
                Ok(stored) => {
                    self.driver.tell("RELEASE SAVEPOINT punctual_outbox", &[]).await?;
                    return Ok(stored);
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
        params.extend(columns.ties());
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

/// Settles an attempt in whatever transaction the driver is in; answers what there is to tell once that
/// has committed.
pub(crate) async fn settle(
    inner: &Inner,
    driver: &impl Driver,
    settlement: Settlement,
    now: Timestamp,
) -> Result<Tidings> {
    inner.ready().await?;
    let message = settlement.lease.message;
    let settled = inner.settle_within(driver, &[settlement], now).await;
    let (settled, tidings) = settled.map_err(|failure| failure.into_error().during("settle"))?;
    settled.or_roll_back(message)?;
    Ok(tidings)
}
