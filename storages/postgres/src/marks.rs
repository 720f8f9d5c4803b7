//! Low-water marks: up to which place each priority of a queue has been claimed, so that a claim does
//! not walk again over what earlier ones took. Without them, a report that runs for an hour keeps every
//! row of that hour in the index, and each claim reads them all.
//!
//! A mark is a hint and never hides work for long: a ring for something earlier takes it away, a claim
//! that finds less than it may looks again from the beginning, and so does one in every so often. Only
//! while a full look is itself slow, which is the sign of such a report, is the next one put off, in
//! proportion to what it costs.
//!
//! Every topic filter has marks of its own, so that none moves past what another one takes. A full look
//! under a filter is slow when many messages of other topics are in its way; it is put off in the same
//! proportion, also when the claim found nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::{Message, Priority, Queue};
use punctual::storage::{Claimed, TopicFilter};
use uuid::Uuid;

use crate::value::Micros;

const PRIORITIES: usize = 10;
/// The longest a full look is put off while claims find enough.
const FULL_EVERY: Duration = Duration::from_millis(200);
/// A full look that takes less is made whenever it could matter.
const CHEAP: Duration = Duration::from_millis(20);
/// The same under a topic filter, where each message that is stored may lead to a claim in vain.
const CHEAP_FILTERED: Duration = Duration::from_millis(2);
/// A slow look may cost one part in so many of the time.
const SHARE: u32 = 20;
/// The longest a full look is ever put off.
const FULL_EVERY_MAX: Duration = Duration::from_secs(2);
/// The most queues that are remembered; beyond that all are forgotten, which costs one look each.
const QUEUES_MAX: usize = 10_000;
/// The most topic filters of a queue that are remembered; beyond that all of it are forgotten.
const FILTERS_MAX: usize = 16;
/// The most arrivals that are told apart.
const ARRIVALS_MAX: usize = 64;

/// The marks of every queue this process claims from.
#[derive(Default)]
pub(crate) struct Marks {
    queues: Mutex<HashMap<Queue, QueueMarks>>,
}

/// Of one queue.
#[derive(Default)]
struct QueueMarks {
    filters: HashMap<TopicFilter, Mark>,
    /// Whether something that shares limits was there the last time.
    is_limited: bool,
}

#[derive(Default)]
struct Mark {
    places: [Option<(i64, Uuid)>; PRIORITIES],
    /// Counts arrivals; a claim under way must not set a mark past one that came meanwhile.
    age: u64,
    arrivals: Vec<(u64, i64)>,
    /// Arrivals up to this age are no longer known.
    known_from: u64,
    full_at: Option<Timestamp>,
    full_took: Duration,
}

/// What a claim found.
pub(crate) struct Found<'a, I> {
    pub(crate) topics: &'a TopicFilter,
    /// The due time of each message, in microseconds, and the message.
    pub(crate) messages: I,
    /// Up to which instant everything was walked through; nothing when there was more than was asked for.
    pub(crate) walked_to: Option<i64>,
}

/// From where a claim begins.
pub(crate) struct Start {
    pub(crate) priorities: Vec<i16>,
    pub(crate) due: Vec<Micros>,
    pub(crate) ids: Vec<Uuid>,
    /// Whether it looks at everything.
    pub(crate) is_full: bool,
    age: u64,
}

impl Marks {
    /// Where the next claim of a queue begins.
    pub(crate) fn start(&self, queue: &Queue, topics: &TopicFilter, now: Timestamp) -> Start {
        let mut queues = self.queues();
        let mark = mark_of(&mut queues, queue, topics);
        let wait = FULL_EVERY.max(mark.full_took * SHARE).min(FULL_EVERY_MAX);
        let is_full = mark.full_at.is_none_or(|at| now < at || now >= add(at, wait));
        Start::new(if is_full { &[None; PRIORITIES] } else { &mark.places }, mark.age)
    }

    /// The beginning, when a claim that began at its marks found too little; nothing when it found
    /// something and a full look was slow and recent.
    pub(crate) fn beginning(
        &self,
        (queue, topics): (&Queue, &TopicFilter),
        found: usize,
        now: Timestamp,
    ) -> Option<Start> {
        let mut queues = self.queues();
        let mark = mark_of(&mut queues, queue, topics);
        let wait = (mark.full_took * SHARE).min(FULL_EVERY_MAX);
        let cheap = if topics.is_all() { CHEAP } else { CHEAP_FILTERED };
        // Whoever finds nothing was told that there is something; under a filter it may be of other topics.
        let is_due = (found == 0 && topics.is_all())
            || mark.full_took < cheap
            || mark.full_at.is_none_or(|at| now < at || now >= add(at, wait));
        is_due.then(|| Start::new(&[None; PRIORITIES], mark.age))
    }

    /// What a claim found: the marks follow, unless something made them void meanwhile.
    pub(crate) fn claimed<'a>(
        &self,
        queue: &Queue,
        start: &Start,
        found: Found<'_, impl Iterator<Item = (i64, &'a Message)>>,
        (began, ended): (Timestamp, Timestamp),
    ) {
        let Found { topics, messages, walked_to } = found;
        let mut queues = self.queues();
        let mark = mark_of(&mut queues, queue, topics);
        let first_arrival = mark.first_arrival_since(start.age);
        if start.is_full {
            mark.places = [None; PRIORITIES];
            mark.full_at = Some(ended);
            mark.full_took = punctual::clock::between(began, ended);
        }
        let walked_to = walked_to.filter(|at| !topics.is_all() && *at < first_arrival);
        if let Some(at) = walked_to {
            let end = (at, Uuid::max());
            mark.places = mark.places.map(|place| Some(place.map_or(end, |place| place.max(end))));
        }
        for (due_at, message) in messages {
            let place = (due_at, message.id.as_uuid());
            if due_at >= first_arrival {
                continue;
            }
            let level = usize::from(message.priority.level()).min(PRIORITIES - 1);
            let last = mark.places[level].get_or_insert(place);
            *last = place.max(*last);
        }
    }

    /// Whether a queue may hold messages that share limits, as far as anybody here has noticed.
    pub(crate) fn is_limited(&self, queue: &Queue) -> bool {
        self.queues().get(queue).is_some_and(|mark| mark.is_limited)
    }

    pub(crate) fn has_limited(&self, queue: &Queue, is_limited: bool) {
        marks_of(&mut self.queues(), queue).is_limited = is_limited;
    }

    /// Something is due at an instant: marks at or past it are void.
    pub(crate) fn forget(&self, queue: &Queue, due_at: i64) {
        if let Some(marks) = self.queues().get_mut(queue) {
            for mark in marks.filters.values_mut() {
                mark.arrived(due_at);
            }
        }
    }

    /// Everything is void: nobody knows what was missed.
    pub(crate) fn forget_all(&self) {
        for mark in self.queues().values_mut().flat_map(|marks| marks.filters.values_mut()) {
            mark.arrived(i64::MIN);
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Queue, QueueMarks>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mark {
    fn arrived(&mut self, due_at: i64) {
        self.age += 1;
        if self.arrivals.len() < ARRIVALS_MAX {
            self.arrivals.push((self.age, due_at));
        } else if let Some(last) = self.arrivals.last_mut() {
            // Not told apart any more, which only makes a mark come later.
            *last = (self.age, due_at.min(last.1));
        }
        if self.places.iter().flatten().any(|(marked, _)| due_at <= *marked) {
            self.places = [None; PRIORITIES];
        }
    }

    /// The earliest instant that arrived after an age.
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

fn marks_of<'a>(queues: &'a mut HashMap<Queue, QueueMarks>, queue: &Queue) -> &'a mut QueueMarks {
    if queues.len() >= QUEUES_MAX && !queues.contains_key(queue) {
        queues.clear();
    }
    queues.entry(queue.clone()).or_default()
}

fn mark_of<'a>(
    queues: &'a mut HashMap<Queue, QueueMarks>,
    queue: &Queue,
    topics: &TopicFilter,
) -> &'a mut Mark {
    let filters = &mut marks_of(queues, queue).filters;
    if filters.len() >= FILTERS_MAX && !filters.contains_key(topics) {
        filters.clear();
    }
    filters.entry(topics.clone()).or_default()
}

impl Start {
    fn new(places: &[Option<(i64, Uuid)>; PRIORITIES], age: u64) -> Self {
        let highest_first = || places.iter().enumerate().rev();
        let none = (Micros::MIN.0, Uuid::nil());
        Self {
            priorities: highest_first()
                .map(|(level, _)| i16::try_from(level).unwrap_or_default())
                .collect(),
            due: highest_first().map(|(_, place)| Micros(place.unwrap_or(none).0)).collect(),
            ids: highest_first().map(|(_, place)| place.unwrap_or(none).1).collect(),
            is_full: places.iter().all(Option::is_none),
            age,
        }
    }

    /// The same with one priority before all others.
    pub(crate) fn led_by(mut self, first: Option<Priority>) -> Self {
        let level = first.map(|priority| i16::from(priority.level()));
        if let Some(place) = self.priorities.iter().position(|one| Some(*one) == level) {
            self.priorities[..=place].rotate_right(1);
            self.due[..=place].rotate_right(1);
            self.ids[..=place].rotate_right(1);
        }
        self
    }

    /// Where a message stands in the order of the claim.
    pub(crate) fn place_of(&self, one: &Claimed) -> (Option<usize>, Timestamp, Uuid) {
        let level = i16::from(one.message.priority.level());
        let place = self.priorities.iter().position(|priority| *priority == level);
        (place, one.due_at, one.message.id.as_uuid())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::model::{Body, Headers, MessageId, Source, Topic, Trail};

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
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: None,
        })
    }

    fn found(one: (i64, &Message)) -> Found<'_, std::array::IntoIter<(i64, &Message), 1>> {
        Found { topics: &TopicFilter::All, messages: [one].into_iter(), walked_to: None }
    }

    fn claim(marks: &Marks, due_at: i64, second: i64) -> Start {
        let queue = Queue::default();
        let start = marks.start(&queue, &TopicFilter::All, at(second));
        let message = message(7);
        marks.claimed(&queue, &start, found((due_at, &*message)), (at(second), at(second)));
        start
    }

    #[test]
    fn a_claim_begins_where_the_last_one_ended_until_something_earlier_arrives() {
        let marks = Marks::default();
        let queue = Queue::default();
        assert!(claim(&marks, 100, 1).is_full, "the first look sees everything");
        let next = marks.start(&queue, &TopicFilter::All, at(1));
        assert!(!next.is_full && next.due.contains(&Micros(100)));
        marks.forget(&queue, 101);
        assert!(
            !marks.start(&queue, &TopicFilter::All, at(1)).is_full,
            "what comes later does no harm"
        );
        marks.forget(&queue, 100);
        assert!(marks.start(&queue, &TopicFilter::All, at(1)).is_full);
    }

    #[test]
    fn a_priority_that_goes_first_takes_its_mark_with_it() {
        let marks = Marks::default();
        claim(&marks, 100, 1);
        let start =
            marks.start(&Queue::default(), &TopicFilter::All, at(1)).led_by(Some(Priority::NORMAL));
        let normal = i16::from(Priority::NORMAL.level());
        assert_eq!((start.priorities[0], start.due[0]), (normal, Micros(100)));
        let mut rest = start.priorities[1..].to_vec();
        assert!(rest.is_sorted_by(|high, low| high > low), "{rest:?}");
        rest.push(normal);
        rest.sort_unstable();
        assert_eq!(rest, (0..10).collect::<Vec<i16>>());
    }

    #[test]
    fn what_arrives_during_a_claim_is_not_left_behind() {
        let marks = Marks::default();
        let queue = Queue::default();
        let start = marks.start(&queue, &TopicFilter::All, at(1));
        marks.forget(&queue, 90);
        let message = message(7);
        marks.claimed(&queue, &start, found((100, &*message)), (at(1), at(1)));
        assert!(marks.start(&queue, &TopicFilter::All, at(1)).is_full, "no mark was set past it");
    }

    #[test]
    fn every_so_often_everything_is_looked_at_and_a_slow_look_less_often() {
        let marks = Marks::default();
        let queue = Queue::default();
        claim(&marks, 100, 1);
        assert!(marks.start(&queue, &TopicFilter::All, at(2)).is_full);
        assert!(
            marks.start(&queue, &TopicFilter::All, at(0)).is_full,
            "also when the clock was set back"
        );
        assert!(marks.beginning((&queue, &TopicFilter::All), 1, at(1)).is_some());
        let start = marks.start(&queue, &TopicFilter::All, at(2));
        let message = message(7);
        marks.claimed(&queue, &start, found((100, &*message)), (at(2), at(3)));
        assert!(
            marks.beginning((&queue, &TopicFilter::All), 1, at(4)).is_none(),
            "it took a second"
        );
        assert!(
            marks.beginning((&queue, &TopicFilter::All), 0, at(4)).is_some(),
            "nothing at all was found"
        );
        assert!(
            marks.beginning((&queue, &TopicFilter::All), 1, at(5)).is_some(),
            "but not for ever"
        );
    }

    #[test]
    fn each_filter_has_marks_of_its_own_and_passes_over_the_others_once() {
        let (marks, queue) = (Marks::default(), Queue::default());
        let filters = [TopicFilter::NotSystem, TopicFilter::only([])];
        let nothing = |topics| Found { topics, messages: [].into_iter(), walked_to: Some(70) };
        let start = marks.start(&queue, &filters[0], at(1));
        marks.claimed(&queue, &start, nothing(&filters[0]), (at(1), at(2)));
        let next = marks.start(&queue, &filters[0], at(2));
        assert!(!next.is_full && next.due.iter().all(|due| *due == Micros(70)));
        assert!(marks.beginning((&queue, &filters[0]), 0, at(2)).is_none(), "it took a second");
        assert!(marks.beginning((&queue, &filters[0]), 0, at(4)).is_some(), "but not for ever");
        for other in [&filters[1], &TopicFilter::All] {
            assert!(marks.start(&queue, other, at(2)).is_full, "{other:?}");
        }
        marks.forget(&queue, 70);
        assert!(marks.start(&queue, &filters[0], at(2)).is_full);
        for number in 0..100 {
            let topic = Topic::new(format!("t{number}")).unwrap();
            marks.start(&queue, &TopicFilter::only([topic]), at(2));
        }
        assert!(marks.queues()[&queue].filters.len() <= FILTERS_MAX);
    }
}
