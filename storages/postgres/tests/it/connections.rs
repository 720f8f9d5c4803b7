//! Connections that end: killed, dropped, pooled. Work continues without a restart.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::storage::WakeSource;
use punctual::clock::within;
use punctual::model::Queue;
use punctual::{Clock, Storage, SystemClock};
use punctual_postgres::StatementPreparation;

use crate::schema::{TestSchema, enqueue, eventually, settle, soon};

punctual_conformance::cases! {
    work_continues_when_every_connection_is_killed,
    a_notification_reaches_another_storage,
    a_killed_listener_reconnects_and_notifies,
    behind_a_pooler_statements_are_not_prepared_any_more,
    without_prepared_statements_everything_works,
    a_locked_table_blocks_a_call_for_a_bounded_time,
}

fn source() -> WakeSource {
    WakeSource::Queue(Queue::default())
}

/// Ends the connections whose name has this prefix and that use the channel or tables of this schema.
async fn kill(database: &TestSchema, name: &str) -> i64 {
    let text = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                WHERE application_name = $1 AND pid <> pg_backend_pid()";
    database.client().await.query_one(text, &[&name]).await.unwrap().get(0)
}

/// Opens a storage whose connections have a name of their own.
async fn named(database: &TestSchema, name: &str) -> Arc<punctual_postgres::PostgresStorage> {
    let url = format!("{}?application_name={name}", database.address);
    let builder = punctual_postgres::PostgresStorage::builder(url).schema(&database.schema);
    Arc::new(builder.connect().await.unwrap())
}

async fn work_continues_when_every_connection_is_killed() {
    let database = TestSchema::new();
    let name = database.schema.clone();
    let storage = named(&database, &name).await;
    let entries = database.entries(2_000);
    let sent: BTreeSet<_> = entries.iter().map(|entry| entry.message.id).collect();
    storage.enqueue(entries, SystemClock.now()).await.unwrap();
    let mut done = BTreeSet::new();
    for round in 0.. {
        assert!(round < 1_000, "{} of 2000 done", done.len());
        if round % 5 == 2 && round < 40 {
            assert!(kill(&database, &name).await > 0);
        }
        // A claim whose result was lost is reclaimed when its lease ends, which is not tested here.
        let claimed = match database.try_claim(&*storage, 50).await {
            Ok(claimed) if claimed.is_empty() => break,
            Ok(claimed) => claimed,
            Err(error) => {
                assert!(error.is_temporary(), "{error}");
                continue;
            }
        };
        settle(&*storage, &claimed).await;
        done.extend(claimed.iter().map(|one| one.message.id));
    }
    let lost = sent.difference(&done).count();
    assert!(done.is_subset(&sent) && lost < 500, "{lost} lost");
    assert!(done.len() > 1_000);
}

async fn a_notification_reaches_another_storage() {
    let database = TestSchema::new();
    let (one, two) = (database.open().await, database.open().await);
    eventually("both listen", || async {
        one.notifies_across_processes() && two.notifies_across_processes()
    })
    .await;
    let mut wakeup = two.wakeup(&source());
    // Notifications of the start of the listeners do not count.
    let _ = within(&SystemClock, soon(Duration::from_millis(200)), wakeup.notified()).await;
    assert_eq!(two.next_due(&source()).await.unwrap(), None);
    enqueue(&*one, database.message()).await;
    let notified = within(&SystemClock, soon(Duration::from_secs(5)), wakeup.notified()).await;
    assert!(notified.is_some(), "the other process was not notified");
    assert!(two.next_due(&source()).await.unwrap().is_some());
}

async fn a_killed_listener_reconnects_and_notifies() {
    let database = TestSchema::new();
    let storage = named(&database, &database.schema).await;
    eventually("it listens", || async { storage.notifies_across_processes() }).await;
    let mut wakeup = storage.wakeup(&source());
    let _ = within(&SystemClock, soon(Duration::from_millis(100)), wakeup.notified()).await;
    assert!(kill(&database, &database.schema).await > 0);
    let notified = within(&SystemClock, soon(Duration::from_secs(10)), wakeup.notified()).await;
    assert!(
        notified.is_some(),
        "notifications may have been missed, so all subscribers are notified"
    );
    eventually("it listens again", || async { storage.notifies_across_processes() }).await;
    let other = database.open().await;
    let mut wakeup = storage.wakeup(&source());
    enqueue(&*other, database.message()).await;
    let notified = within(&SystemClock, soon(Duration::from_secs(5)), wakeup.notified()).await;
    assert!(notified.is_some(), "notifications arrive again");
}

/// Behaves like a pooler in transaction mode: statements prepared before do not exist any more.
async fn behind_a_pooler_statements_are_not_prepared_any_more() {
    let database = TestSchema::new();
    let storage = database.builder().pool_size(1).connect().await.unwrap();
    assert!(storage.check().await.unwrap().is_prepared);
    let forget = format!(
        "CREATE FUNCTION \"{0}\".forget() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN DEALLOCATE ALL; RETURN NULL; END $$; \
         CREATE TRIGGER forget AFTER INSERT ON \"{0}\".message \
         FOR EACH STATEMENT EXECUTE FUNCTION \"{0}\".forget()",
        database.schema
    );
    database.client().await.batch_execute(&forget).await.unwrap();
    for _ in 0..3 {
        enqueue(&storage, database.message()).await;
        let claimed = database.claim(&storage, 5).await;
        assert_eq!(settle(&storage, &claimed).await.len(), 1);
    }
    assert!(!storage.check().await.unwrap().is_prepared);
}

async fn without_prepared_statements_everything_works() {
    let database = TestSchema::new();
    let storage =
        database.builder().prepared(StatementPreparation::Unnamed).connect().await.unwrap();
    storage.enqueue(database.entries(3_000), SystemClock.now()).await.unwrap();
    let claimed = database.claim(&storage, 3_000).await;
    assert_eq!(settle(&storage, &claimed).await.len(), 3_000);
    assert!(!storage.check().await.unwrap().is_prepared);
}

async fn a_locked_table_blocks_a_call_for_a_bounded_time() {
    let database = TestSchema::new();
    // The tables are created without the timeout: on a busy server that takes longer than any statement below.
    database.builder().connect().await.unwrap();
    let builder = database.builder().statement_timeout(Duration::from_secs(2));
    let storage = builder.connect().await.unwrap();
    let mut holder = database.client().await;
    let transaction = holder.transaction().await.unwrap();
    let lock = format!("LOCK TABLE \"{}\".message IN ACCESS EXCLUSIVE MODE", database.schema);
    transaction.batch_execute(&lock).await.unwrap();
    let error = database.try_claim(&storage, 5).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("statement_timeout"), "{error}");
    transaction.rollback().await.unwrap();
    enqueue(&storage, database.message()).await;
    assert_eq!(database.claim(&storage, 5).await.len(), 1);
}
