//! What a consumer does when its group changes. A partition that moves to somebody else is left in order: what
//! is in hand of it may be settled for a while, what was settled is noted, and the rest comes again there.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::TopicPartitionList;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;

use crate::desk::Desk;
use crate::reader::note;
use crate::trouble::Trouble;

/// Hears of changes of the group, on the reader's thread.
pub(crate) struct Membership {
    pub(crate) desk: Arc<Desk>,
    pub(crate) trouble: Trouble,
    /// How long what is in hand may be settled before a partition is left.
    pub(crate) patience: Duration,
}

impl ClientContext for Membership {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.trouble.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.error(error, reason);
    }
}

impl ConsumerContext for Membership {
    fn pre_rebalance(&self, client: &BaseConsumer<Self>, change: &Rebalance<'_>) {
        match change {
            Rebalance::Assign(given) => self.desk.give(&partitions(given)),
            Rebalance::Revoke(taken) => {
                let leaving = partitions(taken);
                // Lost ones belong to somebody else already: nothing about them is ours to say.
                let lost = client.assignment_lost();
                self.desk.leave(&leaving, if lost { Duration::ZERO } else { self.patience });
                if !lost && let Some(topic) = taken.elements().first() {
                    note(client, topic.topic(), &self.desk.progress());
                }
                self.desk.take_away(&leaving);
            }
            Rebalance::Error(error) => self.trouble.error(error.clone(), "the group cannot agree"),
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        self.desk.bell.ring();
    }
}

fn partitions(list: &TopicPartitionList) -> Vec<i32> {
    list.elements()
        .iter()
        .map(rdkafka::topic_partition_list::TopicPartitionListElem::partition)
        .collect()
}
