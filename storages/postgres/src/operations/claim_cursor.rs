//! Claim cursors: the position up to which each priority of a queue has been claimed, so that a claim does not
//! scan index entries again whose messages earlier claims took. Without cursors, a report that runs for an hour
//! keeps every row of that hour in the index, and each claim reads them all.
//!
//! A cursor is a hint and never hides a message for long: a notification about an earlier due time removes it,
//! a claim that finds less than its limit is repeated from the start of the queue, and a full scan is made at
//! regular intervals. Only while a full scan is itself slow, which is the sign of such a report, the next one
//! is delayed in proportion to its cost.
//!
//! Every topic filter has cursors of its own, so that none moves past messages that another filter accepts. A
//! full scan under a filter is slow when many messages of other topics are in front; it is delayed in the same
//! proportion, also when the claim found nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::backend::storage::{ClaimedMessage, TopicFilter};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::{Message, Priority, Queue};
use uuid::Uuid;

use crate::value::Micros;

const PRIORITIES: usize = 10;
/// Longest delay of a full scan while claims find enough messages.
const FULL_SCAN_INTERVAL: Duration = Duration::from_millis(200);
/// A full scan that takes less time than this is never delayed.
const CHEAP_SCAN: Duration = Duration::from_millis(20);
/// The same under a topic filter, where each stored message may lead to a claim that finds nothing.
const CHEAP_SCAN_FILTERED: Duration = Duration::from_millis(2);
/// A slow scan may take at most one part in this many of the time.
const COST_DIVISOR: u32 = 20;
/// Longest delay of any full scan.
const FULL_SCAN_DELAY_MAX: Duration = Duration::from_secs(2);
/// Most queues that are remembered; beyond that all are forgotten, which costs one full scan each.
const QUEUES_MAX: usize = 10_000;
/// Most topic filters of a queue that are remembered; beyond that all filters of the queue are forgotten.
const FILTERS_MAX: usize = 16;
/// Most arrivals that are kept apart.
const ARRIVALS_MAX: usize = 64;

/// Cursors of every queue that this process claims from.
#[derive(Default)]
pub(crate) struct ClaimCursors {
    queues: Mutex<HashMap<Queue, QueueCursors>>,
}

/// Cursors of one queue.
#[derive(Default)]
struct QueueCursors {
    filters: HashMap<TopicFilter, ClaimCursor>,
    /// Whether the last claim saw messages that share limits.
    is_limited: bool,
}

#[derive(Default)]
struct ClaimCursor {
    positions: [Option<(i64, Uuid)>; PRIORITIES],
    /// Number of arrivals; a running claim must not set a cursor past a message that arrived meanwhile.
    age: u64,
    arrivals: Vec<(u64, i64)>,
    /// Arrivals up to this age are no longer known.
    known_from: u64,
    full_at: Option<Timestamp>,
    full_took: Duration,
}

/// Result of a claim.
pub(crate) struct ClaimScan<'a, I> {
    pub(crate) topics: &'a TopicFilter,
    /// Due time of each message, in microseconds, and the message.
    pub(crate) messages: I,
    /// Instant up to which the scan was complete; none when the limit was reached.
    pub(crate) walked_to: Option<i64>,
}

/// Positions from which a claim begins.
pub(crate) struct ClaimStart {
    pub(crate) priorities: Vec<i16>,
    pub(crate) due: Vec<Micros>,
    pub(crate) ids: Vec<Uuid>,
    /// Whether the claim scans from the start of the queue.
    pub(crate) is_full: bool,
    age: u64,
}

impl ClaimCursors {
    /// Returns where the next claim of a queue begins.
    pub(crate) fn start(&self, queue: &Queue, topics: &TopicFilter, now: Timestamp) -> ClaimStart {
        let mut queues = self.queues();
        let cursor = cursor_of(&mut queues, queue, topics);
        let wait = FULL_SCAN_INTERVAL.max(cursor.full_took * COST_DIVISOR).min(FULL_SCAN_DELAY_MAX);
        let is_full = cursor.full_at.is_none_or(|at| now < at || now >= add(at, wait));
        ClaimStart::new(if is_full { &[None; PRIORITIES] } else { &cursor.positions }, cursor.age)
    }

    /// Returns the start of the queue when a claim that began at its cursor found too little; none when it
    /// found something and a full scan was slow and recent.
    pub(crate) fn full_start(
        &self,
        (queue, topics): (&Queue, &TopicFilter),
        found: usize,
        now: Timestamp,
    ) -> Option<ClaimStart> {
        let mut queues = self.queues();
        let cursor = cursor_of(&mut queues, queue, topics);
        let wait = (cursor.full_took * COST_DIVISOR).min(FULL_SCAN_DELAY_MAX);
        let cheap = if topics.is_all() { CHEAP_SCAN } else { CHEAP_SCAN_FILTERED };
        // A claim that finds nothing was woken for a message that exists; under a filter it may be one of
        // another topic.
        let is_due = (found == 0 && topics.is_all())
            || cursor.full_took < cheap
            || cursor.full_at.is_none_or(|at| now < at || now >= add(at, wait));
        is_due.then(|| ClaimStart::new(&[None; PRIORITIES], cursor.age))
    }

    /// Advances the cursors past what a claim found, unless an arrival invalidated them meanwhile.
    pub(crate) fn advance<'a>(
        &self,
        queue: &Queue,
        start: &ClaimStart,
        found: ClaimScan<'_, impl Iterator<Item = (i64, &'a Message)>>,
        (began, ended): (Timestamp, Timestamp),
    ) {
        let ClaimScan { topics, messages, walked_to } = found;
        let mut queues = self.queues();
        let cursor = cursor_of(&mut queues, queue, topics);
        let first_arrival = cursor.first_arrival_since(start.age);
        if start.is_full {
            cursor.positions = [None; PRIORITIES];
            cursor.full_at = Some(ended);
            cursor.full_took = punctual::clock::between(began, ended);
        }
        let walked_to = walked_to.filter(|at| !topics.is_all() && *at < first_arrival);
        if let Some(at) = walked_to {
            let end = (at, Uuid::max());
            cursor.positions = cursor
                .positions
                .map(|position| Some(position.map_or(end, |position| position.max(end))));
        }
        for (due_at, message) in messages {
            let position = (due_at, message.id.as_uuid());
            if due_at >= first_arrival {
                continue;
            }
            let level = usize::from(message.priority.level()).min(PRIORITIES - 1);
            let last = cursor.positions[level].get_or_insert(position);
            *last = position.max(*last);
        }
    }

    /// Returns whether a queue may contain messages that share limits, as far as this process knows.
    pub(crate) fn is_limited(&self, queue: &Queue) -> bool {
        self.queues().get(queue).is_some_and(|cursor| cursor.is_limited)
    }

    pub(crate) fn set_limited(&self, queue: &Queue, is_limited: bool) {
        queue_cursors(&mut self.queues(), queue).is_limited = is_limited;
    }

    /// Invalidates the cursors at or past the due time of an arrival.
    pub(crate) fn invalidate(&self, queue: &Queue, due_at: i64) {
        if let Some(cursors) = self.queues().get_mut(queue) {
            for cursor in cursors.filters.values_mut() {
                cursor.add_arrival(due_at);
            }
        }
    }

    /// Invalidates all cursors: notifications may have been missed.
    pub(crate) fn invalidate_all(&self) {
        for cursor in self.queues().values_mut().flat_map(|cursors| cursors.filters.values_mut()) {
            cursor.add_arrival(i64::MIN);
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Queue, QueueCursors>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimCursor {
    fn add_arrival(&mut self, due_at: i64) {
        self.age += 1;
        if self.arrivals.len() < ARRIVALS_MAX {
            self.arrivals.push((self.age, due_at));
        } else if let Some(last) = self.arrivals.last_mut() {
            // No longer kept apart, which only delays the next cursor.
            *last = (self.age, due_at.min(last.1));
        }
        if self.positions.iter().flatten().any(|(claimed_to, _)| due_at <= *claimed_to) {
            self.positions = [None; PRIORITIES];
        }
    }

    /// Returns the earliest due time that arrived after an age.
    fn first_arrival_since(&mut self, age: u64) -> i64 {
        if age < self.known_from {
            return i64::MIN;
        }
        let since = self.arrivals.iter().filter(|(came, _)| *came > age);
        let first = since.map(|(_, due_at)| *due_at).min().unwrap_or(i64::MAX);
        self.arrivals.retain(|(came, _)| *came > age);
        self.known_from = age;
        first
    }
}

fn queue_cursors<'a>(
    queues: &'a mut HashMap<Queue, QueueCursors>,
    queue: &Queue,
) -> &'a mut QueueCursors {
    if queues.len() >= QUEUES_MAX && !queues.contains_key(queue) {
        queues.clear();
    }
    queues.entry(queue.clone()).or_default()
}

fn cursor_of<'a>(
    queues: &'a mut HashMap<Queue, QueueCursors>,
    queue: &Queue,
    topics: &TopicFilter,
) -> &'a mut ClaimCursor {
    let filters = &mut queue_cursors(queues, queue).filters;
    if filters.len() >= FILTERS_MAX && !filters.contains_key(topics) {
        filters.clear();
    }
    filters.entry(topics.clone()).or_default()
}

impl ClaimStart {
    fn new(positions: &[Option<(i64, Uuid)>; PRIORITIES], age: u64) -> Self {
        let highest_first = || positions.iter().enumerate().rev();
        let none = (Micros::MIN.0, Uuid::nil());
        Self {
            priorities: highest_first()
                .map(|(level, _)| i16::try_from(level).unwrap_or_default())
                .collect(),
            due: highest_first().map(|(_, position)| Micros(position.unwrap_or(none).0)).collect(),
            ids: highest_first().map(|(_, position)| position.unwrap_or(none).1).collect(),
            is_full: positions.iter().all(Option::is_none),
            age,
        }
    }

    /// Moves one priority before all others.
    pub(crate) fn with_first(mut self, first: Option<Priority>) -> Self {
        let level = first.map(|priority| i16::from(priority.level()));
        if let Some(position) = self.priorities.iter().position(|one| Some(*one) == level) {
            self.priorities[..=position].rotate_right(1);
            self.due[..=position].rotate_right(1);
            self.ids[..=position].rotate_right(1);
        }
        self
    }

    /// Returns the position of a message in the order of the claim.
    pub(crate) fn position_of(&self, one: &ClaimedMessage) -> (Option<usize>, Timestamp, Uuid) {
        let level = i16::from(one.message.priority.level());
        let position = self.priorities.iter().position(|priority| *priority == level);
        (position, one.due_at, one.message.id.as_uuid())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::model::{Body, Correlation, Headers, MessageId, Source, Topic};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn message(number: u128) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId::from_uuid(Uuid::from_u128(number)),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at: at(0),
            created_at: at(0),
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::empty(),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            route: None,
        })
    }

    fn found(one: (i64, &Message)) -> ClaimScan<'_, std::array::IntoIter<(i64, &Message), 1>> {
        ClaimScan { topics: &TopicFilter::All, messages: [one].into_iter(), walked_to: None }
    }

    fn claim(cursors: &ClaimCursors, due_at: i64, second: i64) -> ClaimStart {
        let queue = Queue::default();
        let start = cursors.start(&queue, &TopicFilter::All, at(second));
        let message = message(7);
        cursors.advance(&queue, &start, found((due_at, &*message)), (at(second), at(second)));
        start
    }

    #[test]
    fn a_claim_begins_where_the_last_one_ended_until_something_earlier_arrives() {
        let cursors = ClaimCursors::default();
        let queue = Queue::default();
        assert!(claim(&cursors, 100, 1).is_full, "the first scan is a full one");
        let next = cursors.start(&queue, &TopicFilter::All, at(1));
        assert!(!next.is_full && next.due.contains(&Micros(100)));
        cursors.invalidate(&queue, 101);
        assert!(
            !cursors.start(&queue, &TopicFilter::All, at(1)).is_full,
            "a later due time keeps the cursor"
        );
        cursors.invalidate(&queue, 100);
        assert!(cursors.start(&queue, &TopicFilter::All, at(1)).is_full);
    }

    #[test]
    fn a_priority_that_goes_first_keeps_its_cursor() {
        let cursors = ClaimCursors::default();
        claim(&cursors, 100, 1);
        let start = cursors
            .start(&Queue::default(), &TopicFilter::All, at(1))
            .with_first(Some(Priority::NORMAL));
        let normal = i16::from(Priority::NORMAL.level());
        assert_eq!((start.priorities[0], start.due[0]), (normal, Micros(100)));
        let mut rest = start.priorities[1..].to_vec();
        assert!(rest.is_sorted_by(|high, low| high > low), "{rest:?}");
        rest.push(normal);
        rest.sort_unstable();
        assert_eq!(rest, (0..10).collect::<Vec<i16>>());
    }

    #[test]
    fn an_arrival_during_a_claim_is_not_skipped() {
        let cursors = ClaimCursors::default();
        let queue = Queue::default();
        let start = cursors.start(&queue, &TopicFilter::All, at(1));
        cursors.invalidate(&queue, 90);
        let message = message(7);
        cursors.advance(&queue, &start, found((100, &*message)), (at(1), at(1)));
        assert!(
            cursors.start(&queue, &TopicFilter::All, at(1)).is_full,
            "no cursor was set past it"
        );
    }

    #[test]
    fn full_scans_are_repeated_and_slow_ones_less_often() {
        let cursors = ClaimCursors::default();
        let queue = Queue::default();
        claim(&cursors, 100, 1);
        assert!(cursors.start(&queue, &TopicFilter::All, at(2)).is_full);
        assert!(
            cursors.start(&queue, &TopicFilter::All, at(0)).is_full,
            "also when the clock was set back"
        );
        assert!(cursors.full_start((&queue, &TopicFilter::All), 1, at(1)).is_some());
        let start = cursors.start(&queue, &TopicFilter::All, at(2));
        let message = message(7);
        cursors.advance(&queue, &start, found((100, &*message)), (at(2), at(3)));
        assert!(
            cursors.full_start((&queue, &TopicFilter::All), 1, at(4)).is_none(),
            "the full scan took a second"
        );
        assert!(
            cursors.full_start((&queue, &TopicFilter::All), 0, at(4)).is_some(),
            "the claim found nothing"
        );
        assert!(
            cursors.full_start((&queue, &TopicFilter::All), 1, at(5)).is_some(),
            "the delay has ended"
        );
    }

    #[test]
    fn each_filter_has_its_own_cursors_and_scans_other_topics_once() {
        let (cursors, queue) = (ClaimCursors::default(), Queue::default());
        let filters = [TopicFilter::NotSystem, TopicFilter::only([])];
        let nothing = |topics| ClaimScan { topics, messages: [].into_iter(), walked_to: Some(70) };
        let start = cursors.start(&queue, &filters[0], at(1));
        cursors.advance(&queue, &start, nothing(&filters[0]), (at(1), at(2)));
        let next = cursors.start(&queue, &filters[0], at(2));
        assert!(!next.is_full && next.due.iter().all(|due| *due == Micros(70)));
        assert!(
            cursors.full_start((&queue, &filters[0]), 0, at(2)).is_none(),
            "the full scan took a second"
        );
        assert!(
            cursors.full_start((&queue, &filters[0]), 0, at(4)).is_some(),
            "the delay has ended"
        );
        for other in [&filters[1], &TopicFilter::All] {
            assert!(cursors.start(&queue, other, at(2)).is_full, "{other:?}");
        }
        cursors.invalidate(&queue, 70);
        assert!(cursors.start(&queue, &filters[0], at(2)).is_full);
        for number in 0..100 {
            let topic = Topic::new(format!("t{number}")).unwrap();
            cursors.start(&queue, &TopicFilter::only([topic]), at(2));
        }
        assert!(cursors.queues()[&queue].filters.len() <= FILTERS_MAX);
    }
}
