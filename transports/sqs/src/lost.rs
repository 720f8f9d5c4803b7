//! Polls whose answer never came. SQS counts what it gave out, whether anybody got it or not, so that a
//! broken connection would spend an attempt of a message that no handler has seen. What was first given out
//! while such a poll was under way is counted as given once less.
//!
//! Only the first time can be told: SQS keeps no other.

use std::collections::VecDeque;
use std::time::Duration;

use punctual::clock::{add, subtract};
use punctual::jiff::Timestamp;

use crate::wire::Read;

/// The most polls that are remembered.
const POLLS_MAX: usize = 64;
/// By how much the clock of SQS may differ from ours.
const TOLERANCE: Duration = Duration::from_secs(2);

/// When polls began that were lost.
#[derive(Debug, Default)]
pub(crate) struct Lost(VecDeque<Timestamp>);

impl Lost {
    pub(crate) fn lose(&mut self, started_at: Timestamp) {
        if self.0.len() == POLLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(started_at);
    }

    /// How often a message was received by somebody, this time included. A poll waits for so long, also
    /// when nobody hears its answer.
    pub(crate) fn counted(&self, read: &Read, wait: Duration) -> u32 {
        let Some(first_at) = read.first_at.filter(|_| read.count == 2) else { return read.count };
        let was_lost = self.0.iter().any(|started_at| {
            first_at >= subtract(*started_at, TOLERANCE)
                && first_at <= add(add(*started_at, wait), TOLERANCE)
        });
        if was_lost { 1 } else { read.count }
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

    fn received(count: u32, first_at: i64) -> Read {
        let raw = Raw::builder()
            .attributes(Name::ApproximateReceiveCount, count.to_string())
            .attributes(Name::ApproximateFirstReceiveTimestamp, (first_at * 1_000).to_string());
        crate::wire::read(raw.build(), &Topic::new("orders").unwrap(), "q", at(0))
    }

    #[test]
    fn what_a_lost_answer_brought_is_not_counted() {
        let mut lost = Lost::default();
        let wait = Duration::from_secs(5);
        assert_eq!(lost.counted(&received(2, 100), wait), 2, "nothing was lost");
        lost.lose(at(98));
        assert_eq!(lost.counted(&received(2, 100), wait), 1);
        assert_eq!(lost.counted(&received(1, 100), wait), 1);
        assert_eq!(lost.counted(&received(3, 100), wait), 3, "it cannot be told which");
        assert_eq!(lost.counted(&received(2, 106), wait), 2, "after that poll");
        assert_eq!(lost.counted(&received(2, 95), wait), 2, "before that poll");
        for second in 200..300 {
            lost.lose(at(second));
        }
        assert_eq!(lost.0.len(), POLLS_MAX);
    }
}
