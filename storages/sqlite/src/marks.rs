//! Marks: where a claim with a topic filter goes on, behind messages that it passed over. A claim looks at
//! everything as long as that is cheap. Only when it passed over thousands of messages of other topics does
//! the next one begin where it ended, for twenty times as long as it took and two seconds at most.
//!
//! Every filter has marks of its own, so that none moves past what another one takes. Something earlier that
//! this process stores takes them away at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::model::Queue;
use punctual::storage::TopicFilter;

const PRIORITIES: usize = 10;
/// Steps of SQLite's machine that a look may take and still be cheap: about a millisecond.
const CHEAP: i64 = 100_000;
/// Steps that one claimed message takes, more or less; they are not spent on passing over.
const STEPS_PER_CLAIMED: i64 = 100;
/// A step takes about 10 ns, and a look may cost one part in twenty of the time.
const STEPS_PER_MICROSECOND_OF_REST: i64 = 5;
/// The longest rest after a look, in microseconds.
const REST_MAX: i64 = 2_000_000;
/// The most marks; beyond that all are forgotten, which costs one look each.
const MARKS_MAX: usize = 1_000;

/// A place in the order of a priority: due time and id.
pub(crate) type Place = (i64, [u8; 16]);

/// The marks of this process.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    queues: Mutex<HashMap<Queue, HashMap<TopicFilter, Mark>>>,
}

#[derive(Clone, Debug)]
struct Mark {
    places: [Option<Place>; PRIORITIES],
    full_at: i64,
    rest: i64,
}

/// One claim: from where it begins, and how far it comes.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    from: [Option<Place>; PRIORITIES],
    reached: [Option<Place>; PRIORITIES],
    is_marked: bool,
    steps: i64,
}

impl Marks {
    /// Begins a claim.
    pub(crate) fn begin(&self, queue: &Queue, topics: &TopicFilter, now: i64) -> Walk {
        if topics.is_all() {
            return Walk::default();
        }
        let queues = self.lock();
        let mark = queues.get(queue).and_then(|filters| filters.get(topics));
        let holds = |mark: &&Mark| now >= mark.full_at && now < mark.full_at + mark.rest;
        match mark.filter(holds) {
            Some(mark) => Walk { from: mark.places, is_marked: true, ..Walk::default() },
            None => Walk::default(),
        }
    }

    /// Ends a claim that found so many.
    pub(crate) fn end(
        &self,
        (queue, topics): (&Queue, &TopicFilter),
        walk: &Walk,
        found: usize,
        now: i64,
    ) {
        if topics.is_all() {
            return;
        }
        let claimed = i64::try_from(found).unwrap_or(i64::MAX).saturating_mul(STEPS_PER_CLAIMED);
        let steps = walk.steps.saturating_sub(claimed);
        let mut queues = self.lock();
        if walk.is_marked {
            let mark = queues.get_mut(queue).and_then(|filters| filters.get_mut(topics));
            if let Some(mark) = mark {
                for (place, reached) in mark.places.iter_mut().zip(walk.reached) {
                    *place = reached.or(*place);
                }
            }
        } else if steps > CHEAP {
            if queues.values().map(HashMap::len).sum::<usize>() >= MARKS_MAX {
                queues.clear();
            }
            let rest = (steps / STEPS_PER_MICROSECOND_OF_REST).min(REST_MAX);
            let mark = Mark { places: walk.reached, full_at: now, rest };
            queues.entry(queue.clone()).or_default().insert(topics.clone(), mark);
        } else if let Some(filters) = queues.get_mut(queue) {
            filters.remove(topics);
            if filters.is_empty() {
                queues.remove(queue);
            }
        }
    }

    /// Something of a queue is due at an instant: marks at or past it are void.
    pub(crate) fn forget(&self, queue: &Queue, due_at: i64) {
        if let Some(filters) = self.lock().get_mut(queue) {
            let is_before =
                |mark: &Mark| mark.places.iter().flatten().all(|place| place.0 < due_at);
            filters.retain(|_, mark| is_before(mark));
        }
    }

    /// A claim of a queue was not committed: what it passed is not known.
    pub(crate) fn forget_all(&self, queue: &Queue) {
        self.lock().remove(queue);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Queue, HashMap<TopicFilter, Mark>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Walk {
    /// Where a priority begins; nothing for its first message.
    pub(crate) fn from(&self, priority: u8) -> Option<Place> {
        self.from[level(priority)]
    }

    /// A priority was walked through to this place, in so many steps.
    pub(crate) fn came_to(&mut self, priority: u8, place: Option<Place>, steps: i32) {
        self.reached[level(priority)] = place;
        self.steps = self.steps.saturating_add(i64::from(steps));
    }
}

fn level(priority: u8) -> usize {
    usize::from(priority).min(PRIORITIES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(marks: &Marks, steps: i32, now: i64) -> bool {
        let (queue, topics) = (Queue::default(), TopicFilter::NotSystem);
        let mut walk = marks.begin(&queue, &topics, now);
        walk.came_to(5, Some((now, [0xff; 16])), steps);
        marks.end((&queue, &topics), &walk, 0, now);
        walk.is_marked
    }

    #[test]
    fn a_cheap_look_begins_at_the_beginning_every_time() {
        let marks = Marks::default();
        for now in 0..5 {
            assert!(!walked(&marks, 99_999, now));
        }
    }

    #[test]
    fn after_a_long_look_the_next_ones_go_on_behind_it_for_a_while() {
        let marks = Marks::default();
        assert!(!walked(&marks, 1_000_000, 0), "200 ms of rest follow");
        for now in [1_000, 100_000, 199_999] {
            assert!(walked(&marks, 10, now));
        }
        let other = marks.begin(&Queue::default(), &TopicFilter::only([]), 5);
        assert!(!other.is_marked, "each filter has its own");
        assert!(!walked(&marks, 10, 200_000), "and then everything is looked at");
        assert!(!walked(&marks, 10, 200_001), "which was cheap this time");
        assert!(!walked(&marks, i32::MAX, 300_000));
        assert!(!walked(&marks, 10, 2_300_000), "two seconds is the longest rest");
    }

    #[test]
    fn something_earlier_takes_a_mark_away() {
        let marks = Marks::default();
        walked(&marks, 1_000_000, 500);
        marks.forget(&Queue::default(), 501);
        assert!(walked(&marks, 10, 500), "what comes later does no harm");
        marks.forget(&Queue::default(), 500);
        assert!(!walked(&marks, 10, 501));
    }
}
