//! Claim, extend and reclaim: who may work on what, until when.

use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::LeaseRef;
use punctual::storage::{Claim, Claimed, Extended, Reclaim};
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::Names;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::columns::claimed;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::marks::{Found, Start};
use crate::session::Session;
use crate::statements::Sql;
use crate::ties::lane_of;
use crate::topics::Topics;
use crate::value::{Micros, Param};

/// The most messages of one claim; more is asked for again.
pub(crate) const CLAIM_MAX: usize = 10_000;

impl Inner {
    pub(crate) async fn claim(&self, claim: &Claim, now: Timestamp) -> Result<Vec<Claimed>> {
        if claim.limit == 0 || claim.topics.is_none() {
            return Ok(Vec::new());
        }
        let line = (&claim.queue, &claim.topics);
        attempt!(self, |held| async {
            let start = self.marks.start(line.0, line.1, self.clock.now()).led_by(claim.first);
            let mut found = self.claim_from(held, claim, now, &start).await;
            // Two nodes may give two exclusive messages of one job at once; the index lets one.
            if found.as_ref().is_err_and(Failure::is_duplicate) {
                found = Err(Failure::Raced);
            }
            let mut found = found?;
            if !start.is_full
                && found.len() < claim.limit
                && let Some(full) = self.marks.beginning(line, found.len(), self.clock.now())
            {
                let rest = Claim { limit: claim.limit - found.len(), ..claim.clone() };
                let more = self.claim_from(held, &rest, now, &full.led_by(claim.first)).await;
                found.extend(kept_going(held, more, false).await?);
            }
            Ok(found)
        })
    }

    /// Claims once: the quick way, and under limits where there are any.
    async fn claim_from(
        &self,
        held: &mut Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &Start,
    ) -> Result<Vec<Claimed>, Failure> {
        if claim.running_max.is_some() || self.marks.is_limited(&claim.queue) {
            return self.claim_in_turn(held, claim, now, start).await;
        }
        let (mut found, limited) = self.claim_plain(held, claim, now, start).await?;
        if limited {
            self.marks.has_limited(&claim.queue, true);
        }
        // Without a row nobody has said whether there are any that share limits. A claim that began at its
        // marks and found nothing looks again.
        let may_be_limited = limited || (found.is_empty() && start.is_full);
        if may_be_limited && found.len() < claim.limit {
            let rest = Claim { limit: claim.limit - found.len(), ..claim.clone() };
            let more = self.claim_limited(held, &rest, now, start).await;
            found.extend(kept_going(held, more, found.is_empty()).await?);
            found.sort_by_cached_key(|one| start.place_of(one));
        }
        Ok(found)
    }

    /// Claims what shares no limit; also answers whether there is something that does.
    pub(crate) async fn claim_plain(
        &self,
        held: &Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &Start,
    ) -> Result<(Vec<Claimed>, bool), Failure> {
        self.claim_rows((held, &self.sql.claim), claim, (now, start), &[]).await
    }

    /// Runs a statement that claims.
    pub(crate) async fn claim_rows(
        &self,
        (held, sql): (&Session<'_>, &Sql),
        claim: &Claim,
        (now, start): (Timestamp, &Start),
        more: &[Param<'_>],
    ) -> Result<(Vec<Claimed>, bool), Failure> {
        let began = self.clock.now();
        let limit = i64::try_from(claim.limit.min(CLAIM_MAX)).unwrap_or(i64::MAX);
        let (owner, until) = (claim.owner.as_uuid(), micros_up(claim.until));
        let (queue, now, until_at) = (claim.queue.as_str(), Micros(micros(now)), Micros(until));
        let topics = Topics::of(&claim.topics);
        let mut params: Vec<Param<'_>> = vec![
            (&queue, Type::TEXT),
            (&now, Type::TIMESTAMPTZ),
            (&limit, Type::INT8),
            (&owner, Type::UUID),
            (&start.priorities, Type::INT2_ARRAY),
            (&start.due, Type::TIMESTAMPTZ_ARRAY),
            (&start.ids, Type::UUID_ARRAY),
            (&until_at, Type::TIMESTAMPTZ),
            (&topics.only, Type::TEXT_ARRAY),
            (&topics.not_system, Type::BOOL),
        ];
        params.extend(more.iter().cloned());
        let rows = held.query(sql, &params).await?;
        let mut names = Names::default();
        let read = |row: &Row| claimed(row, Some(&claim.queue), &mut names, (owner, until));
        let found = in_order(&rows, read)?;
        // What shares a limit was not looked for from the marks on.
        let plain = found.iter().filter(|one| lane_of(&one.message).is_none());
        let messages = plain.map(|one| (micros_up(one.due_at), &*one.message));
        let walked_to = (rows.len() < claim.limit.min(CLAIM_MAX)).then_some(now.0);
        let places = Found { topics: &claim.topics, messages, walked_to };
        self.marks.claimed(&claim.queue, start, places, (began, self.clock.now()));
        let limited = rows.first().map(|row| row.try_get(18)).transpose()?.unwrap_or_default();
        Ok((found, limited))
    }

    pub(crate) async fn reclaim(&self, reclaim: &Reclaim, now: Timestamp) -> Result<Vec<Claimed>> {
        if reclaim.limit == 0 {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(reclaim.limit.min(CLAIM_MAX)).unwrap_or(i64::MAX);
        let (owner, until) = (reclaim.owner.as_uuid(), micros_up(reclaim.until));
        attempt!(self, |held| async {
            let params: [Param<'_>; 4] = [
                (&Micros(micros_up(now)), Type::TIMESTAMPTZ),
                (&limit, Type::INT8),
                (&owner, Type::UUID),
                (&Micros(until), Type::TIMESTAMPTZ),
            ];
            let mut names = Names::default();
            let read = |row: &Row| claimed(row, None, &mut names, (owner, until));
            in_order(&held.query(&self.sql.reclaim, &params).await?, read)
        })
    }

    pub(crate) async fn extend(
        self: &Arc<Self>,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<Extended>> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let named = |lease: &LeaseRef| (lease.message.as_uuid(), token(lease.token));
        let (mut ids, mut tokens): (Vec<Uuid>, Vec<i64>) = leases.iter().map(named).unzip();
        ids.sort_unstable();
        tokens.sort_unstable();
        let held: std::collections::HashMap<(Uuid, i64), bool> = attempt!(self, |held| async {
            let params: [Param<'_>; 3] = [
                (&ids, Type::UUID_ARRAY),
                (&tokens, Type::INT8_ARRAY),
                (&Micros(micros_up(until)), Type::TIMESTAMPTZ),
            ];
            let rows = held.query(&self.sql.extend, &params).await?;
            let read =
                |row: &Row| Ok::<_, Failure>(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?));
            rows.iter().map(read).collect()
        })?;
        let answer = |lease: &LeaseRef| match held.get(&named(lease)) {
            None => Extended::Lost,
            Some(true) => Extended::CancelRequested,
            Some(false) => Extended::Held,
        };
        Ok(leases.iter().map(answer).collect())
    }
}

/// A token as a column holds it; one that fits none was never given out.
pub(crate) fn token(token: u64) -> i64 {
    i64::try_from(token).unwrap_or(-1)
}

/// What a second look found. Another connection is not at hand, and what was found before is safe, so its
/// failure is no reason to forget that.
async fn kept_going(
    held: &mut Session<'_>,
    more: Result<Vec<Claimed>, Failure>,
    is_first: bool,
) -> Result<Vec<Claimed>, Failure> {
    match more {
        Err(failure) if !is_first => {
            tracing::debug!(error = %failure.into_error(), "a second look was in vain");
            if held.is_open() {
                // What cannot be rolled back is closed.
                let _ = held.roll_back().await;
            }
            Ok(Vec::new())
        }
        other => other,
    }
}

/// Tokens are given out in the order of the claim; a statement answers in any.
fn in_order(
    rows: &[Row],
    read: impl FnMut(&Row) -> Result<Claimed, Failure>,
) -> Result<Vec<Claimed>, Failure> {
    let mut found: Vec<Claimed> = rows.iter().map(read).collect::<Result<_, _>>()?;
    found.sort_unstable_by_key(|one| one.lease.token);
    Ok(found)
}
