//! Requeue: a message that is put back comes again, to its own group, with one more attempt, and not
//! before its time. The result is the same whether the broker waits or the storage does.

use std::time::Duration;

use punctual::clock::{add, between};
use punctual::transport::AttemptCount;
use punctual::{Clock, Retry, SystemClock};

use super::Fixture;
use super::fixture::{Act, DELAY, QUIET, TIMEOUT, ack, id_of, nearly, pass, requeue};

behaviours! {
    without_a_delay_it_comes_back_at_once,
    a_delay_within_reach_is_kept_by_the_broker,
    it_is_not_seen_before_its_delay_and_once_after_it,
    it_comes_back_as_it_was,
    it_goes_to_its_own_group_alone,
    each_time_counts_one_more_attempt,
    a_snooze_spends_no_attempt,
    many_at_once_come_back_once_each,
    other_messages_flow_meanwhile,
    it_survives_the_end_of_the_node,
    a_delay_of_a_year_is_kept_and_not_lost,
}

// Trap 13: without a delay.
// spec: D-15
pub async fn without_a_delay_it_comes_back_at_once(f: Fixture) {
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
    office.is_quiet().await;
}

// spec: D-21, D-22
pub async fn a_delay_within_reach_is_kept_by_the_broker(f: Fixture) {
    if !f.capabilities.requeue_delay.reaches(DELAY) {
        return f.refused("it declares that it cannot delay what is put back; the engine does");
    }
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let delivery = office.next().await;
    let again_at = add(SystemClock.now(), nearly(DELAY));
    requeue(delivery, DELAY).await;
    let second = office.next().await;
    assert!(SystemClock.now() >= again_at, "early by {:?}", between(SystemClock.now(), again_at));
    assert_eq!(id_of(&second), id);
    ack(second).await;
    office.is_quiet().await;
}

// Trap 12: the time, one copy, and the original settled once.
// spec: D-1, D-2, D-3, D-4, D-9, D-16, D-23, D-25, D-36, D-37
pub async fn it_is_not_seen_before_its_delay_and_once_after_it(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|seen| if seen.attempt == 1 { Act::RetryAfter(DELAY) } else { Act::Done })
        .await;
    let id = worker.send("hello").await;
    let calls = worker.called("hello", 2).await;
    assert_eq!((calls[0].attempt, calls[1].attempt), (1, 2));
    assert_eq!((calls[0].id, calls[1].id), (id, id));
    let waited = between(calls[0].at, calls[1].at);
    assert!(waited >= nearly(DELAY), "it came after {waited:?}");
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 2, "one copy, and the original settled");
    worker.stop().await;
    f.another_node().await.subscribe("office").await.is_quiet().await;
}

// Trap 12: headers and content.
// spec: D-18, D-25
pub async fn it_comes_back_as_it_was(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|seen| if seen.attempt == 1 { Act::RetryAfter(DELAY) } else { Act::Done })
        .await;
    let mut message = f.message("zażółć");
    message.headers.insert("tenant", "gęślą").unwrap();
    message.headers.insert("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f0-01").unwrap();
    f.publish(vec![message.clone()]).await;
    let calls = worker.called("zażółć", 2).await;
    assert_eq!(calls[1].id, message.id);
    assert_eq!(calls[0].headers, calls[1].headers, "no header is added or lost on the way");
    assert_eq!(calls[1].headers.len(), 2, "{:?}", calls[1].headers);
    worker.stop().await;
}

// Trap 12: a requeue goes to the one queue, not to the topic (Brighter issues 1755 and 104).
pub async fn it_goes_to_its_own_group_alone(f: Fixture) {
    if !f.capabilities.fan_out {
        return f.refused("it declares one group per topic");
    }
    let again = |seen: &super::fixture::Seen| match seen.attempt {
        1 => Act::RetryAfter(DELAY),
        2 => Act::RetryAfter(Duration::ZERO),
        _ => Act::Done,
    };
    let plan = f.worker("office").retry(Retry::intervals([Duration::ZERO]).attempts(9));
    let office = plan.start(again).await;
    let archive = f.another_node().await.worker("archive").start(|_| Act::Done).await;
    office.send("hello").await;
    let calls = office.called("hello", 3).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    pass(QUIET).await;
    assert_eq!(archive.seen().len(), 1, "{:?}", archive.seen());
    assert_eq!(office.seen().len(), 3);
    office.stop().await;
    archive.stop().await;
}

// Trap 12: the count survives every requeue (Brighter issue 4341).
// spec: D-26
pub async fn each_time_counts_one_more_attempt(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(9))
        .start(|seen| match seen.attempt {
            1 | 3 => Act::RetryAfter(Duration::from_secs(1)),
            2 | 4 => Act::RetryAfter(Duration::ZERO),
            _ => Act::Done,
        })
        .await;
    worker.send("hello").await;
    let calls = worker.called("hello", 5).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    worker.stop().await;
}

pub async fn a_snooze_spends_no_attempt(f: Fixture) {
    let calls = std::sync::atomic::AtomicU32::new(0);
    let worker = f
        .worker("office")
        .start(move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Act::Snooze(Duration::from_secs(1)),
            1 => Act::Snooze(Duration::ZERO),
            _ => Act::Done,
        })
        .await;
    worker.send("hello").await;
    let calls = worker.called("hello", 3).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 1, 1]);
    worker.stop().await;
}

// spec: D-17, D-24
pub async fn many_at_once_come_back_once_each(f: Fixture) {
    let worker = f
        .worker("office")
        .concurrency(16)
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|seen| if seen.attempt == 1 { Act::RetryAfter(DELAY) } else { Act::Done })
        .await;
    f.publish(f.messages(40)).await;
    worker.until("two calls of each", |seen| seen.len() >= 80).await;
    pass(QUIET).await;
    for number in 0..40 {
        let calls = worker.seen_of(&number.to_string());
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert!(between(calls[0].at, calls[1].at) >= nearly(DELAY), "{calls:?}");
    }
    worker.stop().await;
}

// Brighter 3309: nobody sleeps in the receive loop.
// spec: D-1
pub async fn other_messages_flow_meanwhile(f: Fixture) {
    let worker = f
        .worker("office")
        .concurrency(1)
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(|seen| match (seen.text.as_str(), seen.attempt) {
            // Longer than this test may take: a worker that waits for it handles nothing else.
            ("slow", 1) => Act::RetryAfter(Duration::from_secs(600)),
            _ => Act::Done,
        })
        .await;
    worker.send("slow").await;
    worker.called("slow", 1).await;
    for number in 0..10 {
        worker.send(&format!("other {number}")).await;
    }
    worker.until("the others", |seen| seen.len() >= 11).await;
    assert_eq!(worker.seen_of("slow").len(), 1);
    worker.stop().await;
}

// Trap 12: stored first, acknowledged then.
pub async fn it_survives_the_end_of_the_node(f: Fixture) {
    let plan = f.worker("office").retry(Retry::intervals([Duration::ZERO]).attempts(5));
    let worker = plan.start(|_| Act::RetryAfter(DELAY * 2)).await;
    let id = worker.send("hello").await;
    let first = worker.called("hello", 1).await[0].at;
    worker.stop().await;
    let plan = f
        .another_node()
        .await
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5));
    let worker = plan.start(|_| Act::Done).await;
    let call = worker.called("hello", 1).await[0].clone();
    assert_eq!((call.id, call.attempt), (id, 2));
    assert!(between(first, call.at) >= nearly(DELAY * 2));
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 1, "one copy");
    worker.stop().await;
}

pub async fn a_delay_of_a_year_is_kept_and_not_lost(f: Fixture) {
    let year = Duration::from_hours(365 * 24);
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]).attempts(5))
        .start(move |seen| if seen.text == "year" { Act::RetryAfter(year) } else { Act::Done })
        .await;
    let id = worker.send("year").await;
    worker.called("year", 1).await;
    worker.send("hello").await;
    worker.called("hello", 1).await;
    // Where the broker keeps it, only time could show that it still does.
    if f.is_stored() || !f.capabilities.requeue_delay.reaches(year) {
        let wait = between(SystemClock.now(), f.kept(id).await.due_at);
        assert!(wait.abs_diff(year) < TIMEOUT, "{wait:?}");
    }
    pass(QUIET).await;
    assert_eq!(worker.seen_of("year").len(), 1);
    worker.stop().await;
}
