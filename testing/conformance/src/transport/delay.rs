//! Delay: a message published for later. The broker delays it up to its limit, the storage beyond that, with the
//! same result for the receiver.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::transport::{Delay, OutgoingMessage};
use punctual::clock::{add, between};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::{Clock, ErrorKind, Retry, SystemClock};

use super::Fixture;
use super::fixture::{
    Action, DELAY, QUIET, TIMEOUT, TRANSPORT, ack, at_least, id_of, outgoing, sleep, text_of,
};
use crate::backend_tests::{Slowness, WrongClock};

behaviours! {
    a_delayed_message_is_delivered_once_and_not_before_its_delay,
    no_delay_a_zero_delay_and_a_past_instant_are_equal,
    a_delay_within_reach_is_kept_by_the_broker,
    a_delay_beyond_reach_is_refused_and_nothing_is_sent,
    a_delay_within_reach_is_not_kept_in_the_storage,
    a_delayed_message_survives_the_end_of_its_node,
    a_delay_of_a_year_is_kept_and_not_lost,
    a_slow_network_starts_nothing_early needs SlowDown,
}

/// Returns a delay beyond the limit of a broker; `None` without a limit.
fn beyond(delay: Delay) -> Option<Duration> {
    match delay {
        Delay::None => Some(Duration::from_secs(1)),
        Delay::UpTo(limit) => Some(limit + Duration::from_secs(1)),
        Delay::Any => None,
    }
}

// spec: D-2, D-9, D-37
pub async fn a_delayed_message_is_delivered_once_and_not_before_its_delay(f: Fixture) {
    let worker = f.worker("office").start(|_| Action::Done).await;
    let sent_at = SystemClock.now();
    let id = worker.send_after("later", DELAY).await;
    worker.send("now").await;
    let now = worker.wait_for_calls("now", 1).await[0].at;
    let call = worker.wait_for_calls("later", 1).await[0].clone();
    assert_eq!((call.id, call.attempt), (id, 1));
    assert!(between(sent_at, call.at) >= at_least(DELAY), "{:?}", between(sent_at, call.at));
    assert!(now < call.at);
    sleep(QUIET).await;
    assert_eq!(worker.calls_of("later").len(), 1, "one copy");
    worker.stop().await;
}

// Trap 13: none, zero and an instant in the past.
// spec: D-8, D-15
pub async fn no_delay_a_zero_delay_and_a_past_instant_are_equal(f: Fixture) {
    let worker = f.worker("office").start(|_| Action::Done).await;
    let publisher = worker.punctual.publisher();
    publisher.publish("mail", "none").via(TRANSPORT).await.unwrap();
    publisher.publish("mail", "zero").after(Duration::ZERO).via(TRANSPORT).await.unwrap();
    let past = SystemClock.now() - SignedDuration::from_hours(9);
    publisher.publish("mail", "past").at(past).allow_past().via(TRANSPORT).await.unwrap();
    worker.wait_until("all three", |calls| calls.len() >= 3).await;
    assert_eq!(worker.punctual.events().count("message.held"), 0, "nothing waited");
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 3);
    worker.stop().await;
}

// spec: D-21, D-22
pub async fn a_delay_within_reach_is_kept_by_the_broker(f: Fixture) {
    if !f.capabilities.publish_delay.supports(DELAY) {
        return f.refused("it declares that it cannot delay a publish; the engine does");
    }
    let mut office = f.subscribe("office").await;
    let message = f.message("later");
    let id = message.id;
    let due_at = add(SystemClock.now(), at_least(DELAY));
    let later = OutgoingMessage { delay: DELAY, ..outgoing(message) };
    let batch = vec![later, outgoing(f.message("now"))];
    f.transport.publish(batch, SystemClock.now()).await.unwrap();
    let first = office.next().await;
    assert_eq!(text_of(&first), "now");
    ack(first).await;
    let second = office.next().await;
    assert!(SystemClock.now() >= due_at);
    assert_eq!((id_of(&second), second.attempt), (id, 1));
    assert!(second.message.headers.is_empty(), "no header contains the delay");
    ack(second).await;
    office.expect_nothing().await;
}

pub async fn a_delay_beyond_reach_is_refused_and_nothing_is_sent(f: Fixture) {
    let Some(delay) = beyond(f.capabilities.publish_delay) else {
        return f.refused("it declares that it supports any delay");
    };
    let mut office = f.subscribe("office").await;
    let far = OutgoingMessage { delay, ..outgoing(f.message("far")) };
    let started_at = SystemClock.now();
    let error = f.transport.publish(vec![far], started_at).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(between(started_at, SystemClock.now()) < Duration::from_secs(1), "it does not sleep");
    office.expect_nothing().await;
}

// Decision 3.24: native is preferred, the storage takes over beyond it.
// spec: D-2, D-21, D-22
pub async fn a_delay_within_reach_is_not_kept_in_the_storage(f: Fixture) {
    let worker = f.worker("office").start(|_| Action::Done).await;
    let events = worker.punctual.events().clone();
    if f.capabilities.publish_delay.supports(DELAY) {
        worker.send_after("near", DELAY).await;
        assert_eq!(events.count("message.held"), 0, "the broker waits");
        worker.wait_for_calls("near", 1).await;
    }
    if let Some(far) = beyond(f.capabilities.publish_delay) {
        let id = worker.send_after("far", far).await;
        assert_eq!(events.count("message.held"), 1, "the storage waits");
        if far <= DELAY {
            assert_eq!(worker.wait_for_calls("far", 1).await[0].id, id);
        } else {
            assert_eq!(f.held_message(id).await.message.id, id);
        }
    }
    worker.stop().await;
}

pub async fn a_delayed_message_survives_the_end_of_its_node(f: Fixture) {
    let worker = f.worker("office").start(|_| Action::Done).await;
    let sent_at = SystemClock.now();
    let id = worker.send_after("later", DELAY * 2).await;
    worker.stop().await;
    let worker = f.another_node().await.worker("office").start(|_| Action::Done).await;
    let call = worker.wait_for_calls("later", 1).await[0].clone();
    assert_eq!((call.id, call.attempt), (id, 1));
    assert!(between(sent_at, call.at) >= at_least(DELAY * 2));
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 1, "one copy");
    worker.stop().await;
}

pub async fn a_delay_of_a_year_is_kept_and_not_lost(f: Fixture) {
    let worker = f.worker("office").start(|_| Action::Done).await;
    let year = Duration::from_hours(365 * 24);
    let id = worker.send_after("year", year).await;
    worker.send("hello").await;
    worker.wait_for_calls("hello", 1).await;
    if f.capabilities.publish_delay.supports(year) && !f.is_stored() {
        // Only waiting for the year could show that the broker still has it.
        assert_eq!(worker.punctual.events().count("message.held"), 0);
    } else {
        let wait = between(SystemClock.now(), f.held_message(id).await.due_at);
        assert!(wait.abs_diff(year) < TIMEOUT, "{wait:?}");
    }
    sleep(QUIET).await;
    assert_eq!(worker.calls_of("year").len(), 0);
    worker.stop().await;
}

/// Connecting takes longest, and responses take longer than requests, so that the middle of a call is no estimate
/// of when the server read its clock.
const SLOW: Slowness = Slowness {
    connect: Duration::from_millis(150),
    request: Duration::from_millis(10),
    response: Duration::from_millis(60),
};

/// A delayed message and a requeued one start no earlier than requested, also when the clock of the process is
/// wrong by an hour, from its first message on, and when the process only publishes.
// spec: D-2, D-37
pub async fn a_slow_network_starts_nothing_early(f: Fixture) {
    f.slow_down(SLOW).await;
    let slow = f.another_node().await;
    for clock in WrongClock::BY_AN_HOUR {
        let worker = slow
            .worker("office")
            .clock(Arc::new(WrongClock(clock.0)))
            .retry(Retry::intervals([Duration::ZERO]).attempts(5))
            .start(|call| match (call.text.as_str(), call.attempt) {
                ("again", 1) => Action::RetryAfter(DELAY),
                _ => Action::Done,
            })
            .await;
        let sent_at = SystemClock.now();
        worker.send_after("later", DELAY).await;
        let later = worker.wait_for_calls("later", 1).await[0].clone();
        assert_not_early(sent_at, later.began_at);
        worker.send("again").await;
        let calls = worker.wait_for_calls("again", 2).await;
        assert_not_early(calls[0].began_at, calls[1].began_at);
        // A process that only publishes has to read the storage's time first.
        let idle =
            slow.worker("office").clock(Arc::new(WrongClock(clock.0))).build(|_| Action::Done);
        let sent_at = SystemClock.now();
        idle.send_after("only published", DELAY).await;
        let published = worker.wait_for_calls("only published", 1).await[0].clone();
        assert_not_early(sent_at, published.began_at);
        worker.stop().await;
    }
}

fn assert_not_early(from: Timestamp, began_at: Timestamp) {
    let due_at = add(from, DELAY);
    assert!(began_at >= due_at, "due at {due_at}, begun at {began_at}");
}
