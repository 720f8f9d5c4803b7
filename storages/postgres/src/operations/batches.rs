//! Batches: messages that wait for a batch, and the end of a batch. A waiting message is pending and due at the
//! end of time; the transaction that takes the last alive message of the batch out of the hot table makes it
//! due.
//!
//! Two locks keep a waiting message from being forgotten. A transaction that stores a waiting message keeps one
//! message of the batch from ending until it has committed. A transaction that ends a message locks the waiting
//! messages and checks in a later statement whether another message of the batch is still alive.

use std::collections::{BTreeSet, HashSet};

use punctual::backend::storage::END_OF_TIME;
use punctual::model::{BatchId, Message, Queue};
use punctual_columns::instant::micros_up;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::driver::{Cells as _, Driver};
use crate::error::StorageError;
use crate::inner::Inner;
use crate::value::{Micros, Param};

/// Queues with messages that became due, and the due time of each.
pub(crate) type DueQueues = Vec<(Queue, i64)>;

/// Batches that new messages have to wait for.
pub(crate) struct AwaitedBatches(HashSet<Uuid>);

impl AwaitedBatches {
    /// Returns the due time of a message.
    pub(crate) fn due_at(&self, message: &Message) -> i64 {
        let waits = message.waits_for().is_some_and(|batch| self.0.contains(&batch.as_uuid()));
        micros_up(if waits { END_OF_TIME } else { message.due_at })
    }
}

impl Inner {
    /// Returns the batches that messages have to wait for: those with an alive message, in the table or among
    /// `messages`.
    pub(crate) async fn batches_to_wait_for(
        &self,
        session: &impl Driver,
        messages: &[&Message],
    ) -> Result<AwaitedBatches, StorageError> {
        let uuid = BatchId::as_uuid;
        let wanted: BTreeSet<Uuid> =
            messages.iter().filter_map(|one| one.waits_for().map(uuid)).collect();
        if wanted.is_empty() {
            return Ok(AwaitedBatches(HashSet::new()));
        }
        let mut alive: HashSet<Uuid> =
            messages.iter().filter_map(|one| one.batch().map(uuid)).collect();
        let wanted: Vec<Uuid> = wanted.into_iter().collect();
        let rows = session.query(&self.sql.batches_alive, &[(&wanted, Type::UUID_ARRAY)]).await?;
        for row in &rows {
            alive.insert(row.cell(0)?);
        }
        Ok(AwaitedBatches(alive))
    }

    /// Makes the messages that wait for these batches due when no message of the batch is alive any more. Runs
    /// in the open transaction.
    pub(crate) async fn end_batches(
        &self,
        session: &impl Driver,
        batches: &BTreeSet<Uuid>,
    ) -> Result<DueQueues, StorageError> {
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let batches: Vec<Uuid> = batches.iter().copied().collect();
        let end = Micros(micros_up(END_OF_TIME));
        let params: [Param<'_>; 2] = [(&batches, Type::UUID_ARRAY), (&end, Type::TIMESTAMPTZ)];
        let rows = session.query(&self.sql.batches_wait, &params).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = rows.iter().map(|row| row.cell(0)).collect::<Result<_, _>>()?;
        let params: [Param<'_>; 2] = [(&ids, Type::UUID_ARRAY), (&end, Type::TIMESTAMPTZ)];
        let rows = session.query(&self.sql.batches_end, &params).await?;
        rows.iter()
            .map(|row| Ok((Queue::from(row.cell::<String>(0)?), row.cell::<Micros>(1)?.0)))
            .collect()
    }
}
