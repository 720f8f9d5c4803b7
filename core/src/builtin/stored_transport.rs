//! Stored transport: any storage as a transport. A message published here is a stored message in the queue of
//! its topic and group, due when its delay is over; receiving is claiming, and the engine settles the lease in
//! the storage itself. The storage also stores the groups; the transport caches them for a second.

mod consumer;
mod group_cache;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use self::consumer::StoredConsumer;
use self::group_cache::GroupCache;
use super::MemoryStorage;
use crate::clock::{self, Clock};
use crate::error::{Error, Result};
use crate::model::{Key, Message, MessageId, NAME_LEN_MAX, ProcessId, Queue, Topic, mix};
use crate::storage::{EnqueueResult, Entry, Storage};
use crate::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};

/// Default duration of the lease of a delivery.
pub const LEASE_DURATION_DEFAULT: Duration = Duration::from_mins(5);

/// Transport through a storage.
///
/// - Each group gets its own copy. The first group's copy keeps the message's id; the ids and deduplication
///   keys of the others are derived from it and the group, so that publishing a message again changes nothing
///   while the storage remembers it.
/// - A group exists from its first [`Transport::subscribe`] on: immediately for this process and for processes
///   that know no group of the topic, within a second for the others. The storage stores it.
/// - Messages of a topic without subscribers go to the group [`GROUP_DEFAULT`](crate::model::GROUP_DEFAULT).
/// - A dropped delivery can be claimed again when its lease has run out and the rescuer of that storage has
///   found it. The transport itself rescues nothing.
pub struct StoredTransport {
    shared: Shared,
    durable: bool,
    groups: GroupCache,
}

/// The state that the transport and its consumers share.
#[derive(Clone)]
struct Shared {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    owner: ProcessId,
    lease_duration: Duration,
}

/// Returns a transport over a memory storage of its own.
pub fn memory_transport(clock: Arc<dyn Clock>, owner: ProcessId) -> StoredTransport {
    let storage = Arc::new(MemoryStorage::new(Arc::clone(&clock)));
    StoredTransport::new(storage, clock, owner, LEASE_DURATION_DEFAULT)
}

impl StoredTransport {
    /// Returns a transport over a storage.
    ///
    /// Deliveries are leased to the owner, which should be the process that sends heartbeats to this storage,
    /// for `lease_duration`; a handler that takes longer has to extend its lease. The transport declares itself
    /// not durable unless [`StoredTransport::durable`] is set.
    pub fn new(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        owner: ProcessId,
        lease_duration: Duration,
    ) -> Self {
        let shared = Shared { storage, clock, owner, lease_duration };
        Self { shared, durable: false, groups: GroupCache::default() }
    }

    /// Sets whether the storage survives a restart.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Returns the storage underneath.
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.shared.storage)
    }

    /// Returns one copy for each group; the first keeps the id.
    async fn copies(&self, outgoing: &OutgoingMessage, now: Timestamp) -> Result<Vec<GroupCopy>> {
        let sent = &outgoing.message;
        let due_at = clock::add(now, outgoing.delay);
        let mut copies = Vec::new();
        let groups = match &outgoing.group {
            Some(group) => vec![Arc::from(group.as_str())],
            None => self.groups.of(&*self.shared.storage, &sent.topic, now).await?,
        };
        for group in groups {
            let queue = Queue::of_group(&sent.topic, &group);
            let message = Arc::new(Message { queue, due_at, route: None, ..(**sent).clone() });
            let relayed = sent.queue.is_relay();
            let copy = GroupCopy { message, group, relayed };
            copies.push(if copies.is_empty() { copy } else { copy.derived() });
        }
        Ok(copies)
    }
}

impl fmt::Debug for StoredTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTransport")
            .field("owner", &self.shared.owner)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for StoredTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::Any,
            requeue_delay: Delay::Any,
            dead_letter: true,
            // One consumer sees priority, due time, id; several at once overtake each other.
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: self.durable,
            payload_max: None,
        }
    }

    fn storage(&self) -> Option<Arc<dyn Storage>> {
        Some(self.shared.storage.clone())
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, now: Timestamp) -> Result<()> {
        let mut copies = Vec::with_capacity(batch.len());
        for outgoing in &batch {
            copies.extend(self.copies(outgoing, now).await?);
        }
        let entries = copies.iter().map(GroupCopy::entry).collect();
        let results = self.shared.storage.enqueue(entries, now).await?;
        // A message from a relay may still be under its own lease in this very storage; then the duplicate is
        // the relayed message itself and not a copy of ours. Twice is better than never.
        let again: Vec<Entry> = copies
            .iter()
            .zip(results)
            .filter(|(copy, result)| {
                copy.relayed && *result == EnqueueResult::Duplicate(copy.message.id)
            })
            .map(|(copy, _)| copy.derived().entry())
            .collect();
        if !again.is_empty() {
            self.shared.storage.enqueue(again, now).await?;
        }
        Ok(())
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        check_group(&group)?;
        self.groups
            .register(&*self.shared.storage, &topic, &group, self.shared.clock.now())
            .await?;
        let queue = Queue::of_group(&topic, &group);
        Ok(Box::new(StoredConsumer::new(self.shared.clone(), queue, prefetch)))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        let groups = self.shared.storage.groups().await?;
        let mut topics: Vec<Topic> = groups.into_iter().map(|(topic, _)| topic).collect();
        topics.dedup();
        Ok(topics)
    }
}

/// One group's copy of a message.
struct GroupCopy {
    message: Arc<Message>,
    group: Arc<str>,
    /// Whether it came from a relay and still has its original id.
    relayed: bool,
}

impl GroupCopy {
    fn entry(&self) -> Entry {
        Entry { message: Arc::clone(&self.message), replace: false }
    }

    /// Returns the same copy under an id and a deduplication key of this group's own.
    fn derived(&self) -> Self {
        let message = Message {
            id: derived_id(self.message.id, &self.group),
            dedupe: self
                .message
                .dedupe
                .as_ref()
                .map(|dedupe| Key::composed(format!("{dedupe}/{}", self.group))),
            ..(*self.message).clone()
        };
        Self { message: Arc::new(message), group: Arc::clone(&self.group), relayed: false }
    }
}

/// Returns an id that is the same for the same message and group. Its time stays, so that copies sort like the
/// message.
fn derived_id(id: MessageId, group: &str) -> MessageId {
    const VARIANT: u64 = 0b10 << 62;
    let (high, low) = id.as_uuid().as_u64_pair();
    let hash = group.bytes().fold(mix(high ^ low.rotate_left(1)), |hash, byte| {
        mix(hash.wrapping_add(u64::from(byte) + 1))
    });
    MessageId::from_uuid(Uuid::from_u64_pair(high, (hash >> 2) | VARIANT))
}

/// Checks the name of a group. It is the last part of the name of its queue, so it must not contain the
/// separator.
fn check_group(group: &str) -> Result<()> {
    let fits = !group.is_empty() && group.chars().count() <= NAME_LEN_MAX;
    if !fits || group.chars().any(|c| c.is_control() || c == '/') {
        return Err(Error::invalid(format!(
            "the group {group:?} must have 1 to {NAME_LEN_MAX} printable characters and no '/'"
        )));
    }
    Ok(())
}
