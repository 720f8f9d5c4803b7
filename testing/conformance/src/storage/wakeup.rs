//! Wakeups, next due instants and storage time: what services need to sleep exactly long enough.
//!
//! A notification means that something *may* have become due earlier, so a storage may notify once too often,
//! as when the server sends its own notification back. It may not notify without end, and it may not omit a
//! notification.

use punctual::backend::storage::{Command, WakeSource};
use punctual::model::{JobCommand, JobRecord, Message, Priority, Retirement};
use punctual::{Clock, SystemClock};

use super::Fixture;
use super::fixture::{again, at, default_source, is_notified, pending_notifications, queue};

behaviours! {
    next_due_is_the_earliest_pending_instant_of_a_queue,
    next_due_of_the_jobs_follows_cursor_pause_and_retirement,
    leases_are_never_due,
    everything_that_makes_a_queue_due_earlier_notifies_it,
    cancelling_a_running_message_notifies_the_leases,
    everything_that_makes_a_job_due_earlier_notifies_the_jobs_and_firing_notifies_the_queue,
    a_notification_before_the_wait_reaches_every_subscriber,
    polling_without_a_result_does_not_notify,
    a_notification_reaches_other_nodes_where_the_storage_declares_it,
    changes_of_one_node_are_due_for_another_without_a_notification,
    the_time_of_a_storage_advances_and_is_the_same_for_every_node,
    next_due_of_several_sources_equals_that_of_each,
}

pub async fn next_due_is_the_earliest_pending_instant_of_a_queue(f: Fixture) {
    let next = async || f.storage.next_due(&default_source()).await.unwrap();
    assert_eq!(next().await, None);
    f.enqueue(f.due(at(40))).await;
    f.enqueue(Message { priority: Priority::LOWEST, ..f.due(at(20)) }).await;
    f.enqueue(Message { queue: queue("slow"), ..f.due(at(1)) }).await;
    assert_eq!(next().await, Some(at(20)));
    f.claim_one(at(30)).await;
    assert_eq!(next().await, Some(at(40)));
    f.enqueue(f.due(at(-5))).await;
    assert_eq!(next().await, Some(at(-5)), "in the past when there is something to do now");
}

pub async fn next_due_of_the_jobs_follows_cursor_pause_and_retirement(f: Fixture) {
    let next = async || f.storage.next_due(&WakeSource::Jobs).await.unwrap();
    assert_eq!(next().await, None);
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    f.declare(Fixture::job("later", Some(at(90)))).await;
    assert_eq!(next().await, Some(at(60)));
    let pause = JobCommand::Pause { by: String::new(), reason: String::new(), until: Some(at(75)) };
    f.storage.command_job(&job.job.name, pause, 1, at(1)).await.unwrap();
    assert_eq!(next().await, Some(at(75)));
    let retire = JobCommand::Retire { reason: Retirement::Removed };
    f.storage.command_job(&job.job.name, retire, 2, at(2)).await.unwrap();
    assert_eq!(next().await, Some(at(90)));
}

pub async fn leases_are_never_due(f: Fixture) {
    f.enqueue(f.message()).await;
    f.claim_one(at(0)).await;
    assert_eq!(f.storage.next_due(&WakeSource::Leases).await.unwrap(), None);
}

pub async fn everything_that_makes_a_queue_due_earlier_notifies_it(f: Fixture) {
    // Each step subscribes again, so that no step receives the notification of the one before.
    let listen = || f.storage.wakeup(&default_source());
    let mut wakeup = listen();
    let id = f.enqueue(f.due(at(100))).await;
    assert!(is_notified(&mut wakeup).await, "enqueue");
    let mut wakeup = listen();
    f.command(Command::Reschedule { id, due_at: at(10) }).await;
    assert!(is_notified(&mut wakeup).await, "reschedule");
    let claimed = f.claim_one(at(10)).await;
    let mut wakeup = listen();
    f.settle(&claimed, again(&claimed, at(20)), at(10)).await;
    assert!(is_notified(&mut wakeup).await, "settled to be due again");
    f.command(Command::Cancel(id)).await;
    let mut wakeup = listen();
    f.command(Command::Redrive { id, due_at: at(30) }).await;
    assert!(is_notified(&mut wakeup).await, "redrive");
}

pub async fn cancelling_a_running_message_notifies_the_leases(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    f.claim_one(at(0)).await;
    let mut leases = f.storage.wakeup(&WakeSource::Leases);
    f.command(Command::Cancel(id)).await;
    assert!(is_notified(&mut leases).await);
}

pub async fn everything_that_makes_a_job_due_earlier_notifies_the_jobs_and_firing_notifies_the_queue(
    f: Fixture,
) {
    let listen = || f.storage.wakeup(&WakeSource::Jobs);
    let mut jobs = listen();
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    assert!(is_notified(&mut jobs).await, "declare");
    let mut jobs = listen();
    let earlier = JobCommand::MoveCursor { cursor: Some(at(0)) };
    f.storage.command_job(&job.job.name, earlier, job.version, at(0)).await.unwrap();
    assert!(is_notified(&mut jobs).await, "command");
    let job = f.stored_job(&job.job.name).await;
    let mut source = f.storage.wakeup(&default_source());
    f.storage.fire(vec![f.firing(&job, at(0), at(60))], at(0)).await.unwrap();
    assert!(is_notified(&mut source).await, "fire");
    let sooner = JobRecord { cursor: Some(at(5)), ..f.stored_job(&job.job.name).await };
    let mut jobs = listen();
    f.storage.declare(sooner.clone(), Some(sooner.version), at(1)).await.unwrap();
    assert!(is_notified(&mut jobs).await, "declared to be due earlier");
}

pub async fn a_notification_before_the_wait_reaches_every_subscriber(f: Fixture) {
    let (mut one, mut two) =
        (f.storage.wakeup(&default_source()), f.storage.wakeup(&default_source()));
    f.enqueue(f.due(at(9))).await;
    f.enqueue(f.due(at(8))).await;
    assert!(is_notified(&mut one).await && is_notified(&mut two).await);
}

/// A storage that notified on each read would wake its reader, which would read again, without end.
pub async fn polling_without_a_result_does_not_notify(f: Fixture) {
    const POLLS: usize = 100;
    let (mut source, mut jobs) =
        (f.storage.wakeup(&default_source()), f.storage.wakeup(&WakeSource::Jobs));
    f.enqueue(f.due(at(9))).await;
    f.declare(Fixture::job("report", Some(at(60)))).await;
    assert!(is_notified(&mut source).await && is_notified(&mut jobs).await);
    let mut notifications = 0;
    for _ in 0..POLLS {
        assert_eq!(f.claim(f.process(), 9, at(0)).await, []);
        assert_eq!(f.reclaim(9, at(0)).await, []);
        assert_eq!(f.storage.due_jobs(9, at(0)).await.unwrap(), []);
        f.storage.next_due(&default_source()).await.unwrap();
        f.inspect.counts(at(0)).await.unwrap();
        notifications += pending_notifications(&mut source) + pending_notifications(&mut jobs);
    }
    assert!(notifications <= 4, "{notifications} notifications after {POLLS} polls");
}

pub async fn a_notification_reaches_other_nodes_where_the_storage_declares_it(f: Fixture) {
    if !f.traits.notifies_between_nodes {
        assert!(
            !f.storage.notifies_across_processes(),
            "the engine would poll less often and miss changes"
        );
        return changes_of_one_node_are_due_for_another_without_a_notification(f).await;
    }
    let other = f.another_node().await;
    let mut source = other.storage.wakeup(&default_source());
    let mut jobs = other.storage.wakeup(&WakeSource::Jobs);
    let mut leases = other.storage.wakeup(&WakeSource::Leases);
    let id = f.enqueue(f.message()).await;
    assert!(is_notified(&mut source).await, "enqueued on one node, notified on the other");
    f.declare(Fixture::job("report", Some(at(60)))).await;
    assert!(is_notified(&mut jobs).await, "declared on one node, notified on the other");
    assert_eq!(other.claim_one(at(0)).await.message.id, id);
    f.command(Command::Cancel(id)).await;
    assert!(
        is_notified(&mut leases).await,
        "cancelled on one node, the owner on the other is notified"
    );
}

/// A poll sees the changes of another node at once, also without a notification.
pub async fn changes_of_one_node_are_due_for_another_without_a_notification(f: Fixture) {
    let other = f.another_node().await;
    f.enqueue(f.due(at(5))).await;
    assert_eq!(other.storage.next_due(&default_source()).await.unwrap(), Some(at(5)));
    f.declare(Fixture::job("report", Some(at(60)))).await;
    assert_eq!(other.storage.next_due(&WakeSource::Jobs).await.unwrap(), Some(at(60)));
}

pub async fn the_time_of_a_storage_advances_and_is_the_same_for_every_node(f: Fixture) {
    let other = f.another_node().await;
    if f.traits.uses_test_clock {
        assert_eq!(f.storage.time().await.unwrap(), at(0));
        f.clock.set(at(-30));
        assert_eq!(f.storage.time().await.unwrap(), at(-30));
        assert_eq!(other.storage.time().await.unwrap(), at(-30));
        return;
    }
    let first = f.storage.time().await.unwrap();
    let second = other.storage.time().await.unwrap();
    let third = f.storage.time().await.unwrap();
    assert!(first <= second && second <= third, "{first}, {second}, {third}");
    // A server's clock may be wrong; a difference of a day indicates a wrong unit or time zone.
    let apart = third.duration_since(SystemClock.now()).abs();
    assert!(apart.as_hours() < 24, "{third} is {apart} away from ours");
}

pub async fn next_due_of_several_sources_equals_that_of_each(f: Fixture) {
    f.enqueue(f.due(at(40))).await;
    f.enqueue(Message { queue: queue("slow"), ..f.due(at(1)) }).await;
    f.declare(Fixture::job("report", Some(at(60)))).await;
    let slow = WakeSource::Queue(queue("slow"));
    let unknown = WakeSource::Queue(queue("unknown"));
    let sources =
        [WakeSource::Jobs, slow, WakeSource::Leases, unknown, default_source(), WakeSource::Jobs];
    let seen = f.storage.next_due_all(&sources).await.unwrap();
    assert_eq!(seen, [Some(at(60)), Some(at(1)), None, None, Some(at(40)), Some(at(60))]);
    assert_eq!(f.storage.next_due_all(&[]).await.unwrap(), []);
}
