//! What every transport must do, tried on a storage as transport: publish, groups, delays, waiting,
//! and what becomes of a delivery that nobody settles. Time stands still unless a test moves it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod late;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use late::Late;
use punctual::builtin::{GROUP_DEFAULT, memory_transport};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{
    Body, Headers, IdSource, Ids, Key, Message, MessageId, Priority, ProcessId, Queue, Source,
    Topic, Trail, TransportName,
};
use punctual::policy::{Verdict, Why};
use punctual::storage::{Claim, Claimed, Entry, Reclaim, Settled, Settlement};
use punctual::transport::{
    AttemptCount, Consumer, Delay, Delivery, Outgoing, Receipt, Subscription,
};
use punctual::{ErrorKind, ManualClock, MemoryStorage, Storage, StoredTransport, Transport};

struct Fixture {
    clock: ManualClock,
    transport: StoredTransport,
    ids: Ids,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn mail() -> Topic {
    Topic::new("mail").unwrap()
}

impl Fixture {
    fn new() -> Self {
        let clock = ManualClock::new(at(0));
        let ids = Ids::seeded(3);
        let owner = ProcessId::from_uuid(ids.next(at(0)));
        let transport = memory_transport(Arc::new(clock.clone()), owner);
        Self {
            clock,
            transport,
            ids,
        }
    }

    /// Over a storage whose claims answer late.
    fn late() -> Self {
        let Fixture { clock, ids, .. } = Self::new();
        let memory = Arc::new(MemoryStorage::new(Arc::new(clock.clone())));
        let owner = ProcessId::from_uuid(ids.next(at(0)));
        let own_clock = Arc::new(clock.clone());
        let transport = StoredTransport::new(Arc::new(Late(memory)), own_clock, owner, seconds(60));
        Self {
            clock,
            transport,
            ids,
        }
    }

    fn message(&self) -> Message {
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
            body: Body::raw("hello", "text/plain"),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
        }
    }

    async fn publish(&self, message: Message, delay: Duration) -> MessageId {
        let id = message.id;
        let outgoing = Outgoing {
            message: Arc::new(message),
            delay,
            attempt: 0,
        };
        self.transport
            .publish(vec![outgoing], self.clock.now())
            .await
            .unwrap();
        id
    }

    async fn subscribe(&self, group: &str) -> Box<dyn Consumer> {
        let group = group.to_owned();
        let subscription = Subscription {
            topic: mail(),
            group,
            prefetch: 10,
        };
        self.transport.subscribe(subscription).await.unwrap()
    }

    async fn settle(&self, claimed: &Claimed, verdict: Verdict) -> Settled {
        let settlement = Settlement {
            lease: claimed.lease_ref(),
            verdict,
            execution: None,
        };
        let now = self.clock.now();
        self.transport
            .storage()
            .settle(vec![settlement], now)
            .await
            .unwrap()[0]
    }
}

fn claimed(delivery: &Delivery) -> &Claimed {
    match &delivery.receipt {
        Receipt::Lease(receipt) => &receipt.claimed,
        Receipt::Broker(_) => panic!("a stored delivery is settled by its lease"),
    }
}

/// Looks once; nothing when it would have to wait.
async fn poll(consumer: &mut dyn Consumer, limit: usize) -> Option<Vec<Delivery>> {
    let mut receive = consumer.receive(limit);
    std::future::poll_fn(|context| match Pin::new(&mut receive).poll(context) {
        Poll::Ready(deliveries) => Poll::Ready(Some(deliveries.unwrap())),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

async fn received(consumer: &mut dyn Consumer) -> Vec<MessageId> {
    let deliveries = poll(consumer, 10).await.unwrap_or_default();
    deliveries
        .iter()
        .map(|delivery| delivery.message.id)
        .collect()
}

#[tokio::test]
async fn it_declares_what_a_storage_can_do() {
    let f = Fixture::new();
    let can = f.transport.capabilities();
    assert_eq!(
        (can.publish_delay, can.requeue_delay),
        (Delay::Any, Delay::Any)
    );
    assert_eq!(can.attempts, AttemptCount::Counted);
    assert!(can.dead_letter && can.fan_out && !can.durable && can.payload_max.is_none());
    let kept = memory_transport(
        Arc::new(f.clock.clone()),
        ProcessId::from_uuid(f.ids.next(at(0))),
    );
    assert!(kept.durable(true).capabilities().durable);
}

// spec: T-24
#[tokio::test]
async fn a_published_message_is_received_once_with_everything_it_had() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    let mut message = f.message();
    message.key = Some(Key::new("7").unwrap());
    message.headers.insert("tenant", "acme").unwrap();
    f.publish(message.clone(), Duration::ZERO).await;
    let deliveries = poll(&mut *consumer, 10).await.unwrap();
    let [delivery] = &deliveries[..] else {
        panic!("one delivery")
    };
    let arrived = &delivery.message;
    assert_eq!((arrived.id, &arrived.topic), (message.id, &message.topic));
    assert_eq!(
        (&arrived.body, &arrived.headers),
        (&message.body, &message.headers)
    );
    assert_eq!((&arrived.key, delivery.attempt), (&message.key, 1));
    assert!(delivery.poison.is_none());
    assert_eq!(received(&mut *consumer).await, []);
    assert_eq!(
        f.settle(claimed(delivery), Verdict::Done).await,
        Settled::Applied
    );
}

// spec: D-25, D-29
#[tokio::test]
async fn a_requeued_delivery_is_back_once_after_its_delay_as_it_was() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    let mut message = f.message();
    message.headers.insert("tenant", "acme").unwrap();
    let id = f.publish(message, Duration::ZERO).await;
    let first = poll(&mut *consumer, 10).await.unwrap().remove(0);
    let again = Verdict::Again {
        due_at: at(30),
        attempt: first.attempt,
        crashes: 0,
        snoozes: 0,
        error: None,
        why: Why::Retry,
    };
    assert_eq!(f.settle(claimed(&first), again).await, Settled::Applied);
    f.clock.set(at(29));
    assert_eq!(received(&mut *consumer).await, []);
    f.clock.set(at(30));
    let second = poll(&mut *consumer, 10).await.unwrap();
    assert_eq!(
        (second.len(), second[0].message.id, second[0].attempt),
        (1, id, 2)
    );
    assert_eq!(second[0].message, first.message);
    assert_eq!(received(&mut *consumer).await, []);
}

// spec: D-29
#[tokio::test]
async fn a_delayed_message_arrives_when_its_delay_is_over_and_not_before() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    let id = f.publish(f.message(), seconds(86_400)).await;
    let mut receive = pin!(consumer.receive(10));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(receive.as_mut().poll(&mut context).is_pending());
        f.clock.advance(seconds(20_000));
    }
    f.clock.set(at(86_399));
    assert!(receive.as_mut().poll(&mut context).is_pending());
    f.clock.set(at(86_400));
    let deliveries = receive.await.unwrap();
    assert_eq!((deliveries.len(), deliveries[0].message.id), (1, id));
}

#[tokio::test]
async fn a_waiting_consumer_hears_of_a_message_at_once() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    let mut receive = pin!(consumer.receive(1));
    assert!(
        receive
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    f.publish(f.message(), Duration::ZERO).await;
    assert_eq!(receive.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_consumer_looks_by_itself_where_no_bell_can_reach_it() {
    let f = Fixture::new();
    let consumer = &mut f.subscribe("desk").await;
    let mut receive = pin!(consumer.receive(1));
    assert!(
        receive
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert_eq!(
        f.clock.next_wake(),
        Some(at(1)),
        "it does not sleep longer than a second"
    );
}

#[tokio::test]
async fn a_receive_that_was_dropped_loses_nothing_and_leaves_no_sleeper() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    assert!(poll(&mut *consumer, 10).await.is_none());
    assert_eq!(f.clock.sleepers(), 0);
    let ids = [
        f.publish(f.message(), Duration::ZERO).await,
        f.publish(f.message(), Duration::ZERO).await,
    ];
    assert_eq!(received(&mut *consumer).await, ids);
}

#[tokio::test]
async fn a_receive_that_was_dropped_while_it_claimed_is_finished_by_the_next_one() {
    let f = Fixture::late();
    let mut consumer = f.subscribe("desk").await;
    let ids = [
        f.publish(f.message(), Duration::ZERO).await,
        f.publish(f.message(), Duration::ZERO).await,
    ];
    assert!(
        poll(&mut *consumer, 10).await.is_none(),
        "claimed, but not answered yet"
    );
    let first = consumer.receive(1).await.unwrap();
    assert_eq!((first.len(), first[0].message.id), (1, ids[0]));
    let second = consumer.receive(1).await.unwrap();
    assert_eq!((second[0].message.id, second[0].attempt), (ids[1], 1));
}

#[tokio::test]
async fn closing_gives_back_what_was_claimed_and_never_received() {
    let f = Fixture::late();
    let mut consumer = f.subscribe("desk").await;
    let id = f.publish(f.message(), Duration::ZERO).await;
    assert!(poll(&mut *consumer, 10).await.is_none());
    consumer.close(at(5)).await.unwrap();
    let mut next = f.subscribe("desk").await;
    let deliveries = next.receive(10).await.unwrap();
    assert_eq!((deliveries[0].message.id, deliveries[0].attempt), (id, 1));
}

#[tokio::test]
async fn each_group_gets_a_copy_and_consumers_of_a_group_share() {
    let f = Fixture::new();
    let (mut desk, mut desk_too) = (f.subscribe("desk").await, f.subscribe("desk").await);
    let mut audit = f.subscribe("audit").await;
    let message = Message {
        dedupe: Some(Key::new("once").unwrap()),
        ..f.message()
    };
    f.publish(message.clone(), Duration::ZERO).await;
    let at_audit = poll(&mut *audit, 10).await.unwrap();
    let at_desk = poll(&mut *desk, 10).await.unwrap();
    assert_eq!((at_audit.len(), at_desk.len()), (1, 1));
    assert_eq!(received(&mut *desk_too).await, [], "shared, not copied");
    assert_eq!(at_desk[0].message.body, at_audit[0].message.body);
    assert_ne!(at_desk[0].message.id, at_audit[0].message.id);
    assert_eq!(
        at_audit[0].message.id, message.id,
        "the first group's copy keeps the id"
    );
    assert_eq!(
        f.settle(claimed(&at_audit[0]), Verdict::Done).await,
        Settled::Applied
    );
    assert_eq!(
        f.settle(claimed(&at_desk[0]), Verdict::Done).await,
        Settled::Applied
    );
}

#[tokio::test]
async fn publishing_again_what_was_published_changes_nothing() {
    let f = Fixture::new();
    let (mut desk, mut audit) = (f.subscribe("desk").await, f.subscribe("audit").await);
    let message = f.message();
    f.publish(message.clone(), Duration::ZERO).await;
    f.publish(message, Duration::ZERO).await;
    assert_eq!(received(&mut *desk).await.len(), 1);
    assert_eq!(received(&mut *audit).await.len(), 1);
}

#[tokio::test]
async fn what_nobody_has_subscribed_to_waits_for_the_default_group() {
    let f = Fixture::new();
    let id = f.publish(f.message(), Duration::ZERO).await;
    let mut consumer = f.subscribe(GROUP_DEFAULT).await;
    assert_eq!(received(&mut *consumer).await, [id]);
}

#[tokio::test]
async fn a_message_its_relay_still_holds_in_the_same_storage_is_not_lost() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    let queue = Queue::of_relay(&TransportName::new("stored").unwrap());
    let message = Message {
        queue: queue.clone(),
        ..f.message()
    };
    let storage = f.transport.storage();
    storage
        .enqueue(vec![Entry::from(message)], at(0))
        .await
        .unwrap();
    let owner = ProcessId::from_uuid(f.ids.next(at(0)));
    let claim = Claim {
        queue,
        owner,
        limit: 1,
        until: at(60),
    };
    let relayed = storage.claim(claim, at(0)).await.unwrap().remove(0);
    f.publish((*relayed.message).clone(), Duration::ZERO).await;
    f.publish((*relayed.message).clone(), Duration::ZERO).await;
    assert_eq!(f.settle(&relayed, Verdict::Done).await, Settled::Applied);
    assert_eq!(received(&mut *consumer).await.len(), 1);
}

#[tokio::test]
async fn a_dropped_delivery_is_free_again_when_its_lease_has_run_out() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    let id = f.publish(f.message(), Duration::ZERO).await;
    drop(poll(&mut *consumer, 10).await.unwrap());
    assert_eq!(received(&mut *consumer).await, []);
    f.clock.set(at(301));
    let owner = ProcessId::from_uuid(f.ids.next(at(0)));
    let reclaim = Reclaim {
        owner,
        limit: 9,
        until: at(400),
    };
    let storage = f.transport.storage();
    let lost = storage.reclaim(reclaim, at(301)).await.unwrap().remove(0);
    let rescue = Verdict::Again {
        due_at: at(301),
        attempt: 0,
        crashes: 1,
        snoozes: 0,
        error: None,
        why: Why::Rescue,
    };
    assert_eq!(f.settle(&lost, rescue).await, Settled::Applied);
    assert_eq!(received(&mut *consumer).await, [id]);
}

#[tokio::test]
async fn a_receive_gives_at_most_the_limit_and_the_prefetch() {
    let f = Fixture::new();
    let group = "desk".to_owned();
    let subscription = Subscription {
        topic: mail(),
        group,
        prefetch: 3,
    };
    let mut consumer = f.transport.subscribe(subscription).await.unwrap();
    for _ in 0..7 {
        f.publish(f.message(), Duration::ZERO).await;
    }
    assert_eq!(poll(&mut *consumer, 2).await.unwrap().len(), 2);
    assert_eq!(poll(&mut *consumer, 10).await.unwrap().len(), 3);
    assert_eq!(poll(&mut *consumer, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_closed_consumer_receives_no_more_and_holds_nothing() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("desk").await;
    let id = f.publish(f.message(), Duration::ZERO).await;
    consumer.close(at(5)).await.unwrap();
    let error = consumer.receive(1).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut next = f.subscribe("desk").await;
    let deliveries = poll(&mut *next, 10).await.unwrap();
    assert_eq!((deliveries[0].message.id, deliveries[0].attempt), (id, 1));
}

#[tokio::test]
async fn a_group_with_a_bad_name_is_refused() {
    let f = Fixture::new();
    for group in ["", "a/b", "a\nb"] {
        let group = group.to_owned();
        let subscription = Subscription {
            topic: mail(),
            group,
            prefetch: 1,
        };
        let error = f.transport.subscribe(subscription).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

// spec: D-31
#[tokio::test]
async fn delayed_messages_belong_to_their_transport_and_not_to_the_process() {
    let (one, two) = (Fixture::new(), Fixture::new());
    let mut other = two.subscribe("desk").await;
    let mut own = one.subscribe("desk").await;
    let id = one.publish(one.message(), seconds(5)).await;
    one.clock.set(at(5));
    two.clock.set(at(5));
    assert_eq!(received(&mut *other).await, []);
    assert_eq!(received(&mut *own).await, [id]);
}

#[tokio::test]
async fn a_message_outlives_the_transport_that_took_it() {
    let clock = ManualClock::new(at(0));
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(Arc::new(clock.clone())));
    let f = Fixture::new();
    let transport = |owner| {
        StoredTransport::new(
            Arc::clone(&storage),
            Arc::new(clock.clone()),
            owner,
            seconds(60),
        )
    };
    let owner = || ProcessId::from_uuid(f.ids.next(at(0)));
    let first = Fixture {
        transport: transport(owner()),
        clock: clock.clone(),
        ids: Ids::seeded(4),
    };
    let id = first.publish(first.message(), seconds(30)).await;
    drop(first);
    let second = Fixture {
        transport: transport(owner()),
        clock: clock.clone(),
        ids: Ids::seeded(5),
    };
    clock.set(at(0) + SignedDuration::from_secs(30));
    let mut consumer = second.subscribe(GROUP_DEFAULT).await;
    assert_eq!(received(&mut *consumer).await, [id]);
}
