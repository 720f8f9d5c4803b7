//! Repeats of a message that ends while it is stored again: it must be reported as a duplicate and not run a second time.
//!
//! Each case stops the repeat at one point by a row of another transaction, ends the message there, and lets the repeat
//! continue.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{ClaimedMessage, EnqueueResult, Entry, SettleResult, Settlement};
use punctual::clock::add;
use punctual::model::Message;
use punctual::{Clock as _, Outbox as _, Storage as _, SystemClock};
use punctual_postgres::PostgresStorage;
use tokio::task::JoinHandle;

use crate::schema::{TestSchema, enqueue, eventually, settle, waits_for_a_lock};

punctual_conformance::cases! {
    a_repeat_of_a_message_that_is_being_settled_is_a_duplicate,
    a_later_message_with_the_id_of_one_that_is_being_settled_is_a_duplicate,
    a_repeat_in_a_transaction_of_a_message_that_is_being_settled_is_a_duplicate,
    a_repeat_of_a_message_that_ends_between_its_read_and_its_write_is_a_duplicate,
}

/// Repeats messages, a second after they were created, until the call waits for a lock.
async fn repeat_until_it_waits(
    database: &TestSchema,
    storage: &Arc<PostgresStorage>,
    messages: &[&Message],
) -> JoinHandle<Vec<EnqueueResult>> {
    let entries = messages.iter().map(|message| Entry::from((*message).clone())).collect();
    let latest = messages.iter().map(|message| message.created_at).max().unwrap();
    let now = add(latest, Duration::from_secs(1));
    let storage = Arc::clone(storage);
    let repeated = tokio::spawn(async move { storage.enqueue(entries, now).await.unwrap() });
    until_it_waits(database, &repeated).await;
    repeated
}

/// Waits until a call waits for a lock.
async fn until_it_waits<T>(database: &TestSchema, call: &JoinHandle<T>) {
    let watcher = database.client().await;
    eventually("the repeat waits", || waits_for_a_lock(&watcher, &database.schema)).await;
    assert!(!call.is_finished());
}

/// Returns a message that is created a second later with the same id, as an application does that gives the id itself.
fn created_later(message: &Message) -> Message {
    let later = add(message.created_at, Duration::from_secs(1));
    Message { created_at: later, due_at: later, ..message.clone() }
}

async fn claim_one(database: &TestSchema, storage: &PostgresStorage) -> ClaimedMessage {
    let mut claimed = database.claim(storage, 9).await;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

// The repeat waits for the row that the settlement removes. One statement that reads the history and writes the
// message would have read the history before.
async fn a_repeat_of_a_message_that_is_being_settled_is_a_duplicate() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let message = database.message();
    enqueue(&*storage, message.clone()).await;
    let claimed = claim_one(&database, &storage).await;
    let mut application = database.client().await;
    let transaction = application.transaction().await.unwrap();
    let done = Settlement::new(claimed.lease_ref(), Verdict::Done, None);
    storage.outbox(&transaction).settle(done, SystemClock.now()).await.unwrap();
    let repeated = repeat_until_it_waits(&database, &storage, &[&message]).await;
    transaction.commit().await.unwrap();
    assert_eq!(repeated.await.unwrap(), [EnqueueResult::Duplicate(message.id)]);
    assert!(database.claim(&*storage, 9).await.is_empty(), "it does not run again");
}

// The same when the application gives the id and repeats the call: the repeat is created later than the id.
async fn a_later_message_with_the_id_of_one_that_is_being_settled_is_a_duplicate() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let message = database.message();
    enqueue(&*storage, message.clone()).await;
    let claimed = claim_one(&database, &storage).await;
    let mut application = database.client().await;
    let transaction = application.transaction().await.unwrap();
    let done = Settlement::new(claimed.lease_ref(), Verdict::Done, None);
    storage.outbox(&transaction).settle(done, SystemClock.now()).await.unwrap();
    let (again, storing) = (created_later(&message), Arc::clone(&storage));
    let now = again.created_at;
    let repeated =
        tokio::spawn(async move { storing.enqueue(vec![again.into()], now).await.unwrap() });
    until_it_waits(&database, &repeated).await;
    transaction.commit().await.unwrap();
    assert_eq!(repeated.await.unwrap(), [EnqueueResult::Duplicate(message.id)]);
    assert!(database.claim(&*storage, 9).await.is_empty(), "it does not run again");
}

// The same in a transaction of the application, whose single messages are stored by one statement as well.
async fn a_repeat_in_a_transaction_of_a_message_that_is_being_settled_is_a_duplicate() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let message = database.message();
    enqueue(&*storage, message.clone()).await;
    let claimed = claim_one(&database, &storage).await;
    let mut application = database.client().await;
    let transaction = application.transaction().await.unwrap();
    let done = Settlement::new(claimed.lease_ref(), Verdict::Done, None);
    storage.outbox(&transaction).settle(done, SystemClock.now()).await.unwrap();
    let (again, storing) = (created_later(&message), Arc::clone(&storage));
    let mut other = database.client().await;
    let repeated = tokio::spawn(async move {
        let transaction = other.transaction().await.unwrap();
        let now = again.created_at;
        let stored = storing.outbox(&transaction).enqueue(vec![again.into()], now).await.unwrap();
        transaction.commit().await.unwrap();
        stored
    });
    until_it_waits(&database, &repeated).await;
    transaction.commit().await.unwrap();
    assert_eq!(repeated.await.unwrap(), [EnqueueResult::Duplicate(message.id)]);
    assert!(database.claim(&*storage, 9).await.is_empty(), "it does not run again");
}

// The repeat has read that both messages are unknown, and waits for the first one, which another transaction has
// inserted and rolls back. Meanwhile the second one is stored by the earlier call, handled and settled.
async fn a_repeat_of_a_message_that_ends_between_its_read_and_its_write_is_a_duplicate() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let (first, second) = (database.message(), database.message());
    assert!(first.id < second.id, "rows are written in the order of their ids");
    let mut application = database.client().await;
    let transaction = application.transaction().await.unwrap();
    let mut outbox = storage.outbox(&transaction);
    outbox.enqueue(vec![Entry::from(first.clone())], SystemClock.now()).await.unwrap();
    let repeated = repeat_until_it_waits(&database, &storage, &[&first, &second]).await;
    assert_eq!(enqueue(&*storage, second.clone()).await, EnqueueResult::Stored);
    let claimed = claim_one(&database, &storage).await;
    assert_eq!(claimed.message.id, second.id);
    assert_eq!(settle(&*storage, &[claimed]).await, [SettleResult::Applied]);
    transaction.rollback().await.unwrap();
    let expected = [EnqueueResult::Stored, EnqueueResult::Duplicate(second.id)];
    assert_eq!(repeated.await.unwrap(), expected);
    assert_eq!(
        claim_one(&database, &storage).await.message.id,
        first.id,
        "the second does not run again"
    );
}
