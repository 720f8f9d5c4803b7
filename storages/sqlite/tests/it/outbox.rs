//! Outbox: messages in a transaction of the application on the same file.

use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, WakeSource};
use punctual::clock::{add, within};
use punctual::model::{MessageState, Queue};
use punctual::{
    Clock as _, ErrorKind, Inbox as _, InboxResult, Inspect as _, Storage as _, SystemClock,
};
use punctual_sqlite::SqliteOutbox;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::fixture::{Fixture, at, claim, offer, rows_of};

pub(crate) fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

#[tokio::test]
async fn a_message_is_visible_and_notifies_after_the_commit_and_is_gone_after_a_rollback() {
    let f = Fixture::new();
    let storage = f.open().await;
    let source = WakeSource::Queue(Queue::default());
    let mut wakeup = storage.wakeup(&source);
    let mut application = f.other_connection();
    application.execute_batch("CREATE TABLE orders (id)").unwrap();
    let (kept, gone) = (f.entries(1), f.entries(1));

    let transaction = begin(&mut application);
    transaction.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    assert_eq!(
        SqliteOutbox::new(&transaction).enqueue(&gone, at(0)).unwrap(),
        [EnqueueResult::Stored]
    );
    transaction.rollback().unwrap();
    assert_eq!(storage.message(gone[0].message.id).await.unwrap(), None);

    let transaction = begin(&mut application);
    transaction.execute("INSERT INTO orders VALUES (2)", []).unwrap();
    assert_eq!(
        SqliteOutbox::new(&transaction).enqueue(&kept, at(0)).unwrap(),
        [EnqueueResult::Stored]
    );
    assert_eq!(storage.message(kept[0].message.id).await.unwrap(), None, "not before the commit");
    transaction.commit().unwrap();
    assert!(storage.message(kept[0].message.id).await.unwrap().is_some());
    let limit = add(SystemClock.now(), Duration::from_secs(5));
    assert!(within(&SystemClock, limit, wakeup.notified()).await.is_some());
    assert_eq!(rows_of(&application, "orders"), 1);
    assert_eq!(storage.counts(at(0)).await.unwrap().total(MessageState::Pending), 1);
}

#[tokio::test]
async fn an_attempt_is_settled_with_the_writes_of_its_handler_and_only_by_its_owner() {
    let f = Fixture::new();
    let storage = f.open().await;
    let message = f.message();
    offer(&storage, message.clone()).await;
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    let mut application = f.other_connection();
    let settlement = f.settlement(&claimed, Verdict::Done);

    let transaction = begin(&mut application);
    SqliteOutbox::new(&transaction).settle(settlement.clone(), at(11)).unwrap();
    transaction.rollback().unwrap();
    let state = async || storage.message(message.id).await.unwrap().unwrap().state;
    assert_eq!(state().await, MessageState::Running);

    let transaction = begin(&mut application);
    SqliteOutbox::new(&transaction).settle(settlement.clone(), at(11)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(state().await, MessageState::Done);

    let transaction = begin(&mut application);
    let error = SqliteOutbox::new(&transaction).settle(settlement, at(12)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    drop(transaction);
    assert!(storage.check().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn a_group_handles_a_message_once() {
    let f = Fixture::new();
    let storage = f.open().await;
    let id = f.message().id;
    assert!(!storage.has_seen("billing", id).await.unwrap());
    assert_eq!(storage.admit("billing", id, at(1)).await.unwrap(), InboxResult::First);
    assert_eq!(storage.admit("billing", id, at(2)).await.unwrap(), InboxResult::Again);
    assert_eq!(storage.admit("shipping", id, at(3)).await.unwrap(), InboxResult::First);
    let mut application = f.other_connection();
    let transaction = begin(&mut application);
    let outbox = SqliteOutbox::new(&transaction);
    assert_eq!(outbox.admit("billing", id, at(4)).unwrap(), InboxResult::Again);
    assert_eq!(outbox.admit("mail", id, at(4)).unwrap(), InboxResult::First);
    transaction.commit().unwrap();
    assert!(storage.has_seen("mail", id).await.unwrap());
    assert_eq!(storage.forget(at(3), 9).await.unwrap(), 1, "strictly before");
    assert_eq!(storage.forget(at(9), 1).await.unwrap(), 1);
    assert!(!storage.has_seen("billing", id).await.unwrap());
}
