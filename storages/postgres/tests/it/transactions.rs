//! Transactions of an application and of handlers: their messages are notified after the commit, their writes happen
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual::backend::storage::{EnqueueResult, Entry, Reclaim, WakeSource};
use punctual::clock::within;
use punctual::inspect::{ExecutionFilter, Inspect as _, PageRequest};
use punctual::model::{Ending, HandlerOptions, MessageState, Queue};
use punctual::{
    Clock as _, Context, ErrorKind, Handler, HandlerResult, Message, Outbox as _, Outcome,
    Punctual, Retry, Storage as _, SystemClock,
};
use punctual_postgres::PostgresStorage;

use crate::deduplication::Steps;
use crate::schema::{TestSchema, enqueue, eventually, key, soon};

punctual_conformance::cases! {
    an_outbox_returns_what_the_storage_returns,
    a_commit_wakes_subscribers_in_both_processes_and_a_rollback_does_not,
    the_writes_of_a_handler_that_runs_twice_happen_once,
    a_handler_that_lost_its_lease_commits_nothing,
    a_dropped_transaction_is_rolled_back_and_its_connection_replaced,
    a_message_of_a_handler_is_stored_with_its_commit,
    settings_and_locks_of_a_handler_are_reset_on_its_connection,
    of_two_transactions_with_one_key_the_second_gets_a_duplicate,
}

async fn an_outbox_returns_what_the_storage_returns() {
    let database = TestSchema::new();
    let steps = Steps::new(&database);
    let (answers, outcome) = steps.usual().await;
    let storage = database.open().await;
    steps.prepare(&database, &storage).await;
    let mut client = database.client().await;
    for (batch, expected) in steps.batches.iter().zip(answers) {
        let transaction = client.transaction().await.unwrap();
        let mut outbox = storage.outbox(&transaction);
        let answered = outbox.enqueue(batch.clone(), SystemClock.now()).await.unwrap();
        assert_eq!(answered, expected, "{batch:?}");
        transaction.commit().await.unwrap();
    }
    assert_eq!(Steps::outcome(&storage).await, outcome);
}

async fn a_commit_wakes_subscribers_in_both_processes_and_a_rollback_does_not() {
    let database = TestSchema::new();
    let (storage, elsewhere) = (database.open().await, database.open().await);
    let source = WakeSource::Queue(Queue::default());
    for node in [&storage, &elsewhere] {
        eventually("it hears others", || async { node.notifies_across_processes() }).await;
    }
    for (commits, length) in [(false, 0), (true, 0), (true, 300)] {
        let mut wakeups = Vec::new();
        for node in [&storage, &elsewhere] {
            assert_eq!(node.next_due(&source).await.unwrap(), None);
            wakeups.push(node.wakeup(&source));
        }
        let mut client = database.client().await;
        let transaction = client.transaction().await.unwrap();
        storage.outbox(&transaction).enqueue(database.entries(1), SystemClock.now()).await.unwrap();
        SystemClock.sleep_until(soon(Duration::from_millis(length))).await;
        assert!(database.claim(&*storage, 9).await.is_empty(), "not before the commit");
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        for wakeup in &mut wakeups {
            let limit = Duration::from_millis(if commits { 5_000 } else { 150 });
            let notified = within(&SystemClock, soon(limit), wakeup.notified()).await;
            assert_eq!(notified.is_some(), commits, "after {length} ms");
        }
        let claimed = database.claim(&*elsewhere, 9).await;
        assert_eq!(claimed.len(), usize::from(commits));
        crate::schema::settle(&*storage, &claimed).await;
    }
}

/// Handler that writes an order in its transaction, and then acts as the test requires.
#[derive(Clone)]
struct Paying {
    storage: Arc<PostgresStorage>,
    table: String,
    begun: Arc<AtomicU32>,
    ended: Arc<AtomicU32>,
    act: Act,
}

#[derive(Clone, Copy, PartialEq)]
enum Act {
    FailFirst,
    LoseLease,
    DropFirst,
    Publish,
    Litter,
}

impl Handler<i64> for Paying {
    async fn handle(&self, order: i64, context: Context) -> HandlerResult {
        let tries = self.begun.fetch_add(1, Ordering::SeqCst);
        let transaction = self.storage.begin(&context).await?;
        let insert = format!("INSERT INTO {} VALUES ($1)", self.table);
        transaction.execute(&insert, &[&order]).await?;
        match self.act {
            Act::FailFirst if tries == 0 => {
                transaction.roll_back().await?;
                return Err("killed halfway".into());
            }
            Act::DropFirst if tries == 0 => {
                drop(transaction);
                return Err("dropped halfway".into());
            }
            Act::LoseLease if tries == 0 => {
                let owner = punctual::model::ProcessId::from_uuid(context.execution_id().as_uuid());
                let until = soon(Duration::from_secs(3_600));
                let reclaim = Reclaim { owner, limit: 9, until };
                let taken = self.storage.reclaim(reclaim, soon(Duration::from_secs(900))).await?;
                assert_eq!(taken.len(), 1, "another worker has it now");
                let error = transaction.commit().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                self.ended.fetch_add(100, Ordering::SeqCst);
                return Ok(Outcome::Done);
            }
            Act::Litter => {
                let litter = "SET search_path TO nowhere; CREATE TEMP TABLE litter (id int8); \
                              SELECT pg_advisory_lock(4711, 11)";
                transaction.batch_execute(litter).await?;
            }
            Act::Publish => {
                let mut outbox = transaction.outbox();
                context.publisher().publish("paid", &order).in_tx(&mut outbox).await?;
            }
            _ => {}
        }
        transaction.commit().await?;
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(Outcome::Done)
    }
}

struct Shop {
    database: TestSchema,
    storage: Arc<PostgresStorage>,
    paying: Paying,
    punctual: Punctual,
}

impl Shop {
    async fn open(act: Act) -> Self {
        let database = TestSchema::new();
        let storage = Arc::new(database.builder().pool_size(1).connect().await.unwrap());
        let table = format!("\"{}\".orders", database.schema);
        let create = format!("CREATE TABLE {table} (id int8)");
        database.client().await.batch_execute(&create).await.unwrap();
        let (begun, ended) = (Arc::default(), Arc::default());
        let paying = Paying { storage: Arc::clone(&storage), table, begun, ended, act };
        let retry = Retry::intervals([Duration::from_millis(10); 3]);
        let handler_options = HandlerOptions::new().retry(retry);
        let builder = Punctual::builder()
            .storage(Arc::clone(&storage))
            .handler_with("pay", handler_options, paying.clone())
            .handler("paid", |_: i64, _: Context| async { Outcome::Done });
        let punctual = builder.build().unwrap();
        punctual.start().await.unwrap();
        Self { database, storage, paying, punctual }
    }

    async fn pay(&self) -> punctual::model::MessageId {
        self.punctual.publisher().publish("pay", &7_i64).await.unwrap().id
    }

    async fn paid(&self) -> Vec<i64> {
        let query = format!("SELECT id FROM {}", self.paying.table);
        let rows = self.database.client().await.query(&query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn ended(&self, count: u32) {
        eventually("the handler ended", || async {
            self.paying.ended.load(Ordering::SeqCst) >= count
        })
        .await;
    }
}

async fn the_writes_of_a_handler_that_runs_twice_happen_once() {
    let shop = Shop::open(Act::FailFirst).await;
    let id = shop.pay().await;
    shop.ended(1).await;
    shop.punctual.shutdown().await;
    assert_eq!(shop.paying.begun.load(Ordering::SeqCst), 2);
    assert_eq!(shop.paid().await, [7]);
    let record = shop.storage.message(id).await.unwrap().unwrap();
    assert_eq!((record.state, record.attempt), (MessageState::Done, 2));
    let filter = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
    let history = shop.storage.executions(filter, PageRequest::first(9)).await.unwrap().rows;
    let endings: Vec<Ending> = history.iter().map(|execution| execution.ending).collect();
    assert_eq!(endings.len(), 2, "{history:?}");
    assert!(endings.contains(&Ending::Succeeded), "{endings:?}");
}

async fn a_handler_that_lost_its_lease_commits_nothing() {
    let shop = Shop::open(Act::LoseLease).await;
    let id = shop.pay().await;
    shop.ended(100).await;
    assert!(shop.paid().await.is_empty(), "the writes were rolled back");
    let record = shop.storage.message(id).await.unwrap().unwrap();
    assert_eq!(record.state, MessageState::Running, "it belongs to another worker");
    shop.punctual.shutdown().await;
    assert_eq!(shop.storage.message(id).await.unwrap().unwrap().state, MessageState::Running);
}

async fn a_dropped_transaction_is_rolled_back_and_its_connection_replaced() {
    let shop = Shop::open(Act::DropFirst).await;
    let id = shop.pay().await;
    shop.ended(1).await;
    shop.punctual.shutdown().await;
    assert_eq!(shop.paid().await, [7], "with one connection for handlers and one for the rest");
    assert_eq!(shop.storage.message(id).await.unwrap().unwrap().state, MessageState::Done);
    enqueue(&*shop.storage, shop.database.message()).await;
}

async fn a_message_of_a_handler_is_stored_with_its_commit() {
    let shop = Shop::open(Act::Publish).await;
    shop.pay().await;
    shop.ended(1).await;
    eventually("what it published was handled", || async {
        let counts = shop.storage.counts(SystemClock.now()).await.unwrap();
        counts.total(MessageState::Done) == 2
    })
    .await;
    shop.punctual.shutdown().await;
    assert_eq!(shop.paid().await, [7]);
}

async fn settings_and_locks_of_a_handler_are_reset_on_its_connection() {
    let shop = Shop::open(Act::Litter).await;
    for count in 1..=3 {
        shop.pay().await;
        shop.ended(count).await;
    }
    shop.punctual.shutdown().await;
    assert_eq!(
        shop.paid().await,
        [7, 7, 7],
        "the temporary table does not disturb the next handler"
    );
    let locks = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 4711";
    assert!(shop.database.client().await.query(locks, &[]).await.unwrap().is_empty());
}

async fn of_two_transactions_with_one_key_the_second_gets_a_duplicate() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let keyed = || Entry::from(Message { dedupe: key("one"), ..database.message() });
    for others in [0, 1] {
        let batch = || [vec![keyed()], database.entries(others)].concat();
        let (first, second) = (batch(), batch());
        let twin = first[0].message.id;
        let mut client = database.client().await;
        let transaction = client.transaction().await.unwrap();
        storage.outbox(&transaction).enqueue(first, SystemClock.now()).await.unwrap();
        let (here, mut elsewhere) = (Arc::clone(&storage), database.client().await);
        let waiting = tokio::spawn(async move {
            let transaction = elsewhere.transaction().await.unwrap();
            let stored = here.outbox(&transaction).enqueue(second, SystemClock.now()).await;
            transaction.commit().await.unwrap();
            stored.unwrap()
        });
        SystemClock.sleep_until(soon(Duration::from_millis(200))).await;
        assert!(!waiting.is_finished(), "whether the first is stored is not known yet");
        transaction.commit().await.unwrap();
        let answers = waiting.await.unwrap();
        assert_eq!(answers[0], EnqueueResult::Duplicate(twin));
        assert_eq!(answers[1..], vec![EnqueueResult::Stored; others]);
        let claimed = database.claim(&*storage, 9).await;
        assert_eq!(claimed.len(), 1 + 2 * others);
        crate::schema::settle(&*storage, &claimed).await;
    }
}
