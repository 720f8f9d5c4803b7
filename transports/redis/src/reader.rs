//! Reader of a consumer: reads ahead of the handlers, as far as the prefetch allows, on a connection of its own,
//! because a blocking read blocks every call behind it. Before it blocks it claims entries that other consumers
//! abandoned, and after a lost connection the entries that the server had sent over it.
//!
//! It does not retry by itself: after an error it continues when the consumer asks for deliveries again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use punctual::backend::transport::prefetch::PrefetchSender;
use punctual::clock::{Clock, add, within};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};
use redis::{Cmd, RedisResult, Value, cmd};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::BrokerConnection;
use crate::error;
use crate::names::{EntryId, EntryPosition, StreamKind};
use crate::receipt::{ConsumerContext, RedisReceipt};
use crate::settler::SettleAction;
use crate::topology;
use crate::wire::{self, Entry};

/// Most entries of one read.
const READ_MAX: usize = 1_024;

/// Most yields in which more capacity may be returned.
const YIELDS_MAX: usize = 8;

/// Wait for more capacity when there is some.
const CAPACITY_WAIT: Duration = Duration::from_millis(1);

/// Delivery that `receive` has not returned yet.
pub(crate) struct PrefetchedDelivery {
    pub(crate) poison: Option<String>,
    pub(crate) receipt: RedisReceipt,
}

/// Reader of one consumer.
pub(crate) struct Reader {
    pub(crate) context: Arc<ConsumerContext>,
    /// Connection for blocking reads.
    pub(crate) connection: BrokerConnection,
    pub(crate) topic: Topic,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether missing groups are created.
    pub(crate) declares: bool,
    /// Idle time after which entries of other consumers are claimed.
    pub(crate) visibility_timeout: Duration,
    /// Longest time one read blocks.
    pub(crate) wait: Duration,
    pub(crate) capacity: Arc<Semaphore>,
    pub(crate) prefetch: usize,
    pub(crate) deliveries: PrefetchSender<PrefetchedDelivery>,
    /// Server's id of its connection, by which a blocking read is ended.
    pub(crate) client: Arc<AtomicI64>,
    pub(crate) state: ReaderState,
}

/// State between two reads.
#[derive(Default)]
pub(crate) struct ReaderState {
    /// Number of the connection whose entries have all been read.
    connection: u64,
    /// Time of the next claim of abandoned entries.
    claim_at: Timestamp,
    /// Whether the group's own stream is next where there is capacity for one.
    own_is_next: bool,
    /// Whether the last read found entries in the group's own stream.
    own_has_entries: bool,
}

/// Entry and the number of its earlier deliveries.
struct FoundEntry {
    entry: Entry,
    delivered: u32,
}

impl Reader {
    /// Reads until it is stopped.
    pub(crate) async fn run(mut self) {
        let deliveries = self.deliveries.clone();
        while !deliveries.is_stopped() {
            let capacity = tokio::select! {
                biased;
                () = deliveries.stopped() => return,
                capacity = acquire_capacity(&self.capacity, self.batch(), &*self.clock) => capacity,
            };
            let Some(capacity) = capacity else { return };
            let Err(error) = self.read_or_declare(capacity).await else { continue };
            deliveries.send_error(error);
            tokio::select! {
                biased;
                () = deliveries.stopped() => return,
                () = deliveries.resumed() => {}
            }
        }
    }

    /// Returns how many entries one read takes: half of the prefetch, so that one half is read while the other
    /// is handled.
    fn batch(&self) -> usize {
        (self.prefetch / 2).clamp(1, READ_MAX)
    }

    /// Reads once; a group that was removed is declared again.
    async fn read_or_declare(&mut self, capacity: OwnedSemaphorePermit) -> Result<()> {
        let mut capacity = capacity;
        match self.read_next(&mut capacity).await {
            Ok(()) => Ok(()),
            Err(error) if self.declares && error::is_without_group(&error) => {
                let group_consumer = &self.context.group_consumer;
                topology::declare(
                    &group_consumer.connection,
                    &group_consumer.streams,
                    &group_consumer.group,
                )
                .await?;
                self.read_next(&mut capacity).await.map_err(|error| self.map_error(&error))
            }
            Err(error) => Err(self.map_error(&error)),
        }
    }

    fn map_error(&self, error: &redis::RedisError) -> Error {
        self.connection.map_error(error).during("receive")
    }

    async fn read_next(&mut self, capacity: &mut OwnedSemaphorePermit) -> RedisResult<()> {
        let number = self.connection.open().await?.number;
        if number != self.state.connection && !self.reclaim_own(number, capacity).await? {
            return Ok(());
        }
        let now = self.clock.now();
        if now >= self.state.claim_at && self.claim_abandoned(capacity).await? {
            return Ok(());
        }
        let read = self.read(capacity.num_permits()).await?;
        for (kind, entries) in read {
            let found = entries.into_iter().map(|entry| FoundEntry { entry, delivered: 0 });
            self.deliver(kind, found, capacity);
        }
        Ok(())
    }

    /// Reads the entries that the server sent over a lost connection; returns true when none is left.
    async fn reclaim_own(
        &mut self,
        number: u64,
        capacity: &mut OwnedSemaphorePermit,
    ) -> RedisResult<bool> {
        let client: RedisResult<i64> = self.connection.query(cmd("CLIENT").arg("ID")).await;
        self.client.store(client.unwrap_or(0), Ordering::Relaxed);
        let consumer = self.context.group_consumer.name.clone();
        let in_flight = self.context.in_flight.len();
        for kind in StreamKind::ALL {
            let mut list = self.pending_command(kind);
            list.arg("-").arg("+").arg(capacity.num_permits() + in_flight).arg(&consumer);
            if self.claim(kind, &list, Duration::ZERO, capacity).await? {
                return Ok(false);
            }
        }
        self.state.connection = number;
        Ok(true)
    }

    /// Claims entries that other consumers have abandoned; returns true when there were some.
    async fn claim_abandoned(&mut self, capacity: &mut OwnedSemaphorePermit) -> RedisResult<bool> {
        let in_flight = self.context.in_flight.len();
        for kind in StreamKind::ALL {
            let mut list = self.pending_command(kind);
            list.arg("IDLE").arg(milliseconds(self.visibility_timeout));
            list.arg("-").arg("+").arg(capacity.num_permits() + in_flight);
            if self.claim(kind, &list, self.visibility_timeout, capacity).await? {
                return Ok(true);
            }
        }
        self.state.claim_at = add(self.clock.now(), self.visibility_timeout / 2);
        Ok(false)
    }

    fn pending_command(&self, kind: StreamKind) -> Cmd {
        let group_consumer = &self.context.group_consumer;
        let mut list = cmd("XPENDING");
        list.arg(group_consumer.streams.key(kind)).arg(&group_consumer.group);
        list
    }

    /// Claims entries of a pending list that are not in flight here, up to the capacity; returns true when there
    /// were some.
    async fn claim(
        &self,
        kind: StreamKind,
        pending: &Cmd,
        idle: Duration,
        capacity: &mut OwnedSemaphorePermit,
    ) -> RedisResult<bool> {
        let listed: Vec<(String, Value, Value, u32)> = self.connection.query(pending).await?;
        let counts: HashMap<EntryId, u32> = listed
            .iter()
            .filter_map(|(id, _, _, count)| Some((EntryId::parse(id.as_bytes())?, *count)))
            .filter(|(id, _)| !self.context.in_flight.contains(EntryPosition { kind, id: *id }))
            .take(capacity.num_permits())
            .collect();
        if counts.is_empty() {
            return Ok(false);
        }
        let mut ids: Vec<EntryId> = counts.keys().copied().collect();
        ids.sort_unstable();
        let group_consumer = &self.context.group_consumer;
        let mut claim = cmd("XCLAIM");
        claim
            .arg(group_consumer.streams.key(kind))
            .arg(&group_consumer.group)
            .arg(&group_consumer.name);
        claim.arg(milliseconds(idle)).arg(ids);
        let claimed = wire::entries(self.connection.query(&claim).await?);
        let found = claimed.into_iter().map(|entry| {
            let delivered = counts.get(&entry.id).copied().unwrap_or(1);
            FoundEntry { entry, delivered }
        });
        self.deliver(kind, found, capacity);
        Ok(true)
    }

    /// Reads up to about `limit` entries of both streams together, as each stream may return as many as
    /// requested. The group's own stream is empty most of the time; only while it is not, half is requested from
    /// each. Where there is capacity for one, the streams alternate. Entries of the group's own stream beyond
    /// the capacity, when it was empty until then, are requeued.
    async fn read(&mut self, limit: usize) -> RedisResult<Vec<(StreamKind, Vec<Entry>)>> {
        if limit > 1 {
            let each = if self.state.own_has_entries { limit / 2 } else { limit };
            let read = self.read_from(&StreamKind::ALL, each, Some(self.wait)).await?;
            self.state.own_has_entries = read.iter().any(|(kind, _)| *kind == StreamKind::Own);
            return Ok(read);
        }
        let first = if self.state.own_is_next { StreamKind::Own } else { StreamKind::Shared };
        self.state.own_is_next = !self.state.own_is_next;
        let read = self.read_from(&[first], 1, None).await?;
        if !read.is_empty() {
            return Ok(read);
        }
        self.read_from(&StreamKind::ALL, 1, Some(self.wait)).await
    }

    async fn read_from(
        &self,
        kinds: &[StreamKind],
        limit: usize,
        wait: Option<Duration>,
    ) -> RedisResult<Vec<(StreamKind, Vec<Entry>)>> {
        let group_consumer = &self.context.group_consumer;
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP")
            .arg(&group_consumer.group)
            .arg(&group_consumer.name)
            .arg("COUNT")
            .arg(limit);
        if let Some(wait) = wait {
            read.arg("BLOCK").arg(milliseconds(wait).max(1));
        }
        read.arg("STREAMS");
        for kind in kinds {
            read.arg(group_consumer.streams.key(*kind));
        }
        for _ in kinds {
            read.arg(">");
        }
        let read = wire::streams(self.connection.query(&read).await?);
        let of_kind =
            |(key, entries): (Vec<u8>, _)| Some((group_consumer.streams.kind_of(&key)?, entries));
        Ok(read.into_iter().filter_map(of_kind).collect())
    }

    /// Turns entries into deliveries.
    fn deliver(
        &self,
        kind: StreamKind,
        found: impl Iterator<Item = FoundEntry>,
        capacity: &mut OwnedSemaphorePermit,
    ) {
        let now = self.clock.now();
        let stream = self.context.group_consumer.streams.key(kind);
        let mut deliveries = Vec::with_capacity(found.size_hint().0);
        for FoundEntry { entry, delivered } in found {
            let position = EntryPosition { kind, id: entry.id };
            let received = wire::decode(entry, &self.topic, stream, now);
            if !received.is_for(&self.context.group_consumer.group) {
                self.context.settler.send(SettleAction::Acknowledge(position));
                continue;
            }
            let spent = received.attempt.saturating_add(delivered);
            let (message, poison) = (Arc::new(received.message), received.poison);
            let receipt = RedisReceipt {
                context: self.context.clone(),
                position,
                message,
                attempt: spent.saturating_add(1),
                is_returned: false,
                is_settled: false,
                capacity: capacity
                    .split(1)
                    .or_else(|| self.capacity.clone().try_acquire_owned().ok()),
            };
            if receipt.capacity.is_none() {
                // Both streams had entries and there is no capacity for all: dropping the receipt requeues the
                // entry.
                continue;
            }
            deliveries.push(PrefetchedDelivery { poison, receipt });
        }
        for one in &deliveries {
            self.context.in_flight.insert(one.receipt.position, (), now);
        }
        self.deliveries.send(deliveries);
    }
}

/// Waits for capacity for at least one delivery and returns up to `wanted`. Capacity returns delivery by
/// delivery; yielding to ready tasks and waiting a moment makes one read of many instead of many reads of a few.
async fn acquire_capacity(
    capacity: &Arc<Semaphore>,
    wanted: usize,
    clock: &dyn Clock,
) -> Option<OwnedSemaphorePermit> {
    let mut first = capacity.clone().acquire_owned().await.ok()?;
    let more = wanted - 1;
    for _ in 0..YIELDS_MAX {
        if capacity.available_permits() >= more {
            break;
        }
        tokio::task::yield_now().await;
    }
    if capacity.available_permits() < more {
        let until = add(clock.now(), CAPACITY_WAIT);
        let enough = capacity.acquire_many(u32::try_from(more).unwrap_or(u32::MAX));
        let _ = within(clock, until, enough).await;
    }
    let more = capacity.available_permits().min(more);
    if let Ok(more) = capacity.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
        first.merge(more);
    }
    Some(first)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
