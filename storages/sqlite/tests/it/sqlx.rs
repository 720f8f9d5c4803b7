//! Outbox by way of sqlx: messages, settlements and inbox records in its transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{EnqueueResult, Reclaim, WakeSource};
use punctual::clock::{add, within};
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{DeadReason, HandlerOptions, MessageState, Queue};
use punctual::{
    Clock as _, Context, ErrorKind, Handler, HandlerResult, Inbox as _, InboxResult, Inspect as _,
    Outbox as _, Outcome, Punctual, Retry, Storage as _, SystemClock,
};
use punctual_sqlite::SqliteSqlxOutbox;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Transaction};

use crate::deduplication::Steps;
use crate::fixture::{Fixture, at, claim, offer, rows_of, settle};

pub(crate) async fn connect(f: &Fixture) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(f.path());
    options.busy_timeout(Duration::from_secs(10)).connect().await.unwrap()
}

pub(crate) async fn begin(connection: &mut SqliteConnection) -> Transaction<'_, sqlx::Sqlite> {
    connection.begin_with("BEGIN IMMEDIATE").await.unwrap()
}

#[tokio::test]
async fn an_outbox_of_sqlx_returns_what_the_storage_returns() {
    let f = Fixture::new();
    let steps = Steps::new(&f);
    let (answers, outcome) = steps.usual().await;
    let storage = f.open().await;
    steps.prepare(&f, &storage).await;
    let mut connection = connect(&f).await;
    for (batch, expected) in steps.batches.iter().zip(answers) {
        let mut transaction = begin(&mut connection).await;
        let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
        assert_eq!(outbox.enqueue(batch.clone(), at(0)).await.unwrap(), expected, "{batch:?}");
        transaction.commit().await.unwrap();
    }
    assert_eq!(Steps::outcome(&storage).await, outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_stored_through_sqlx_notifies_after_the_commit_and_is_gone_after_a_rollback() {
    let f = Arc::new(Fixture::new());
    let storage = Arc::new(f.open().await);
    let source = WakeSource::Queue(Queue::default());
    for commits in [false, true] {
        assert_eq!(storage.next_due(&source).await.unwrap(), None);
        let mut wakeup = storage.wakeup(&source);
        let (here, inside) = (Arc::clone(&storage), Arc::clone(&f));
        // Spawned, because its futures may move between threads.
        let ran = tokio::spawn(async move {
            let mut connection = connect(&inside).await;
            let mut transaction = begin(&mut connection).await;
            let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
            let entries = inside.entries(2);
            let id = entries[0].message.id;
            assert_eq!(outbox.enqueue(entries, at(0)).await.unwrap(), [EnqueueResult::Stored; 2]);
            assert_eq!(here.message(id).await.unwrap(), None, "not before the commit");
            if commits {
                transaction.commit().await.unwrap();
            } else {
                transaction.rollback().await.unwrap();
            }
        });
        ran.await.unwrap();
        let limit = Duration::from_millis(if commits { 5_000 } else { 300 });
        let notified = within(&SystemClock, add(SystemClock.now(), limit), wakeup.notified()).await;
        assert_eq!(notified.is_some(), commits);
        let pending = storage.counts(at(0)).await.unwrap().total(MessageState::Pending);
        assert_eq!(pending, if commits { 2 } else { 0 });
    }
}

#[tokio::test]
async fn every_decision_is_settled_as_the_storage_does() {
    let again = |error: Option<&str>| Verdict::Again {
        due_at: at(99),
        attempt: 1,
        crashes: 2,
        snoozes: 3,
        error: error.map(Arc::from),
        why: AgainReason::Retry,
    };
    let dead = |error: Option<&str>| Verdict::Dead {
        reason: DeadReason::Poison,
        error: error.map(Arc::from),
    };
    let verdicts = [
        Verdict::Done,
        Verdict::Cancelled,
        again(None),
        again(Some("a")),
        dead(None),
        dead(Some("b\0")),
    ];
    for verdict in verdicts {
        let f = Fixture::new();
        let mut outcomes = Vec::new();
        let message = f.message();
        for by_sqlx in [false, true] {
            let file = Fixture::new();
            let storage = file.open().await;
            offer(&storage, message.clone()).await;
            let claimed = claim(&storage, f.process(), 1).await.remove(0);
            let mut settlement = file.settlement(&claimed, verdict.clone());
            if by_sqlx {
                let mut connection = connect(&file).await;
                let mut transaction = begin(&mut connection).await;
                let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
                outbox.settle(settlement.clone(), at(11)).await.unwrap();
                transaction.commit().await.unwrap();
                settlement.lease.token += 1;
                let mut transaction = begin(&mut connection).await;
                let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
                let error = outbox.settle(settlement, at(11)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            } else {
                settle(&storage, vec![settlement]).await;
            }
            let history =
                storage.executions(ExecutionFilter::default(), PageRequest::first(9)).await;
            let mut history = history.unwrap().rows;
            for execution in &mut history {
                execution.process = None;
            }
            assert_eq!(history.len(), 1);
            assert!(storage.check().await.unwrap().findings.is_empty(), "the counts are right");
            outcomes.push((storage.message(message.id).await.unwrap(), history));
        }
        assert_eq!(outcomes[0], outcomes[1], "{verdict:?}");
    }
}

#[tokio::test]
async fn an_owner_that_lost_the_lease_loses_its_writes_and_deliveries_are_admitted_once() {
    let f = Fixture::new();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    let mut connection = connect(&f).await;
    sqlx::query("CREATE TABLE orders (id)").execute(&mut connection).await.unwrap();
    let reclaim = Reclaim { owner: f.process(), limit: 1, until: at(600) };
    assert_eq!(storage.reclaim(reclaim, at(100)).await.unwrap().len(), 1);

    let mut transaction = begin(&mut connection).await;
    sqlx::query("INSERT INTO orders VALUES (1)").execute(&mut *transaction).await.unwrap();
    let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
    let done = f.settlement(&claimed, Verdict::Done);
    assert_eq!(outbox.settle(done, at(11)).await.unwrap_err().kind(), ErrorKind::Conflict);
    drop(transaction);
    let orders = sqlx::query("SELECT 1 FROM orders").fetch_all(&mut connection).await.unwrap();
    assert!(orders.is_empty());

    let id = claimed.message.id;
    for expected in [InboxResult::First, InboxResult::Again] {
        let mut transaction = begin(&mut connection).await;
        let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
        assert_eq!(outbox.admit("billing", id, at(1)).await.unwrap(), expected);
        transaction.commit().await.unwrap();
    }
    assert!(storage.has_seen("billing", id).await.unwrap());
}

#[tokio::test]
async fn a_lock_of_another_process_is_reported() {
    let f = Fixture::new();
    let _storage = f.open().await;
    let options = SqliteConnectOptions::new().filename(f.path());
    let mut connection = options.busy_timeout(Duration::ZERO).connect().await.unwrap();
    let _lock = f.lock();
    let mut transaction = connection.begin().await.unwrap();
    let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
    let error = outbox.enqueue(f.entries(1), at(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("write lock"), "{error}");
}

/// Writes an order with sqlx and settles its own message; the first attempt is rolled back.
struct Paying {
    f: Arc<Fixture>,
    begun: Arc<AtomicU32>,
}

impl Handler<i64> for Paying {
    async fn handle(&self, order: i64, context: Context) -> HandlerResult {
        let mut connection = connect(&self.f).await;
        let mut transaction = begin(&mut connection).await;
        let insert = sqlx::query("INSERT INTO orders VALUES (?1)").bind(order);
        insert.execute(&mut *transaction).await?;
        let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
        outbox.settle(context.settlement()?, context.started_at()).await?;
        if self.begun.fetch_add(1, Ordering::SeqCst) == 0 {
            transaction.rollback().await?;
            return Err("killed halfway".into());
        }
        transaction.commit().await?;
        Ok(Outcome::Done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_with_a_transaction_of_sqlx_writes_once() {
    let f = Arc::new(Fixture::new());
    let storage = Arc::new(f.open().await);
    let shop = f.other_connection();
    shop.execute_batch("CREATE TABLE orders (id)").unwrap();
    let begun = Arc::new(AtomicU32::new(0));
    let paying = Paying { f: Arc::clone(&f), begun: Arc::clone(&begun) };
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
    crate::transactions::is_done(&storage, id).await;
    punctual.shutdown().await;
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    assert_eq!(rows_of(&shop, "orders"), 1);
    assert!(storage.check().await.unwrap().findings.is_empty());
}
