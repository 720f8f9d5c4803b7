//! Fixture: a transport over a fresh storage with its own clock, and short helpers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{ClaimedMessage, SettleResult, Settlement};
use punctual::backend::transport::{Consumer, Delivery, OutgoingMessage, Receipt, Subscription};
use punctual::builtin::memory_transport;
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Correlation, Headers, IdSource, Ids, Message, MessageId, Priority, ProcessId, Queue,
    Source, Topic,
};
use punctual::{ManualClock, MemoryStorage, StoredTransport, Transport};

use super::late_storage::LateStorage;

pub(super) struct Fixture {
    pub(super) clock: ManualClock,
    pub(super) transport: StoredTransport,
    pub(super) ids: Ids,
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(super) fn mail() -> Topic {
    Topic::new("mail").unwrap()
}

impl Fixture {
    pub(super) fn new() -> Self {
        let clock = ManualClock::new(at(0));
        let ids = Ids::seeded(3);
        let owner = ProcessId::from_uuid(ids.next(at(0)));
        let transport = memory_transport(Arc::new(clock.clone()), owner);
        Self { clock, transport, ids }
    }

    /// Creates a fixture over a storage whose claims return late.
    pub(super) fn late() -> Self {
        let Fixture { clock, ids, .. } = Self::new();
        let memory = Arc::new(MemoryStorage::new(Arc::new(clock.clone())));
        let owner = ProcessId::from_uuid(ids.next(at(0)));
        let own_clock = Arc::new(clock.clone());
        let transport =
            StoredTransport::new(Arc::new(LateStorage(memory)), own_clock, owner, seconds(60));
        Self { clock, transport, ids }
    }

    pub(super) fn message(&self) -> Message {
        Message {
            id: MessageId::from_uuid(self.ids.next(at(0))),
            topic: mail(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at: at(0),
            created_at: at(0),
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::raw("hello", "text/plain"),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            route: None,
        }
    }

    pub(super) async fn publish(&self, message: Message, delay: Duration) -> MessageId {
        let id = message.id;
        let outgoing =
            OutgoingMessage { message: Arc::new(message), delay, attempt: 0, group: None };
        self.transport.publish(vec![outgoing], self.clock.now()).await.unwrap();
        id
    }

    pub(super) async fn subscribe(&self, group: &str) -> Box<dyn Consumer> {
        let group = group.to_owned();
        let subscription = Subscription { topic: mail(), group, prefetch: 10 };
        self.transport.subscribe(subscription).await.unwrap()
    }

    pub(super) async fn settle(&self, claimed: &ClaimedMessage, verdict: Verdict) -> SettleResult {
        let settlement = Settlement::new(claimed.lease_ref(), verdict, None);
        let now = self.clock.now();
        self.transport.storage().settle(vec![settlement], now).await.unwrap()[0]
    }
}

pub(super) fn claimed(delivery: &Delivery) -> &ClaimedMessage {
    match &delivery.receipt {
        Receipt::Lease(receipt) => &receipt.claimed,
        Receipt::Broker(_) => panic!("a stored delivery is settled by its lease"),
    }
}

/// Polls once; returns nothing when it would have to wait.
pub(super) async fn poll(consumer: &mut dyn Consumer, limit: usize) -> Option<Vec<Delivery>> {
    let mut receive = consumer.receive(limit);
    std::future::poll_fn(|context| match Pin::new(&mut receive).poll(context) {
        Poll::Ready(deliveries) => Poll::Ready(Some(deliveries.unwrap())),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

pub(super) async fn received(consumer: &mut dyn Consumer) -> Vec<MessageId> {
    let deliveries = poll(consumer, 10).await.unwrap_or_default();
    deliveries.iter().map(|delivery| delivery.message.id).collect()
}
