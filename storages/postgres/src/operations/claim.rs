//! Claim: gives due messages to an owner for the duration of a lease.

use punctual::backend::storage::{Claim, ClaimedMessage};
use punctual::jiff::Timestamp;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::NameCache;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::claim_cursor::{ClaimScan, ClaimStart};
use crate::operations::relations::lane_of;
use crate::operations::topics::TopicParams;
use crate::row::claimed_message;
use crate::session::Session;
use crate::statements::Sql;
use crate::value::{Micros, Param};

/// Most messages of one claim; the caller claims again for more.
pub(crate) const CLAIM_MAX: usize = 10_000;

impl Inner {
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Vec<ClaimedMessage>, StorageError> {
        let source = (&claim.queue, &claim.topics);
        let start =
            self.cursors.start(source.0, source.1, self.clock.now()).with_first(claim.first);
        let mut found = self.claim_from(session, claim, now, &start).await;
        // Two nodes may claim two exclusive messages of one job at once; the unique index admits one.
        if found.as_ref().is_err_and(StorageError::is_unique_violation) {
            found = Err(StorageError::Raced);
        }
        let mut found = found?;
        if !start.is_full
            && found.len() < claim.limit
            && let Some(full) = self.cursors.full_start(source, found.len(), self.clock.now())
        {
            let rest = Claim { limit: claim.limit - found.len(), ..claim.clone() };
            let more = self.claim_from(session, &rest, now, &full.with_first(claim.first)).await;
            found.extend(ignore_second_failure(session, more, false).await?);
        }
        Ok(found)
    }

    /// Claims once: without limits first, then messages under limits if there are any.
    async fn claim_from(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &ClaimStart,
    ) -> Result<Vec<ClaimedMessage>, StorageError> {
        if claim.running_max.is_some() || self.cursors.is_limited(&claim.queue) {
            return self.claim_with_limits(session, claim, now, start).await;
        }
        let (mut found, limited) = self.claim_plain(session, claim, now, start).await?;
        if limited {
            self.cursors.set_limited(&claim.queue, true);
        }
        // Without a row the statement has not reported whether messages share limits. A claim that began at its
        // cursor and found nothing is repeated from the start of the queue.
        let may_be_limited = limited || (found.is_empty() && start.is_full);
        if may_be_limited && found.len() < claim.limit {
            let rest = Claim { limit: claim.limit - found.len(), ..claim.clone() };
            let more = self.claim_limited(session, &rest, now, start).await;
            found.extend(ignore_second_failure(session, more, found.is_empty()).await?);
            found.sort_by_cached_key(|one| start.position_of(one));
        }
        Ok(found)
    }

    /// Claims messages that share no limit; also returns whether the queue has messages that do.
    pub(crate) async fn claim_plain(
        &self,
        session: &Session<'_>,
        claim: &Claim,
        now: Timestamp,
        start: &ClaimStart,
    ) -> Result<(Vec<ClaimedMessage>, bool), StorageError> {
        self.claim_rows((session, &self.sql.claim), claim, (now, start), &[]).await
    }

    /// Runs a claim statement and advances the cursor.
    pub(crate) async fn claim_rows(
        &self,
        (session, sql): (&Session<'_>, &Sql),
        claim: &Claim,
        (now, start): (Timestamp, &ClaimStart),
        more: &[Param<'_>],
    ) -> Result<(Vec<ClaimedMessage>, bool), StorageError> {
        let began = self.clock.now();
        let limit = i64::try_from(claim.limit.min(CLAIM_MAX)).unwrap_or(i64::MAX);
        let (owner, until) = (claim.owner.as_uuid(), micros_up(claim.until));
        let (queue, now, until_at) = (claim.queue.as_str(), Micros(micros(now)), Micros(until));
        let topics = TopicParams::of(&claim.topics);
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
        let rows = session.query(sql, &params).await?;
        let mut names = NameCache::default();
        let read = |row: &Row| claimed_message(row, Some(&claim.queue), &mut names, (owner, until));
        let found = in_order(&rows, read)?;
        // Messages that share a limit are not found by the cursor.
        let plain = found.iter().filter(|one| lane_of(&one.message).is_none());
        let messages = plain.map(|one| (micros_up(one.due_at), &*one.message));
        let walked_to = (rows.len() < claim.limit.min(CLAIM_MAX)).then_some(now.0);
        let positions = ClaimScan { topics: &claim.topics, messages, walked_to };
        self.cursors.advance(&claim.queue, start, positions, (began, self.clock.now()));
        let limited = rows.first().map(|row| row.try_get(18)).transpose()?.unwrap_or_default();
        Ok((found, limited))
    }
}

/// Returns what a second claim found, or nothing when it failed: the messages of the first claim are valid, so
/// a failure of the second is no reason to lose them.
async fn ignore_second_failure(
    session: &mut Session<'_>,
    more: Result<Vec<ClaimedMessage>, StorageError>,
    is_first: bool,
) -> Result<Vec<ClaimedMessage>, StorageError> {
    match more {
        Err(failure) if !is_first => {
            tracing::debug!(error = %failure.error_for_caller(), "the second claim failed; the messages of the first are kept");
            if session.is_open() {
                // A session that cannot be rolled back is closed.
                let _ = session.roll_back().await;
            }
            Ok(Vec::new())
        }
        other => other,
    }
}

/// Decodes the rows in the order of the claim, which is that of the tokens; a statement returns them in any
/// order.
pub(super) fn in_order(
    rows: &[Row],
    read: impl FnMut(&Row) -> Result<ClaimedMessage, StorageError>,
) -> Result<Vec<ClaimedMessage>, StorageError> {
    let mut found: Vec<ClaimedMessage> = rows.iter().map(read).collect::<Result<_, _>>()?;
    found.sort_unstable_by_key(|one| one.lease.token);
    Ok(found)
}
