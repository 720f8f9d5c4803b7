//! Import: copies messages with their state from another storage, and is safe to repeat.

use std::sync::Arc;

use punctual::backend::storage::{Command, CommandResult, EnqueueResult};
use punctual::model::{DeadReason, Lease, MessageRecord, MessageState};

use super::Fixture;
use super::fixture::{at, default_source, ids_of, is_notified};

behaviours! {
    each_message_is_imported_with_its_state,
    a_running_message_is_imported_without_its_lease,
    a_repeated_import_changes_nothing,
    existing_messages_are_not_overwritten,
    a_finished_message_may_share_its_key_with_an_alive_one,
    an_imported_message_is_due_and_notifies,
}

/// Returns a message as exported by another storage.
fn exported(f: &Fixture) -> MessageRecord {
    let (attempt, crashes, snoozes) = (3, 1, 2);
    let error = Some(Arc::from("no route to host"));
    let record = MessageRecord::new(Arc::new(f.message()));
    MessageRecord { due_at: at(40), attempt, crashes, snoozes, error, ..record }
}

async fn import(f: &Fixture, records: Vec<MessageRecord>) -> Vec<EnqueueResult> {
    f.storage.import_messages(records, at(9)).await.unwrap()
}

pub async fn each_message_is_imported_with_its_state(f: Fixture) {
    let dead = Some(DeadReason::Poison);
    let records = vec![
        exported(&f),
        MessageRecord { state: MessageState::Done, ended_at: Some(at(-5)), ..exported(&f) },
        MessageRecord { state: MessageState::Dead, dead, ended_at: Some(at(-4)), ..exported(&f) },
        MessageRecord { state: MessageState::Cancelled, ended_at: Some(at(-3)), ..exported(&f) },
    ];
    assert_eq!(import(&f, records.clone()).await, [EnqueueResult::Stored; 4]);
    for record in &records {
        assert_eq!(f.record(record.message.id).await, *record);
    }
    let claimed = f.claim_one(at(40)).await;
    assert_eq!((claimed.attempt, claimed.crashes, claimed.snoozes), (4, 1, 2));
    let redrive = Command::Redrive { id: records[2].message.id, due_at: at(50) };
    assert_eq!(f.command(redrive).await, CommandResult::Applied(1));
}

pub async fn a_running_message_is_imported_without_its_lease(f: Fixture) {
    let lease = Some(Lease { owner: f.process(), token: 77, until: at(60) });
    let running = MessageRecord { state: MessageState::Running, lease, ..exported(&f) };
    let asked = MessageRecord { cancel_requested: true, ..running.clone() };
    let asked = MessageRecord { message: Arc::new(f.message()), ..asked };
    let (running_id, asked_id) = (running.message.id, asked.message.id);
    assert_eq!(import(&f, vec![running, asked]).await, [EnqueueResult::Stored; 2]);
    let record = f.record(running_id).await;
    assert_eq!((record.state, record.lease, record.attempt), (MessageState::Pending, None, 2));
    let record = f.record(asked_id).await;
    assert_eq!((record.state, record.ended_at), (MessageState::Cancelled, Some(at(9))));
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(40)).await), [running_id]);
}

pub async fn a_repeated_import_changes_nothing(f: Fixture) {
    let records: Vec<MessageRecord> = (0..600).map(|_| exported(&f)).collect();
    assert_eq!(import(&f, records.clone()).await, vec![EnqueueResult::Stored; 600]);
    let claimed = f.claim(f.process(), 1, at(40)).await.remove(0);
    let duplicates = records.iter().map(|record| EnqueueResult::Duplicate(record.message.id));
    let duplicates: Vec<EnqueueResult> = duplicates.collect();
    assert_eq!(import(&f, records).await, duplicates);
    assert_eq!(f.record(claimed.message.id).await.lease, Some(claimed.lease));
}

pub async fn existing_messages_are_not_overwritten(f: Fixture) {
    let alive = f.enqueue(f.deduplicated("order")).await;
    let twin = MessageRecord { message: Arc::new(f.deduplicated("order")), ..exported(&f) };
    let (twin_id, other) = (twin.message.id, exported(&f));
    let results = import(&f, vec![twin, other.clone()]).await;
    assert_eq!(results, [EnqueueResult::Duplicate(alive), EnqueueResult::Stored]);
    assert_eq!(f.state(twin_id).await, None);
    assert_eq!(f.record(other.message.id).await, other);
}

pub async fn a_finished_message_may_share_its_key_with_an_alive_one(f: Fixture) {
    let alive = f.enqueue(f.deduplicated("order")).await;
    let message = Arc::new(f.deduplicated("order"));
    let ended_at = Some(at(-5));
    let done = MessageRecord { message, state: MessageState::Done, ended_at, ..exported(&f) };
    assert_eq!(import(&f, vec![done]).await, [EnqueueResult::Stored]);
    assert_eq!(f.try_enqueue(f.deduplicated("order")).await, EnqueueResult::Duplicate(alive));
}

pub async fn an_imported_message_is_due_and_notifies(f: Fixture) {
    let mut wakeup = f.storage.wakeup(&default_source());
    import(&f, vec![exported(&f)]).await;
    assert!(is_notified(&mut wakeup).await);
    assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), Some(at(40)));
}
