//! Restore: messages move in from another storage as they stood there, safe to repeat.

use std::sync::Arc;

use punctual::model::{DeadReason, Lease, MessageRecord, MessageState};
use punctual::storage::{Command, CommandResult, EnqueueResult};

use super::Fixture;
use super::fixture::{at, default_line, ids_of, rings};

behaviours! {
    each_message_stands_here_as_it_stood_there,
    who_ran_a_message_there_does_not_run_it_here,
    a_restore_that_is_repeated_changes_nothing,
    what_is_known_here_is_left_alone,
    a_finished_message_may_share_its_key_with_an_alive_one,
    what_is_restored_is_due_and_rings,
}

/// A message as another storage had it.
fn there(f: &Fixture) -> MessageRecord {
    let (attempt, crashes, snoozes) = (3, 1, 2);
    let error = Some(Arc::from("no route to host"));
    let record = MessageRecord::new(Arc::new(f.message()));
    MessageRecord { due_at: at(40), attempt, crashes, snoozes, error, ..record }
}

async fn restore(f: &Fixture, records: Vec<MessageRecord>) -> Vec<EnqueueResult> {
    f.storage.import_messages(records, at(9)).await.unwrap()
}

pub async fn each_message_stands_here_as_it_stood_there(f: Fixture) {
    let dead = Some(DeadReason::Poison);
    let records = vec![
        there(&f),
        MessageRecord { state: MessageState::Done, ended_at: Some(at(-5)), ..there(&f) },
        MessageRecord { state: MessageState::Dead, dead, ended_at: Some(at(-4)), ..there(&f) },
        MessageRecord { state: MessageState::Cancelled, ended_at: Some(at(-3)), ..there(&f) },
    ];
    assert_eq!(restore(&f, records.clone()).await, [EnqueueResult::Stored; 4]);
    for record in &records {
        assert_eq!(f.record(record.message.id).await, *record);
    }
    let claimed = f.claim_one(at(40)).await;
    assert_eq!((claimed.attempt, claimed.crashes, claimed.snoozes), (4, 1, 2));
    let redrive = Command::Redrive { id: records[2].message.id, due_at: at(50) };
    assert_eq!(f.command(redrive).await, CommandResult::Applied(1));
}

pub async fn who_ran_a_message_there_does_not_run_it_here(f: Fixture) {
    let lease = Some(Lease { owner: f.process(), token: 77, until: at(60) });
    let running = MessageRecord { state: MessageState::Running, lease, ..there(&f) };
    let asked = MessageRecord { cancel_requested: true, ..running.clone() };
    let asked = MessageRecord { message: Arc::new(f.message()), ..asked };
    let (running_id, asked_id) = (running.message.id, asked.message.id);
    assert_eq!(restore(&f, vec![running, asked]).await, [EnqueueResult::Stored; 2]);
    let record = f.record(running_id).await;
    assert_eq!((record.state, record.lease, record.attempt), (MessageState::Pending, None, 2));
    let record = f.record(asked_id).await;
    assert_eq!((record.state, record.ended_at), (MessageState::Cancelled, Some(at(9))));
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(40)).await), [running_id]);
}

pub async fn a_restore_that_is_repeated_changes_nothing(f: Fixture) {
    let records: Vec<MessageRecord> = (0..600).map(|_| there(&f)).collect();
    assert_eq!(restore(&f, records.clone()).await, vec![EnqueueResult::Stored; 600]);
    let claimed = f.claim(f.process(), 1, at(40)).await.remove(0);
    let themselves = records.iter().map(|record| EnqueueResult::Duplicate(record.message.id));
    let themselves: Vec<EnqueueResult> = themselves.collect();
    assert_eq!(restore(&f, records).await, themselves);
    assert_eq!(f.record(claimed.message.id).await.lease, Some(claimed.lease));
}

pub async fn what_is_known_here_is_left_alone(f: Fixture) {
    let alive = f.enqueue(f.deduplicated("order")).await;
    let twin = MessageRecord { message: Arc::new(f.deduplicated("order")), ..there(&f) };
    let (twin_id, other) = (twin.message.id, there(&f));
    let answers = restore(&f, vec![twin, other.clone()]).await;
    assert_eq!(answers, [EnqueueResult::Duplicate(alive), EnqueueResult::Stored]);
    assert_eq!(f.state(twin_id).await, None);
    assert_eq!(f.record(other.message.id).await, other);
}

pub async fn a_finished_message_may_share_its_key_with_an_alive_one(f: Fixture) {
    let alive = f.enqueue(f.deduplicated("order")).await;
    let message = Arc::new(f.deduplicated("order"));
    let ended_at = Some(at(-5));
    let done = MessageRecord { message, state: MessageState::Done, ended_at, ..there(&f) };
    assert_eq!(restore(&f, vec![done]).await, [EnqueueResult::Stored]);
    assert_eq!(f.offer(f.deduplicated("order")).await, EnqueueResult::Duplicate(alive));
}

pub async fn what_is_restored_is_due_and_rings(f: Fixture) {
    let mut bell = f.storage.wakeup(&default_line());
    restore(&f, vec![there(&f)]).await;
    assert!(rings(&mut bell).await);
    assert_eq!(f.storage.next_due(&default_line()).await.unwrap(), Some(at(40)));
}
