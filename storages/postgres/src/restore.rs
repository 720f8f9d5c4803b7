//! Restore: records as they stood in another storage, each into the table its state belongs to.

use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{MessageRecord, State};
use punctual::storage::{Enqueued, Line};
use punctual_rows::code::Code;
use punctual_rows::instant::{micros, micros_up};
use tokio_postgres::types::Type;

use crate::columns::{Messages, Standings};
use crate::enqueue::CHUNK;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::Micros;

impl Inner {
    /// Stores records as they stood elsewhere.
    pub(crate) async fn restore(
        self: &Arc<Self>,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<Enqueued>> {
        let records: Vec<MessageRecord> =
            records.into_iter().map(|record| record.moved(now)).collect();
        let answers: Vec<Enqueued> = attempt!(self, |held| async {
            held.begin().await?;
            let known = self.known(held, records.iter().map(|record| &*record.message)).await?;
            let (answers, kept) = crate::judge::judge_moved(&records, known);
            self.put(held, &kept, now).await?;
            held.commit().await?;
            Ok(answers)
        })?;
        let stored = records.iter().zip(&answers);
        let stored = stored
            .filter(|(record, answer)| record.state.is_alive() && **answer == Enqueued::Stored);
        for (record, _) in stored {
            self.tell(Line::Queue(record.message.queue.clone()), micros_up(record.due_at));
        }
        Ok(answers)
    }

    /// Writes records into the tables their states belong to.
    pub(crate) async fn put(
        &self,
        held: &Session<'_>,
        records: &[&MessageRecord],
        now: Timestamp,
    ) -> Result<(), Failure> {
        for some in records.chunks(CHUNK) {
            for (sql, states) in [
                (&self.sql.insert, &[State::Pending, State::Running][..]),
                (&self.sql.bury, &[State::Dead]),
                (&self.sql.keep_finished, &[State::Done, State::Cancelled]),
            ] {
                let here: Vec<&MessageRecord> =
                    some.iter().copied().filter(|record| states.contains(&record.state)).collect();
                if here.is_empty() {
                    continue;
                }
                let (mut columns, mut standings) = (Messages::default(), Standings::default());
                for record in &here {
                    columns.push(&record.message, micros_up(record.due_at))?;
                    standings.push(record)?;
                    standings.ended.push(Micros(micros(record.ended_at.unwrap_or(now))));
                    standings.codes.push(match record.state {
                        State::Dead => record.dead.map(Code::code),
                        state => Some(state.code()),
                    });
                }
                let mut params = columns.params();
                params.extend(standings.params());
                if states[0].is_alive() {
                    params.extend(columns.ties());
                } else {
                    params.push((&standings.codes, Type::INT2_ARRAY));
                    params.push((&standings.ended, Type::TIMESTAMPTZ_ARRAY));
                    params.push(columns.batches());
                }
                if held.execute(sql, &params).await? < here.len() as u64 {
                    return Err(Failure::Raced);
                }
            }
        }
        Ok(())
    }
}
