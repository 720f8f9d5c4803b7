//! Next due, wakeups and time: how services sleep exactly long enough.
//!
//! A ring says that something *may* have become due earlier, so a storage may ring once too often, as
//! when its own news come back to it from a server. It may not ring for ever, and it may not be
//! silent.

use punctual::model::{JobCommand, JobRecord, Message, Priority, Retirement};
use punctual::storage::{Command, WakeSource};
use punctual::{Clock, SystemClock};

use super::Fixture;
use super::fixture::{again, at, default_line, queue, rings, rings_left};

behaviours! {
    next_due_is_the_earliest_pending_instant_of_a_line,
    next_due_of_the_jobs_follows_cursor_pause_and_retirement,
    leases_are_never_due,
    whatever_makes_a_queue_due_earlier_rings_its_bell,
    asking_a_running_message_to_stop_rings_for_the_leases,
    whatever_makes_a_job_due_earlier_rings_for_the_jobs_and_firing_rings_the_queue,
    a_ring_that_nobody_waited_for_is_heard_later_by_everybody,
    looking_for_work_in_vain_does_not_ring,
    a_ring_on_one_node_is_heard_on_another_where_the_storage_says_so,
    what_one_node_does_is_due_for_another_without_a_ring,
    the_time_of_a_storage_goes_on_and_is_the_same_for_every_node,
    a_look_at_several_lines_is_a_look_at_each,
}

pub async fn next_due_is_the_earliest_pending_instant_of_a_line(f: Fixture) {
    let next = async || f.storage.next_due(&default_line()).await.unwrap();
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

pub async fn whatever_makes_a_queue_due_earlier_rings_its_bell(f: Fixture) {
    // Each step listens anew, so that no step hears the ring of the one before.
    let listen = || f.storage.wakeup(&default_line());
    let mut bell = listen();
    let id = f.enqueue(f.due(at(100))).await;
    assert!(rings(&mut bell).await, "enqueue");
    let mut bell = listen();
    f.command(Command::Reschedule { id, due_at: at(10) }).await;
    assert!(rings(&mut bell).await, "reschedule");
    let claimed = f.claim_one(at(10)).await;
    let mut bell = listen();
    f.settle(&claimed, again(&claimed, at(20)), at(10)).await;
    assert!(rings(&mut bell).await, "settled to be due again");
    f.command(Command::Cancel(id)).await;
    let mut bell = listen();
    f.command(Command::Redrive { id, due_at: at(30) }).await;
    assert!(rings(&mut bell).await, "redrive");
}

pub async fn asking_a_running_message_to_stop_rings_for_the_leases(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    f.claim_one(at(0)).await;
    let mut leases = f.storage.wakeup(&WakeSource::Leases);
    f.command(Command::Cancel(id)).await;
    assert!(rings(&mut leases).await);
}

pub async fn whatever_makes_a_job_due_earlier_rings_for_the_jobs_and_firing_rings_the_queue(
    f: Fixture,
) {
    let listen = || f.storage.wakeup(&WakeSource::Jobs);
    let mut jobs = listen();
    let job = f.declare(Fixture::job("report", Some(at(60)))).await;
    assert!(rings(&mut jobs).await, "declare");
    let mut jobs = listen();
    let earlier = JobCommand::MoveCursor { cursor: Some(at(0)) };
    f.storage.command_job(&job.job.name, earlier, job.version, at(0)).await.unwrap();
    assert!(rings(&mut jobs).await, "steer");
    let job = f.stored_job(&job.job.name).await;
    let mut line = f.storage.wakeup(&default_line());
    f.storage.fire(vec![f.firing(&job, at(0), at(60))], at(0)).await.unwrap();
    assert!(rings(&mut line).await, "fire");
    let sooner = JobRecord { cursor: Some(at(5)), ..f.stored_job(&job.job.name).await };
    let mut jobs = listen();
    f.storage.declare(sooner.clone(), Some(sooner.version), at(1)).await.unwrap();
    assert!(rings(&mut jobs).await, "declared to be due earlier");
}

pub async fn a_ring_that_nobody_waited_for_is_heard_later_by_everybody(f: Fixture) {
    let (mut one, mut two) = (f.storage.wakeup(&default_line()), f.storage.wakeup(&default_line()));
    f.enqueue(f.due(at(9))).await;
    f.enqueue(f.due(at(8))).await;
    assert!(rings(&mut one).await && rings(&mut two).await);
}

/// A storage that rang whenever somebody looks would wake who looks, who would look again, for ever.
pub async fn looking_for_work_in_vain_does_not_ring(f: Fixture) {
    const LOOKS: usize = 100;
    let (mut line, mut jobs) =
        (f.storage.wakeup(&default_line()), f.storage.wakeup(&WakeSource::Jobs));
    f.enqueue(f.due(at(9))).await;
    f.declare(Fixture::job("report", Some(at(60)))).await;
    assert!(rings(&mut line).await && rings(&mut jobs).await);
    let mut heard = 0;
    for _ in 0..LOOKS {
        assert_eq!(f.claim(f.process(), 9, at(0)).await, []);
        assert_eq!(f.reclaim(9, at(0)).await, []);
        assert_eq!(f.storage.due_jobs(9, at(0)).await.unwrap(), []);
        f.storage.next_due(&default_line()).await.unwrap();
        f.inspect.counts(at(0)).await.unwrap();
        heard += rings_left(&mut line) + rings_left(&mut jobs);
    }
    assert!(heard <= 4, "{LOOKS} looks rang {heard} times");
}

pub async fn a_ring_on_one_node_is_heard_on_another_where_the_storage_says_so(f: Fixture) {
    if !f.traits.rings_between_nodes {
        assert!(
            !f.storage.notifies_across_processes(),
            "the engine would look less often, and in vain"
        );
        return what_one_node_does_is_due_for_another_without_a_ring(f).await;
    }
    let other = f.another_node().await;
    let mut line = other.storage.wakeup(&default_line());
    let mut jobs = other.storage.wakeup(&WakeSource::Jobs);
    let mut leases = other.storage.wakeup(&WakeSource::Leases);
    let id = f.enqueue(f.message()).await;
    assert!(rings(&mut line).await, "enqueued on one, heard on the other");
    f.declare(Fixture::job("report", Some(at(60)))).await;
    assert!(rings(&mut jobs).await, "declared on one, heard on the other");
    assert_eq!(other.claim_one(at(0)).await.message.id, id);
    f.command(Command::Cancel(id)).await;
    assert!(rings(&mut leases).await, "cancelled on one, heard by the owner on the other");
}

/// Polling is the safety net: whoever looks sees what another node did, at once.
pub async fn what_one_node_does_is_due_for_another_without_a_ring(f: Fixture) {
    let other = f.another_node().await;
    f.enqueue(f.due(at(5))).await;
    assert_eq!(other.storage.next_due(&default_line()).await.unwrap(), Some(at(5)));
    f.declare(Fixture::job("report", Some(at(60)))).await;
    assert_eq!(other.storage.next_due(&WakeSource::Jobs).await.unwrap(), Some(at(60)));
}

pub async fn the_time_of_a_storage_goes_on_and_is_the_same_for_every_node(f: Fixture) {
    let other = f.another_node().await;
    if f.traits.follows_the_clock {
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
    // A server's clock may be wrong, but one that is wrong by a day is a wrong unit or zone.
    let apart = third.duration_since(SystemClock.now()).abs();
    assert!(apart.as_hours() < 24, "{third} is {apart} away from ours");
}

pub async fn a_look_at_several_lines_is_a_look_at_each(f: Fixture) {
    f.enqueue(f.due(at(40))).await;
    f.enqueue(Message { queue: queue("slow"), ..f.due(at(1)) }).await;
    f.declare(Fixture::job("report", Some(at(60)))).await;
    let slow = WakeSource::Queue(queue("slow"));
    let unheard = WakeSource::Queue(queue("unheard of"));
    let lines =
        [WakeSource::Jobs, slow, WakeSource::Leases, unheard, default_line(), WakeSource::Jobs];
    let seen = f.storage.next_due_all(&lines).await.unwrap();
    assert_eq!(seen, [Some(at(60)), Some(at(1)), None, None, Some(at(40)), Some(at(60))]);
    assert_eq!(f.storage.next_due_all(&[]).await.unwrap(), []);
}
