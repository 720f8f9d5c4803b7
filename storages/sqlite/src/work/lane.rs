//! Lanes: the messages that share a limit. In the index of pending messages those of one lane that allow the
//! same number lie together, so a lane that is full is passed over in one step, however many wait in it. What
//! runs is counted where it is; there is nothing that could be lost or left over.

use std::collections::HashMap;

use punctual::Message;
use punctual::model::Queue;
use punctual_rows::instant::instant;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::claim::{ABOVE_ALL, NEXT_PRIORITY, NOT_WAITING};
use super::topics::{condition, list};
use crate::effects::Effects;
use crate::fault::Tried;
use punctual::jiff::Timestamp;
use punctual::storage::TopicFilter;

/// How many of a lane run.
pub(crate) const RUNNING: &str = "SELECT count(*) FROM punctual_message INDEXED BY punctual_message_lane \
     WHERE lane = ?1 AND state = 1";
/// The next lane of a queue and a priority in which anything is pending, and how many it allows. From the
/// next number on, because SQLite would walk through all that are equal to what it has to be greater than.
pub(crate) const NEXT_LANE: &str = "SELECT lane, lane_max FROM punctual_message INDEXED BY punctual_message_pending \
     WHERE state = 0 AND queue = ?1 AND priority = ?2 AND (lane, lane_max) >= (?3, ?4) \
     ORDER BY lane, lane_max LIMIT 1";
/// The next queue in which messages of a lane are pending, and when the first of them is due.
pub(crate) const NEXT_QUEUE: &str = "SELECT queue, due_at FROM punctual_message INDEXED BY punctual_message_lane \
     WHERE lane = ?1 AND state = 0 AND queue > ?2 ORDER BY queue, due_at LIMIT 1";
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM punctual_message INDEXED BY punctual_message_lane \
     WHERE lane IS NOT NULL)";

/// The lane of a message and how many of it may run; none for most.
pub(crate) fn lane_of(message: &Message) -> (Option<&str>, Option<u32>) {
    let limit = message.limit().filter(|limit| limit.running_max.is_some());
    (limit.map(|limit| limit.name.as_str()), limit.and_then(|limit| limit.running_max))
}

/// Messages that share a limit and allow the same number to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) running_max: i64,
}

/// How many run in the lanes that were asked about.
#[derive(Default)]
pub(crate) struct Lanes {
    running: HashMap<String, i64>,
}

impl Lanes {
    /// How many more of a lane may run.
    pub(crate) fn room(&mut self, connection: &Connection, lane: &Lane) -> Tried<i64> {
        let running = if let Some(running) = self.running.get(&lane.name) {
            *running
        } else {
            let mut statement = connection.prepare_cached(RUNNING)?;
            let running = statement.query_row([&lane.name], |row| row.get(0))?;
            self.running.insert(lane.name.clone(), running);
            running
        };
        Ok(lane.running_max.saturating_sub(running).max(0))
    }

    /// One more of a lane runs.
    pub(crate) fn start(&mut self, lane: &Lane) {
        *self.running.entry(lane.name.clone()).or_default() += 1;
    }
}

/// The lane of a queue and a priority that comes after one.
pub(crate) fn next_lane(
    connection: &Connection,
    (queue, priority): (&str, u8),
    last: &Lane,
) -> Tried<Option<Lane>> {
    let mut statement = connection.prepare_cached(NEXT_LANE)?;
    let found = statement
        .query_row(params![queue, priority, last.name, last.running_max + 1], |row| {
            Ok(Lane { name: row.get(0)?, running_max: row.get(1)? })
        });
    Ok(found.optional()?)
}

/// What is pending in a lane, oldest first; also what is due later, when it is asked for the end of time.
pub(crate) fn pending_of_lane(condition: &str) -> String {
    format!(
        "SELECT m.due_at, m.id FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?1 AND m.priority = ?2 AND m.lane = ?3 AND m.lane_max = ?4 \
         AND m.due_at <= ?5 AND {condition} ORDER BY m.due_at, m.id LIMIT ?6"
    )
}

/// Whether any message that is alive has a lane.
pub(crate) fn has_lanes(connection: &Connection) -> Tried<bool> {
    Ok(connection.prepare_cached(ANY)?.query_row([], |row| row.get(0))?)
}

/// When the first wanted message of a queue that has a lane is due; with those of full lanes, or without
/// them.
pub(crate) fn first_due(
    connection: &Connection,
    (queue, topics): (&str, &TopicFilter),
    also_full: bool,
) -> Tried<Option<Timestamp>> {
    let waiting = if also_full { "1" } else { NOT_WAITING };
    let (fits, list) = (condition(topics, 7), list(topics));
    let sql = pending_of_lane(&format!("{waiting} AND {fits}"));
    let mut first = connection.prepare_cached(&sql)?;
    let mut priorities = connection.prepare_cached(NEXT_PRIORITY)?;
    let (mut lanes, mut below, mut due) = (Lanes::default(), ABOVE_ALL, None);
    while let Some(priority) =
        priorities.query_row(params![queue, below], |row| row.get(0)).optional()?
    {
        let mut last = Lane::default();
        while let Some(lane) = next_lane(connection, (queue, priority), &last)? {
            if also_full || lanes.room(connection, &lane)? > 0 {
                let (name, most) = (&lane.name, lane.running_max);
                let wanted = params![queue, priority, name, most, i64::MAX, 1, list];
                let wanted = if list.is_some() { wanted } else { &wanted[..6] };
                let at: Option<i64> = first.query_row(wanted, |row| row.get(0)).optional()?;
                due = due.into_iter().chain(at).min();
            }
            last = lane;
        }
        below = priority;
    }
    Ok(due.map(instant).transpose()?)
}

/// One of a lane runs no more: the queues in which others of it wait hear of it.
pub(crate) fn lane_is_free(
    transaction: &Connection,
    lane: &str,
    effects: &mut Effects,
) -> Tried<()> {
    let mut statement = transaction.prepare_cached(NEXT_QUEUE)?;
    let mut last = String::new();
    loop {
        let found = statement.query_row([lane, &last], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some((queue, due_at)) = found.optional()? else { return Ok(()) };
        last = queue;
        let queue = Queue::from(last.clone());
        // Whoever was told of it when it came may have found that it had to wait: it is news again.
        effects.was_taken(&queue);
        effects.is_due(&queue, due_at);
    }
}
