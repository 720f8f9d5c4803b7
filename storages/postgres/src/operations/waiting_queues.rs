//! Waiting queues: queues whose messages wait for other messages of their job, for the end of a pause, or for
//! others that share their limit. They are notified when a message of that job or limit stops running.

use std::collections::HashSet;

use punctual::model::MessageState;
use punctual_columns::code::Code;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::Param;

/// Jobs and limits of which a message stopped running.
#[derive(Debug, Default)]
pub(crate) struct FreedSlots {
    pub(crate) jobs: HashSet<String>,
    /// Names of the limits.
    pub(crate) lanes: HashSet<String>,
}

impl FreedSlots {
    pub(crate) fn of_jobs(jobs: HashSet<String>) -> Self {
        Self { jobs, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.lanes.is_empty()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.jobs.extend(other.jobs);
        self.lanes.extend(other.lanes);
    }
}

impl Inner {
    /// Returns the queues in which messages may have waited for these jobs and limits.
    pub(crate) async fn waiting(
        &self,
        session: &Session<'_>,
        turns: &FreedSlots,
        all: bool,
    ) -> Result<HashSet<String>, StorageError> {
        if turns.is_empty() {
            return Ok(HashSet::new());
        }
        let jobs: Vec<&str> = turns.jobs.iter().map(String::as_str).collect();
        let lanes: Vec<&str> = turns.lanes.iter().map(String::as_str).collect();
        let params: [Param<'_>; 4] = [
            (&jobs, Type::TEXT_ARRAY),
            (&all, Type::BOOL),
            (&lanes, Type::TEXT_ARRAY),
            (&MessageState::Pending.code(), Type::INT2),
        ];
        let rows = session.query(&self.sql.waiting_queues, &params).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}
