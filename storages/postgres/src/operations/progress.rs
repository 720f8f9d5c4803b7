//! Progress: saves progress and checkpoints of running handlers; after a failure or a crash a handler resumes
//! at its checkpoint.

use std::collections::{HashMap, HashSet};

use punctual::backend::storage::{ExtendResult, ProgressUpdate};
use punctual_columns::message::progress_to_json;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::enqueue::CHUNK;
use crate::operations::extend::token;
use crate::session::Session;
use crate::value::Param;

impl Inner {
    pub(crate) async fn save_progress(
        &self,
        session: &Session<'_>,
        updates: &[ProgressUpdate],
    ) -> Result<Vec<ExtendResult>, StorageError> {
        let mut results = vec![ExtendResult::Lost; updates.len()];
        for round in rounds(updates) {
            for some in round.chunks(CHUNK) {
                self.save_some(session, some, &mut results).await?;
            }
        }
        Ok(results)
    }

    async fn save_some(
        &self,
        session: &Session<'_>,
        some: &[(usize, &ProgressUpdate)],
        results: &mut [ExtendResult],
    ) -> Result<(), StorageError> {
        let named =
            |update: &ProgressUpdate| (update.lease.message.as_uuid(), token(update.lease.token));
        let (ids, tokens): (Vec<Uuid>, Vec<i64>) =
            some.iter().map(|(_, update)| named(update)).unzip();
        let (mut progress, mut checkpoints) = (Vec::new(), Vec::new());
        for (_, update) in some {
            progress.push(update.progress.as_ref().map(progress_to_json).transpose()?);
            checkpoints.push(update.checkpoint.as_ref().map(progress_to_json).transpose()?);
        }
        let params: [Param<'_>; 4] = [
            (&ids, Type::UUID_ARRAY),
            (&tokens, Type::INT8_ARRAY),
            (&progress, Type::TEXT_ARRAY),
            (&checkpoints, Type::TEXT_ARRAY),
        ];
        let mut found: HashMap<(Uuid, i64), bool> = HashMap::new();
        for row in session.query(&self.sql.save_progress, &params).await? {
            found.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
        }
        for (index, update) in some {
            results[*index] = match found.get(&named(update)) {
                None => ExtendResult::Lost,
                Some(true) => ExtendResult::CancelRequested,
                Some(false) => ExtendResult::Held,
            };
        }
        Ok(())
    }
}

/// Splits updates into batches without repeated messages, each sorted by id. Nearly always one.
fn rounds(updates: &[ProgressUpdate]) -> Vec<Vec<(usize, &ProgressUpdate)>> {
    let mut rounds = Vec::new();
    let mut left: Vec<(usize, &ProgressUpdate)> = updates.iter().enumerate().collect();
    while !left.is_empty() {
        let mut ids = HashSet::new();
        let (mut round, rest): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, update)| ids.insert(update.lease.message));
        round.sort_unstable_by_key(|(_, update)| update.lease.message);
        rounds.push(round);
        left = rest;
    }
    rounds
}
