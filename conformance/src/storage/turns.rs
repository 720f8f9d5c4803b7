//! Messages that are due and must wait for their turn: of a job that is running, of a job that is
//! paused.

use punctual::model::{Message, Source, State, Steer};
use punctual::policy::Verdict;
use punctual::storage::{Command, Steered};

use super::Fixture;
use super::fixture::{at, default_line, ids_of};

behaviours! {
    an_exclusive_message_waits_while_its_job_runs_and_keeps_its_place,
    the_end_of_a_run_makes_those_due_that_waited,
    a_message_that_waits_can_be_cancelled_moved_and_counted,
    what_a_paused_job_has_scheduled_waits_until_it_is_resumed_and_a_trigger_does_not,
}

fn exclusive(message: Message) -> Message {
    Message { exclusive: true, ..message }
}

pub async fn an_exclusive_message_waits_while_its_job_runs_and_keeps_its_place(f: Fixture) {
    let first = f.enqueue(exclusive(f.run_of("report", at(1)))).await;
    let second = f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    let third = f.enqueue(exclusive(f.run_of("report", at(3)))).await;
    let other = f.enqueue(exclusive(f.run_of("billing", at(1)))).await;
    let claimed = f.claim(f.process(), 9, at(5)).await;
    assert_eq!(ids_of(&claimed), [first, other]);
    assert_eq!(
        f.storage.next_due(&default_line()).await.unwrap(),
        None,
        "nobody is told to look in vain"
    );
    assert!(f.claim(f.process(), 9, at(6)).await.is_empty());
    f.settle(&claimed[0], Verdict::Done, at(7)).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(7)).await), [second]);
    assert_eq!(f.state(third).await, Some(State::Pending));
}

pub async fn the_end_of_a_run_makes_those_due_that_waited(f: Fixture) {
    f.enqueue(f.run_of("report", at(1))).await;
    let running = f.claim_one(at(1)).await;
    f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    assert!(f.claim(f.process(), 9, at(2)).await.is_empty());
    let before = f.storage.next_due(&default_line()).await.unwrap();
    f.settle(&running, Verdict::Cancelled, at(3)).await;
    assert_eq!((before, f.storage.next_due(&default_line()).await.unwrap()), (None, Some(at(0))));
}

pub async fn a_message_that_waits_can_be_cancelled_moved_and_counted(f: Fixture) {
    f.enqueue(f.run_of("report", at(1))).await;
    let running = f.claim_one(at(1)).await;
    let waiting = f.enqueue(exclusive(f.run_of("report", at(2)))).await;
    let moved = f.enqueue(exclusive(f.run_of("report", at(3)))).await;
    assert!(f.claim(f.process(), 9, at(3)).await.is_empty());
    assert_eq!(f.inspect.counts(at(3)).await.unwrap().total(State::Pending), 2);
    f.command(Command::Cancel(waiting)).await;
    f.command(Command::Reschedule { id: moved, due_at: at(50) }).await;
    f.settle(&running, Verdict::Done, at(4)).await;
    assert!(f.claim(f.process(), 9, at(49)).await.is_empty());
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(50)).await), [moved]);
    assert_eq!(f.state(waiting).await, Some(State::Cancelled));
}

pub async fn what_a_paused_job_has_scheduled_waits_until_it_is_resumed_and_a_trigger_does_not(
    f: Fixture,
) {
    let job = f.declare(Fixture::job("report", Some(at(900)))).await;
    let pause = Steer::Pause { by: "ops".to_owned(), reason: "audit".to_owned(), until: None };
    let Steered::Applied(paused) =
        f.storage.steer(&job.job.name, pause, job.version, at(1)).await.unwrap()
    else {
        panic!("the pause was refused");
    };
    let scheduled = f.enqueue(f.run_of("report", at(1))).await;
    let manual = f.enqueue(Message { source: Source::Manual, ..f.run_of("report", at(2)) }).await;
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(5)).await), [manual]);
    let resume = Steer::Resume { cursor: Some(at(900)) };
    f.storage.steer(&job.job.name, resume, paused.version, at(6)).await.unwrap();
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(6)).await), [scheduled]);
}
