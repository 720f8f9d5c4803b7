//! Next due times of several sources in one statement. Each queue is looked up once per priority, at the front
//! of the index, so the number of messages does not matter; and once for each limit that messages share, if
//! there are any. With a topic filter, at most [`NEXT_DUE_SCAN_MAX`] messages of each priority are read.

use punctual::backend::storage::{NEXT_DUE_SCAN_MAX, TopicFilter, WakeSource};
use punctual::jiff::Timestamp;
use punctual::model::Queue;
use punctual_columns::instant::instant;
use rusqlite::{Connection, params_from_iter};

use crate::error::StorageResult;
use crate::operations::{NOT_BLOCKED, condition, first_due, has_limits, list};

/// Every priority.
const LEVELS: &str =
    "WITH level (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))";

/// Most sources in one statement.
const SOURCES_MAX: usize = 200;

/// Returns the earliest due time of each source.
pub(crate) fn next_due_all(
    connection: &Connection,
    sources: &[WakeSource],
) -> StorageResult<Vec<Option<Timestamp>>> {
    let mut due = Vec::with_capacity(sources.len());
    for sources in sources.chunks(SOURCES_MAX) {
        due.extend(next_due_chunk(connection, sources)?);
    }
    Ok(due)
}

fn next_due_chunk(
    connection: &Connection,
    sources: &[WakeSource],
) -> StorageResult<Vec<Option<Timestamp>>> {
    let mut values = Vec::new();
    for source in sources {
        values.extend(source.queue().map(ToString::to_string));
        if let WakeSource::Topics(_, topics) = source {
            values.extend(list(topics));
        }
    }
    let sql = statement(sources);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut due = Vec::with_capacity(sources.len());
    if let Some(row) = rows.next()? {
        for column in 0..sources.len() {
            let micros: Option<i64> = row.get(column)?;
            due.push(micros.map(instant).transpose()?);
        }
    }
    if has_limits(connection)? {
        for (source, due) in sources.iter().zip(&mut due) {
            let (queue, topics) = match source {
                WakeSource::Queue(queue) => (queue, &TopicFilter::All),
                WakeSource::Topics(queue, topics) => (queue, topics),
                WakeSource::Jobs | WakeSource::Leases => continue,
            };
            let limited = first_due(connection, (queue.as_str(), topics), false)?;
            *due = due.iter().copied().chain(limited).min();
        }
    }
    Ok(due)
}

/// Returns the earliest due time of the pending messages of a queue, including those that are blocked.
pub(crate) fn oldest(connection: &Connection, queue: &Queue) -> StorageResult<Option<Timestamp>> {
    let sql = format!("{LEVELS} SELECT {}", of_queue(1, "1"));
    let mut statement = connection.prepare_cached(&sql)?;
    let micros: Option<i64> = statement.query_row([queue.as_str()], |row| row.get(0))?;
    let first = micros.map(instant).transpose()?;
    if !has_limits(connection)? {
        return Ok(first);
    }
    let limited = first_due(connection, (queue.as_str(), &TopicFilter::All), true)?;
    Ok(first.into_iter().chain(limited).min())
}

/// Returns whether cancellation is requested for any running message.
pub(crate) fn has_cancels(connection: &Connection) -> StorageResult<bool> {
    let sql = "SELECT 1 FROM punctual_message INDEXED BY punctual_message_running \
               WHERE state = 1 AND cancel_requested = 1";
    Ok(connection.prepare_cached(sql)?.exists([])?)
}

/// Builds a statement with one column for each source; messages that share a limit are queried separately.
pub(crate) fn statement(sources: &[WakeSource]) -> String {
    let mut number = 0;
    let columns = sources.iter().map(|source| match source {
        WakeSource::Queue(_) => {
            number += 1;
            of_queue(number, NOT_BLOCKED)
        }
        WakeSource::Topics(_, topics) => {
            number += 1;
            let queue = number;
            number += usize::from(matches!(topics, TopicFilter::Only(_)));
            first_accepted(queue, &condition(topics, number))
        }
        WakeSource::Jobs => {
            "(SELECT min(due_at) FROM punctual_job WHERE due_at IS NOT NULL)".to_owned()
        }
        WakeSource::Leases => "NULL".to_owned(),
    });
    let columns: Vec<String> = columns.collect();
    format!("{LEVELS} SELECT {}", columns.join(", "))
}

fn of_queue(number: usize, condition: &str) -> String {
    format!(
        "(SELECT min((SELECT m.due_at FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?{number} AND m.priority = level.priority \
         AND m.lane IS NULL AND m.lane_max IS NULL AND {condition} \
         ORDER BY m.due_at, m.id LIMIT 1)) FROM level)"
    )
}

/// Builds the same for messages that a filter accepts, among the first of each priority; behind them the due
/// time of the last one.
fn first_accepted(number: usize, fits: &str) -> String {
    let pending = format!(
        "FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?{number} AND m.priority = level.priority \
         AND m.lane IS NULL AND m.lane_max IS NULL ORDER BY m.due_at, m.id"
    );
    let last = NEXT_DUE_SCAN_MAX - 1;
    format!(
        "(SELECT min(coalesce((SELECT near.due_at FROM (SELECT m.due_at, {fits} AND {NOT_BLOCKED} AS fits \
         {pending} LIMIT {NEXT_DUE_SCAN_MAX}) AS near WHERE near.fits LIMIT 1), \
         (SELECT m.due_at {pending} LIMIT 1 OFFSET {last}))) FROM level)"
    )
}
