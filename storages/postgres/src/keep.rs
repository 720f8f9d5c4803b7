//! What handlers say while they work: how far they are, and where to go on after a failure or a crash.

use std::collections::{HashMap, HashSet};

use punctual::Result;
use punctual::storage::{Extended, Keep};
use punctual_rows::message::kept;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::claim::token;
use crate::enqueue::CHUNK;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::value::Param;

impl Inner {
    pub(crate) async fn keep(&self, keeps: &[Keep]) -> Result<Vec<Extended>> {
        let mut answers = vec![Extended::Lost; keeps.len()];
        for round in rounds(keeps) {
            for some in round.chunks(CHUNK) {
                self.keep_some(some, &mut answers).await?;
            }
        }
        Ok(answers)
    }

    async fn keep_some(&self, some: &[(usize, &Keep)], answers: &mut [Extended]) -> Result<()> {
        let named = |keep: &Keep| (keep.lease.message.as_uuid(), token(keep.lease.token));
        let (ids, tokens): (Vec<Uuid>, Vec<i64>) = some.iter().map(|(_, keep)| named(keep)).unzip();
        let (mut progress, mut checkpoints) = (Vec::new(), Vec::new());
        for (_, keep) in some {
            progress.push(keep.progress.as_ref().map(kept).transpose()?);
            checkpoints.push(keep.checkpoint.as_ref().map(kept).transpose()?);
        }
        let found: HashMap<(Uuid, i64), bool> = attempt!(self, |held| async {
            let params: [Param<'_>; 4] = [
                (&ids, Type::UUID_ARRAY),
                (&tokens, Type::INT8_ARRAY),
                (&progress, Type::TEXT_ARRAY),
                (&checkpoints, Type::TEXT_ARRAY),
            ];
            let rows = held.query(&self.sql.keep, &params).await?;
            let read = |row: &tokio_postgres::Row| {
                Ok::<_, Failure>(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?))
            };
            rows.iter().map(read).collect()
        })?;
        for (place, keep) in some {
            answers[*place] = match found.get(&named(keep)) {
                None => Extended::Lost,
                Some(true) => Extended::CancelRequested,
                Some(false) => Extended::Held,
            };
        }
        Ok(())
    }
}

/// Batches in which no message is there twice, each sorted by id. Nearly always one.
fn rounds(keeps: &[Keep]) -> Vec<Vec<(usize, &Keep)>> {
    let mut rounds = Vec::new();
    let mut left: Vec<(usize, &Keep)> = keeps.iter().enumerate().collect();
    while !left.is_empty() {
        let mut ids = HashSet::new();
        let (mut round, rest): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, keep)| ids.insert(keep.lease.message));
        round.sort_unstable_by_key(|(_, keep)| keep.lease.message);
        rounds.push(round);
        left = rest;
    }
    rounds
}
