//! Claims under limits: so many of a name, so many of a queue, on all processes together.
//!
//! What runs is counted where it is. A count alone would be wrong when two claim at once, so whoever
//! claims under a limit first takes its lock for the length of a transaction, and counts in a statement
//! that begins after that. Queues without any of it never come here.

use std::collections::{BTreeSet, HashSet};

use punctual::jiff::Timestamp;
use punctual::model::State;
use punctual::storage::{Claim, Claimed};
use punctual_rows::code::Code;
use punctual_rows::instant::micros;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::claim::CLAIM_MAX;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::marks::Start;
use crate::session::Session;
use crate::topics::Topics;
use crate::value::{Micros, Param};

/// How many messages that share limits are looked at in their order.
const NEAR: i64 = 500;
/// How many of each limit and priority are looked at when those are a crowd.
const FAR: i64 = 100;
/// How many limits are looked at then.
const LIMITS_MAX: i32 = 10_000;

/// Messages that share limits and look possible, and the numbers of the locks they need.
#[derive(Default)]
struct Possible {
    ids: Vec<Uuid>,
    locks: BTreeSet<i32>,
}

impl Inner {
    /// Claims where messages share limits, or only so many of the queue may run.
    pub(crate) async fn claim_in_turn(
        &self,
        held: &mut Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &Start,
    ) -> Result<Vec<Claimed>, Failure> {
        let possible = self.possible(held, claim, now, start).await?;
        if possible.ids.is_empty() && claim.running_max.is_none() {
            return self.claim_plain(held, claim, now, start).await.map(|(found, _)| found);
        }
        self.claim_locked(held, claim, (now, start), possible).await
    }

    /// Claims after a claim of everything else has left room, if there are any that share limits.
    pub(crate) async fn claim_limited(
        &self,
        held: &mut Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &Start,
    ) -> Result<Vec<Claimed>, Failure> {
        let possible = self.possible(held, claim, now, start).await?;
        if possible.ids.is_empty() {
            return Ok(Vec::new());
        }
        self.claim_locked(held, claim, (now, start), possible).await
    }

    /// What looks possible before anything is locked.
    async fn possible(
        &self,
        held: &Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &Start,
    ) -> Result<Possible, Failure> {
        let limit = i64::try_from(claim.limit.min(CLAIM_MAX)).unwrap_or(i64::MAX);
        let topics = Topics::of(&claim.topics);
        let params: [Param<'_>; 10] = [
            (&claim.queue.as_str(), Type::TEXT),
            (&Micros(micros(now)), Type::TIMESTAMPTZ),
            (&start.priorities, Type::INT2_ARRAY),
            (&limit, Type::INT8),
            (&NEAR, Type::INT8),
            (&FAR, Type::INT8),
            (&State::Pending.code(), Type::INT2),
            (&LIMITS_MAX, Type::INT4),
            (&topics.only, Type::TEXT_ARRAY),
            (&topics.not_system, Type::BOOL),
        ];
        let rows = held.query(&self.sql.limited, &params).await?;
        let some = rows.first().map(|row| row.try_get(3)).transpose()?.unwrap_or_default();
        self.marks.has_limited(&claim.queue, some);
        let mut possible = Possible::default();
        let mut jobs: HashSet<&str> = HashSet::new();
        for row in &rows {
            let Some(id) = row.try_get::<_, Option<Uuid>>(0)? else { continue };
            // Of the exclusive messages of a job one can go.
            let job: Option<&str> = row.try_get(2)?;
            if job.is_none_or(|job| jobs.insert(job)) {
                possible.ids.push(id);
                possible.locks.insert(row.try_get(1)?);
            }
        }
        Ok(possible)
    }

    async fn claim_locked(
        &self,
        held: &mut Session<'_>,
        claim: &Claim,
        at: (Timestamp, &Start),
        possible: Possible,
    ) -> Result<Vec<Claimed>, Failure> {
        held.begin().await?;
        let found = self.claim_under_locks(held, claim, at, possible).await?;
        held.commit().await?;
        Ok(found)
    }

    /// Takes the locks, and then claims as many as there is room for.
    async fn claim_under_locks(
        &self,
        held: &Session<'_>,
        claim: &Claim,
        (now, start): (Timestamp, &Start),
        possible: Possible,
    ) -> Result<Vec<Claimed>, Failure> {
        let mut limit = claim.limit.min(CLAIM_MAX);
        if let Some(most) = claim.running_max {
            limit = limit.min(self.room(held, claim, most).await?);
            if limit == 0 {
                return Ok(Vec::new());
            }
        }
        if !possible.locks.is_empty() {
            // Everybody takes them in the same order, so nobody waits in a ring.
            let locks: Vec<i32> = possible.locks.into_iter().collect();
            let lock = "SELECT pg_advisory_xact_lock(hashtext($1), n) FROM unnest($2::int4[]) AS n";
            let whose = format!("punctual limits of {}", self.schema.name);
            held.ask(lock, &[(&whose, Type::TEXT), (&locks, Type::INT4_ARRAY)]).await?;
        }
        let claim = Claim { limit, ..claim.clone() };
        let more: [Param<'_>; 1] = [(&possible.ids, Type::UUID_ARRAY)];
        let rows = self.claim_rows((held, &self.sql.claim_in_turn), &claim, (now, start), &more);
        Ok(rows.await?.0)
    }

    /// Under its lock: how many more of a queue may run.
    async fn room(&self, held: &Session<'_>, claim: &Claim, most: usize) -> Result<usize, Failure> {
        let lock = "SELECT pg_advisory_xact_lock(hashtext($1), hashtext($2))";
        let whose = format!("punctual queues of {}", self.schema.name);
        let queue = claim.queue.as_str();
        held.ask(lock, &[(&whose, Type::TEXT), (&queue, Type::TEXT)]).await?;
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let params: [Param<'_>; 2] = [(&queue, Type::TEXT), (&limit, Type::INT8)];
        let rows = held.query(&self.sql.queue_running, &params).await?;
        let running: i64 = rows.first().map_or(Ok(0), |row: &Row| row.try_get(0))?;
        Ok(most.saturating_sub(usize::try_from(running).unwrap_or(usize::MAX)))
    }
}
