//! Outbox by way of sqlx: messages, settlements and inbox records in its transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, Reclaim, Settlement, WakeSource};
use punctual::clock::within;
use punctual::inspect::Inspect as _;
use punctual::model::{HandlerOptions, MessageState, Queue};
use punctual::{
    Clock as _, Context, ErrorKind, Handler, HandlerResult, Inbox as _, InboxResult, Outbox as _,
    Outcome, Punctual, Retry, Storage as _, SystemClock,
};
use punctual_postgres::PostgresStorage;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::deduplication::Steps;
use crate::schema::{TestSchema, enqueue, eventually, soon};

punctual_conformance::cases! {
    an_outbox_of_sqlx_returns_what_the_storage_returns,
    a_message_stored_through_sqlx_notifies_after_the_commit_and_is_gone_after_a_rollback,
    a_settlement_through_sqlx_needs_the_lease,
    a_delivery_is_admitted_once_through_sqlx,
    a_handler_with_a_transaction_of_sqlx_writes_once,
    an_error_of_the_server_keeps_its_meaning,
}

async fn connect(database: &TestSchema) -> PgConnection {
    PgConnection::connect(&database.address).await.unwrap()
}

async fn an_outbox_of_sqlx_returns_what_the_storage_returns() {
    let database = TestSchema::new();
    let steps = Steps::new(&database);
    let (answers, outcome) = steps.usual().await;
    let storage = database.open().await;
    steps.prepare(&database, &storage).await;
    let mut connection = connect(&database).await;
    for (batch, expected) in steps.batches.iter().zip(answers) {
        let mut transaction = connection.begin().await.unwrap();
        let mut outbox = storage.sqlx_outbox(&mut transaction);
        let answered = outbox.enqueue(batch.clone(), SystemClock.now()).await.unwrap();
        assert_eq!(answered, expected, "{batch:?}");
        transaction.commit().await.unwrap();
    }
    assert_eq!(Steps::outcome(&storage).await, outcome);
}

async fn a_message_stored_through_sqlx_notifies_after_the_commit_and_is_gone_after_a_rollback() {
    let database = Arc::new(TestSchema::new());
    let storage = database.open().await;
    eventually("it hears others", || async { storage.notifies_across_processes() }).await;
    let source = WakeSource::Queue(Queue::default());
    for commits in [false, true] {
        assert_eq!(storage.next_due(&source).await.unwrap(), None);
        let mut wakeup = storage.wakeup(&source);
        let (here, inside) = (Arc::clone(&storage), Arc::clone(&database));
        // Spawned, because its futures may move between threads.
        let ran = tokio::spawn(async move {
            let mut connection = connect(&inside).await;
            let mut transaction = connection.begin().await.unwrap();
            let mut outbox = here.sqlx_outbox(&mut transaction);
            let answers = outbox.enqueue(inside.entries(3), SystemClock.now()).await.unwrap();
            assert_eq!(answers, [EnqueueResult::Stored; 3]);
            assert!(inside.claim(&*here, 9).await.is_empty(), "not before the commit");
            if commits {
                transaction.commit().await.unwrap();
            } else {
                transaction.rollback().await.unwrap();
            }
        });
        ran.await.unwrap();
        let limit = Duration::from_millis(if commits { 5_000 } else { 150 });
        let notified = within(&SystemClock, soon(limit), wakeup.notified()).await;
        assert_eq!(notified.is_some(), commits);
        assert_eq!(database.claim(&*storage, 9).await.len(), if commits { 3 } else { 0 });
    }
}

async fn a_settlement_through_sqlx_needs_the_lease() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let mut connection = connect(&database).await;
    for is_lost in [false, true] {
        enqueue(&*storage, database.message()).await;
        let claimed = database.claim(&*storage, 1).await.remove(0);
        if is_lost {
            let until = soon(Duration::from_secs(3_600));
            let reclaim = Reclaim { owner: database.process(), limit: 9, until };
            let taken = storage.reclaim(reclaim, soon(Duration::from_secs(900))).await.unwrap();
            assert_eq!(taken.len(), 1);
        }
        let lease = claimed.lease_ref();
        let done = Settlement::new(lease, Verdict::Done, None);
        let mut transaction = connection.begin().await.unwrap();
        let settled = storage.sqlx_outbox(&mut transaction).settle(done, SystemClock.now()).await;
        let state = async || storage.message(claimed.message.id).await.unwrap().unwrap().state;
        assert_eq!(state().await, MessageState::Running, "not before the commit");
        if is_lost {
            let error = settled.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            drop(transaction);
            assert_eq!(state().await, MessageState::Running);
        } else {
            settled.unwrap();
            transaction.commit().await.unwrap();
            assert_eq!(state().await, MessageState::Done);
        }
    }
}

async fn a_delivery_is_admitted_once_through_sqlx() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let (id, now) = (database.message().id, SystemClock.now());
    let mut connection = connect(&database).await;
    for expected in [InboxResult::First, InboxResult::Again] {
        let mut transaction = connection.begin().await.unwrap();
        let mut outbox = storage.sqlx_outbox(&mut transaction);
        assert_eq!(outbox.admit("billing", id, now).await.unwrap(), expected);
        transaction.commit().await.unwrap();
    }
    assert!(storage.has_seen("billing", id).await.unwrap());
}

/// Writes an order with sqlx and settles its own message; the first attempt is rolled back.
struct Paying {
    storage: Arc<PostgresStorage>,
    url: String,
    insert: String,
    begun: Arc<AtomicU32>,
}

impl Handler<i64> for Paying {
    async fn handle(&self, order: i64, context: Context) -> HandlerResult {
        let mut connection = PgConnection::connect(&self.url).await?;
        let mut transaction = connection.begin().await?;
        let insert = sqlx::query(AssertSqlSafe(self.insert.clone())).bind(order);
        insert.execute(&mut *transaction).await?;
        let mut outbox = self.storage.sqlx_outbox(&mut transaction);
        outbox.settle(context.settlement()?, context.started_at()).await?;
        if self.begun.fetch_add(1, Ordering::SeqCst) == 0 {
            transaction.rollback().await?;
            return Err("killed halfway".into());
        }
        transaction.commit().await?;
        Ok(Outcome::Done)
    }
}

async fn a_handler_with_a_transaction_of_sqlx_writes_once() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let table = format!("\"{}\".orders", database.schema);
    let client = database.client().await;
    client.batch_execute(&format!("CREATE TABLE {table} (id int8)")).await.unwrap();
    let begun = Arc::new(AtomicU32::new(0));
    let paying = Paying {
        storage: Arc::clone(&storage),
        url: database.address.clone(),
        insert: format!("INSERT INTO {table} VALUES ($1)"),
        begun: Arc::clone(&begun),
    };
    let retry = Retry::intervals([Duration::from_millis(10); 3]);
    let handler_options = HandlerOptions::new().retry(retry);
    let builder = Punctual::builder().storage(Arc::clone(&storage)).handler_with(
        "pay",
        handler_options,
        paying,
    );
    let punctual = builder.build().unwrap();
    punctual.start().await.unwrap();
    let id = punctual.publisher().publish("pay", &7_i64).await.unwrap().id;
    eventually("it is done", || async {
        storage.message(id).await.unwrap().is_some_and(|record| record.state == MessageState::Done)
    })
    .await;
    punctual.shutdown().await;
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    let orders = client.query(&format!("SELECT id FROM {table}"), &[]).await.unwrap();
    assert_eq!(orders.len(), 1);
}

async fn an_error_of_the_server_keeps_its_meaning() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let mut connection = connect(&database).await;
    let mut transaction = connection.begin().await.unwrap();
    sqlx::query("SELECT 1 / 0").execute(&mut *transaction).await.unwrap_err();
    let mut outbox = storage.sqlx_outbox(&mut transaction);
    let error = outbox.enqueue(database.entries(1), SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("aborted"), "{error}");
}
