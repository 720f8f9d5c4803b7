//! Polls whose answer never came. SQS counts what it gave out, whether anybody got it or not, so that a
//! broken connection would spend an attempt of a message that no handler has seen. What was first given out
//! while such a poll was under way, and not to us by another, is counted as given once less.
//!
//! Only the first time can be told: SQS keeps no other. Who else may have been given it cannot be told
//! either, so that in doubt a message is handled once more and not given up unseen.

use std::collections::VecDeque;
use std::time::Duration;

use punctual::clock::{add, subtract};
use punctual::jiff::Timestamp;

use crate::wire::Read;

/// The most polls that are remembered.
const POLLS_MAX: usize = 64;
/// The most messages that are remembered as ours.
const SEEN_MAX: usize = 4_096;
/// By how much the clock of SQS may differ from ours.
const TOLERANCE: Duration = Duration::from_secs(2);

/// What was lost and what was not.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// When polls began that were lost.
    polls: VecDeque<Timestamp>,
    /// What SQS calls the messages whose first delivery we got.
    seen: VecDeque<String>,
}

impl Lost {
    pub(crate) fn lose(&mut self, started_at: Timestamp) {
        if self.polls.len() == POLLS_MAX {
            self.polls.pop_front();
        }
        self.polls.push_back(started_at);
    }

    /// How often a message was received by somebody, this time included. A poll waits for so long, also
    /// when nobody hears its answer.
    pub(crate) fn counted(&mut self, read: &mut Read, wait: Duration) -> u32 {
        if read.count == 1 {
            if self.seen.len() == SEEN_MAX {
                self.seen.pop_front();
            }
            self.seen.push_back(std::mem::take(&mut read.id));
            return 1;
        }
        let Some(first_at) = read.first_at.filter(|_| read.count == 2) else { return read.count };
        let was_lost = self.polls.iter().any(|started_at| {
            first_at >= subtract(*started_at, TOLERANCE)
                && first_at <= add(add(*started_at, wait), TOLERANCE)
        });
        if was_lost && !self.seen.contains(&read.id) { 1 } else { read.count }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::{Message as Raw, MessageSystemAttributeName as Name};
    use punctual::model::Topic;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn counted(lost: &mut Lost, id: &str, count: u32, first_at: i64) -> u32 {
        let raw = Raw::builder()
            .message_id(id)
            .attributes(Name::ApproximateReceiveCount, count.to_string())
            .attributes(Name::ApproximateFirstReceiveTimestamp, (first_at * 1_000).to_string());
        let topic = Topic::new("orders").unwrap();
        let mut read = crate::wire::read(raw.build(), &topic, "q", at(0));
        lost.counted(&mut read, Duration::from_secs(5))
    }

    #[test]
    fn what_a_lost_answer_brought_is_not_counted() {
        let mut lost = Lost::default();
        assert_eq!(counted(&mut lost, "a", 2, 100), 2, "nothing was lost");
        assert_eq!(counted(&mut lost, "ours", 1, 100), 1);
        lost.lose(at(98));
        assert_eq!(counted(&mut lost, "a", 2, 100), 1);
        assert_eq!(counted(&mut lost, "ours", 2, 100), 2, "we had got it");
        assert_eq!(counted(&mut lost, "a", 3, 100), 3, "it cannot be told which");
        assert_eq!(counted(&mut lost, "a", 2, 106), 2, "after that poll");
        assert_eq!(counted(&mut lost, "a", 2, 95), 2, "before that poll");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut lost = Lost::default();
        for number in 0..10_000 {
            lost.lose(at(number));
            counted(&mut lost, &number.to_string(), 1, number);
        }
        assert_eq!((lost.polls.len(), lost.seen.len()), (POLLS_MAX, SEEN_MAX));
    }
}
