//! Settlements as batches: which statement each goes into, in which order, and as which columns.

use std::collections::HashSet;

use punctual::policy::Verdict;
use punctual::storage::Settlement;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::claim::token;
use crate::columns::Executions;
use crate::value::Param;

/// A settlement with its place in the batch.
pub(crate) type Placed<'a> = (usize, &'a Settlement);

/// The ids and tokens of a batch, which every statement begins with.
pub(crate) struct Fence {
    ids: Vec<Uuid>,
    tokens: Vec<i64>,
}

impl Fence {
    pub(crate) fn of(batch: &[Placed<'_>]) -> Self {
        Self {
            ids: batch.iter().map(|(_, one)| one.lease.message.as_uuid()).collect(),
            tokens: batch.iter().map(|(_, one)| token(one.lease.token)).collect(),
        }
    }

    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        vec![(&self.ids, Type::UUID_ARRAY), (&self.tokens, Type::INT8_ARRAY)]
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

pub(crate) fn is_one_kind(settlements: &[Settlement]) -> bool {
    let mut kinds = settlements.iter().map(|one| Kind::of(&one.verdict));
    let first = kinds.next();
    kinds.all(|kind| Some(kind) == first)
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

/// The executions of a batch, each with the number of its row, from 1.
pub(crate) fn executions_of<'a>(batch: &[Placed<'a>]) -> Executions<'a> {
    let mut executions = Executions::default();
    for (index, (_, one)) in batch.iter().enumerate() {
        if let Some(execution) = &one.execution {
            executions.push(index + 1, execution);
        }
    }
    executions
}
