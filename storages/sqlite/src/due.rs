//! When lines have something to do: several in one statement. Each queue is looked up once per
//! priority, at the front of the index, so the number of messages does not matter; and once for each lane of
//! those that share a limit, if there are any. With a topic filter, at most [`LOOK_MAX`] messages of each
//! priority are looked at.

use punctual::jiff::Timestamp;
use punctual::model::Queue;
use punctual::storage::{LOOK_MAX, Line, TopicFilter};
use punctual_rows::instant::instant;
use rusqlite::{Connection, params_from_iter};

use crate::fault::Tried;
use crate::work::{NOT_WAITING, condition, first_due, has_lanes, list};

/// Every priority there is.
const LEVELS: &str =
    "WITH level (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))";

/// The most lines in one statement.
const LINES_MAX: usize = 200;

/// The earliest instant of each line.
pub(crate) fn due(connection: &Connection, lines: &[Line]) -> Tried<Vec<Option<Timestamp>>> {
    let mut due = Vec::with_capacity(lines.len());
    for lines in lines.chunks(LINES_MAX) {
        due.extend(due_together(connection, lines)?);
    }
    Ok(due)
}

fn due_together(connection: &Connection, lines: &[Line]) -> Tried<Vec<Option<Timestamp>>> {
    let mut values = Vec::new();
    for line in lines {
        values.extend(line.queue().map(ToString::to_string));
        if let Line::Topics(_, topics) = line {
            values.extend(list(topics));
        }
    }
    let sql = statement(lines);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut due = Vec::with_capacity(lines.len());
    if let Some(row) = rows.next()? {
        for column in 0..lines.len() {
            let micros: Option<i64> = row.get(column)?;
            due.push(micros.map(instant).transpose()?);
        }
    }
    if has_lanes(connection)? {
        for (line, due) in lines.iter().zip(&mut due) {
            let (queue, topics) = match line {
                Line::Queue(queue) => (queue, &TopicFilter::All),
                Line::Topics(queue, topics) => (queue, topics),
                Line::Jobs | Line::Leases => continue,
            };
            let laned = first_due(connection, (queue.as_str(), topics), false)?;
            *due = due.iter().copied().chain(laned).min();
        }
    }
    Ok(due)
}

/// The earliest instant at which a message of a queue was to be handed out, also of those that wait for
/// their turn.
pub(crate) fn oldest(connection: &Connection, queue: &Queue) -> Tried<Option<Timestamp>> {
    let sql = format!("{LEVELS} SELECT {}", of_queue(1, "1"));
    let mut statement = connection.prepare_cached(&sql)?;
    let micros: Option<i64> = statement.query_row([queue.as_str()], |row| row.get(0))?;
    let first = micros.map(instant).transpose()?;
    if !has_lanes(connection)? {
        return Ok(first);
    }
    let laned = first_due(connection, (queue.as_str(), &TopicFilter::All), true)?;
    Ok(first.into_iter().chain(laned).min())
}

/// Whether any running message is to be cancelled.
pub(crate) fn has_cancels(connection: &Connection) -> Tried<bool> {
    let sql = "SELECT 1 FROM punctual_message INDEXED BY punctual_message_running \
               WHERE state = 1 AND cancel_requested = 1";
    Ok(connection.prepare_cached(sql)?.exists([])?)
}

/// One column for each line; those that share a limit are looked up apart.
pub(crate) fn statement(lines: &[Line]) -> String {
    let mut number = 0;
    let columns = lines.iter().map(|line| match line {
        Line::Queue(_) => {
            number += 1;
            of_queue(number, NOT_WAITING)
        }
        Line::Topics(_, topics) => {
            number += 1;
            let queue = number;
            number += usize::from(matches!(topics, TopicFilter::Only(_)));
            among(queue, &condition(topics, number))
        }
        Line::Jobs => "(SELECT min(due_at) FROM punctual_job WHERE due_at IS NOT NULL)".to_owned(),
        Line::Leases => "NULL".to_owned(),
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

/// The same for what a filter admits, among the first of each priority; behind those the instant of the last
/// one.
fn among(number: usize, fits: &str) -> String {
    let pending = format!(
        "FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?{number} AND m.priority = level.priority \
         AND m.lane IS NULL AND m.lane_max IS NULL ORDER BY m.due_at, m.id"
    );
    let last = LOOK_MAX - 1;
    format!(
        "(SELECT min(coalesce((SELECT near.due_at FROM (SELECT m.due_at, {fits} AND {NOT_WAITING} AS fits \
         {pending} LIMIT {LOOK_MAX}) AS near WHERE near.fits LIMIT 1), \
         (SELECT m.due_at {pending} LIMIT 1 OFFSET {last}))) FROM level)"
    )
}
