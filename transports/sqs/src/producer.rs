//! Producer: sends one copy for each group, ten in a call, several calls concurrently, and returns when SQS has
//! confirmed every copy. A message that cannot be sent is refused before any is sent.

use std::time::Duration;

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures_util::stream::{self, TryStreamExt as _};
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{Delay, OutgoingMessage};
use punctual::backend::wire::{PREFIX_DEFAULT, Wrapping};
use punctual::builtin::GROUP_DEFAULT;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};

use crate::connection::BrokerConnection;
use crate::error::CallError;
use crate::groups::GroupCache;
use crate::names::name_of;
use crate::settings::Settings;
use crate::topology::{self, DEAD_LETTER_HEADROOM};
use crate::wire::EncodedMessage;

/// Longest delay of a published message.
pub(crate) const DELAY_MAX: Duration = Duration::from_mins(15);
/// Most entries of a call.
pub(crate) const CALL_MAX: usize = 10;
/// Most concurrent calls.
const CALLS_MAX: usize = 16;

/// Sends messages to their queues.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) settings: Settings,
    pub(crate) groups: GroupCache,
    pub(crate) payload_max: usize,
    pub(crate) wrapping: Wrapping,
}

/// Encoded message with its destination.
struct PreparedMessage<'a> {
    topic: &'a Topic,
    group: Option<&'a str>,
    encoded: EncodedMessage,
    delay: i32,
}

/// Entries of one call to one queue.
struct QueueBatch {
    queue: String,
    entries: Vec<SendMessageBatchRequestEntry>,
    size: usize,
}

impl Producer {
    pub(crate) async fn publish(
        &self,
        connection: &BrokerConnection,
        batch: &[OutgoingMessage],
        now: Timestamp,
    ) -> Result<()> {
        let prepared = batch.iter().map(|outgoing| self.prepare(outgoing));
        let prepared = prepared.collect::<Result<Vec<_>>>()?;
        let mut batches = Vec::new();
        for one in prepared {
            for queue in self.queues(connection, &one, now).await? {
                add_copy(&mut batches, &queue, &one, self.settings.message_max)?;
            }
        }
        let sent = stream::iter(batches.into_iter().map(Ok)).try_for_each_concurrent(
            CALLS_MAX,
            |batch| async move {
                let queue = batch.queue.clone();
                send(connection, batch.queue, batch.entries)
                    .await
                    .map_err(|error| self.map_send_error(error, &queue))
            },
        );
        sent.await
    }

    fn prepare<'a>(&self, outgoing: &'a OutgoingMessage) -> Result<PreparedMessage<'a>> {
        let OutgoingMessage { message, delay, group, .. } = outgoing;
        check_delay("SQS", Delay::UpTo(DELAY_MAX), message.id, *delay)?;
        message.body.check(self.payload_max)?;
        let encoded = EncodedMessage::encode(&self.wrapping.wire(outgoing, PREFIX_DEFAULT)?)?;
        let (size, most) = (encoded.size(), self.settings.message_max - DEAD_LETTER_HEADROOM);
        if size > most {
            return Err(Error::invalid(format!(
                "the message {} has {size} bytes with its headers as encoded for SQS, and {most} are allowed; bodies that are not text grow by a third",
                message.id
            )));
        }
        let topic = &message.topic;
        Ok(PreparedMessage { topic, group: group.as_deref(), encoded, delay: seconds(*delay) })
    }

    /// Returns the queues of a message.
    async fn queues(
        &self,
        connection: &BrokerConnection,
        one: &PreparedMessage<'_>,
        now: Timestamp,
    ) -> Result<Vec<String>> {
        let names = &self.settings.names;
        let known = self.groups.of(connection, names, one.topic, now).await?;
        let wanted = match one.group {
            Some(group) => {
                let found = known.iter().find(|known| known.name == group);
                if let Some(found) = found {
                    return Ok(vec![found.queue.clone()]);
                }
                group
            }
            None if known.is_empty() => GROUP_DEFAULT,
            None => return Ok(known.iter().map(|group| group.queue.clone()).collect()),
        };
        // Without a subscribed group the queue is created, so that the message is not lost.
        let names = names.of_group(one.topic, wanted)?;
        let made = topology::declare(connection, &self.settings, &names).await?;
        self.groups.forget(one.topic);
        Ok(vec![made.queue])
    }

    /// Maps an error of sending. A missing queue is one that its group has given up; trying again finds the
    /// remaining queues.
    fn map_send_error(&self, error: CallError, queue: &str) -> Error {
        if !error.is_queue_missing() {
            return Error::from(error).during("publish");
        }
        let name = name_of(queue);
        if let Some((topic, _)) = self.settings.names.parse(name) {
            self.groups.forget(&topic);
        }
        Error::unavailable(format!("the queue {name} no longer exists; try again"))
            .during("publish")
    }
}

/// Adds a copy to the last batch of its queue if that has capacity, or begins another.
fn add_copy(
    batches: &mut Vec<QueueBatch>,
    queue: &str,
    one: &PreparedMessage<'_>,
    most: usize,
) -> Result<()> {
    let size = one.encoded.size();
    let last = batches.iter_mut().rev().find(|batch| batch.queue == queue);
    let has_capacity =
        |batch: &&mut QueueBatch| batch.entries.len() < CALL_MAX && batch.size + size <= most;
    if let Some(batch) = last.filter(has_capacity) {
        batch.entries.push(one.encoded.clone().entry(batch.entries.len(), one.delay)?);
        batch.size += size;
        return Ok(());
    }
    let entries = vec![one.encoded.clone().entry(0, one.delay)?];
    batches.push(QueueBatch { queue: queue.to_owned(), entries, size });
    Ok(())
}

/// Sends entries to one queue; returns when every entry is confirmed.
pub(crate) async fn send(
    connection: &BrokerConnection,
    queue: String,
    entries: Vec<SendMessageBatchRequestEntry>,
) -> std::result::Result<(), CallError> {
    let call = connection.calls.send_message_batch().queue_url(queue).set_entries(Some(entries));
    let response =
        call.send().await.map_err(|error| CallError::map_error(error, &connection.endpoint))?;
    match response.failed.first() {
        Some(failed) => Err(CallError::map_entry(failed, &connection.endpoint)),
        None => Ok(()),
    }
}

/// Returns a duration in whole seconds, rounded up.
pub(crate) fn seconds(duration: Duration) -> i32 {
    let whole = duration.as_secs();
    let whole = if duration.subsec_nanos() > 0 { whole.saturating_add(1) } else { whole };
    i32::try_from(whole).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: D-21
    #[test]
    fn a_delay_is_rounded_up_and_never_early() {
        assert_eq!(seconds(Duration::ZERO), 0);
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::from_secs(2)), 2);
        assert_eq!(seconds(Duration::from_millis(2_001)), 3);
        assert_eq!(seconds(DELAY_MAX), 900);
    }
}
