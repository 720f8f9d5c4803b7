//! Next due, wakeups and time: how services sleep exactly long enough.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use punctual::model::{JobRecord, Message, Queue, Steer};
use punctual::policy::Verdict;
use punctual::storage::{Command, Line, Wakeup};

use super::fixture::{Fixture, again, at, queue};

fn default_line() -> Line {
    Line::Queue(Queue::default())
}

/// Whether it rang since it was last asked.
fn has_rung(wakeup: &mut Wakeup) -> bool {
    let rung = pin!(wakeup.rung());
    rung.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[tokio::test]
async fn next_due_is_the_earliest_pending_instant_of_a_line() {
    let f = Fixture::new();
    let next = async || f.storage.next_due(&default_line()).await.unwrap();
    assert_eq!(next().await, None);
    f.enqueue(f.due(at(40))).await;
    f.enqueue(Message { priority: punctual::model::Priority::LOWEST, ..f.due(at(20)) }).await;
    f.enqueue(Message { queue: queue("slow"), ..f.due(at(1)) }).await;
    assert_eq!(next().await, Some(at(20)));
    f.claim_one(at(30)).await;
    assert_eq!(next().await, Some(at(40)));
    f.enqueue(f.due(at(-5))).await;
    assert_eq!(next().await, Some(at(-5)), "in the past when there is something to do now");
}

#[tokio::test]
async fn next_due_of_the_jobs_follows_cursor_pause_and_retirement() {
    let f = Fixture::new();
    let next = async || f.storage.next_due(&Line::Jobs).await.unwrap();
    assert_eq!(next().await, None);
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    f.declare(Fixture::job("later", Some(at(90)))).await;
    assert_eq!(next().await, Some(at(60)));
    let pause = Steer::Pause { by: String::new(), reason: String::new(), until: Some(at(75)) };
    f.storage.steer(&job.job.name, pause, 1, at(1)).await.unwrap();
    assert_eq!(next().await, Some(at(75)));
    let retire = Steer::Retire { reason: punctual::model::Retirement::Removed };
    f.storage.steer(&job.job.name, retire, 2, at(2)).await.unwrap();
    assert_eq!(next().await, Some(at(90)));
}

#[tokio::test]
async fn whatever_makes_a_queue_due_earlier_rings_its_bell() {
    let f = Fixture::new();
    let mut bell = f.storage.wakeup(&default_line());
    let mut leases = f.storage.wakeup(&Line::Leases);
    assert!(!has_rung(&mut bell));
    let id = f.enqueue(f.due(at(100))).await;
    assert!(has_rung(&mut bell), "enqueue");
    f.command(Command::Reschedule { id, due_at: at(10) }).await;
    assert!(has_rung(&mut bell), "reschedule");
    let claimed = f.claim_one(at(10)).await;
    assert!(!has_rung(&mut bell), "a claim makes nothing due");
    f.settle(&claimed, again(&claimed, at(20)), at(10)).await;
    assert!(has_rung(&mut bell), "settled to be due again");
    let claimed = f.claim_one(at(20)).await;
    f.command(Command::Cancel(id)).await;
    assert!(has_rung(&mut leases), "cancel of a running one");
    assert!(!has_rung(&mut bell), "which makes nothing due");
    f.settle(&claimed, Verdict::Cancelled, at(21)).await;
    assert!(!has_rung(&mut bell));
    f.command(Command::Redrive { id, due_at: at(30) }).await;
    assert!(has_rung(&mut bell), "redrive");
    f.enqueue(Message { queue: queue("slow"), ..f.message() }).await;
    assert!(!has_rung(&mut bell), "another queue");
}

#[tokio::test]
async fn a_ring_that_nobody_waited_for_is_heard_later_and_once() {
    let f = Fixture::new();
    let (mut one, mut two) = (f.storage.wakeup(&default_line()), f.storage.wakeup(&default_line()));
    f.enqueue(f.due(at(9))).await;
    f.enqueue(f.due(at(8))).await;
    assert!(has_rung(&mut one) && has_rung(&mut two));
    assert!(!has_rung(&mut one) && !has_rung(&mut two));
}

#[tokio::test]
async fn the_jobs_ring_when_one_becomes_due_earlier_and_firing_rings_the_queue() {
    let f = Fixture::new();
    let mut jobs = f.storage.wakeup(&Line::Jobs);
    let mut line = f.storage.wakeup(&default_line());
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    assert!(has_rung(&mut jobs), "declare");
    let earlier = Steer::MoveCursor { cursor: Some(at(0)) };
    f.storage.steer(&job.job.name, earlier, job.version, at(0)).await.unwrap();
    assert!(has_rung(&mut jobs), "steer");
    let job = f.stored_job(&job.job.name).await;
    assert!(!has_rung(&mut line));
    f.storage.fire(vec![f.firing(&job, at(0), at(60))], at(0)).await.unwrap();
    assert!(has_rung(&mut line), "fire");
    let sooner = JobRecord { cursor: Some(at(5)), ..f.stored_job(&job.job.name).await };
    f.storage.declare(sooner.clone(), Some(sooner.version), at(1)).await.unwrap();
    assert!(has_rung(&mut jobs), "declared to be due earlier");
}

#[tokio::test]
async fn the_time_of_a_storage_is_that_of_its_clock() {
    let f = Fixture::new();
    assert_eq!(f.storage.time().await.unwrap(), at(0));
    f.clock.set(at(-30));
    assert_eq!(f.storage.time().await.unwrap(), at(-30));
}
