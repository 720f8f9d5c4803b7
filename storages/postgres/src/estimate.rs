//! Estimates of message counts that do not read whole tables. Small tables are counted. Of large ones the few
//! running messages are counted by their index, and the pending ones of each queue by their index up to a
//! bound; counts beyond it are extrapolated from a sample of the table's pages. So an estimate costs the same
//! for a million rows as for ten thousand, however often it is queried.

use std::collections::BTreeMap;

use punctual::Result;
use punctual::inspect::Counts;
use punctual::jiff::Timestamp;
use punctual::model::{MessageState, Queue};
use punctual_columns::code::Code;
use punctual_columns::instant::{instant, micros};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::Micros;

/// Most pages of a table that are read; a larger table is sampled.
const PAGES_MAX: i64 = 500;
/// Number of pending messages of a queue up to which they are counted one by one.
const EXACT_MAX: u64 = 10_000;

/// Number of queues that are counted one by one; the others are extrapolated as well.
const QUEUES_MAX: usize = 1_000;

/// Number of messages by queue and state.
type StateCounts = BTreeMap<(Queue, MessageState), u64>;

/// Sizes in pages of the tables that contain messages.
struct Sizes {
    message: i64,
    history: i64,
    dead: i64,
}

impl Inner {
    pub(crate) async fn estimate(&self, now: Timestamp) -> Result<Counts> {
        attempt!(self, |session| async {
            let sizes = self.sizes(session).await?;
            let mut counts = Counts {
                is_estimate: [sizes.message, sizes.history, sizes.dead]
                    .iter()
                    .any(|pages| *pages > PAGES_MAX),
                ..Counts::default()
            };
            self.estimate_alive(session, now, sizes.message, &mut counts).await?;
            let ended = [
                ("history", "state", "state IS NOT NULL", sizes.history),
                ("dead", "3::int2", "true", sizes.dead),
            ];
            for (table, state, rows, pages) in ended {
                let sampled = self.sample(session, (table, state, rows), pages).await?;
                counts.messages.extend(sampled);
            }
            counts.stale = self.stale(session, now).await?;
            Ok(counts)
        })
    }

    /// Estimates pending and running messages, and finds the oldest due time.
    async fn estimate_alive(
        &self,
        session: &Session<'_>,
        now: Timestamp,
        pages: i64,
        counts: &mut Counts,
    ) -> Result<(), StorageError> {
        let queues = self.pending_queues(session).await?;
        let oldest = queues.iter().filter_map(|queue| queue.first_due).min();
        let oldest = oldest.filter(|due| *due <= micros(now));
        counts.oldest_due = oldest.map(instant).transpose()?;
        let mut alive = StateCounts::new();
        for pending in &queues {
            *alive.entry((pending.queue.clone(), MessageState::Pending)).or_default() +=
                pending.count;
        }
        let is_cut = queues.len() >= QUEUES_MAX;
        if is_cut || alive.values().any(|count| *count >= EXACT_MAX) {
            for (of, near) in self.sample(session, ("message", "state", "state = 0"), pages).await?
            {
                match alive.get_mut(&of) {
                    Some(count) if *count >= EXACT_MAX => *count = near.max(*count),
                    None if is_cut => drop(alive.insert(of, near)),
                    // Already counted, or stored after the count.
                    _ => {}
                }
            }
        }
        let running = format!(
            "SELECT queue, state, count(*) FROM {}.message WHERE state = 1 GROUP BY queue, state",
            self.schema.quoted
        );
        alive.extend(scaled_counts(&session.query_text(&running, &[]).await?, 1.0)?);
        counts.messages.extend(alive);
        Ok(())
    }

    /// Returns the queues with pending messages: how many, up to a bound, and the first due time. Each queue is
    /// found by one step in the index behind the queue before.
    async fn pending_queues(
        &self,
        session: &Session<'_>,
    ) -> Result<Vec<PendingQueue>, StorageError> {
        let schema = &self.schema.quoted;
        let mut queues = Vec::new();
        for rows in ["m.state = 0 AND m.lane IS NULL", "m.state = 0 AND m.lane IS NOT NULL"] {
            let text = format!(
                "WITH RECURSIVE queues AS ( \
                 (SELECT m.queue FROM {schema}.message m WHERE {rows} ORDER BY m.queue LIMIT 1) \
                 UNION ALL \
                 SELECT (SELECT m.queue FROM {schema}.message m WHERE {rows} AND m.queue > l.queue \
                 ORDER BY m.queue LIMIT 1) FROM queues l WHERE l.queue IS NOT NULL) \
                 SELECT l.queue, \
                 (SELECT count(*) FROM (SELECT FROM {schema}.message m \
                 WHERE {rows} AND m.queue = l.queue LIMIT {EXACT_MAX}) AS c), \
                 (SELECT min(f.due_at) FROM generate_series(0, 9) AS p CROSS JOIN LATERAL ( \
                 SELECT m.due_at FROM {schema}.message m \
                 WHERE {rows} AND m.queue = l.queue AND m.priority = p::int2 \
                 ORDER BY m.due_at LIMIT 1) AS f) \
                 FROM queues l WHERE l.queue IS NOT NULL LIMIT {QUEUES_MAX}"
            );
            for row in session.query_text(&text, &[]).await? {
                let due: Option<Micros> = row.try_get(2)?;
                queues.push(PendingQueue {
                    queue: Queue::from(row.try_get::<_, String>(0)?),
                    count: u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or_default(),
                    first_due: due.map(|due| due.0),
                });
            }
        }
        Ok(queues)
    }

    /// Estimates the rows of a table by state: counts a small table, samples the pages of a large one.
    async fn sample(
        &self,
        session: &Session<'_>,
        (table, state, rows): (&str, &str, &str),
        pages: i64,
    ) -> Result<StateCounts, StorageError> {
        let share = share(pages);
        let schema = &self.schema.quoted;
        let text = format!(
            "SELECT queue, {state}, count(*) FROM {schema}.{table} \
             TABLESAMPLE SYSTEM ({}) REPEATABLE (0) WHERE {rows} GROUP BY 1, 2",
            share * 100.0
        );
        scaled_counts(&session.query_text(&text, &[]).await?, share)
    }

    /// Returns the number of pages of each table.
    async fn sizes(&self, session: &Session<'_>) -> Result<Sizes, StorageError> {
        // A partitioned table has no pages of its own.
        let text = "SELECT name, (pg_relation_size(oid) + coalesce((SELECT sum(pg_relation_size(relid)) \
                    FROM pg_partition_tree(oid) WHERE isleaf), 0))::int8 / 8192 \
                    FROM (SELECT name, ($1 || '.' || name)::regclass AS oid \
                    FROM unnest(ARRAY['message', 'history', 'dead']) AS name) AS t";
        let schema: &str = &self.schema.quoted;
        let mut sizes = Sizes { message: 0, history: 0, dead: 0 };
        for row in session.query_text(text, &[(&schema, Type::TEXT)]).await? {
            let pages = row.try_get(1)?;
            match row.try_get(0)? {
                "message" => sizes.message = pages,
                "history" => sizes.history = pages,
                _ => sizes.dead = pages,
            }
        }
        Ok(sizes)
    }
}

/// Pending messages of a queue.
struct PendingQueue {
    queue: Queue,
    count: u64,
    first_due: Option<i64>,
}

/// Returns the share of a table's pages that is read.
#[expect(clippy::cast_precision_loss, reason = "a number of pages, and only their ratio is wanted")]
fn share(pages: i64) -> f64 {
    if pages <= PAGES_MAX { 1.0 } else { PAGES_MAX as f64 / pages as f64 }
}

/// Extrapolates counts of rows that are a share of all.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate of a number of rows"
)]
fn scaled_counts(rows: &[Row], share: f64) -> Result<StateCounts, StorageError> {
    let mut counts = StateCounts::new();
    for row in rows {
        let queue = Queue::from(row.try_get::<_, String>(0)?);
        let state = MessageState::from_code(row.try_get(1)?)?;
        let count = row.try_get::<_, i64>(2)?.max(0) as f64 / share;
        *counts.entry((queue, state)).or_default() += count.round() as u64;
    }
    Ok(counts)
}
