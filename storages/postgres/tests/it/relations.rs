//! Relations of messages where this storage differs: more messages than one query reads, COPY, transactions of the
//! application, the function for other languages, and pruning.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    ClaimedMessage, END_OF_TIME, EnqueueResult, Entry, Prune, RateRequest, SettleResult,
    Settlement, WakeSource,
};
use punctual::inspect::Inspect;
use punctual::model::{BatchId, IdSource as _, Limit, Message, MessageState, Relations, Unique};
use punctual::{Clock, Outbox as _, Storage, SystemClock};
use punctual_postgres::PostgresStorage;

use crate::schema::{TestSchema, enqueue, eventually, key, settle, soon, waits_for_a_lock};

punctual_conformance::cases! {
    more_waiting_messages_than_a_query_reads_hide_no_other_limit,
    a_large_batch_of_related_messages_keeps_its_relations,
    a_message_that_waits_in_an_open_transaction_is_not_forgotten_when_the_batch_ends,
    a_follow_up_message_is_stored_with_the_commit_of_a_handlers_transaction,
    of_many_concurrent_messages_with_a_reserved_key_one_is_stored,
    sql_and_large_batches_and_outboxes_respect_a_reserved_key,
    expired_keys_and_rates_are_pruned,
}

fn related(message: Message, relations: Relations) -> Message {
    Message { relations: Some(Arc::new(relations)), ..message }
}

fn limited(message: Message, name: &str, running_max: u32) -> Message {
    let limit = Limit { name: key(name).unwrap(), running_max: Some(running_max), rate: None };
    related(message, Relations { limit: Some(limit), ..Relations::default() })
}

fn batch(database: &TestSchema) -> BatchId {
    BatchId::from_uuid(database.ids.next(SystemClock.now()))
}

fn member(database: &TestSchema, of: BatchId) -> Message {
    related(database.message(), Relations { batch: Some(of), ..Relations::default() })
}

fn waiting(database: &TestSchema, for_: BatchId) -> Message {
    related(database.message(), Relations { waits_for: Some(for_), ..Relations::default() })
}

fn unique(database: &TestSchema, length: Duration) -> Message {
    let relations = Relations { unique: Unique::For(length), ..Relations::default() };
    Message { dedupe: key("order 7"), ..related(database.message(), relations) }
}

fn ids(claimed: &[ClaimedMessage]) -> Vec<punctual::model::MessageId> {
    claimed.iter().map(|one| one.message.id).collect()
}

async fn next_due(storage: &PostgresStorage) -> Option<punctual::jiff::Timestamp> {
    storage.next_due(&WakeSource::Queue(punctual::model::Queue::default())).await.unwrap()
}

async fn more_waiting_messages_than_a_query_reads_hide_no_other_limit() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let crowd: Vec<Message> = (0..700).map(|_| limited(database.message(), "mail", 1)).collect();
    let first = crowd[0].id;
    let crowd = crowd.into_iter().map(Entry::from).collect();
    storage.enqueue(crowd, SystemClock.now()).await.unwrap();
    assert_eq!(ids(&database.claim(&*storage, 9).await), [first]);
    assert_eq!(next_due(&storage).await, None, "all messages are blocked");
    let behind = [limited(database.message(), "fax", 1), limited(database.message(), "fax", 1)];
    let wanted = behind[0].id;
    for message in behind {
        enqueue(&*storage, message).await;
    }
    assert!(next_due(&storage).await.is_some());
    // Another process does not know of limits before its first query.
    let other = database.open().await;
    assert_eq!(ids(&database.claim(&*other, 9).await), [wanted]);
    assert_eq!(next_due(&storage).await, None);
    assert_eq!(database.claim(&*storage, 9).await, []);
}

async fn a_large_batch_of_related_messages_keeps_its_relations() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let of = batch(&database);
    let relations = |n: usize| Relations {
        limit: Some(Limit {
            name: key(["mail", "fax"][n % 2]).unwrap(),
            running_max: Some(3),
            rate: None,
        }),
        batch: Some(of),
        unique: Unique::WhilePending,
        ..Relations::default()
    };
    let message =
        |n| Message { dedupe: key(&format!("{n}")), ..related(database.message(), relations(n)) };
    let messages: Vec<Message> = (0..800).map(message).collect();
    let last = messages[799].clone();
    let entries: Vec<Entry> = messages.into_iter().map(Entry::from).collect();
    storage.enqueue(entries, SystemClock.now()).await.unwrap();
    assert_eq!(storage.batch(of).await.unwrap(), [(MessageState::Pending, 800)].into());
    let read = storage.message(last.id).await.unwrap().unwrap();
    assert_eq!((&read.message.relations, &read.message.dedupe), (&last.relations, &last.dedupe));
    let twin = Message { id: database.message().id, ..last.clone() };
    assert_eq!(enqueue(&*storage, twin).await, EnqueueResult::Duplicate(last.id));
    let claimed = database.claim(&*storage, 50).await;
    assert_eq!(claimed.len(), 6, "three of each");
    let again = Message { id: database.message().id, ..(*claimed[0].message).clone() };
    assert_eq!(enqueue(&*storage, again).await, EnqueueResult::Stored, "its key is free");
}

async fn a_message_that_waits_in_an_open_transaction_is_not_forgotten_when_the_batch_ends() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let of = batch(&database);
    enqueue(&*storage, member(&database, of)).await;
    let claimed = database.claim(&*storage, 1).await;
    let mut client = database.client().await;
    let transaction = client.transaction().await.unwrap();
    let last = waiting(&database, of);
    let id = last.id;
    storage.outbox(&transaction).enqueue(vec![last.into()], SystemClock.now()).await.unwrap();
    let settling = tokio::spawn({
        let storage = Arc::clone(&storage);
        async move { settle(&*storage, &claimed).await }
    });
    let watcher = database.client().await;
    let waits = || waits_for_a_lock(&watcher, &database.schema);
    eventually("the settlement waits for the transaction", waits).await;
    transaction.commit().await.unwrap();
    assert_eq!(settling.await.unwrap(), [SettleResult::Applied]);
    assert_eq!(ids(&database.claim(&*storage, 9).await), [id]);
}

async fn a_follow_up_message_is_stored_with_the_commit_of_a_handlers_transaction() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let of = batch(&database);
    enqueue(&*storage, member(&database, of)).await;
    let last = waiting(&database, of);
    let last_id = last.id;
    enqueue(&*storage, last).await;
    assert_eq!(storage.message(last_id).await.unwrap().unwrap().due_at, END_OF_TIME);
    let claimed = database.claim(&*storage, 9).await.remove(0);
    for commits in [false, true] {
        let next = database.message();
        let id = next.id;
        let settlement = Settlement {
            then: vec![Arc::new(next)],
            ..Settlement::new(claimed.lease_ref(), Verdict::Done, None)
        };
        let mut client = database.client().await;
        let transaction = client.transaction().await.unwrap();
        storage.outbox(&transaction).settle(settlement, SystemClock.now()).await.unwrap();
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        assert_eq!(storage.message(id).await.unwrap().is_some(), commits);
        let due_at = storage.message(last_id).await.unwrap().unwrap().due_at;
        assert_eq!(due_at != END_OF_TIME, commits, "the batch ends with it");
    }
}

async fn of_many_concurrent_messages_with_a_reserved_key_one_is_stored() {
    let database = Arc::new(TestSchema::new());
    let storage = database.open().await;
    let offers = (0..8).map(|_| {
        let (database, storage) = (Arc::clone(&database), Arc::clone(&storage));
        tokio::spawn(async move {
            let answer = enqueue(&*storage, unique(&database, Duration::from_secs(600))).await;
            settle(&*storage, &database.claim(&*storage, 9).await).await;
            answer
        })
    });
    let mut stored = 0;
    for offer in offers.collect::<Vec<_>>() {
        stored += usize::from(offer.await.unwrap() == EnqueueResult::Stored);
    }
    assert_eq!(stored, 1);
}

async fn sql_and_large_batches_and_outboxes_respect_a_reserved_key() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let first = unique(&database, Duration::from_secs(600));
    let holder = first.id;
    assert_eq!(enqueue(&*storage, first).await, EnqueueResult::Stored);
    settle(&*storage, &database.claim(&*storage, 1).await).await;
    let plain = || Message { dedupe: key("order 7"), ..database.message() };
    assert_eq!(enqueue(&*storage, plain()).await, EnqueueResult::Duplicate(holder));
    let mut client = database.client().await;
    let text = format!("SELECT \"{}\".enqueue('mail', dedupe => 'order 7')", database.schema);
    let answer: uuid::Uuid = client.query_one(&text, &[]).await.unwrap().get(0);
    assert_eq!(answer, holder.as_uuid());
    let mut entries = database.entries(700);
    entries.push(plain().into());
    let answers = storage.enqueue(entries, SystemClock.now()).await.unwrap();
    assert_eq!(answers[700], EnqueueResult::Duplicate(holder));
    assert!(answers[..700].iter().all(|answer| *answer == EnqueueResult::Stored));
    let transaction = client.transaction().await.unwrap();
    let mut outbox = storage.outbox(&transaction);
    let answers = outbox.enqueue(vec![plain().into()], SystemClock.now()).await.unwrap();
    assert_eq!(answers, [EnqueueResult::Duplicate(holder)]);
}

async fn expired_keys_and_rates_are_pruned() {
    let database = TestSchema::new();
    let storage = database.open().await;
    enqueue(&*storage, unique(&database, Duration::from_secs(60))).await;
    let rate = punctual::model::Rate { count: 1, per: Duration::from_secs(60) };
    let permit = RateRequest { name: key("mail").unwrap(), rate, requested: 1 };
    storage.acquire_rate(permit, SystemClock.now()).await.unwrap();
    let client = database.client().await;
    let schema = &database.schema;
    let count = format!(
        "SELECT (SELECT count(*) FROM \"{schema}\".held_key) + (SELECT count(*) FROM \"{schema}\".rate)"
    );
    for (length, left) in [(Duration::from_secs(30), 2), (Duration::from_secs(120), 0)] {
        let prune = Prune { before: SystemClock.now(), limit: 9, dead: false };
        storage.prune(prune, soon(length)).await.unwrap();
        assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), left);
    }
}
