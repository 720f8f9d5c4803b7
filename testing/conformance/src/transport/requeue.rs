//! Requeue: a requeued message is redelivered to its group, with one more attempt, and not before its delay. The
//! result is the same whether the broker or the storage delays it.

use std::time::Duration;

use punctual::backend::transport::AttemptCount;
use punctual::clock::{add, between};
use punctual::{Clock, Retry, SystemClock};

use super::Fixture;
use super::fixture::{Action, DELAY, QUIET, TIMEOUT, ack, at_least, id_of, requeue, sleep};

behaviours! {
    a_requeue_without_delay_is_immediate,
    a_delay_within_reach_is_kept_by_the_broker,
    a_requeued_message_is_delivered_once_and_not_before_its_delay,
    a_requeued_message_is_unchanged,
    a_requeue_reaches_only_its_group,
    each_time_counts_one_more_attempt,
    a_snooze_spends_no_attempt,
    concurrent_requeues_are_delivered_once,
    other_messages_flow_meanwhile,
    a_requeued_message_survives_the_end_of_its_node,
    a_delay_of_a_year_is_kept_and_not_lost,
}

// Trap 13: without a delay.
// spec: D-15
pub async fn a_requeue_without_delay_is_immediate(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let mut attempts = Vec::new();
    for _ in 0..3 {
        let delivery = office.next().await;
        assert_eq!(id_of(&delivery), id);
        attempts.push(delivery.attempt);
        requeue(delivery, Duration::ZERO).await;
    }
    let last = office.next().await;
    attempts.push(last.attempt);
    match f.capabilities.attempts {
        AttemptCount::Counted => assert_eq!(attempts, [1, 2, 3, 4]),
        AttemptCount::RedeliveredFlag => {
            assert_eq!(attempts[0], 1);
            assert!(attempts[1..].iter().all(|attempt| *attempt >= 2), "{attempts:?}");
        }
        AttemptCount::None => assert!(attempts.iter().all(|attempt| *attempt >= 1)),
    }
    ack(last).await;
    office.expect_nothing().await;
}

// spec: D-21, D-22
pub async fn a_delay_within_reach_is_kept_by_the_broker(f: Fixture) {
    if !f.capabilities.requeue_delay.supports(DELAY) {
        return f.refused("it declares that it cannot delay a requeue; the engine does");
    }
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let delivery = office.next().await;
    let again_at = add(SystemClock.now(), at_least(DELAY));
    requeue(delivery, DELAY).await;
    let second = office.next().await;
    assert!(SystemClock.now() >= again_at, "early by {:?}", between(SystemClock.now(), again_at));
    assert_eq!(id_of(&second), id);
    ack(second).await;
    office.expect_nothing().await;
}

// Trap 12: the time, one copy, and the original settled once.
// spec: D-1, D-2, D-3, D-4, D-9, D-16, D-23, D-25, D-36, D-37
pub async fn a_requeued_message_is_delivered_once_and_not_before_its_delay(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|call| if call.attempt == 1 { Action::RetryAfter(DELAY) } else { Action::Done })
        .await;
    let id = worker.send("hello").await;
    let calls = worker.wait_for_calls("hello", 2).await;
    assert_eq!((calls[0].attempt, calls[1].attempt), (1, 2));
    assert_eq!((calls[0].id, calls[1].id), (id, id));
    let waited = between(calls[0].at, calls[1].at);
    assert!(waited >= at_least(DELAY), "it arrived after {waited:?}");
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 2, "one copy, and the original settled");
    worker.stop().await;
    f.another_node().await.subscribe("office").await.expect_nothing().await;
}

// Trap 12: headers and content.
// spec: D-18, D-25
pub async fn a_requeued_message_is_unchanged(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|call| if call.attempt == 1 { Action::RetryAfter(DELAY) } else { Action::Done })
        .await;
    let mut message = f.message("zażółć");
    message.headers.insert("tenant", "gęślą").unwrap();
    message.headers.insert("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f0-01").unwrap();
    f.publish(vec![message.clone()]).await;
    let calls = worker.wait_for_calls("zażółć", 2).await;
    assert_eq!(calls[1].id, message.id);
    assert_eq!(calls[0].headers, calls[1].headers, "no header is added or lost");
    assert_eq!(calls[1].headers.len(), 2, "{:?}", calls[1].headers);
    worker.stop().await;
}

// Trap 12: a requeue goes to the one queue, not to the topic (Brighter issues 1755 and 104).
pub async fn a_requeue_reaches_only_its_group(f: Fixture) {
    if !f.capabilities.fan_out {
        return f.refused("it declares one group per topic");
    }
    let again = |call: &super::fixture::HandlerCall| match call.attempt {
        1 => Action::RetryAfter(DELAY),
        2 => Action::RetryAfter(Duration::ZERO),
        _ => Action::Done,
    };
    let builder = f.worker("office").retry(Retry::intervals([Duration::ZERO]).attempts(9));
    let office = builder.start(again).await;
    let archive = f.another_node().await.worker("archive").start(|_| Action::Done).await;
    office.send("hello").await;
    let calls = office.wait_for_calls("hello", 3).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    sleep(QUIET).await;
    assert_eq!(archive.calls().len(), 1, "{:?}", archive.calls());
    assert_eq!(office.calls().len(), 3);
    office.stop().await;
    archive.stop().await;
}

// Trap 12: the count survives every requeue (Brighter issue 4341).
// spec: D-26
pub async fn each_time_counts_one_more_attempt(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(9))
        .start(|call| match call.attempt {
            1 | 3 => Action::RetryAfter(Duration::from_secs(1)),
            2 | 4 => Action::RetryAfter(Duration::ZERO),
            _ => Action::Done,
        })
        .await;
    worker.send("hello").await;
    let calls = worker.wait_for_calls("hello", 5).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    worker.stop().await;
}

pub async fn a_snooze_spends_no_attempt(f: Fixture) {
    let calls = std::sync::atomic::AtomicU32::new(0);
    let worker = f
        .worker("office")
        .start(move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Action::Snooze(Duration::from_secs(1)),
            1 => Action::Snooze(Duration::ZERO),
            _ => Action::Done,
        })
        .await;
    worker.send("hello").await;
    let calls = worker.wait_for_calls("hello", 3).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 1, 1]);
    worker.stop().await;
}

// spec: D-17, D-24
pub async fn concurrent_requeues_are_delivered_once(f: Fixture) {
    let worker = f
        .worker("office")
        .concurrency(16)
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|call| if call.attempt == 1 { Action::RetryAfter(DELAY) } else { Action::Done })
        .await;
    f.publish(f.messages(40)).await;
    worker.wait_until("two calls of each", |calls| calls.len() >= 80).await;
    sleep(QUIET).await;
    for number in 0..40 {
        let calls = worker.calls_of(&number.to_string());
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert!(between(calls[0].at, calls[1].at) >= at_least(DELAY), "{calls:?}");
    }
    worker.stop().await;
}

// Brighter 3309: nothing sleeps in the receive loop.
// spec: D-1
pub async fn other_messages_flow_meanwhile(f: Fixture) {
    let worker = f
        .worker("office")
        .concurrency(1)
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|call| match (call.text.as_str(), call.attempt) {
            // Longer than this test may take: a worker that waits for it handles nothing else.
            ("slow", 1) => Action::RetryAfter(Duration::from_secs(600)),
            _ => Action::Done,
        })
        .await;
    worker.send("slow").await;
    worker.wait_for_calls("slow", 1).await;
    for number in 0..10 {
        worker.send(&format!("other {number}")).await;
    }
    worker.wait_until("the others", |calls| calls.len() >= 11).await;
    assert_eq!(worker.calls_of("slow").len(), 1);
    worker.stop().await;
}

// Trap 12: stored first, acknowledged then.
pub async fn a_requeued_message_survives_the_end_of_its_node(f: Fixture) {
    let builder = f.worker("office").retry(Retry::intervals([Duration::ZERO]).attempts(5));
    let worker = builder.start(|_| Action::RetryAfter(DELAY * 2)).await;
    let id = worker.send("hello").await;
    let first = worker.wait_for_calls("hello", 1).await[0].at;
    worker.stop().await;
    let builder = f
        .another_node()
        .await
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5));
    let worker = builder.start(|_| Action::Done).await;
    let call = worker.wait_for_calls("hello", 1).await[0].clone();
    assert_eq!((call.id, call.attempt), (id, 2));
    assert!(between(first, call.at) >= at_least(DELAY * 2));
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 1, "one copy");
    worker.stop().await;
}

pub async fn a_delay_of_a_year_is_kept_and_not_lost(f: Fixture) {
    let year = Duration::from_hours(365 * 24);
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(
            move |call| if call.text == "year" { Action::RetryAfter(year) } else { Action::Done },
        )
        .await;
    let id = worker.send("year").await;
    worker.wait_for_calls("year", 1).await;
    worker.send("hello").await;
    worker.wait_for_calls("hello", 1).await;
    // On a broker only waiting for the year could show that it still has the message.
    if f.is_stored() || !f.capabilities.requeue_delay.supports(year) {
        let wait = between(SystemClock.now(), f.held_message(id).await.due_at);
        assert!(wait.abs_diff(year) < TIMEOUT, "{wait:?}");
    }
    sleep(QUIET).await;
    assert_eq!(worker.calls_of("year").len(), 1);
    worker.stop().await;
}
