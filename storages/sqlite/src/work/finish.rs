//! Finish: messages that are done or cancelled leave the hot table for the history, each into one row with
//! the attempt that finished it. Many at a time: a statement opens the tables and each of their indexes,
//! however few rows it writes.

use std::fmt::Write as _;

use punctual::model::{Execution, LeaseRef, State};
use punctual::policy::Verdict;
use punctual::storage::Settlement;
use punctual_rows::code::Code as _;
use punctual_rows::instant::micros;
use rusqlite::{CachedStatement, Connection};

use super::settle::token;
use crate::fault::Tried;
use crate::row::{NEAR, bind};

/// How many are finished together.
pub(super) const TOGETHER: usize = 16;

/// Parameters of each row: those of an execution, the token and the state. One more is shared by all of
/// them: the instant.
const PARAMETERS: usize = 19;

/// Appends executions that finished their messages, together with what is left of those. Leaves out whose
/// lease is not the current one, whose execution does not say the same of the message as its row, and
/// whose execution is there already.
///
/// The columns are in the order of the table, so that SQLite need not bring them into it; and what conflicts
/// is ignored, because a statement that may fail keeps a copy of every page it changes.
pub(crate) fn statement(rows: usize) -> String {
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
         started_at, note, priority, planned_at, created_at, dedupe, exclusive, crashes, snoozes, error, \
         extra, body) \
         SELECT e.column1, m.id, e.column19, e.column15, e.column14, ?{now}, e.column17, m.queue, m.topic, \
         m.key, m.job, e.column7, m.source, m.attempt, e.column10, e.column11, m.due_at, e.column13, \
         e.column16, m.priority, m.planned_at, m.created_at, m.dedupe, m.exclusive, m.crashes, m.snoozes, \
         m.error, m.extra, m.body \
         FROM (VALUES {values}) e CROSS JOIN punctual_message m \
         WHERE m.id = e.column2 AND m.token = e.column18 AND m.state = 1 AND m.topic = e.column3 \
         AND m.queue = e.column4 AND m.key IS e.column5 AND m.job IS e.column6 AND m.source = e.column8 \
         AND m.attempt = e.column9 AND m.due_at = e.column12"
    )
}

/// Takes back what [`statement`] did with a message: nothing else is in the history and alive.
const TAKE_BACK: &str = "DELETE FROM punctual_history WHERE message = ?1 AND state >= 0 \
     AND EXISTS (SELECT 1 FROM punctual_message WHERE id = ?1)";

/// A message to finish.
pub(crate) struct Finish<'a> {
    pub(crate) lease: LeaseRef,
    pub(crate) state: State,
    pub(crate) execution: &'a Execution,
}

impl<'a> Finish<'a> {
    /// What a settlement finishes, if the message can share a row with the attempt: it is an attempt of this
    /// message, and it ended just now.
    pub(crate) fn of(settlement: &'a Settlement, now: i64) -> Option<Self> {
        let (lease, execution) = (settlement.lease, settlement.execution.as_deref()?);
        let state = match settlement.verdict {
            Verdict::Done => State::Done,
            Verdict::Cancelled => State::Cancelled,
            Verdict::Dead { .. } | Verdict::Again { .. } => return None,
        };
        let age = now.saturating_sub(micros(execution.ended_at));
        let may_share = execution.message == Some(lease.message) && (0..NEAR).contains(&age);
        may_share.then_some(Self { lease, state, execution })
    }
}

/// Finishes so many at a time.
pub(super) struct Finishing<'a> {
    transaction: &'a Connection,
    copy: CachedStatement<'a>,
    remove: CachedStatement<'a>,
}

impl<'a> Finishing<'a> {
    pub(super) fn new(transaction: &'a Connection, rows: usize) -> Tried<Self> {
        let remove =
            format!("DELETE FROM punctual_message WHERE id IN ({})", vec!["?"; rows].join(", "));
        Ok(Self {
            transaction,
            copy: transaction.prepare_cached(&statement(rows))?,
            remove: transaction.prepare_cached(&remove)?,
        })
    }

    /// Finishes them, or none when one of them cannot be finished so. No message may be there twice.
    pub(super) fn finish(&mut self, finishes: &[Finish<'_>], now: i64) -> Tried<bool> {
        let mut first = 1;
        for finish in finishes {
            bind(&mut self.copy, first, finish.execution, now)?;
            self.copy.raw_bind_parameter(first + PARAMETERS - 2, token(finish.lease))?;
            self.copy.raw_bind_parameter(first + PARAMETERS - 1, finish.state.code())?;
            first += PARAMETERS;
        }
        self.copy.raw_bind_parameter(first, now)?;
        let finished = self.copy.raw_execute()?;
        if finished < finishes.len() {
            let mut take_back = self.transaction.prepare_cached(TAKE_BACK)?;
            for finish in finishes.iter().filter(|_| finished > 0) {
                take_back.execute([finish.lease.message.as_uuid().as_bytes()])?;
            }
            return Ok(false);
        }
        for (index, finish) in finishes.iter().enumerate() {
            self.remove.raw_bind_parameter(index + 1, finish.lease.message.as_uuid().as_bytes())?;
        }
        self.remove.raw_execute()?;
        Ok(true)
    }
}
