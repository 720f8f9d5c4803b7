//! Outbox: messages, settlements and inbox records in transactions of the application.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::inspect::Inspect;
use punctual::model::MessageState;
use punctual::{Clock, Inbox, InboxResult, Outbox, SystemClock};

use crate::schema::{TestSchema, enqueue};

punctual_conformance::cases! {
    a_message_is_stored_with_the_commit_and_not_before,
    a_settlement_takes_effect_with_the_commit_and_an_old_lease_is_refused,
    a_delivery_is_admitted_once,
}

async fn a_message_is_stored_with_the_commit_and_not_before() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let mut client = database.client().await;
    for commits in [false, true] {
        let transaction = client.transaction().await.unwrap();
        let mut outbox = storage.outbox(&transaction);
        let entries = vec![Entry::from(database.message()), Entry::from(database.message())];
        let answers = outbox.enqueue(entries, SystemClock.now()).await.unwrap();
        assert_eq!(answers, [EnqueueResult::Stored; 2]);
        assert!(database.claim(&*storage, 9).await.is_empty());
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        assert_eq!(database.claim(&*storage, 9).await.len(), if commits { 2 } else { 0 });
    }
}

async fn a_settlement_takes_effect_with_the_commit_and_an_old_lease_is_refused() {
    let database = TestSchema::new();
    let storage = database.open().await;
    enqueue(&*storage, database.message()).await;
    let claimed = database.claim(&*storage, 1).await.remove(0);
    let done = Settlement::new(claimed.lease_ref(), Verdict::Done, None);
    let mut client = database.client().await;
    let transaction = client.transaction().await.unwrap();
    storage.outbox(&transaction).settle(done.clone(), SystemClock.now()).await.unwrap();
    transaction.rollback().await.unwrap();
    let state = async || storage.message(claimed.message.id).await.unwrap().unwrap().state;
    assert_eq!(state().await, MessageState::Running);
    let transaction = client.transaction().await.unwrap();
    storage.outbox(&transaction).settle(done.clone(), SystemClock.now()).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(state().await, MessageState::Done);
    let transaction = client.transaction().await.unwrap();
    let error = storage.outbox(&transaction).settle(done, SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), punctual::ErrorKind::Conflict);
}

async fn a_delivery_is_admitted_once() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let id = database.message().id;
    let now = SystemClock.now();
    assert!(!storage.has_seen("billing", id).await.unwrap());
    assert_eq!(storage.admit("billing", id, now).await.unwrap(), InboxResult::First);
    assert_eq!(storage.admit("billing", id, now).await.unwrap(), InboxResult::Again);
    assert_eq!(storage.admit("shipping", id, now).await.unwrap(), InboxResult::First);
    assert!(storage.has_seen("billing", id).await.unwrap());
    let later = punctual::clock::add(now, std::time::Duration::from_secs(1));
    assert_eq!(storage.forget(later, 1).await.unwrap(), 1);
    assert_eq!(storage.forget(later, 9).await.unwrap(), 1);
    assert_eq!(storage.admit("billing", id, now).await.unwrap(), InboxResult::First);
}
