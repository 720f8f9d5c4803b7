//! Import: stores records of another storage in their current state, each in the table of that state.

use punctual::backend::storage::EnqueueResult;
use punctual::jiff::Timestamp;
use punctual::model::{MessageRecord, MessageState};
use punctual_columns::code::Code;
use punctual_columns::instant::{micros, micros_up};
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::deduplication::plan_import;
use crate::operations::enqueue::CHUNK;
use crate::pending_notifications::PendingNotifications;
use crate::row::{MessageArrays, StateArrays};
use crate::session::Session;
use crate::value::Micros;

impl Inner {
    /// Stores records of another storage; returns also the notifications that follow.
    pub(crate) async fn import_messages(
        &self,
        session: &Session<'_>,
        records: &[MessageRecord],
        now: Timestamp,
    ) -> Result<(Vec<EnqueueResult>, PendingNotifications), StorageError> {
        let known = self.known(session, records.iter().map(|record| &*record.message)).await?;
        let (results, kept) = plan_import(records, known);
        self.put(session, &kept, now).await?;
        let mut notifications = PendingNotifications::default();
        for (record, result) in records.iter().zip(&results) {
            if record.state.is_alive() && *result == EnqueueResult::Stored {
                notifications.add_due(&record.message.queue, micros_up(record.due_at));
            }
        }
        Ok((results, notifications))
    }

    /// Writes records into the tables of their states.
    pub(crate) async fn put(
        &self,
        session: &Session<'_>,
        records: &[&MessageRecord],
        now: Timestamp,
    ) -> Result<(), StorageError> {
        for some in records.chunks(CHUNK) {
            for (sql, states) in [
                (&self.sql.insert, &[MessageState::Pending, MessageState::Running][..]),
                (&self.sql.insert_dead, &[MessageState::Dead]),
                (&self.sql.insert_finished, &[MessageState::Done, MessageState::Cancelled]),
            ] {
                let here: Vec<&MessageRecord> =
                    some.iter().copied().filter(|record| states.contains(&record.state)).collect();
                if here.is_empty() {
                    continue;
                }
                let (mut columns, mut standings) =
                    (MessageArrays::default(), StateArrays::default());
                for record in &here {
                    columns.push_record(record)?;
                    standings.push(record)?;
                    standings.ended.push(Micros(micros(record.ended_at.unwrap_or(now))));
                    standings.codes.push(match record.state {
                        MessageState::Dead => record.dead.map(Code::code),
                        state => Some(state.code()),
                    });
                }
                let mut params = columns.params();
                params.extend(standings.params());
                if states[0].is_alive() {
                    params.extend(columns.relations());
                } else {
                    params.push((&standings.codes, Type::INT2_ARRAY));
                    params.push((&standings.ended, Type::TIMESTAMPTZ_ARRAY));
                    params.push(columns.batches());
                }
                if session.execute(sql, &params).await? < here.len() as u64 {
                    return Err(StorageError::Raced);
                }
            }
        }
        Ok(())
    }
}
