//! Publish and subscribe: every group gets a copy, and no message is lost or duplicated.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Claim, Entry, SettleResult};
use punctual::backend::transport::{AttemptCount, Delay, Subscription};
use punctual::builtin::{GROUP_DEFAULT, memory_transport};
use punctual::model::{IdSource, Ids, Key, Message, ProcessId, Queue, TransportName};
use punctual::{ErrorKind, ManualClock, MemoryStorage, Storage, StoredTransport, Transport};

use super::fixture::{Fixture, at, claimed, mail, poll, received, seconds};

#[tokio::test]
async fn it_declares_the_capabilities_of_a_storage() {
    let f = Fixture::new();
    let can = f.transport.capabilities();
    assert_eq!((can.publish_delay, can.requeue_delay), (Delay::Any, Delay::Any));
    assert_eq!(can.attempts, AttemptCount::Counted);
    assert!(can.dead_letter && can.fan_out && !can.durable && can.payload_max.is_none());
    let transport =
        memory_transport(Arc::new(f.clock.clone()), ProcessId::from_uuid(f.ids.next(at(0))));
    assert!(transport.durable(true).capabilities().durable);
}

#[tokio::test]
async fn a_published_message_is_received_once_with_everything_it_had() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("office").await;
    let mut message = f.message();
    message.key = Some(Key::new("7").unwrap());
    message.headers.insert("tenant", "acme").unwrap();
    f.publish(message.clone(), Duration::ZERO).await;
    let deliveries = poll(&mut *consumer, 10).await.unwrap();
    let [delivery] = &deliveries[..] else { panic!("one delivery") };
    let arrived = &delivery.message;
    assert_eq!((arrived.id, &arrived.topic), (message.id, &message.topic));
    assert_eq!((&arrived.body, &arrived.headers), (&message.body, &message.headers));
    assert_eq!((&arrived.key, delivery.attempt), (&message.key, 1));
    assert!(delivery.poison.is_none());
    assert_eq!(received(&mut *consumer).await, []);
    assert_eq!(f.settle(claimed(delivery), Verdict::Done).await, SettleResult::Applied);
}

#[tokio::test]
async fn each_group_gets_a_copy_and_consumers_of_a_group_share() {
    let f = Fixture::new();
    let (mut office, mut office_again) = (f.subscribe("office").await, f.subscribe("office").await);
    let mut audit = f.subscribe("audit").await;
    let message = Message { dedupe: Some(Key::new("once").unwrap()), ..f.message() };
    f.publish(message.clone(), Duration::ZERO).await;
    let at_audit = poll(&mut *audit, 10).await.unwrap();
    let at_office = poll(&mut *office, 10).await.unwrap();
    assert_eq!((at_audit.len(), at_office.len()), (1, 1));
    assert_eq!(received(&mut *office_again).await, [], "shared, not copied");
    assert_eq!(at_office[0].message.body, at_audit[0].message.body);
    assert_ne!(at_office[0].message.id, at_audit[0].message.id);
    assert_eq!(at_audit[0].message.id, message.id, "the first group's copy keeps the id");
    assert_eq!(f.settle(claimed(&at_audit[0]), Verdict::Done).await, SettleResult::Applied);
    assert_eq!(f.settle(claimed(&at_office[0]), Verdict::Done).await, SettleResult::Applied);
}

#[tokio::test]
async fn publishing_a_message_again_changes_nothing() {
    let f = Fixture::new();
    let (mut office, mut audit) = (f.subscribe("office").await, f.subscribe("audit").await);
    let message = f.message();
    f.publish(message.clone(), Duration::ZERO).await;
    f.publish(message, Duration::ZERO).await;
    assert_eq!(received(&mut *office).await.len(), 1);
    assert_eq!(received(&mut *audit).await.len(), 1);
}

#[tokio::test]
async fn a_message_without_a_subscription_waits_for_the_default_group() {
    let f = Fixture::new();
    let id = f.publish(f.message(), Duration::ZERO).await;
    let mut consumer = f.subscribe(GROUP_DEFAULT).await;
    assert_eq!(received(&mut *consumer).await, [id]);
}

/// Creates another process with the same storage.
fn beside(f: &Fixture, seed: u64) -> Fixture {
    let owner = ProcessId::from_uuid(f.ids.next(at(0)));
    let clock = Arc::new(f.clock.clone());
    let transport = StoredTransport::new(f.transport.storage(), clock, owner, seconds(60));
    Fixture { transport, clock: f.clock.clone(), ids: Ids::seeded(seed) }
}

#[tokio::test]
async fn groups_are_known_to_other_processes_and_after_a_restart() {
    let f = Fixture::new();
    let mut office = f.subscribe("office").await;
    let other = beside(&f, 9);
    let id = other.publish(other.message(), Duration::ZERO).await;
    assert_eq!(received(&mut *office).await, [id]);
    drop(office);
    let again = beside(&f, 10);
    let id = again.publish(again.message(), Duration::ZERO).await;
    assert_eq!(again.transport.topics().await.unwrap(), [mail()]);
    assert_eq!(
        received(&mut *again.subscribe("office").await).await,
        [id],
        "stored while no consumer was there"
    );
}

#[tokio::test]
async fn the_first_group_misses_nothing_and_a_further_one_at_most_a_second() {
    let (f, early) = (Fixture::new(), Duration::from_millis(999));
    let other = beside(&f, 9);
    other.publish(other.message(), Duration::ZERO).await;
    let mut office = f.subscribe("office").await;
    let first = other.publish(other.message(), Duration::ZERO).await;
    assert_eq!(received(&mut *office).await, [first], "it was asked again");
    let mut audit = f.subscribe("audit").await;
    f.clock.advance(early);
    other.publish(other.message(), Duration::ZERO).await;
    assert_eq!(received(&mut *audit).await, [], "the cached groups are still used");
    f.clock.advance(Duration::from_millis(1));
    other.publish(other.message(), Duration::ZERO).await;
    assert_eq!(received(&mut *audit).await.len(), 1);
    assert_eq!(received(&mut *office).await.len(), 2);
}

#[tokio::test]
async fn a_message_its_relay_still_holds_in_the_same_storage_is_not_lost() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("office").await;
    let queue = Queue::of_relay(&TransportName::new("stored").unwrap());
    let message = Message { queue: queue.clone(), ..f.message() };
    let storage = f.transport.storage();
    storage.enqueue(vec![Entry::from(message)], at(0)).await.unwrap();
    let owner = ProcessId::from_uuid(f.ids.next(at(0)));
    let claim = Claim::new(queue, owner, 1, at(60));
    let relayed = storage.claim(claim, at(0)).await.unwrap().remove(0);
    f.publish((*relayed.message).clone(), Duration::ZERO).await;
    f.publish((*relayed.message).clone(), Duration::ZERO).await;
    assert_eq!(f.settle(&relayed, Verdict::Done).await, SettleResult::Applied);
    assert_eq!(received(&mut *consumer).await.len(), 1);
}

#[tokio::test]
async fn a_group_with_a_bad_name_is_refused() {
    let f = Fixture::new();
    for group in ["", "a/b", "a\nb"] {
        let group = group.to_owned();
        let subscription = Subscription { topic: mail(), group, prefetch: 1 };
        let error = f.transport.subscribe(subscription).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn delayed_messages_belong_to_their_transport_and_not_to_the_process() {
    let (one, two) = (Fixture::new(), Fixture::new());
    let mut other = two.subscribe("office").await;
    let mut own = one.subscribe("office").await;
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
        StoredTransport::new(Arc::clone(&storage), Arc::new(clock.clone()), owner, seconds(60))
    };
    let owner = || ProcessId::from_uuid(f.ids.next(at(0)));
    let first =
        Fixture { transport: transport(owner()), clock: clock.clone(), ids: Ids::seeded(4) };
    let id = first.publish(first.message(), seconds(30)).await;
    drop(first);
    let second =
        Fixture { transport: transport(owner()), clock: clock.clone(), ids: Ids::seeded(5) };
    clock.set(at(30));
    let mut consumer = second.subscribe(GROUP_DEFAULT).await;
    assert_eq!(received(&mut *consumer).await, [id]);
}
