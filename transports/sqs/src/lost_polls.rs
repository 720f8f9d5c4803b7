//! Lost polls: polls whose response never arrived. SQS counts what it delivered, received or not, so that a
//! broken connection would spend an attempt of a message that no handler received. A message that was first
//! delivered during such a poll, and not to this consumer by another poll, is counted once less.
//!
//! Only the first delivery can be recognized: SQS stores no other time. Whether another consumer received it
//! cannot be recognized either, so that in doubt a message is handled once more rather than given up unhandled.

use std::collections::VecDeque;
use std::time::Duration;

use punctual::clock::{add, subtract};
use punctual::jiff::Timestamp;

use crate::wire::DecodedDelivery;

/// Most polls that are remembered.
const POLLS_MAX: usize = 64;
/// Most messages that are remembered as received.
const RECEIVED_MAX: usize = 4_096;
/// Tolerance for the difference between the clock of SQS and ours.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Lost polls and received messages.
#[derive(Debug, Default)]
pub(crate) struct LostPolls {
    /// Start times of lost polls.
    polls: VecDeque<Timestamp>,
    /// SQS ids of messages whose first delivery this consumer received.
    received: VecDeque<String>,
}

impl LostPolls {
    pub(crate) fn record(&mut self, started_at: Timestamp) {
        if self.polls.len() == POLLS_MAX {
            self.polls.pop_front();
        }
        self.polls.push_back(started_at);
    }

    /// Returns how often a message was received by any consumer, this time included. A poll waits for `poll_timeout` at
    /// SQS, also when its response is lost.
    pub(crate) fn receive_count(
        &mut self,
        delivery: &mut DecodedDelivery,
        poll_timeout: Duration,
    ) -> u32 {
        if delivery.count == 1 {
            if self.received.len() == RECEIVED_MAX {
                self.received.pop_front();
            }
            self.received.push_back(std::mem::take(&mut delivery.id));
            return 1;
        }
        let Some(first_at) = delivery.first_at.filter(|_| delivery.count == 2) else {
            return delivery.count;
        };
        let was_lost = self.polls.iter().any(|started_at| {
            first_at >= subtract(*started_at, TOLERANCE)
                && first_at <= add(add(*started_at, poll_timeout), TOLERANCE)
        });
        if was_lost && !self.received.contains(&delivery.id) { 1 } else { delivery.count }
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

    fn counted(lost: &mut LostPolls, id: &str, count: u32, first_at: i64) -> u32 {
        let raw = Raw::builder()
            .message_id(id)
            .attributes(Name::ApproximateReceiveCount, count.to_string())
            .attributes(Name::ApproximateFirstReceiveTimestamp, (first_at * 1_000).to_string());
        let topic = Topic::new("orders").unwrap();
        let mut delivery = crate::wire::decode(raw.build(), &topic, "q", at(0));
        lost.receive_count(&mut delivery, Duration::from_secs(5))
    }

    #[test]
    fn deliveries_of_a_lost_poll_are_not_counted() {
        let mut lost = LostPolls::default();
        assert_eq!(counted(&mut lost, "a", 2, 100), 2, "nothing was lost");
        assert_eq!(counted(&mut lost, "b", 1, 100), 1);
        lost.record(at(98));
        assert_eq!(counted(&mut lost, "a", 2, 100), 1);
        assert_eq!(counted(&mut lost, "b", 2, 100), 2, "its first delivery was received");
        assert_eq!(counted(&mut lost, "a", 3, 100), 3, "the lost delivery cannot be recognized");
        assert_eq!(counted(&mut lost, "a", 2, 106), 2, "after that poll");
        assert_eq!(counted(&mut lost, "a", 2, 95), 2, "before that poll");
    }

    #[test]
    fn remembered_polls_and_messages_are_limited() {
        let mut lost = LostPolls::default();
        for number in 0..10_000 {
            lost.record(at(number));
            counted(&mut lost, &number.to_string(), 1, number);
        }
        assert_eq!((lost.polls.len(), lost.received.len()), (POLLS_MAX, RECEIVED_MAX));
    }
}
