//! Limits: claims under limits, by name or by queue, that count for all processes together.
//!
//! Running messages are counted in the table. Two concurrent claims would both see room, so a claim under a
//! limit first takes the lock of that limit until the end of its transaction, and counts in a statement that
//! begins after that. Queues without limits never use this path.

use std::collections::{BTreeSet, HashSet};

use punctual::backend::storage::{Claim, ClaimedMessage};
use punctual::jiff::Timestamp;
use punctual::model::MessageState;
use punctual_columns::code::Code;
use punctual_columns::instant::micros;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::claim::CLAIM_MAX;
use crate::operations::claim_cursor::ClaimStart;
use crate::operations::topics::TopicParams;
use crate::session::Session;
use crate::value::{Micros, Param};

/// Number of messages with limits that are read in their order.
const CANDIDATES_MAX: i64 = 500;
/// Number of messages read per limit and priority when the first ones are all over their limit.
const CANDIDATES_PER_LIMIT_MAX: i64 = 100;
/// Number of limits that are read in that case.
const LIMITS_MAX: i32 = 10_000;

/// Messages with limits that can probably run, and the numbers of the locks they need.
#[derive(Default)]
struct Candidates {
    ids: Vec<Uuid>,
    locks: BTreeSet<i32>,
}

impl Inner {
    /// Claims from a queue in which messages share limits, or of which only a number may run.
    pub(crate) async fn claim_with_limits(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &ClaimStart,
    ) -> Result<Vec<ClaimedMessage>, StorageError> {
        let candidates = self.candidates(session, claim, now, start).await?;
        if candidates.ids.is_empty() && claim.running_max.is_none() {
            return self.claim_plain(session, claim, now, start).await.map(|(found, _)| found);
        }
        self.claim_locked(session, claim, (now, start), candidates).await
    }

    /// Claims messages that share limits, after the plain claim has left room.
    pub(crate) async fn claim_limited(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &ClaimStart,
    ) -> Result<Vec<ClaimedMessage>, StorageError> {
        let candidates = self.candidates(session, claim, now, start).await?;
        if candidates.ids.is_empty() {
            return Ok(Vec::new());
        }
        self.claim_locked(session, claim, (now, start), candidates).await
    }

    /// Finds candidates without locking anything.
    async fn candidates(
        &self,
        session: &Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &ClaimStart,
    ) -> Result<Candidates, StorageError> {
        let limit = i64::try_from(claim.limit.min(CLAIM_MAX)).unwrap_or(i64::MAX);
        let topics = TopicParams::of(&claim.topics);
        let params: [Param<'_>; 10] = [
            (&claim.queue.as_str(), Type::TEXT),
            (&Micros(micros(now)), Type::TIMESTAMPTZ),
            (&start.priorities, Type::INT2_ARRAY),
            (&limit, Type::INT8),
            (&CANDIDATES_MAX, Type::INT8),
            (&CANDIDATES_PER_LIMIT_MAX, Type::INT8),
            (&MessageState::Pending.code(), Type::INT2),
            (&LIMITS_MAX, Type::INT4),
            (&topics.only, Type::TEXT_ARRAY),
            (&topics.not_system, Type::BOOL),
        ];
        let rows = session.query(&self.sql.limited_candidates, &params).await?;
        let some = rows.first().map(|row| row.try_get(3)).transpose()?.unwrap_or_default();
        self.cursors.set_limited(&claim.queue, some);
        let mut candidates = Candidates::default();
        let mut jobs: HashSet<&str> = HashSet::new();
        for row in &rows {
            let Some(id) = row.try_get::<_, Option<Uuid>>(0)? else { continue };
            // Only one of the exclusive messages of a job can run.
            let job: Option<&str> = row.try_get(2)?;
            if job.is_none_or(|job| jobs.insert(job)) {
                candidates.ids.push(id);
                candidates.locks.insert(row.try_get(1)?);
            }
        }
        Ok(candidates)
    }

    async fn claim_locked(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        at: (Timestamp, &ClaimStart),
        candidates: Candidates,
    ) -> Result<Vec<ClaimedMessage>, StorageError> {
        session.begin().await?;
        let found = self.claim_under_locks(session, claim, at, candidates).await?;
        session.commit().await?;
        Ok(found)
    }

    /// Takes the locks, then claims as many messages as the limits have room for.
    async fn claim_under_locks(
        &self,
        session: &Session<'_>,
        claim: &Claim,
        (now, start): (Timestamp, &ClaimStart),
        candidates: Candidates,
    ) -> Result<Vec<ClaimedMessage>, StorageError> {
        let mut limit = claim.limit.min(CLAIM_MAX);
        if let Some(most) = claim.running_max {
            limit = limit.min(self.room(session, claim, most).await?);
            if limit == 0 {
                return Ok(Vec::new());
            }
        }
        if !candidates.locks.is_empty() {
            // All transactions take the locks in the same order, so they cannot deadlock.
            let locks: Vec<i32> = candidates.locks.into_iter().collect();
            let lock = "SELECT pg_advisory_xact_lock(hashtext($1), n) FROM unnest($2::int4[]) AS n";
            let lock_space = format!("punctual limits of {}", self.schema.name);
            session
                .query_text(lock, &[(&lock_space, Type::TEXT), (&locks, Type::INT4_ARRAY)])
                .await?;
        }
        let claim = Claim { limit, ..claim.clone() };
        let more: [Param<'_>; 1] = [(&candidates.ids, Type::UUID_ARRAY)];
        let rows =
            self.claim_rows((session, &self.sql.claim_with_limits), &claim, (now, start), &more);
        Ok(rows.await?.0)
    }

    /// Takes the lock of a queue and returns how many more of its messages may run.
    async fn room(
        &self,
        session: &Session<'_>,
        claim: &Claim,
        most: usize,
    ) -> Result<usize, StorageError> {
        let lock = "SELECT pg_advisory_xact_lock(hashtext($1), hashtext($2))";
        let lock_space = format!("punctual queues of {}", self.schema.name);
        let queue = claim.queue.as_str();
        session.query_text(lock, &[(&lock_space, Type::TEXT), (&queue, Type::TEXT)]).await?;
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let params: [Param<'_>; 2] = [(&queue, Type::TEXT), (&limit, Type::INT8)];
        let rows = session.query(&self.sql.queue_running, &params).await?;
        let running: i64 = rows.first().map_or(Ok(0), |row: &Row| row.try_get(0))?;
        Ok(most.saturating_sub(usize::try_from(running).unwrap_or(usize::MAX)))
    }
}
