//! Counts: messages by state, messages of a batch, and throughput of executions.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::Error;
use punctual::inspect::{Bucket, Counts};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{BatchId, Ending, MessageState, Queue};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{instant, micros, micros_up};
use rusqlite::{Connection, params};

use crate::error::StorageResult;
use crate::operations::maintenance::LAPSED_COUNT;
use crate::operations::next_due::oldest;
use crate::row::{NEAR, first_id};

/// Counts executions by ending and bucket: those in the order of their ids, and the strayed ones.
pub(crate) const THROUGHPUT: &str = "SELECT (ended_at - ?1) / ?2 AS bucket, ending, count(*) FROM \
     (SELECT ended_at, ending FROM punctual_history WHERE id >= ?3 AND strayed_at IS NULL \
     UNION ALL SELECT ended_at, ending FROM punctual_history WHERE strayed_at >= ?1) \
     WHERE ended_at >= ?1 AND ending IS NOT NULL GROUP BY bucket, ending ORDER BY bucket, ending";

/// Counts the messages of a batch by state.
pub(crate) const BATCH: &str = "SELECT state, count(*) FROM punctual_message WHERE batch = ?1 GROUP BY state \
     UNION ALL SELECT 3, count(*) FROM punctual_dead WHERE batch = ?1 \
     UNION ALL SELECT state, count(*) FROM punctual_history WHERE batch = ?1 AND state >= 0 GROUP BY state";

/// Counts the messages of each queue by state.
pub(crate) fn counts(connection: &Connection, now: Timestamp) -> StorageResult<Counts> {
    let sql = "SELECT queue, state, count FROM punctual_count WHERE count > 0";
    let mut counts = Counts::default();
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = MessageState::from_code(row.get(1)?)?;
        let count: i64 = row.get(2)?;
        let count = u64::try_from(count).unwrap_or(0);
        counts.messages.insert((Queue::from(row.get::<_, String>(0)?), state), count);
    }
    let stale: i64 =
        connection.prepare_cached(LAPSED_COUNT)?.query_row([micros_up(now)], |row| row.get(0))?;
    counts.stale = u64::try_from(stale).unwrap_or(0);
    let pending = counts.messages.keys().filter(|(_, state)| *state == MessageState::Pending);
    for (queue, _) in pending {
        let first = oldest(connection, queue)?;
        counts.oldest_due = counts.oldest_due.into_iter().chain(first).min();
    }
    counts.oldest_due = counts.oldest_due.filter(|due_at| *due_at <= now);
    Ok(counts)
}

/// Counts the messages of a batch by state.
pub(crate) fn batch(
    connection: &Connection,
    batch: BatchId,
) -> StorageResult<BTreeMap<MessageState, u64>> {
    let mut statement = connection.prepare_cached(BATCH)?;
    let mut rows = statement.query([batch.as_uuid().as_bytes()])?;
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let count: i64 = row.get(1)?;
        if count > 0 {
            counts.insert(MessageState::from_code(row.get(0)?)?, u64::try_from(count).unwrap_or(0));
        }
    }
    Ok(counts)
}

/// Counts the executions since an instant in buckets that start there; empty buckets are left out. The duration
/// of a bucket is rounded up to the microsecond.
pub(crate) fn throughput(
    connection: &Connection,
    since: Timestamp,
    bucket: Duration,
) -> StorageResult<Vec<Bucket>> {
    if bucket.is_zero() {
        let sentence = "the bucket duration is zero; use at least a microsecond";
        return Err(Error::invalid(sentence).into());
    }
    let duration = i64::try_from(bucket.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX);
    let since = micros(since);
    let mut statement = connection.prepare_cached(THROUGHPUT)?;
    let first = first_id(since.saturating_sub(NEAR));
    let mut rows = statement.query(params![since, duration, first.as_bytes()])?;
    let mut buckets: Vec<Bucket> = Vec::new();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let into = SignedDuration::from_micros(number.saturating_mul(duration));
        let start = instant(since)?.checked_add(into).unwrap_or(Timestamp::MAX);
        if buckets.last().is_none_or(|last| last.start != start) {
            buckets.push(Bucket { start, endings: BTreeMap::new() });
        }
        let count: i64 = row.get(2)?;
        if let Some(last) = buckets.last_mut() {
            let ending = Ending::from_code(row.get(1)?)?;
            last.endings.insert(ending, u64::try_from(count).unwrap_or(0));
        }
    }
    Ok(buckets)
}
