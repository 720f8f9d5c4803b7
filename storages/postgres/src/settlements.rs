//! Settlements as batches: which statement each goes into, in which order, and as which columns.

use std::borrow::Cow;
use std::collections::HashSet;

use punctual::model::Execution;
use punctual::policy::Verdict;
use punctual::storage::Settlement;
use punctual_rows::code::Code;
use punctual_rows::instant::micros;
use punctual_rows::message::column;
use punctual_rows::without_nul;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::claim::token;
use crate::value::{Micros, Param};

/// A settlement with its place in the batch.
pub(crate) type Placed<'a> = (usize, &'a Settlement);

/// What every statement begins with: the ids and tokens of a batch, and what a message does not know of
/// the attempt that ended, one array for each column.
#[derive(Default)]
pub(crate) struct Attempts<'a> {
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

impl<'a> Attempts<'a> {
    pub(crate) fn of(batch: &[Placed<'a>]) -> Self {
        let mut columns = Self::default();
        for (_, one) in batch {
            columns.messages.push(one.lease.message.as_uuid());
            columns.tokens.push(token(one.lease.token));
            columns.push(one.execution.as_deref());
        }
        thin(&mut columns.ids);
        thin(&mut columns.processes);
        thin(&mut columns.started);
        thin(&mut columns.ended);
        thin(&mut columns.nominal);
        thin(&mut columns.limits);
        thin(&mut columns.endings);
        thin(&mut columns.notes);
        thin(&mut columns.logs);
        columns
    }

    fn push(&mut self, execution: Option<&'a Execution>) {
        let at = |instant| Micros(micros(instant));
        self.ids.push(execution.map(|one| one.id.as_uuid()));
        self.processes.push(execution.and_then(|one| Some(one.process?.as_uuid())));
        self.started.push(execution.map(|one| at(one.started_at)));
        self.ended.push(execution.map(|one| at(one.ended_at)));
        self.nominal.push(execution.and_then(|one| one.nominal.map(at)));
        self.limits.push(execution.and_then(|one| one.attempts_max.map(column)));
        self.endings.push(execution.map(|one| one.ending.code()));
        self.notes.push(execution.and_then(|one| one.note.as_deref().map(without_nul)));
        self.logs.push(execution.and_then(|one| one.log.as_deref().map(without_nul)));
    }

    /// The first eleven parameters.
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

/// Sends nothing instead of nothing for each: the server looks a value up much faster in an array
/// without gaps.
fn thin<T>(column: &mut Vec<Option<T>>) {
    if column.iter().all(Option::is_none) {
        column.clear();
    }
}

/// Which statement a decision goes into.
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

/// Whether one statement does for all of a batch: one kind of decision, and nothing that follows.
pub(crate) fn is_alike(settlements: &[Settlement]) -> bool {
    let mut kinds = settlements.iter().map(|one| Kind::of(&one.verdict));
    let first = kinds.next();
    kinds.all(|kind| Some(kind) == first) && settlements.iter().all(|one| one.then.is_empty())
}

/// Batches in which no message is there twice, each sorted by id so that nobody waits for each other
/// in a ring. Nearly always one.
pub(crate) fn rounds(settlements: &[Settlement]) -> Vec<Vec<Placed<'_>>> {
    let mut rounds: Vec<(HashSet<Uuid>, Vec<Placed<'_>>)> = Vec::new();
    for placed in settlements.iter().enumerate() {
        let id = placed.1.lease.message.as_uuid();
        // Not before one that came earlier: a later round than any that has it.
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
