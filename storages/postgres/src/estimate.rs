//! How many messages there are, without looking at all of them. Small tables are counted. Of large ones the few
//! that run are counted by their index, and what waits in each queue by its index up to a bound; what goes beyond
//! it is worked out from a sample of the table's pages. So asking costs the same at a million rows as at ten
//! thousand, however often somebody looks.

use std::collections::BTreeMap;

use punctual::Result;
use punctual::inspect::Counts;
use punctual::jiff::Timestamp;
use punctual::model::{Queue, State};
use punctual_rows::code::Code;
use punctual_rows::instant::{instant, micros};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::Micros;

/// The most pages of a table that are read; one of more is looked at in parts.
const PAGES_MAX: i64 = 500;
/// Up to how many messages that wait in a queue are counted one by one.
const EXACT_MAX: u64 = 10_000;

/// How many queues are looked at one by one; of more, the others are worked out as well.
const LINES_MAX: usize = 1_000;

/// How many messages of each queue are in each state.
type Numbers = BTreeMap<(Queue, State), u64>;

/// The tables messages are in, and how large each is.
struct Sizes {
    message: i64,
    history: i64,
    dead: i64,
}

impl Inner {
    pub(crate) async fn estimate(&self, now: Timestamp) -> Result<Counts> {
        attempt!(self, |held| async {
            let sizes = self.sizes(held).await?;
            let mut counts = Counts {
                is_estimate: [sizes.message, sizes.history, sizes.dead]
                    .iter()
                    .any(|pages| *pages > PAGES_MAX),
                ..Counts::default()
            };
            self.estimate_alive(held, now, sizes.message, &mut counts).await?;
            let ended = [
                ("history", "state", "state IS NOT NULL", sizes.history),
                ("dead", "3::int2", "true", sizes.dead),
            ];
            for (table, state, rows, pages) in ended {
                let sampled = self.sample(held, (table, state, rows), pages).await?;
                counts.messages.extend(sampled);
            }
            counts.stale = self.stale(held, now).await?;
            Ok(counts)
        })
    }

    /// What waits and runs, and the oldest of what is due.
    async fn estimate_alive(
        &self,
        held: &Session<'_>,
        now: Timestamp,
        pages: i64,
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        let lines = self.lines(held).await?;
        let oldest = lines.iter().filter_map(|line| line.first_due).min();
        let oldest = oldest.filter(|due| *due <= micros(now));
        counts.oldest_due = oldest.map(instant).transpose()?;
        let mut alive = Numbers::new();
        for line in &lines {
            *alive.entry((line.queue.clone(), State::Pending)).or_default() += line.count;
        }
        let is_cut = lines.len() >= LINES_MAX;
        if is_cut || alive.values().any(|count| *count >= EXACT_MAX) {
            for (of, near) in self.sample(held, ("message", "state", "state = 0"), pages).await? {
                match alive.get_mut(&of) {
                    Some(count) if *count >= EXACT_MAX => *count = near.max(*count),
                    None if is_cut => drop(alive.insert(of, near)),
                    // Counted, or come while we looked.
                    _ => {}
                }
            }
        }
        let running = format!(
            "SELECT queue, state, count(*) FROM {}.message WHERE state = 1 GROUP BY queue, state",
            self.schema.quoted
        );
        alive.extend(numbers(&held.ask(&running, &[]).await?, 1.0)?);
        counts.messages.extend(alive);
        Ok(())
    }

    /// The queues in which messages wait: how many, up to a bound, and when the first is due. Each queue is found
    /// by one step into the index behind the one before.
    async fn lines(&self, held: &Session<'_>) -> Result<Vec<WaitingLine>, Failure> {
        let schema = &self.schema.quoted;
        let mut lines = Vec::new();
        for rows in ["m.state = 0 AND m.lane IS NULL", "m.state = 0 AND m.lane IS NOT NULL"] {
            let text = format!(
                "WITH RECURSIVE lines AS ( \
                 (SELECT m.queue FROM {schema}.message m WHERE {rows} ORDER BY m.queue LIMIT 1) \
                 UNION ALL \
                 SELECT (SELECT m.queue FROM {schema}.message m WHERE {rows} AND m.queue > l.queue \
                 ORDER BY m.queue LIMIT 1) FROM lines l WHERE l.queue IS NOT NULL) \
                 SELECT l.queue, \
                 (SELECT count(*) FROM (SELECT FROM {schema}.message m \
                 WHERE {rows} AND m.queue = l.queue LIMIT {EXACT_MAX}) AS c), \
                 (SELECT min(f.due_at) FROM generate_series(0, 9) AS p CROSS JOIN LATERAL ( \
                 SELECT m.due_at FROM {schema}.message m \
                 WHERE {rows} AND m.queue = l.queue AND m.priority = p::int2 \
                 ORDER BY m.due_at LIMIT 1) AS f) \
                 FROM lines l WHERE l.queue IS NOT NULL LIMIT {LINES_MAX}"
            );
            for row in held.ask(&text, &[]).await? {
                let due: Option<Micros> = row.try_get(2)?;
                lines.push(WaitingLine {
                    queue: Queue::from(row.try_get::<_, String>(0)?),
                    count: u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or_default(),
                    first_due: due.map(|due| due.0),
                });
            }
        }
        Ok(lines)
    }

    /// How many rows of a table there are: counted when it is small, else worked out from some of its pages.
    async fn sample(
        &self,
        held: &Session<'_>,
        (table, state, rows): (&str, &str, &str),
        pages: i64,
    ) -> Result<Numbers, Failure> {
        let share = share(pages);
        let schema = &self.schema.quoted;
        let text = format!(
            "SELECT queue, {state}, count(*) FROM {schema}.{table} \
             TABLESAMPLE SYSTEM ({}) REPEATABLE (0) WHERE {rows} GROUP BY 1, 2",
            share * 100.0
        );
        numbers(&held.ask(&text, &[]).await?, share)
    }

    /// How many pages the tables have.
    async fn sizes(&self, held: &Session<'_>) -> Result<Sizes, Failure> {
        // A table with parts has no pages of its own.
        let text = "SELECT name, (pg_relation_size(oid) + coalesce((SELECT sum(pg_relation_size(relid)) \
                    FROM pg_partition_tree(oid) WHERE isleaf), 0))::int8 / 8192 \
                    FROM (SELECT name, ($1 || '.' || name)::regclass AS oid \
                    FROM unnest(ARRAY['message', 'history', 'dead']) AS name) AS t";
        let schema: &str = &self.schema.quoted;
        let mut sizes = Sizes { message: 0, history: 0, dead: 0 };
        for row in held.ask(text, &[(&schema, Type::TEXT)]).await? {
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

/// What waits in a queue.
struct WaitingLine {
    queue: Queue,
    count: u64,
    first_due: Option<i64>,
}

/// The share of a table's pages that is read.
#[expect(clippy::cast_precision_loss, reason = "a number of pages, and only their ratio is wanted")]
fn share(pages: i64) -> f64 {
    if pages <= PAGES_MAX { 1.0 } else { PAGES_MAX as f64 / pages as f64 }
}

/// Numbers of rows that are a share of all.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate of a number of rows"
)]
fn numbers(rows: &[Row], share: f64) -> Result<Numbers, Failure> {
    let mut numbers = Numbers::new();
    for row in rows {
        let queue = Queue::from(row.try_get::<_, String>(0)?);
        let state = State::from_code(row.try_get(1)?)?;
        let count = row.try_get::<_, i64>(2)?.max(0) as f64 / share;
        *numbers.entry((queue, state)).or_default() += count.round() as u64;
    }
    Ok(numbers)
}
