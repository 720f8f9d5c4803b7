//! Whose turn it is: what waits for a job's other messages, for the end of a pause, or for others that
//! share its limit is told when something of that no longer runs.

use std::collections::HashSet;
use std::sync::Arc;

use punctual::model::{Queue, State};
use punctual::storage::Line;
use punctual_rows::code::Code;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::{Micros, Param};

/// Of what a message no longer runs.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    pub(crate) jobs: HashSet<String>,
    /// The limits they shared.
    pub(crate) lanes: HashSet<String>,
}

impl Turns {
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
    /// The queues in which something may have waited for what no longer runs.
    pub(crate) async fn waiting(
        &self,
        held: &Session<'_>,
        turns: &Turns,
        all: bool,
    ) -> Result<HashSet<String>, Failure> {
        if turns.is_empty() {
            return Ok(HashSet::new());
        }
        let jobs: Vec<&str> = turns.jobs.iter().map(String::as_str).collect();
        let lanes: Vec<&str> = turns.lanes.iter().map(String::as_str).collect();
        let params: [Param<'_>; 4] = [
            (&jobs, Type::TEXT_ARRAY),
            (&all, Type::BOOL),
            (&lanes, Type::TEXT_ARRAY),
            (&State::Pending.code(), Type::INT2),
        ];
        let rows = held.query(&self.sql.waiting_queues, &params).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Somebody's turn may have come; since when they waited nobody knows.
    pub(crate) fn tell_turns(self: &Arc<Self>, queues: HashSet<String>) {
        for queue in queues {
            self.tell(Line::Queue(Queue::from(queue)), Micros::MIN.0);
        }
    }
}
