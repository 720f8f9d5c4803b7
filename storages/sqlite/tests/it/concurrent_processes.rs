//! Other processes on the same file: calls wait for their locks and notice their writes.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, SettleResult, WakeSource};
use punctual::clock::{add, within};
use punctual::model::Queue;
use punctual::{Clock as _, ErrorKind, Storage as _, SystemClock};

use crate::fixture::{Fixture, at, claim, offer, rows_of, settle, settled_down};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_another_process_has_the_lock_for_a_while() {
    let f = Arc::new(Fixture::new());
    let storage = Arc::new(f.open().await);
    let lock = f.lock();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (f, storage) = (Arc::clone(&f), Arc::clone(&storage));
            tokio::spawn(async move { storage.enqueue(f.entries(1), at(0)).await })
        })
        .collect();
    SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(700))).await;
    let source = WakeSource::Queue(Queue::default());
    assert_eq!(storage.next_due(&source).await.unwrap(), None, "who reads does not wait");
    assert!(tasks.iter().all(|task| !task.is_finished()));
    drop(lock);
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), [EnqueueResult::Stored]);
    }
}

#[tokio::test]
async fn an_exceeded_busy_timeout_is_reported_with_its_cause_and_the_storage_continues() {
    let f = Fixture::new();
    let timeout = Duration::from_millis(50);
    let storage = f.builder().busy_timeout(timeout).open().await.unwrap();
    let lock = f.lock();
    let error = storage.enqueue(f.entries(1), at(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("another process"), "{error}");
    assert!(error.to_string().contains("busy_timeout"), "{error}");
    drop(lock);
    assert_eq!(offer(&storage, f.message()).await, EnqueueResult::Stored);
    assert_eq!(rows_of(&f.other_connection(), "punctual_message"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_handles_share_the_work_of_one_file() {
    let f = Arc::new(Fixture::new());
    let handles = [f.open().await, f.open().await, f.open().await].map(Arc::new);
    for handle in &handles {
        handle.enqueue(f.entries(300), at(0)).await.unwrap();
    }
    let tasks = handles.clone().map(|handle| {
        let f = Arc::clone(&f);
        tokio::spawn(async move {
            let (owner, mut done) = (f.process(), 0);
            loop {
                let claimed = claim(&handle, owner, 20).await;
                if claimed.is_empty() {
                    return done;
                }
                let all = claimed.iter().map(|one| f.settlement(one, Verdict::Done)).collect();
                let settled = settle(&handle, all).await;
                assert!(settled.iter().all(|one| *one == SettleResult::Applied));
                done += settled.len();
            }
        })
    });
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    assert_eq!(done, 900);
    let other = f.other_connection();
    assert_eq!(
        (rows_of(&other, "punctual_message"), rows_of(&other, "punctual_history WHERE state = 2")),
        (0, 900)
    );
}

#[tokio::test]
async fn messages_of_another_process_are_notified() {
    let f = Fixture::new();
    let (one, two) = (f.open().await, f.open().await);
    let source = WakeSource::Queue(Queue::default());
    let mut wakeup = two.wakeup(&source);
    assert_eq!(two.next_due(&source).await.unwrap(), None);
    offer(&one, f.message()).await;
    let limit = add(SystemClock.now(), Duration::from_secs(5));
    assert!(within(&SystemClock, limit, wakeup.notified()).await.is_some());
    // Writes of other processes are noticed during own writes as well.
    for second in 1..6 {
        let mut wakeup = two.wakeup(&source);
        offer(&one, f.due(at(-second))).await;
        offer(&two, f.due(at(900))).await;
        let limit = add(SystemClock.now(), Duration::from_secs(5));
        assert!(within(&SystemClock, limit, wakeup.notified()).await.is_some());
    }
}

#[tokio::test]
async fn a_later_message_of_another_process_wakes_no_subscriber_that_knows_an_earlier_one() {
    let f = Fixture::new();
    let (one, two) = (f.open().await, f.open().await);
    let source = WakeSource::Queue(Queue::default());
    let mut wakeup = two.wakeup(&source);
    offer(&one, f.due(at(10))).await;
    let limit = add(SystemClock.now(), Duration::from_secs(5));
    assert!(within(&SystemClock, limit, wakeup.notified()).await.is_some());
    assert_eq!(two.next_due(&source).await.unwrap(), Some(at(10)));
    let mut jobs = two.wakeup(&WakeSource::Jobs);
    for _ in 0..3 {
        offer(&one, f.due(at(900))).await;
    }
    let limit = add(SystemClock.now(), Duration::from_millis(600));
    assert_eq!(within(&SystemClock, limit, wakeup.notified()).await, None);
    assert_eq!(within(&SystemClock, limit, jobs.notified()).await, None);
}

#[tokio::test]
async fn our_own_writes_are_not_taken_for_those_of_another_process() {
    let f = Fixture::new();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(600))).await;
    let mut jobs = storage.wakeup(&WakeSource::Jobs);
    for _ in 0..5 {
        offer(&storage, f.message()).await;
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(60))).await;
    }
    let limit = add(SystemClock.now(), Duration::from_millis(500));
    assert_eq!(
        within(&SystemClock, limit, jobs.notified()).await,
        None,
        "our own writes do not notify again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_read_of_another_process_blocks_nothing() {
    let f = Fixture::new();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    let other = f.other_connection();
    other.execute_batch("BEGIN; SELECT count(*) FROM punctual_message").unwrap();
    storage.enqueue(f.entries(5_000), at(0)).await.unwrap();
    settled_down().await;
    assert_eq!(rows_of(&other, "punctual_message"), 1, "it sees its own moment");
    storage.close().await.unwrap();
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(rows_of(&other, "punctual_message"), 5_001);
}
