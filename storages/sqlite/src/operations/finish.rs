//! Finish: moves done and cancelled messages from the hot table to the history, each into one row with the
//! attempt that ended it. Many at a time: a statement opens the tables and each of their indexes, however few
//! rows it writes.

use std::fmt::Write as _;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::Settlement;
use punctual::model::{Execution, LeaseRef, MessageState};
use punctual_columns::code::Code as _;
use punctual_columns::instant::micros;

use super::settle::token;
use crate::driver::Driver;
use crate::error::StorageResult;
use crate::row::{NEAR, execution_values};
use crate::value::{Param, values};

/// Number of messages that are finished together.
pub(super) const TOGETHER: usize = 16;

/// Parameters of each row: those of an execution, the token and the state. One more, the instant, is shared by
/// all rows.
const PARAMETERS: usize = 20;

/// Rows of one statement.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    /// Several rows, of messages without limit, batch, progress and checkpoint; those columns are left out,
    /// which makes the rows shorter.
    Plain(usize),
    /// One row, of any message.
    Any,
}

impl Rows {
    fn count(self) -> usize {
        match self {
            Self::Plain(rows) => rows,
            Self::Any => 1,
        }
    }
}

/// Builds the statement that inserts executions together with the messages that they ended. It skips rows whose
/// lease is not the current one, whose execution differs from the message's row, and whose execution is stored
/// already.
///
/// The columns are in the order of the table, so that SQLite need not reorder them; conflicts are ignored,
/// because a statement that may fail keeps a copy of every page it changes.
fn statement(rows: Rows) -> String {
    let (columns, values_of_message, condition) = match rows {
        Rows::Plain(_) => {
            ("", "", " AND coalesce(m.lane, m.batch, m.progress, m.checkpoint) IS NULL")
        }
        Rows::Any => (" batch, progress, checkpoint,", " m.batch, m.progress, m.checkpoint,", ""),
    };
    let rows = rows.count();
    let mut values = String::new();
    for row in 0..rows {
        let numbers = (1..=PARAMETERS).map(|number| format!("?{}", row * PARAMETERS + number));
        let comma = if row == 0 { "" } else { ", " };
        let _ = write!(values, "{comma}({})", numbers.collect::<Vec<_>>().join(", "));
    }
    let now = rows * PARAMETERS + 1;
    format!(
        "INSERT OR IGNORE INTO punctual_history (id, message, state, ending, ended_at, finished_at, \
         strayed_at, queue, topic, key, job, nominal, source, attempt, attempts_max, process, due_at, \
         started_at, note, log, priority, planned_at, created_at, dedupe, exclusive, crashes, snoozes, error,\
         {columns} extra, body) \
         SELECT e.column1, m.id, e.column20, e.column15, e.column14, ?{now}, e.column18, m.queue, m.topic, \
         m.key, m.job, e.column7, m.source, m.attempt, e.column10, e.column11, m.due_at, e.column13, \
         e.column16, e.column17, m.priority, m.planned_at, m.created_at, m.dedupe, m.exclusive, m.crashes, \
         m.snoozes, m.error,{values_of_message} m.extra, m.body \
         FROM (VALUES {values}) e CROSS JOIN punctual_message m \
         WHERE m.id = e.column2 AND m.token = e.column19 AND m.state = 1 AND m.topic = e.column3 \
         AND m.queue = e.column4 AND m.key IS e.column5 AND m.job IS e.column6 AND m.source = e.column8 \
         AND m.attempt = e.column9 AND m.due_at = e.column12{condition}"
    )
}

/// Undoes [`statement`] for a message: no other message is in the history and alive.
const UNDO: &str = "DELETE FROM punctual_history WHERE message = ?1 AND state >= 0 \
     AND EXISTS (SELECT 1 FROM punctual_message WHERE id = ?1)";

/// Message to finish.
pub(super) struct Finish<'a> {
    pub(super) lease: LeaseRef,
    pub(super) state: MessageState,
    pub(super) execution: &'a Execution,
}

impl<'a> Finish<'a> {
    /// Returns what a settlement finishes, if the message can share a row with the attempt: the attempt is one
    /// of this message, and it ended just now.
    pub(super) fn of(settlement: &'a Settlement, now: i64) -> Option<Self> {
        let (lease, execution) = (settlement.lease, settlement.execution.as_deref()?);
        let state = match settlement.verdict {
            Verdict::Done => MessageState::Done,
            Verdict::Cancelled => MessageState::Cancelled,
            Verdict::Dead { .. } | Verdict::Again { .. } => return None,
        };
        let age = now.saturating_sub(micros(execution.ended_at));
        let may_share = execution.message == Some(lease.message) && (0..NEAR).contains(&age);
        may_share.then_some(Self { lease, state, execution })
    }
}

/// Finishes a fixed number of messages at a time.
pub(super) struct Finisher<'a, D: Driver> {
    driver: &'a D,
    copy: D::Statement,
    remove: D::Statement,
}

impl<'a, D: Driver> Finisher<'a, D> {
    pub(super) fn new(driver: &'a D, rows: Rows) -> StorageResult<Self> {
        let ids = vec!["?"; rows.count()].join(", ");
        let remove = format!("DELETE FROM punctual_message WHERE id IN ({ids})");
        Ok(Self {
            driver,
            copy: driver.prepare(&statement(rows))?,
            remove: driver.prepare(&remove)?,
        })
    }

    /// Finishes the messages, or none when one of them cannot be finished in this way. No message may occur
    /// twice.
    pub(super) async fn finish(
        &mut self,
        finishes: &[Finish<'_>],
        now: i64,
    ) -> StorageResult<bool> {
        let mut rows = Vec::with_capacity(finishes.len() * PARAMETERS + 1);
        for finish in finishes {
            rows.extend(execution_values(finish.execution, now));
            rows.extend(values![token(finish.lease), finish.state.code()]);
        }
        rows.push(now.into());
        let finished = self.driver.execute(&mut self.copy, &rows).await?;
        let ids = finishes.iter().map(|finish| finish.lease.message.as_uuid());
        if finished < finishes.len() {
            for id in ids.filter(|_| finished > 0) {
                self.driver.run(UNDO, &values![id]).await?;
            }
            return Ok(false);
        }
        let ids: Vec<Param<'_>> = ids.map(Param::from).collect();
        self.driver.execute(&mut self.remove, &ids).await?;
        Ok(true)
    }
}
