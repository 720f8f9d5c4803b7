//! Exclusive messages and paused jobs: due messages that wait while their job runs or is paused.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Claim, ClaimedMessage, Command, JobCommandResult, SettleResult};
use punctual::model::{JobCommand, JobName, Message, MessageId, MessageState, Source};

use super::Fixture;
use super::fixture::{again, at, dead, default_source, ids_of, is_notified, queue, together};

behaviours! {
    an_exclusive_message_waits_while_its_job_runs_and_keeps_its_place,
    the_end_of_a_run_makes_waiting_messages_due,
    a_message_that_waits_can_be_cancelled_moved_and_counted,
    scheduled_messages_of_a_paused_job_wait_until_it_is_resumed_and_a_triggered_one_does_not,
    every_ending_of_a_run_lets_the_next_one_start_and_notifies,
    a_run_that_was_taken_over_is_still_running,
    a_message_that_is_not_exclusive_or_of_no_job_does_not_wait,
    a_run_in_one_queue_keeps_an_exclusive_one_in_another_waiting,
    many_waiting_messages_do_not_hide_those_behind_them,
    waiting_messages_are_not_due_but_late,
    many_nodes_never_run_two_exclusive_messages_of_a_job_at_once,
}

fn exclusive(message: Message) -> Message {
    Message { exclusive: true, ..message }
}

/// Declares a job and pauses it; returns its name and version.
async fn paused(f: &Fixture, name: &str) -> (JobName, u64) {
    let job = f.declare(Fixture::job(name, Some(at(900)))).await;
    let pause = JobCommand::Pause { by: "ops".to_owned(), reason: "audit".to_owned(), until: None };
    let result = f.storage.command_job(&job.job.name, pause, job.version, at(1)).await.unwrap();
    let JobCommandResult::Applied(paused) = result else { panic!("{result:?}") };
    (job.job.name, paused.version)
}

pub async fn an_exclusive_message_waits_while_its_job_runs_and_keeps_its_place(f: Fixture) {
    let first = f.enqueue(exclusive(f.run_of("report", at(1)))).await;
    let second = f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    let third = f.enqueue(exclusive(f.run_of("report", at(3)))).await;
    let other = f.enqueue(exclusive(f.run_of("billing", at(1)))).await;
    let claimed = f.claim(f.process(), 9, at(5)).await;
    assert_eq!(ids_of(&claimed), [first, other]);
    assert_eq!(
        f.storage.next_due(&default_source()).await.unwrap(),
        None,
        "waiting messages are not reported as due"
    );
    assert!(f.claim(f.process(), 9, at(6)).await.is_empty());
    f.settle(&claimed[0], Verdict::Done, at(7)).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(7)).await), [second]);
    assert_eq!(f.state(third).await, Some(MessageState::Pending));
}

pub async fn the_end_of_a_run_makes_waiting_messages_due(f: Fixture) {
    f.enqueue(f.run_of("report", at(1))).await;
    let running = f.claim_one(at(1)).await;
    f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    assert!(f.claim(f.process(), 9, at(2)).await.is_empty());
    let before = f.storage.next_due(&default_source()).await.unwrap();
    f.settle(&running, Verdict::Cancelled, at(3)).await;
    assert_eq!((before, f.storage.next_due(&default_source()).await.unwrap()), (None, Some(at(0))));
}

pub async fn a_message_that_waits_can_be_cancelled_moved_and_counted(f: Fixture) {
    f.enqueue(f.run_of("report", at(1))).await;
    let running = f.claim_one(at(1)).await;
    let waiting = f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    let moved = f.enqueue(exclusive(f.run_of("report", at(3)))).await;
    assert!(f.claim(f.process(), 9, at(3)).await.is_empty());
    assert_eq!(f.inspect.counts(at(3)).await.unwrap().total(MessageState::Pending), 2);
    f.command(Command::Cancel(waiting)).await;
    f.command(Command::Reschedule { id: moved, due_at: at(50) }).await;
    assert_eq!(f.inspect.counts(at(3)).await.unwrap().oldest_due, None);
    f.settle(&running, Verdict::Done, at(4)).await;
    assert!(f.claim(f.process(), 9, at(49)).await.is_empty());
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(50)).await), [moved]);
    assert_eq!(f.state(waiting).await, Some(MessageState::Cancelled));
}

pub async fn scheduled_messages_of_a_paused_job_wait_until_it_is_resumed_and_a_triggered_one_does_not(
    f: Fixture,
) {
    let (name, version) = paused(&f, "report").await;
    let scheduled = f.enqueue(f.run_of("report", at(1))).await;
    let manual = f.enqueue(Message { source: Source::Manual, ..f.run_of("report", at(2)) }).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(5)).await), [manual]);
    let resume = JobCommand::Resume { cursor: Some(at(900)) };
    f.storage.command_job(&name, resume, version, at(6)).await.unwrap();
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(6)).await), [scheduled]);
}

pub async fn every_ending_of_a_run_lets_the_next_one_start_and_notifies(f: Fixture) {
    f.enqueue(f.run_of("report", at(0))).await;
    let mut running = f.claim_one(at(0)).await;
    for (second, verdict) in (1..).zip([Verdict::Done, Verdict::Cancelled, dead()]) {
        let next = f.enqueue(exclusive(f.run_of("report", at(second)))).await;
        assert_eq!(f.claim(f.process(), 9, at(second)).await, []);
        let mut wakeup = f.storage.wakeup(&default_source());
        assert_eq!(f.settle(&running, verdict, at(second)).await, SettleResult::Applied);
        assert!(is_notified(&mut wakeup).await);
        running = f.claim_one(at(second)).await;
        assert_eq!(running.message.id, next);
    }
    let next = f.enqueue(exclusive(f.run_of("report", at(9)))).await;
    assert_eq!(f.settle(&running, again(&running, at(50)), at(9)).await, SettleResult::Applied);
    assert_eq!(
        ids_of(&f.claim(f.process(), 9, at(9)).await),
        [next],
        "a message that waits for a retry is not running"
    );
}

pub async fn a_run_that_was_taken_over_is_still_running(f: Fixture) {
    f.enqueue(f.run_of("report", at(1))).await;
    f.claim_one(at(1)).await;
    let waiting = f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    let taken = f.reclaim(9, at(100)).await.remove(0);
    assert_eq!(f.claim(f.process(), 9, at(100)).await, []);
    f.settle(&taken, Verdict::Done, at(101)).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(101)).await), [waiting]);
}

pub async fn a_message_that_is_not_exclusive_or_of_no_job_does_not_wait(f: Fixture) {
    let first = f.enqueue(exclusive(f.run_of("report", at(1)))).await;
    let beside = f.enqueue(f.run_of("report", at(2))).await;
    let alone = [f.enqueue(exclusive(f.message())).await, f.enqueue(exclusive(f.message())).await];
    f.enqueue(exclusive(f.run_of("report", at(3)))).await;
    let claimed = f.claim(f.process(), 9, at(5)).await;
    assert_eq!(ids_of(&claimed), [first, beside, alone[0], alone[1]]);
    f.settle(&claimed[0], Verdict::Done, at(6)).await;
    assert_eq!(
        f.claim(f.process(), 9, at(6)).await,
        [],
        "the message that is not exclusive still runs"
    );
}

pub async fn a_run_in_one_queue_keeps_an_exclusive_one_in_another_waiting(f: Fixture) {
    let slow = Message { queue: queue("slow"), ..f.run_of("report", at(1)) };
    f.enqueue(slow).await;
    let claim = Claim::new(queue("slow"), f.process(), 9, at(60));
    let running = f.storage.claim(claim, at(1)).await.unwrap().remove(0);
    let waiting = f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    assert_eq!(f.claim(f.process(), 9, at(2)).await, []);
    f.settle(&running, Verdict::Done, at(3)).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(3)).await), [waiting]);
}

/// Waiting messages are the oldest of their queue; a claim must skip all of them.
pub async fn many_waiting_messages_do_not_hide_those_behind_them(f: Fixture) {
    let (name, version) = paused(&f, "audit").await;
    f.enqueue(f.run_of("report", at(-99))).await;
    f.claim_one(at(0)).await;
    let mut waiting = Vec::new();
    for index in 0..300 {
        let due_at = at(index - 400);
        waiting.push(Message { due_at, ..exclusive(f.run_of("report", due_at)) }.into());
        waiting.push(Message { due_at, ..f.run_of("audit", due_at) }.into());
    }
    f.storage.enqueue(waiting, at(0)).await.unwrap();
    let behind = [f.enqueue(f.due(at(-1))).await, f.enqueue(f.due(at(0))).await];
    assert_eq!(ids_of(&f.claim(f.process(), 2, at(0)).await), behind);
    assert_eq!(f.claim(f.process(), 9, at(0)).await, []);
    assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), None);
    let resume = JobCommand::Resume { cursor: None };
    f.storage.command_job(&name, resume, version, at(1)).await.unwrap();
    let first = f.claim(f.process(), 1, at(1)).await.remove(0);
    assert_eq!(first.due_at, at(-400), "they kept their position");
}

/// Waiting messages wake no process, but the oldest due time in the counts includes them.
pub async fn waiting_messages_are_not_due_but_late(f: Fixture) {
    paused(&f, "audit").await;
    f.enqueue(f.run_of("report", at(0))).await;
    f.claim_one(at(0)).await;
    f.enqueue(Message { due_at: at(-30), ..exclusive(f.run_of("report", at(-30))) }).await;
    f.enqueue(Message { due_at: at(-20), ..f.run_of("audit", at(-20)) }).await;
    let next = async || f.storage.next_due(&default_source()).await.unwrap();
    assert_eq!(next().await, None, "before the first attempt to claim them");
    assert_eq!(f.claim(f.process(), 9, at(0)).await, []);
    assert_eq!(next().await, None, "and after");
    assert_eq!(f.inspect.counts(at(0)).await.unwrap().oldest_due, Some(at(-30)));
    f.enqueue(f.due(at(70))).await;
    assert_eq!(next().await, Some(at(70)));
}

/// The jobs that run now.
type Running = Arc<Mutex<BTreeSet<JobName>>>;

pub async fn many_nodes_never_run_two_exclusive_messages_of_a_job_at_once(f: Fixture) {
    let mut all = BTreeSet::new();
    for nominal in 0..20 {
        for job in ["report", "billing", "mail"] {
            all.insert(f.enqueue(exclusive(f.run_of(job, at(nominal)))).await);
        }
    }
    let running = Running::default();
    let nodes = f.nodes(4).await;
    let handled = together(nodes, |node| run_in_turn(node, Arc::clone(&running))).await;
    let handled: Vec<MessageId> = handled.into_iter().flatten().collect();
    assert_eq!(handled.len(), all.len());
    assert_eq!(handled.into_iter().collect::<BTreeSet<_>>(), all);
}

/// Claims and settles until nothing is left; bounded, because the other nodes may run every job.
async fn run_in_turn(node: Fixture, running: Running) -> Vec<MessageId> {
    let owner = node.process();
    let mut handled = Vec::new();
    for _ in 0..100_000 {
        let claimed = node.claim(owner, 5, at(60)).await;
        for one in &claimed {
            let is_alone = running.lock().unwrap().insert(job_of(one));
            assert!(is_alone, "{} was running already", job_of(one));
        }
        tokio::task::yield_now().await;
        for one in &claimed {
            running.lock().unwrap().remove(&job_of(one));
            assert_eq!(node.settle(one, Verdict::Done, at(60)).await, SettleResult::Applied);
        }
        handled.extend(ids_of(&claimed));
        let counts = node.inspect.counts(at(60)).await.unwrap();
        if counts.total(MessageState::Pending) == 0 {
            return handled;
        }
    }
    panic!("some messages never ran");
}

fn job_of(claimed: &ClaimedMessage) -> JobName {
    claimed.message.occurrence.as_ref().expect("a run of a job").job.clone()
}
