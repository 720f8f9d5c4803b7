//! Batches: who waits for one, and the step by which it ends. What waits is a pending message due at the
//! end of time; whoever takes the last alive message of a batch out of the hot table makes it due.
//!
//! Two locks keep anybody from being forgotten. Who stores something that waits keeps a message of the
//! batch from ending until it has committed; who ends a message locks those that wait, and looks in a
//! later statement whether another message is still alive.

use std::collections::{BTreeSet, HashSet};

use punctual::model::{BatchId, Message, Queue};
use punctual::storage::END_OF_TIME;
use punctual_rows::instant::micros_up;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::driver::{Cells as _, Driver};
use crate::failure::Failure;
use crate::inner::Inner;
use crate::value::{Micros, Param};

/// What became due, and when.
pub(crate) type Freed = Vec<(Queue, i64)>;

/// Which of the messages that are about to be stored wait for a batch.
pub(crate) struct Waiting(HashSet<Uuid>);

impl Waiting {
    /// When a message is due.
    pub(crate) fn due_at(&self, message: &Message) -> i64 {
        let waits = message.waits_for().is_some_and(|batch| self.0.contains(&batch.as_uuid()));
        micros_up(if waits { END_OF_TIME } else { message.due_at })
    }
}

impl Inner {
    /// Which batches messages have to wait for: those of which one is alive, or among them.
    pub(crate) async fn waiting_for(
        &self,
        held: &impl Driver,
        messages: &[&Message],
    ) -> Result<Waiting, Failure> {
        let uuid = BatchId::as_uuid;
        let wanted: BTreeSet<Uuid> =
            messages.iter().filter_map(|one| one.waits_for().map(uuid)).collect();
        if wanted.is_empty() {
            return Ok(Waiting(HashSet::new()));
        }
        let mut alive: HashSet<Uuid> =
            messages.iter().filter_map(|one| one.batch().map(uuid)).collect();
        let wanted: Vec<Uuid> = wanted.into_iter().collect();
        let rows = held.query(&self.sql.batches_alive, &[(&wanted, Type::UUID_ARRAY)]).await?;
        for row in &rows {
            alive.insert(row.cell(0)?);
        }
        Ok(Waiting(alive))
    }

    /// Messages of these batches are no longer alive, in the transaction that is open: those that waited
    /// for the last one are due.
    pub(crate) async fn end_batches(
        &self,
        held: &impl Driver,
        batches: &BTreeSet<Uuid>,
    ) -> Result<Freed, Failure> {
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let batches: Vec<Uuid> = batches.iter().copied().collect();
        let end = Micros(micros_up(END_OF_TIME));
        let params: [Param<'_>; 2] = [(&batches, Type::UUID_ARRAY), (&end, Type::TIMESTAMPTZ)];
        let rows = held.query(&self.sql.batches_wait, &params).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = rows.iter().map(|row| row.cell(0)).collect::<Result<_, _>>()?;
        let params: [Param<'_>; 2] = [(&ids, Type::UUID_ARRAY), (&end, Type::TIMESTAMPTZ)];
        let rows = held.query(&self.sql.batches_end, &params).await?;
        rows.iter()
            .map(|row| Ok((Queue::from(row.cell::<String>(0)?), row.cell::<Micros>(1)?.0)))
            .collect()
    }
}
