//! Receive: at the due time and not before, by one consumer, and never lost by a dropped call.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{Reclaim, SettleResult};
use punctual::backend::transport::Subscription;
use punctual::model::{IdSource, ProcessId};
use punctual::{ErrorKind, Transport};

use super::fixture::{Fixture, at, claimed, mail, poll, received, seconds};

// spec: D-25, D-29
#[tokio::test]
async fn a_requeued_delivery_is_back_once_after_its_delay_as_it_was() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("office").await;
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
        why: AgainReason::Retry,
    };
    assert_eq!(f.settle(claimed(&first), again).await, SettleResult::Applied);
    f.clock.set(at(29));
    assert_eq!(received(&mut *consumer).await, []);
    f.clock.set(at(30));
    let second = poll(&mut *consumer, 10).await.unwrap();
    assert_eq!((second.len(), second[0].message.id, second[0].attempt), (1, id, 2));
    assert_eq!(second[0].message, first.message);
    assert_eq!(received(&mut *consumer).await, []);
}

// spec: D-29
#[tokio::test]
async fn a_delayed_message_arrives_when_its_delay_is_over_and_not_before() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("office").await;
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
async fn a_waiting_consumer_is_notified_of_a_message_immediately() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("office").await;
    let mut receive = pin!(consumer.receive(1));
    assert!(receive.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    f.publish(f.message(), Duration::ZERO).await;
    assert_eq!(receive.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_consumer_polls_where_no_notification_can_reach_it() {
    let f = Fixture::new();
    let consumer = &mut f.subscribe("office").await;
    let mut receive = pin!(consumer.receive(1));
    assert!(receive.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(f.clock.next_wake(), Some(at(1)), "it does not sleep longer than a second");
}

#[tokio::test]
async fn a_dropped_receive_loses_nothing_and_leaves_no_waiting_task() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("office").await;
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
    let mut consumer = f.subscribe("office").await;
    let ids = [
        f.publish(f.message(), Duration::ZERO).await,
        f.publish(f.message(), Duration::ZERO).await,
    ];
    assert!(poll(&mut *consumer, 10).await.is_none(), "claimed, but not answered yet");
    let first = consumer.receive(1).await.unwrap();
    assert_eq!((first.len(), first[0].message.id), (1, ids[0]));
    let second = consumer.receive(1).await.unwrap();
    assert_eq!((second[0].message.id, second[0].attempt), (ids[1], 1));
}

#[tokio::test]
async fn closing_releases_claimed_messages_that_were_not_received() {
    let f = Fixture::late();
    let mut consumer = f.subscribe("office").await;
    let id = f.publish(f.message(), Duration::ZERO).await;
    assert!(poll(&mut *consumer, 10).await.is_none());
    consumer.close(at(5)).await.unwrap();
    let mut next = f.subscribe("office").await;
    let deliveries = next.receive(10).await.unwrap();
    assert_eq!((deliveries[0].message.id, deliveries[0].attempt), (id, 1));
}

#[tokio::test]
async fn a_dropped_delivery_is_free_again_when_its_lease_has_run_out() {
    let f = Fixture::new();
    let mut consumer = f.subscribe("office").await;
    let id = f.publish(f.message(), Duration::ZERO).await;
    drop(poll(&mut *consumer, 10).await.unwrap());
    assert_eq!(received(&mut *consumer).await, []);
    f.clock.set(at(301));
    let owner = ProcessId::from_uuid(f.ids.next(at(0)));
    let reclaim = Reclaim { owner, limit: 9, until: at(400) };
    let storage = f.transport.storage();
    let lost = storage.reclaim(reclaim, at(301)).await.unwrap().remove(0);
    let rescue = Verdict::Again {
        due_at: at(301),
        attempt: 0,
        crashes: 1,
        snoozes: 0,
        error: None,
        why: AgainReason::Rescue,
    };
    assert_eq!(f.settle(&lost, rescue).await, SettleResult::Applied);
    assert_eq!(received(&mut *consumer).await, [id]);
}

#[tokio::test]
async fn a_receive_returns_at_most_the_limit_and_the_prefetch() {
    let f = Fixture::new();
    let group = "office".to_owned();
    let subscription = Subscription { topic: mail(), group, prefetch: 3 };
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
    let mut consumer = f.subscribe("office").await;
    let id = f.publish(f.message(), Duration::ZERO).await;
    consumer.close(at(5)).await.unwrap();
    let error = consumer.receive(1).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut next = f.subscribe("office").await;
    let deliveries = poll(&mut *next, 10).await.unwrap();
    assert_eq!((deliveries[0].message.id, deliveries[0].attempt), (id, 1));
}

// spec: D-31
#[tokio::test]
async fn two_transports_of_one_process_share_no_delayed_message() {
    let (one, other) = (Fixture::new(), Fixture::new());
    let (mut consumer, mut foreign) =
        (one.subscribe("office").await, other.subscribe("office").await);
    let id = one.publish(one.message(), seconds(30)).await;
    for fixture in [&one, &other] {
        fixture.clock.set(at(30));
    }
    assert_eq!(received(&mut *foreign).await, []);
    assert_eq!(received(&mut *consumer).await, [id]);
}
