//! Claim cursors: where a claim with a topic filter continues, behind messages of other topics. A claim scans
//! from the start of the queue as long as that is cheap. Only after it has skipped thousands of messages of
//! other topics, the next claims begin where it ended, for twenty times its duration and two seconds at most.
//!
//! Every filter has cursors of its own, so that none moves past messages that another filter accepts. An
//! earlier message that this process stores removes them at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::backend::storage::TopicFilter;
use punctual::model::Queue;

const PRIORITIES: usize = 10;
/// Steps of SQLite's virtual machine up to which a scan is cheap: about a millisecond.
const CHEAP_STEPS: i64 = 100_000;
/// Approximate steps of one claimed message; they do not count as skipping.
const STEPS_PER_CLAIMED: i64 = 100;
/// A step takes about 10 ns, and a scan may cost one part in twenty of the time.
const STEPS_PER_MICROSECOND_OF_REST: i64 = 5;
/// Longest rest after a scan, in microseconds.
const REST_MAX: i64 = 2_000_000;
/// Most cursors; beyond that all are forgotten, which costs one full scan each.
const CURSORS_MAX: usize = 1_000;

/// Position in the order of a priority: due time and id.
pub(crate) type Position = (i64, [u8; 16]);

/// Cursors of this process.
#[derive(Debug, Default)]
pub(crate) struct ClaimCursors {
    queues: Mutex<HashMap<Queue, HashMap<TopicFilter, ClaimCursor>>>,
}

#[derive(Clone, Debug)]
struct ClaimCursor {
    positions: [Option<Position>; PRIORITIES],
    full_at: i64,
    rest: i64,
}

/// Scan of one claim: where it begins, and how far it gets.
#[derive(Debug, Default)]
pub(crate) struct ClaimScan {
    from: [Option<Position>; PRIORITIES],
    reached: [Option<Position>; PRIORITIES],
    has_cursor: bool,
    steps: i64,
}

impl ClaimCursors {
    /// Begins the scan of a claim.
    pub(crate) fn begin(&self, queue: &Queue, topics: &TopicFilter, now: i64) -> ClaimScan {
        if topics.is_all() {
            return ClaimScan::default();
        }
        let queues = self.lock();
        let cursor = queues.get(queue).and_then(|filters| filters.get(topics));
        let holds =
            |cursor: &&ClaimCursor| now >= cursor.full_at && now < cursor.full_at + cursor.rest;
        match cursor.filter(holds) {
            Some(cursor) => {
                ClaimScan { from: cursor.positions, has_cursor: true, ..ClaimScan::default() }
            }
            None => ClaimScan::default(),
        }
    }

    /// Ends the scan of a claim that found `found` messages.
    pub(crate) fn end(
        &self,
        (queue, topics): (&Queue, &TopicFilter),
        scan: &ClaimScan,
        found: usize,
        now: i64,
    ) {
        if topics.is_all() {
            return;
        }
        let claimed = i64::try_from(found).unwrap_or(i64::MAX).saturating_mul(STEPS_PER_CLAIMED);
        let steps = scan.steps.saturating_sub(claimed);
        let mut queues = self.lock();
        if scan.has_cursor {
            let cursor = queues.get_mut(queue).and_then(|filters| filters.get_mut(topics));
            if let Some(cursor) = cursor {
                for (position, reached) in cursor.positions.iter_mut().zip(scan.reached) {
                    *position = reached.or(*position);
                }
            }
        } else if steps > CHEAP_STEPS {
            if queues.values().map(HashMap::len).sum::<usize>() >= CURSORS_MAX {
                queues.clear();
            }
            let rest = (steps / STEPS_PER_MICROSECOND_OF_REST).min(REST_MAX);
            let cursor = ClaimCursor { positions: scan.reached, full_at: now, rest };
            queues.entry(queue.clone()).or_default().insert(topics.clone(), cursor);
        } else if let Some(filters) = queues.get_mut(queue) {
            filters.remove(topics);
            if filters.is_empty() {
                queues.remove(queue);
            }
        }
    }

    /// Invalidates the cursors at or past the due time of a stored message.
    pub(crate) fn invalidate(&self, queue: &Queue, due_at: i64) {
        if let Some(filters) = self.lock().get_mut(queue) {
            let is_before = |cursor: &ClaimCursor| {
                cursor.positions.iter().flatten().all(|position| position.0 < due_at)
            };
            filters.retain(|_, cursor| is_before(cursor));
        }
    }

    /// Invalidates the cursors of a queue whose claim was not committed.
    pub(crate) fn invalidate_queue(&self, queue: &Queue) {
        self.lock().remove(queue);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Queue, HashMap<TopicFilter, ClaimCursor>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimScan {
    /// Returns where a priority begins; none for its first message.
    pub(crate) fn from(&self, priority: u8) -> Option<Position> {
        self.from[level(priority)]
    }

    /// Records that a priority was scanned up to a position, in a number of steps.
    pub(crate) fn record_scan(&mut self, priority: u8, position: Option<Position>, steps: i32) {
        self.reached[level(priority)] = position;
        self.steps = self.steps.saturating_add(i64::from(steps));
    }
}

fn level(priority: u8) -> usize {
    usize::from(priority).min(PRIORITIES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(cursors: &ClaimCursors, steps: i32, now: i64) -> bool {
        let (queue, topics) = (Queue::default(), TopicFilter::NotSystem);
        let mut scan = cursors.begin(&queue, &topics, now);
        scan.record_scan(5, Some((now, [0xff; 16])), steps);
        cursors.end((&queue, &topics), &scan, 0, now);
        scan.has_cursor
    }

    #[test]
    fn a_cheap_scan_begins_at_the_start_every_time() {
        let cursors = ClaimCursors::default();
        for now in 0..5 {
            assert!(!scanned(&cursors, 99_999, now));
        }
    }

    #[test]
    fn after_a_long_scan_the_next_ones_continue_behind_it_for_a_while() {
        let cursors = ClaimCursors::default();
        assert!(!scanned(&cursors, 1_000_000, 0), "200 ms of rest follow");
        for now in [1_000, 100_000, 199_999] {
            assert!(scanned(&cursors, 10, now));
        }
        let other = cursors.begin(&Queue::default(), &TopicFilter::only([]), 5);
        assert!(!other.has_cursor, "each filter has its own cursors");
        assert!(!scanned(&cursors, 10, 200_000), "then a full scan follows");
        assert!(!scanned(&cursors, 10, 200_001), "which was cheap this time");
        assert!(!scanned(&cursors, i32::MAX, 300_000));
        assert!(!scanned(&cursors, 10, 2_300_000), "two seconds is the longest rest");
    }

    #[test]
    fn an_earlier_due_time_removes_a_cursor() {
        let cursors = ClaimCursors::default();
        scanned(&cursors, 1_000_000, 500);
        cursors.invalidate(&Queue::default(), 501);
        assert!(scanned(&cursors, 10, 500), "a later due time keeps the cursor");
        cursors.invalidate(&Queue::default(), 500);
        assert!(!scanned(&cursors, 10, 501));
    }
}
