//! Renewal of the visibility timeout of deliveries in flight, and what else is done regularly: streams are trimmed, and
//! consumers of crashed processes removed. After a delivery is dropped its timeout ends and another consumer may claim the
//! entry.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::renewal::Renew;
use punctual::jiff::Timestamp;

use crate::group_consumer::{CONSUMER, GroupConsumer};
use crate::names::{EntryPosition, StreamKind};

/// Idle time after which consumers of crashed processes are removed from the group.
const IDLE_CONSUMER_TTL: Duration = Duration::from_secs(60 * 60);
/// Rounds between two removals of idle consumers.
const REMOVE_IDLE_ROUNDS: u64 = 64;

/// Renews the visibility timeout of the entries of one consumer.
pub(crate) struct VisibilityRenewer {
    pub(crate) group_consumer: Arc<GroupConsumer>,
    /// Whether entries are removed that every group has handled.
    pub(crate) trims: bool,
    pub(crate) rounds: u64,
}

#[async_trait]
impl Renew<EntryPosition, ()> for VisibilityRenewer {
    async fn renew(&mut self, due: Vec<(EntryPosition, ())>, _now: Timestamp) -> Result<()> {
        let entries: Vec<EntryPosition> = due.into_iter().map(|(position, ())| position).collect();
        let renewed =
            if entries.is_empty() { Ok(0) } else { self.group_consumer.extend(&entries).await };
        self.rounds += 1;
        self.clean_up().await;
        let GroupConsumer { connection, streams, .. } = &*self.group_consumer;
        let stream = &streams.shared;
        match renewed {
            Ok(0) => Ok(()),
            // Some entries may have been settled during the call.
            Ok(count) => {
                tracing::debug!(
                    stream,
                    count,
                    "some deliveries were no longer pending for this consumer"
                );
                Ok(())
            }
            Err(error) => Err(connection.map_error(&error).during("renew").with("stream", stream)),
        }
    }
}

impl VisibilityRenewer {
    async fn clean_up(&self) {
        let group_consumer = &self.group_consumer;
        // A crash between acknowledging and deleting leaves an entry in the group's own stream.
        let mut trimmed = group_consumer.trim(StreamKind::Own).await;
        if self.trims {
            trimmed = trimmed.and(group_consumer.trim(StreamKind::Shared).await);
        }
        if self.rounds.is_multiple_of(REMOVE_IDLE_ROUNDS) {
            let removed = group_consumer.remove_idle_consumers(CONSUMER, IDLE_CONSUMER_TTL).await;
            trimmed = trimmed.and(removed);
        }
        if let Err(error) = trimmed {
            let stream = &group_consumer.streams.shared;
            tracing::warn!(stream, %error, "a stream was not trimmed");
        }
    }
}
