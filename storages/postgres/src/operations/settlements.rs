//! Settlements as batches: the statement of each, their order, and their columns.

use std::borrow::Cow;
use std::collections::HashSet;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::Settlement;
use punctual::model::Execution;
use punctual_columns::code::Code;
use punctual_columns::instant::micros;
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::operations::extend::token;
use crate::value::{Micros, Param};

/// Settlement with its index in the batch.
pub(crate) type IndexedSettlement<'a> = (usize, &'a Settlement);

/// First parameters of every settle statement: the ids and tokens of a batch, and the fields of the ended
/// attempt that its message does not contain, one array for each column.
#[derive(Default)]
pub(crate) struct AttemptArrays<'a> {
    messages: Vec<Uuid>,
    tokens: Vec<i64>,
    ids: Vec<Option<Uuid>>,
    processes: Vec<Option<Uuid>>,
    started: Vec<Option<Micros>>,
    ended: Vec<Option<Micros>>,
    nominal: Vec<Option<Micros>>,
    limits: Vec<Option<i32>>,
    endings: Vec<Option<i16>>,
    notes: Vec<Option<Cow<'a, str>>>,
    logs: Vec<Option<Cow<'a, str>>>,
}

impl<'a> AttemptArrays<'a> {
    pub(crate) fn of(batch: &[IndexedSettlement<'a>]) -> Self {
        let mut columns = Self::default();
        for (_, one) in batch {
            columns.messages.push(one.lease.message.as_uuid());
            columns.tokens.push(token(one.lease.token));
            columns.push(one.execution.as_deref());
        }
        clear_if_empty(&mut columns.ids);
        clear_if_empty(&mut columns.processes);
        clear_if_empty(&mut columns.started);
        clear_if_empty(&mut columns.ended);
        clear_if_empty(&mut columns.nominal);
        clear_if_empty(&mut columns.limits);
        clear_if_empty(&mut columns.endings);
        clear_if_empty(&mut columns.notes);
        clear_if_empty(&mut columns.logs);
        columns
    }

    fn push(&mut self, execution: Option<&'a Execution>) {
        let at = |instant| Micros(micros(instant));
        self.ids.push(execution.map(|one| one.id.as_uuid()));
        self.processes.push(execution.and_then(|one| Some(one.process?.as_uuid())));
        self.started.push(execution.map(|one| at(one.started_at)));
        self.ended.push(execution.map(|one| at(one.ended_at)));
        self.nominal.push(execution.and_then(|one| one.nominal.map(at)));
        self.limits.push(execution.and_then(|one| one.attempts_max.map(count_to_column)));
        self.endings.push(execution.map(|one| one.ending.code()));
        self.notes.push(execution.and_then(|one| one.note.as_deref().map(without_nul)));
        self.logs.push(execution.and_then(|one| one.log.as_deref().map(without_nul)));
    }

    /// Returns the first eleven parameters.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        vec![
            (&self.messages, Type::UUID_ARRAY),
            (&self.tokens, Type::INT8_ARRAY),
            (&self.ids, Type::UUID_ARRAY),
            (&self.processes, Type::UUID_ARRAY),
            (&self.started, Type::TIMESTAMPTZ_ARRAY),
            (&self.ended, Type::TIMESTAMPTZ_ARRAY),
            (&self.nominal, Type::TIMESTAMPTZ_ARRAY),
            (&self.limits, Type::INT4_ARRAY),
            (&self.endings, Type::INT2_ARRAY),
            (&self.notes, Type::TEXT_ARRAY),
            (&self.logs, Type::TEXT_ARRAY),
        ]
    }
}

/// Sends an empty array instead of one NULL for each row: the server looks up a value much faster in an array
/// without NULLs.
fn clear_if_empty<T>(column: &mut Vec<Option<T>>) {
    if column.iter().all(Option::is_none) {
        column.clear();
    }
}

/// Statement for a decision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Finished,
    Again,
    Dead,
}

impl Kind {
    pub(crate) fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Done | Verdict::Cancelled => Self::Finished,
            Verdict::Again { .. } => Self::Again,
            Verdict::Dead { .. } => Self::Dead,
        }
    }
}

/// Returns whether one statement is enough for a batch: one kind of decision, and no follow-up messages.
pub(crate) fn is_uniform(settlements: &[Settlement]) -> bool {
    let mut kinds = settlements.iter().map(|one| Kind::of(&one.verdict));
    let first = kinds.next();
    kinds.all(|kind| Some(kind) == first) && settlements.iter().all(|one| one.then.is_empty())
}

/// Splits settlements into batches without repeated messages, each sorted by id to avoid deadlocks. Nearly
/// always one.
pub(crate) fn rounds(settlements: &[Settlement]) -> Vec<Vec<IndexedSettlement<'_>>> {
    let mut rounds: Vec<(HashSet<Uuid>, Vec<IndexedSettlement<'_>>)> = Vec::new();
    for placed in settlements.iter().enumerate() {
        let id = placed.1.lease.message.as_uuid();
        // A later settlement of a message goes into a later batch than the earlier one.
        let after =
            rounds.iter().rposition(|(ids, _)| ids.contains(&id)).map_or(0, |last| last + 1);
        if after == rounds.len() {
            rounds.push(Default::default());
        }
        rounds[after].0.insert(id);
        rounds[after].1.push(placed);
    }
    let mut rounds: Vec<_> = rounds.into_iter().map(|(_, round)| round).collect();
    for round in &mut rounds {
        round.sort_unstable_by_key(|(_, one)| one.lease.message);
    }
    rounds
}
