//! Membership in the consumer group. When a partition moves to another member, its deliveries in flight may still be
//! settled for a while, the settled position is stored, and the rest is delivered again there.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::TopicPartitionList;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;

use crate::in_flight::InFlight;
use crate::last_error::LastError;
use crate::reader::store_positions;

/// Handles changes of the group, on the reader thread.
pub(crate) struct Membership {
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) last_error: LastError,
    /// Limit of the wait for deliveries in flight before a partition is revoked.
    pub(crate) revoke_timeout: Duration,
}

impl ClientContext for Membership {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.last_error.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.last_error.error(error, reason);
    }
}

impl ConsumerContext for Membership {
    fn pre_rebalance(&self, client: &BaseConsumer<Self>, change: &Rebalance<'_>) {
        match change {
            Rebalance::Assign(assigned) => self.in_flight.assign(&partitions(assigned)),
            Rebalance::Revoke(revoked) => {
                let leaving = partitions(revoked);
                // Lost partitions belong to another member already: their positions must not be stored.
                let lost = client.assignment_lost();
                self.in_flight
                    .drain(&leaving, if lost { Duration::ZERO } else { self.revoke_timeout });
                if !lost && let Some(topic) = revoked.elements().first() {
                    store_positions(client, topic.topic(), &self.in_flight.new_positions());
                }
                self.in_flight.revoke(&leaving);
            }
            Rebalance::Error(error) => {
                self.last_error.error(error.clone(), "the group could not be rebalanced");
            }
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        self.in_flight.notifier.notify();
    }
}

fn partitions(list: &TopicPartitionList) -> Vec<i32> {
    list.elements()
        .iter()
        .map(rdkafka::topic_partition_list::TopicPartitionListElem::partition)
        .collect()
}
