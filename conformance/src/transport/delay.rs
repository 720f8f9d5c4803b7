//! Delay: a message sent for later. The broker waits as far as it reaches, the storage beyond, and the
//! reader cannot tell which.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{add, between};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::transport::{Delay, Outgoing};
use punctual::{Clock, ErrorKind, Retry, SystemClock};

use super::Fixture;
use super::fixture::{
    Act, DELAY, POST, QUIET, TIMEOUT, ack, id_of, nearly, outgoing, pass, text_of,
};
use crate::own::{Slowness, WrongClock};

behaviours! {
    it_is_not_seen_before_its_delay_and_once_after_it,
    none_zero_and_past_are_alike,
    a_delay_within_reach_is_kept_by_the_broker,
    a_delay_beyond_reach_is_refused_and_nothing_is_sent,
    what_the_broker_can_wait_for_is_not_kept_in_the_storage,
    it_survives_the_end_of_the_node,
    a_delay_of_a_year_is_kept_and_not_lost,
    a_slow_network_starts_nothing_early needs SlowDown,
}

/// Longer than any broker waits that has a limit.
fn beyond(delay: Delay) -> Option<Duration> {
    match delay {
        Delay::None => Some(Duration::from_secs(1)),
        Delay::UpTo(limit) => Some(limit + Duration::from_secs(1)),
        Delay::Any => None,
    }
}

// spec: D-2, D-9, D-37
pub async fn it_is_not_seen_before_its_delay_and_once_after_it(f: Fixture) {
    let worker = f.worker("office").start(|_| Act::Done).await;
    let sent_at = SystemClock.now();
    let id = worker.send_after("later", DELAY).await;
    worker.send("now").await;
    let now = worker.called("now", 1).await[0].at;
    let call = worker.called("later", 1).await[0].clone();
    assert_eq!((call.id, call.attempt), (id, 1));
    assert!(between(sent_at, call.at) >= nearly(DELAY), "{:?}", between(sent_at, call.at));
    assert!(now < call.at);
    pass(QUIET).await;
    assert_eq!(worker.seen_of("later").len(), 1, "one copy");
    worker.stop().await;
}

// Trap 13: none, zero and an instant in the past.
// spec: D-8, D-15
pub async fn none_zero_and_past_are_alike(f: Fixture) {
    let worker = f.worker("office").start(|_| Act::Done).await;
    let publisher = worker.punctual.publisher();
    publisher.publish("mail", "none").via(POST).await.unwrap();
    publisher.publish("mail", "zero").after(Duration::ZERO).via(POST).await.unwrap();
    let past = SystemClock.now() - SignedDuration::from_hours(9);
    publisher.publish("mail", "past").at(past).allow_past().via(POST).await.unwrap();
    worker.until("all three", |seen| seen.len() >= 3).await;
    assert_eq!(worker.punctual.events().count("message.held"), 0, "nothing waited");
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 3);
    worker.stop().await;
}

// spec: D-21, D-22
pub async fn a_delay_within_reach_is_kept_by_the_broker(f: Fixture) {
    if !f.capabilities.publish_delay.reaches(DELAY) {
        return f.refused("it declares that it cannot delay what is sent; the engine does");
    }
    let mut office = f.subscribe("office").await;
    let message = f.message("later");
    let id = message.id;
    let due_at = add(SystemClock.now(), nearly(DELAY));
    let later = Outgoing { delay: DELAY, ..outgoing(message) };
    let batch = vec![later, outgoing(f.message("now"))];
    f.transport.publish(batch, SystemClock.now()).await.unwrap();
    let first = office.next().await;
    assert_eq!(text_of(&first), "now");
    ack(first).await;
    let second = office.next().await;
    assert!(SystemClock.now() >= due_at);
    assert_eq!((id_of(&second), second.attempt), (id, 1));
    assert!(second.message.headers.is_empty(), "no header tells of the delay");
    ack(second).await;
    office.is_quiet().await;
}

pub async fn a_delay_beyond_reach_is_refused_and_nothing_is_sent(f: Fixture) {
    let Some(delay) = beyond(f.capabilities.publish_delay) else {
        return f.refused("it declares that it can delay for as long as one likes");
    };
    let mut office = f.subscribe("office").await;
    let far = Outgoing { delay, ..outgoing(f.message("far")) };
    let asked_at = SystemClock.now();
    let error = f.transport.publish(vec![far], asked_at).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(between(asked_at, SystemClock.now()) < Duration::from_secs(1), "it is not slept");
    office.is_quiet().await;
}

// Decision 3.24: native is preferred, the storage takes over beyond it.
// spec: D-2, D-21, D-22
pub async fn what_the_broker_can_wait_for_is_not_kept_in_the_storage(f: Fixture) {
    let worker = f.worker("office").start(|_| Act::Done).await;
    let events = worker.punctual.events().clone();
    if f.capabilities.publish_delay.reaches(DELAY) {
        worker.send_after("near", DELAY).await;
        assert_eq!(events.count("message.held"), 0, "the broker waits");
        worker.called("near", 1).await;
    }
    if let Some(far) = beyond(f.capabilities.publish_delay) {
        let id = worker.send_after("far", far).await;
        assert_eq!(events.count("message.held"), 1, "the storage waits");
        if far <= DELAY {
            assert_eq!(worker.called("far", 1).await[0].id, id);
        } else {
            assert_eq!(f.kept(id).await.message.id, id);
        }
    }
    worker.stop().await;
}

pub async fn it_survives_the_end_of_the_node(f: Fixture) {
    let worker = f.worker("office").start(|_| Act::Done).await;
    let sent_at = SystemClock.now();
    let id = worker.send_after("later", DELAY * 2).await;
    worker.stop().await;
    let worker = f.another_node().await.worker("office").start(|_| Act::Done).await;
    let call = worker.called("later", 1).await[0].clone();
    assert_eq!((call.id, call.attempt), (id, 1));
    assert!(between(sent_at, call.at) >= nearly(DELAY * 2));
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 1, "one copy");
    worker.stop().await;
}

pub async fn a_delay_of_a_year_is_kept_and_not_lost(f: Fixture) {
    let worker = f.worker("office").start(|_| Act::Done).await;
    let year = Duration::from_hours(365 * 24);
    let id = worker.send_after("year", year).await;
    worker.send("hello").await;
    worker.called("hello", 1).await;
    if f.capabilities.publish_delay.reaches(year) && !f.is_stored() {
        // Only time could show that the broker still has it.
        assert_eq!(worker.punctual.events().count("message.held"), 0);
    } else {
        let wait = between(SystemClock.now(), f.kept(id).await.due_at);
        assert!(wait.abs_diff(year) < TIMEOUT, "{wait:?}");
    }
    pass(QUIET).await;
    assert_eq!(worker.seen_of("year").len(), 0);
    worker.stop().await;
}

/// Opening a connection takes longest, and answers take longer than requests, so that the middle of a call is no
/// measure of when the other side read its clock.
const SLOW: Slowness = Slowness {
    connect: Duration::from_millis(150),
    request: Duration::from_millis(10),
    response: Duration::from_millis(60),
};

/// A message that was sent for later and one that is put back start no earlier than was asked for, also when the clock
/// of the process is wrong by an hour, from its first message on, and when it was never started.
// spec: D-2, D-37
pub async fn a_slow_network_starts_nothing_early(f: Fixture) {
    f.slow_down(SLOW).await;
    let slow = f.another_node().await;
    for clock in WrongClock::BY_AN_HOUR {
        let worker = slow
            .worker("office")
            .clock(Arc::new(WrongClock(clock.0)))
            .retry(Retry::intervals([Duration::ZERO]).attempts(5))
            .start(|seen| match (seen.text.as_str(), seen.attempt) {
                ("again", 1) => Act::RetryAfter(DELAY),
                _ => Act::Done,
            })
            .await;
        let sent_at = SystemClock.now();
        worker.send_after("later", DELAY).await;
        let later = worker.called("later", 1).await[0].clone();
        assert_not_early(sent_at, later.began_at);
        worker.send("again").await;
        let calls = worker.called("again", 2).await;
        assert_not_early(calls[0].began_at, calls[1].began_at);
        // One that only publishes has to ask the storage for its time first.
        let idle = slow.worker("office").clock(Arc::new(WrongClock(clock.0))).build(|_| Act::Done);
        let sent_at = SystemClock.now();
        idle.send_after("only published", DELAY).await;
        let published = worker.called("only published", 1).await[0].clone();
        assert_not_early(sent_at, published.began_at);
        worker.stop().await;
    }
}

fn assert_not_early(from: Timestamp, began_at: Timestamp) {
    let due_at = add(from, DELAY);
    assert!(began_at >= due_at, "due at {due_at}, begun at {began_at}");
}
