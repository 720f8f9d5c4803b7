//! Limits: messages that share a limit, which the tables call a lane. In the index of pending messages those
//! with the same limit and maximum are adjacent, so a limit that is reached is skipped in one step, however
//! many messages wait for it. Running messages are counted in the table; there is no counter that could be lost
//! or become wrong.

use std::collections::HashMap;

use punctual::Message;
use punctual::model::Queue;
use punctual_columns::instant::instant;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::claim::{ABOVE_ALL, NEXT_PRIORITY, NOT_BLOCKED};
use super::topics::{condition, list};
use crate::effects::Effects;
use crate::error::StorageResult;
use punctual::backend::storage::TopicFilter;
use punctual::jiff::Timestamp;

/// Number of running messages of a limit.
pub(crate) const RUNNING: &str = "SELECT count(*) FROM punctual_message INDEXED BY punctual_message_lane \
     WHERE lane = ?1 AND state = 1";
/// Next limit of a queue and a priority with pending messages, and its maximum. Compared with the next number,
/// because SQLite would scan all entries equal to a strict lower bound.
pub(crate) const NEXT_LIMIT: &str = "SELECT lane, lane_max FROM punctual_message INDEXED BY punctual_message_pending \
     WHERE state = 0 AND queue = ?1 AND priority = ?2 AND (lane, lane_max) >= (?3, ?4) \
     ORDER BY lane, lane_max LIMIT 1";
/// Next queue in which messages of a limit are pending, and the first due time of them.
pub(crate) const NEXT_QUEUE: &str = "SELECT queue, due_at FROM punctual_message INDEXED BY punctual_message_lane \
     WHERE lane = ?1 AND state = 0 AND queue > ?2 ORDER BY queue, due_at LIMIT 1";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM punctual_message INDEXED BY punctual_message_lane \
     WHERE lane IS NOT NULL)";

/// Returns the limit of a message and its maximum; none for most.
pub(crate) fn limit_of(message: &Message) -> (Option<&str>, Option<u32>) {
    let limit = message.limit().filter(|limit| limit.running_max.is_some());
    (limit.map(|limit| limit.name.as_str()), limit.and_then(|limit| limit.running_max))
}

/// Limit with its maximum: messages may share a limit with different maxima.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedLimit {
    pub(crate) name: String,
    pub(crate) running_max: i64,
}

/// Running messages of the limits that were queried.
#[derive(Default)]
pub(crate) struct SharedLimits {
    running: HashMap<String, i64>,
}

impl SharedLimits {
    /// Returns how many more messages of a limit may run.
    pub(crate) fn room(
        &mut self,
        connection: &Connection,
        limit: &SharedLimit,
    ) -> StorageResult<i64> {
        let running = if let Some(running) = self.running.get(&limit.name) {
            *running
        } else {
            let mut statement = connection.prepare_cached(RUNNING)?;
            let running = statement.query_row([&limit.name], |row| row.get(0))?;
            self.running.insert(limit.name.clone(), running);
            running
        };
        Ok(limit.running_max.saturating_sub(running).max(0))
    }

    /// Counts one more running message of a limit.
    pub(crate) fn start(&mut self, limit: &SharedLimit) {
        *self.running.entry(limit.name.clone()).or_default() += 1;
    }
}

/// Returns the limit of a queue and a priority that follows `last`.
pub(crate) fn next_limit(
    connection: &Connection,
    (queue, priority): (&str, u8),
    last: &SharedLimit,
) -> StorageResult<Option<SharedLimit>> {
    let mut statement = connection.prepare_cached(NEXT_LIMIT)?;
    let found = statement
        .query_row(params![queue, priority, last.name, last.running_max + 1], |row| {
            Ok(SharedLimit { name: row.get(0)?, running_max: row.get(1)? })
        });
    Ok(found.optional()?)
}

/// Selects the pending messages of a limit up to an instant, oldest first.
pub(crate) fn pending_of_limit(condition: &str) -> String {
    format!(
        "SELECT m.due_at, m.id FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?1 AND m.priority = ?2 AND m.lane = ?3 AND m.lane_max = ?4 \
         AND m.due_at <= ?5 AND {condition} ORDER BY m.due_at, m.id LIMIT ?6"
    )
}

/// Returns whether any alive message has a limit.
pub(crate) fn has_limits(connection: &Connection) -> StorageResult<bool> {
    Ok(connection.prepare_cached(ANY)?.query_row([], |row| row.get(0))?)
}

/// Returns the first due time among the messages of a queue that have a limit and match a filter; with or
/// without those of reached limits.
pub(crate) fn first_due(
    connection: &Connection,
    (queue, topics): (&str, &TopicFilter),
    also_full: bool,
) -> StorageResult<Option<Timestamp>> {
    let waiting = if also_full { "1" } else { NOT_BLOCKED };
    let (fits, list) = (condition(topics, 7), list(topics));
    let sql = pending_of_limit(&format!("{waiting} AND {fits}"));
    let mut first = connection.prepare_cached(&sql)?;
    let mut priorities = connection.prepare_cached(NEXT_PRIORITY)?;
    let (mut shared_limits, mut below, mut due) = (SharedLimits::default(), ABOVE_ALL, None);
    while let Some(priority) =
        priorities.query_row(params![queue, below], |row| row.get(0)).optional()?
    {
        let mut last = SharedLimit::default();
        while let Some(limit) = next_limit(connection, (queue, priority), &last)? {
            if also_full || shared_limits.room(connection, &limit)? > 0 {
                let (name, most) = (&limit.name, limit.running_max);
                let wanted = params![queue, priority, name, most, i64::MAX, 1, list];
                let wanted = if list.is_some() { wanted } else { &wanted[..6] };
                let at: Option<i64> = first.query_row(wanted, |row| row.get(0)).optional()?;
                due = due.into_iter().chain(at).min();
            }
            last = limit;
        }
        below = priority;
    }
    Ok(due.map(instant).transpose()?)
}

/// Notifies the queues in which messages wait for a limit of which a message stopped running.
pub(crate) fn notify_limit_queues(
    transaction: &Connection,
    limit: &str,
    effects: &mut Effects,
) -> StorageResult<()> {
    let mut statement = transaction.prepare_cached(NEXT_QUEUE)?;
    let mut last = String::new();
    loop {
        let found = statement.query_row([limit, &last], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some((queue, due_at)) = found.optional()? else { return Ok(()) };
        last = queue;
        let queue = Queue::from(last.clone());
        // A process that was notified when the message was stored may have found it blocked, so it is notified
        // again.
        effects.was_taken(&queue);
        effects.is_due(&queue, due_at);
    }
}
