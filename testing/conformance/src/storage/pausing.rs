//! Pauses of messages: an operator holds a message back, and its due time is kept.

use punctual::backend::storage::{
    Command, CommandResult, END_OF_TIME, EnqueueResult, FireResult, Firing,
};
use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageId, MessageState, Pause};

use super::Fixture;
use super::fixture::{again, at, default_source, ids_of, is_notified};

behaviours! {
    a_paused_message_is_not_claimed_and_keeps_its_due_time,
    a_message_whose_due_time_passed_while_paused_is_due_at_once,
    a_second_pause_or_resume_changes_nothing,
    a_paused_message_that_is_rescheduled_stays_paused,
    a_message_is_made_due_at_an_instant_whether_paused_or_not,
    a_paused_message_is_cancelled_and_redriven_without_its_pause,
    a_replacement_of_a_paused_message_is_not_paused,
    a_pause_is_imported_with_its_message,
    a_pause_survives_a_restart,
    a_paused_retry_does_not_block_a_firing,
    the_end_of_a_pause_notifies,
}

fn pausing(id: MessageId) -> Command {
    let (by, reason) = ("ada".to_owned(), "outage".to_owned());
    Command::Pause { id, pause: Pause { by, reason, at: at(1), until: None } }
}

fn resuming(id: MessageId) -> Command {
    Command::Resume { id, due_at: None }
}

async fn resume_at(f: &Fixture, id: MessageId, now: Timestamp) -> CommandResult {
    f.storage.command(resuming(id), now).await.unwrap()
}

async fn paused(f: &Fixture, message: Message) -> MessageId {
    let id = f.enqueue(message).await;
    assert_eq!(f.command(pausing(id)).await, CommandResult::Applied(1));
    id
}

// spec: T-75
pub async fn a_paused_message_is_not_claimed_and_keeps_its_due_time(f: Fixture) {
    let before = f.due(at(10));
    let id = paused(&f, before.clone()).await;
    let record = f.record(id).await;
    assert_eq!((record.state, record.due_at), (MessageState::Pending, END_OF_TIME));
    let pause = record.paused.clone().unwrap();
    assert_eq!((pause.due_at, pause.pause.by.as_str()), (at(10), "ada"));
    assert_eq!(record.own_due_at(), at(10));
    assert_eq!(f.claim(f.process(), 9, at(1_000)).await, []);
    assert_eq!(f.command(resuming(id)).await, CommandResult::Applied(1));
    let record = f.record(id).await;
    assert_eq!((record.due_at, &record.paused), (at(10), &None));
    assert_eq!(*record.message, before, "and nothing else has changed");
    assert_eq!(f.claim(f.process(), 9, at(9)).await, []);
    assert_eq!(f.claim_one(at(10)).await.message.id, id);
}

// spec: T-75
pub async fn a_message_whose_due_time_passed_while_paused_is_due_at_once(f: Fixture) {
    let id = paused(&f, f.due(at(10))).await;
    assert_eq!(resume_at(&f, id, at(50)).await, CommandResult::Applied(1));
    assert_eq!(f.record(id).await.due_at, at(50));
    assert_eq!(f.claim_one(at(50)).await.message.id, id);
}

pub async fn a_second_pause_or_resume_changes_nothing(f: Fixture) {
    let id = paused(&f, f.due(at(10))).await;
    assert_eq!(f.command(pausing(id)).await, CommandResult::Applied(0));
    assert_eq!(f.record(id).await.own_due_at(), at(10), "the first pause stays");
    assert_eq!(f.command(resuming(id)).await, CommandResult::Applied(1));
    assert_eq!(f.command(resuming(id)).await, CommandResult::Applied(0));
    assert_eq!(f.record(id).await.due_at, at(10));
    f.claim_one(at(10)).await;
    assert_eq!(f.command(pausing(id)).await, CommandResult::Refused(MessageState::Running));
    assert_eq!(f.command(resuming(id)).await, CommandResult::Refused(MessageState::Running));
    let unknown = f.message().id;
    assert_eq!(f.command(pausing(unknown)).await, CommandResult::Unknown);
    assert_eq!(f.command(resuming(unknown)).await, CommandResult::Unknown);
}

pub async fn a_paused_message_that_is_rescheduled_stays_paused(f: Fixture) {
    let id = paused(&f, f.due(at(10))).await;
    let moved = Command::Reschedule { id, due_at: at(5) };
    assert_eq!(f.command(moved).await, CommandResult::Applied(1));
    assert_eq!(f.claim(f.process(), 9, at(1_000)).await, []);
    assert_eq!(f.command(resuming(id)).await, CommandResult::Applied(1));
    assert_eq!(f.record(id).await.due_at, at(5));
}

pub async fn a_message_is_made_due_at_an_instant_whether_paused_or_not(f: Fixture) {
    let held = paused(&f, f.due(at(100))).await;
    let free = f.enqueue(f.due(at(100))).await;
    for id in [held, free] {
        let now = Command::Resume { id, due_at: Some(at(2)) };
        assert_eq!(f.command(now).await, CommandResult::Applied(1));
        assert_eq!((f.record(id).await.due_at, f.record(id).await.paused), (at(2), None));
    }
    assert_eq!(f.claim(f.process(), 9, at(2)).await.len(), 2);
}

pub async fn a_paused_message_is_cancelled_and_redriven_without_its_pause(f: Fixture) {
    let id = paused(&f, f.due(at(10))).await;
    assert_eq!(f.command(Command::Cancel(id)).await, CommandResult::Applied(1));
    let record = f.record(id).await;
    assert_eq!((record.state, record.own_due_at()), (MessageState::Cancelled, at(10)));
    let redrive = Command::Redrive { id, due_at: at(20) };
    assert_eq!(f.command(redrive).await, CommandResult::Applied(1));
    assert_eq!((f.record(id).await.due_at, f.record(id).await.paused), (at(20), None));
}

pub async fn a_replacement_of_a_paused_message_is_not_paused(f: Fixture) {
    let id = paused(&f, f.deduplicated("order")).await;
    let newer = f.deduplicated("order");
    let fresh = newer.id;
    assert_eq!(f.try_replace(newer).await, EnqueueResult::Replaced(id));
    assert_eq!(f.record(fresh).await.paused, None);
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(1_000)).await), [fresh]);
}

pub async fn a_pause_is_imported_with_its_message(f: Fixture) {
    let id = paused(&f, f.due(at(10))).await;
    let record = f.record(id).await;
    assert_eq!(f.command(Command::Delete(id)).await, CommandResult::Applied(1));
    let results = f.storage.import_messages(vec![record.clone()], at(1)).await.unwrap();
    assert_eq!(results, [EnqueueResult::Stored]);
    assert_eq!(f.record(id).await, record);
    assert_eq!(f.claim(f.process(), 9, at(1_000)).await, []);
    assert_eq!(f.command(resuming(id)).await, CommandResult::Applied(1));
    assert_eq!(f.claim_one(at(10)).await.message.id, id);
}

pub async fn a_pause_survives_a_restart(f: Fixture) {
    let id = paused(&f, f.due(at(10))).await;
    if !f.storage.is_durable() {
        return;
    }
    let f = f.reopen().await;
    assert_eq!(f.record(id).await.own_due_at(), at(10));
    assert_eq!(f.claim(f.process(), 9, at(1_000)).await, []);
}

pub async fn a_paused_retry_does_not_block_a_firing(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let id = f.enqueue(Message { due_at: at(-9), ..f.run_of("report", at(-9)) }).await;
    let claimed = f.claim_one(at(-8)).await;
    f.settle(&claimed, again(&claimed, at(500)), at(-7)).await;
    assert_eq!(f.storage.due_jobs(9, at(1)).await.unwrap()[0].alive, 1, "a retry is alive");
    assert_eq!(f.command(pausing(id)).await, CommandResult::Applied(1));
    assert_eq!(f.storage.due_jobs(9, at(1)).await.unwrap()[0].alive, 0);
    let strict = Firing { alive_max: Some(0), ..f.firing(&job, at(0), at(60)) };
    assert_eq!(f.storage.fire(vec![strict], at(1)).await.unwrap(), [FireResult::Fired]);
    assert_eq!(f.state(id).await, Some(MessageState::Pending));
}

pub async fn the_end_of_a_pause_notifies(f: Fixture) {
    let id = paused(&f, f.due(at(10))).await;
    let mut wakeup = f.storage.wakeup(&default_source());
    f.command(resuming(id)).await;
    assert!(is_notified(&mut wakeup).await);
    assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), Some(at(10)));
}
