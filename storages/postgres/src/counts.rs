//! Counts: messages by state, messages of a batch, and throughput of executions.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::inspect::{Bucket, Counts};
use punctual::jiff::Timestamp;
use punctual::model::{BatchId, Ending, MessageState, Queue};
use punctual::{Error, Result};
use punctual_columns::code::Code;
use punctual_columns::instant::{instant, micros, micros_up};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn counts(&self, now: Timestamp) -> Result<Counts> {
        attempt!(self, |session| async {
            // A whole table is read faster in its own order than along an index.
            session.begin().await?;
            session.client().batch_execute("SET LOCAL enable_seqscan = on").await?;
            let counts = self.count(session, now).await?;
            session.commit().await?;
            Ok(counts)
        })
    }

    async fn count(&self, session: &Session<'_>, now: Timestamp) -> Result<Counts, StorageError> {
        let schema = &self.schema.quoted;
        let text = format!(
            "SELECT queue, state, count(*), min(due_at) FROM {schema}.message GROUP BY queue, state \
             UNION ALL SELECT queue, state, count(*), NULL FROM {schema}.history \
             WHERE state IS NOT NULL GROUP BY queue, state \
             UNION ALL SELECT queue, 3::int2, count(*), NULL FROM {schema}.dead GROUP BY queue"
        );
        let mut counts = Counts::default();
        let mut oldest: Option<i64> = None;
        for row in session.query_text(&text, &[]).await? {
            let queue = Queue::from(row.try_get::<_, String>(0)?);
            let state = MessageState::from_code(row.try_get(1)?)?;
            let count = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
            *counts.messages.entry((queue, state)).or_default() += count;
            if state == MessageState::Pending {
                let due = row.try_get::<_, Option<Micros>>(3)?.map(|at| at.0);
                oldest = oldest.into_iter().chain(due).min();
            }
        }
        counts.stale = self.stale(session, now).await?;
        let oldest = oldest.filter(|due| *due <= micros(now));
        counts.oldest_due = oldest.map(instant).transpose()?;
        Ok(counts)
    }

    /// Returns how many messages may be reclaimed, by the condition of `reclaim.sql`.
    pub(crate) async fn stale(
        &self,
        session: &Session<'_>,
        now: Timestamp,
    ) -> Result<u64, StorageError> {
        let schema = &self.schema.quoted;
        let stale = format!(
            "SELECT count(*) FROM {schema}.message m \
             LEFT JOIN {schema}.process p ON p.id = m.owner \
             WHERE m.state = 1 AND (m.lease_until < $1 OR p.alive_until < $1)"
        );
        let rows =
            session.query_text(&stale, &[(&Micros(micros_up(now)), Type::TIMESTAMPTZ)]).await?;
        let stale: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::try_from(stale).unwrap_or_default())
    }

    pub(crate) async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        let schema = &self.schema.quoted;
        let text = format!(
            "SELECT state, count(*) FROM ( \
             SELECT state FROM {schema}.message WHERE batch = $1 \
             UNION ALL SELECT state FROM {schema}.history WHERE batch = $1 AND state IS NOT NULL \
             UNION ALL SELECT 3::int2 FROM {schema}.dead WHERE batch = $1) AS m GROUP BY state"
        );
        attempt!(self, |session| async {
            let rows = session.query_text(&text, &[(&batch.as_uuid(), Type::UUID)]).await?;
            let read = |row: &Row| -> Result<(MessageState, u64), StorageError> {
                let count = u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or_default();
                Ok((MessageState::from_code(row.try_get(0)?)?, count))
            };
            rows.iter().map(read).collect()
        })
    }

    pub(crate) async fn throughput(
        &self,
        since: Timestamp,
        bucket: Duration,
    ) -> Result<Vec<Bucket>> {
        if bucket.is_zero() {
            return Err(Error::invalid("the bucket duration is zero; use at least a microsecond"));
        }
        // Columns hold microseconds, so a bucket lasts at least one.
        let duration = i64::try_from(bucket.as_micros()).unwrap_or(i64::MAX).max(1);
        let start = micros_up(since);
        let text = format!(
            "SELECT ((extract(epoch FROM ended_at) * 1000000)::int8 - $2) / $3 AS bucket, \
             ending, count(*) FROM {}.history WHERE ended_at >= $1 AND id IS NOT NULL \
             GROUP BY 1, 2 ORDER BY 1",
            self.schema.quoted
        );
        let (first, number) = (Micros(start), start);
        attempt!(self, |session| async {
            session.begin().await?;
            session.client().batch_execute("SET LOCAL enable_seqscan = on").await?;
            let params: [Param<'_>; 3] =
                [(&first, Type::TIMESTAMPTZ), (&number, Type::INT8), (&duration, Type::INT8)];
            let rows = session.query_text(&text, &params).await?;
            let mut buckets: BTreeMap<i64, BTreeMap<Ending, u64>> = BTreeMap::new();
            for row in &rows {
                let count = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
                let ending = Ending::from_code(row.try_get(1)?)?;
                *buckets.entry(row.try_get(0)?).or_default().entry(ending).or_default() += count;
            }
            session.commit().await?;
            let bucket = |(place, endings): (i64, _)| -> Result<Bucket, StorageError> {
                let start = start.saturating_add(place.saturating_mul(duration));
                Ok(Bucket { start: instant(start)?, endings })
            };
            buckets.into_iter().map(bucket).collect()
        })
    }
}
