//! Publishing: one copy for each group, ten to a call, several calls at a time, and done when SQS has
//! confirmed every copy. What cannot be sent is refused before anything is.

use std::time::Duration;

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures_util::stream::{self, TryStreamExt as _};
use punctual::builtin::GROUP_DEFAULT;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::transport::Outgoing;
use punctual::wire::{PREFIX_DEFAULT, Wrapping};
use punctual::{Error, Result};

use crate::fault::Fault;
use crate::groups::Groups;
use crate::link::Link;
use crate::names::name_of;
use crate::topology::{self, LETTER_ROOM, Settings};
use crate::wire::Packed;

/// The longest delay of a message that is sent.
pub(crate) const DELAY_MAX: Duration = Duration::from_mins(15);
/// The most entries of a call.
pub(crate) const CALL_MAX: usize = 10;
/// The most calls at a time.
const CALLS_MAX: usize = 16;

/// Sends messages to their queues.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) settings: Settings,
    pub(crate) groups: Groups,
    pub(crate) payload_max: usize,
    pub(crate) wrapping: Wrapping,
}

/// A message that is ready to be sent.
struct Ready<'a> {
    topic: &'a Topic,
    group: Option<&'a str>,
    packed: Packed,
    delay: i32,
}

/// What goes to one queue in one call.
struct Piece {
    queue: String,
    entries: Vec<SendMessageBatchRequestEntry>,
    size: usize,
}

impl Producer {
    pub(crate) async fn publish(
        &self,
        link: &Link,
        batch: &[Outgoing],
        now: Timestamp,
    ) -> Result<()> {
        let ready = batch.iter().map(|outgoing| self.ready(outgoing));
        let ready = ready.collect::<Result<Vec<_>>>()?;
        let mut pieces = Vec::new();
        for one in ready {
            for queue in self.queues(link, &one, now).await? {
                add(&mut pieces, &queue, &one, self.settings.message_max)?;
            }
        }
        let sent = stream::iter(pieces.into_iter().map(Ok)).try_for_each_concurrent(
            CALLS_MAX,
            |piece| async move {
                let queue = piece.queue.clone();
                send(link, piece.queue, piece.entries)
                    .await
                    .map_err(|fault| self.told(fault, &queue))
            },
        );
        sent.await
    }

    fn ready<'a>(&self, outgoing: &'a Outgoing) -> Result<Ready<'a>> {
        let Outgoing { message, delay, group, .. } = outgoing;
        if *delay > DELAY_MAX {
            return Err(Error::unsupported(format!(
                "SQS cannot delay the message {} by {delay:?}, only by {DELAY_MAX:?}; give the builder a storage to keep it in",
                message.id
            )));
        }
        message.body.check(self.payload_max)?;
        let packed = Packed::of(&self.wrapping.wire(outgoing, PREFIX_DEFAULT)?)?;
        let (size, most) = (packed.size(), self.settings.message_max - LETTER_ROOM);
        if size > most {
            return Err(Error::invalid(format!(
                "the message {} has {size} bytes with its headers as SQS carries it, and {most} are allowed; bytes that are no text take a third more",
                message.id
            )));
        }
        let topic = &message.topic;
        Ok(Ready { topic, group: group.as_deref(), packed, delay: seconds(*delay) })
    }

    /// Where a message goes.
    async fn queues(&self, link: &Link, one: &Ready<'_>, now: Timestamp) -> Result<Vec<String>> {
        let names = &self.settings.names;
        let known = self.groups.of(link, names, one.topic, now).await?;
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
        // Nobody has subscribed: what is sent must not vanish.
        let names = names.of_group(one.topic, wanted)?;
        let made = topology::declare(link, &self.settings, &names).await?;
        self.groups.forget(one.topic);
        Ok(vec![made.queue])
    }

    /// A queue that is gone is one that a group has given up, so that trying again finds the others.
    fn told(&self, fault: Fault, queue: &str) -> Error {
        if !fault.is_without_queue() {
            return Error::from(fault).during("publish");
        }
        let name = name_of(queue);
        if let Some((topic, _)) = self.settings.names.read(name) {
            self.groups.forget(&topic);
        }
        Error::unavailable(format!("the queue {name} is gone; try again")).during("publish")
    }
}

/// Adds a copy to the piece of its queue that has room, or begins another.
fn add(pieces: &mut Vec<Piece>, queue: &str, one: &Ready<'_>, most: usize) -> Result<()> {
    let size = one.packed.size();
    let last = pieces.iter_mut().rev().find(|piece| piece.queue == queue);
    let has_room = |piece: &&mut Piece| piece.entries.len() < CALL_MAX && piece.size + size <= most;
    if let Some(piece) = last.filter(has_room) {
        piece.entries.push(one.packed.clone().entry(piece.entries.len(), one.delay)?);
        piece.size += size;
        return Ok(());
    }
    let entries = vec![one.packed.clone().entry(0, one.delay)?];
    pieces.push(Piece { queue: queue.to_owned(), entries, size });
    Ok(())
}

/// Sends entries to one queue; done when every one is confirmed.
pub(crate) async fn send(
    link: &Link,
    queue: String,
    entries: Vec<SendMessageBatchRequestEntry>,
) -> std::result::Result<(), Fault> {
    let call = link.calls.send_message_batch().queue_url(queue).set_entries(Some(entries));
    let answer = call.send().await.map_err(|error| Fault::of(error, &link.place))?;
    match answer.failed.first() {
        Some(failed) => Err(Fault::of_entry(failed, &link.place)),
        None => Ok(()),
    }
}

/// Whole seconds, and never fewer than asked for.
pub(crate) fn seconds(length: Duration) -> i32 {
    let whole = length.as_secs();
    let whole = if length.subsec_nanos() > 0 { whole.saturating_add(1) } else { whole };
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
