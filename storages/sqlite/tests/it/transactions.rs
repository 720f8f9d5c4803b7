//! Transactions for handlers: a handler's writes and the settlement of its message are one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual::backend::storage::Reclaim;
use punctual::clock::add;
use punctual::model::{HandlerOptions, MessageId, MessageState, ProcessId};
use punctual::{
    Clock as _, Context, ErrorKind, Handler, HandlerResult, Inspect as _, Outcome, Punctual, Retry,
    Storage as _, SystemClock,
};
use punctual_sqlite::SqliteStorage;

use crate::fixture::{Fixture, rows_of};

/// Waits until a message is done.
pub(crate) async fn is_done(storage: &SqliteStorage, id: MessageId) {
    for _ in 0..500 {
        let record = storage.message(id).await.unwrap();
        if record.is_some_and(|record| record.state == MessageState::Done) {
            return;
        }
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
    }
    panic!("the message {id} is not done");
}

/// Failure of the first attempt.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Succeeds,
    Refuses,
    BreaksARule,
    Panics,
    Commits,
    LosesItsLease,
}

#[derive(Clone)]
struct Paying {
    storage: Arc<SqliteStorage>,
    first: First,
    begun: Arc<AtomicU32>,
    kinds: Arc<std::sync::Mutex<Vec<(ErrorKind, String)>>>,
}

impl Handler<i64> for Paying {
    async fn handle(&self, order: i64, context: Context) -> HandlerResult {
        let is_first = self.begun.fetch_add(1, Ordering::SeqCst) == 0;
        let first = if is_first { self.first } else { First::Succeeds };
        if first == First::LosesItsLease {
            let owner = ProcessId::from_uuid(context.execution_id().as_uuid());
            let later = add(SystemClock.now(), Duration::from_secs(900));
            let reclaim = Reclaim { owner, limit: 9, until: later };
            assert_eq!(self.storage.reclaim(reclaim, later).await?.len(), 1);
        }
        let next = context.publisher().publish("paid", &order).prepare().await?;
        let paid = self.storage.settle_with(&context, move |transaction| {
            transaction.execute("INSERT INTO orders VALUES (?1)", [order])?;
            match first {
                First::Refuses => return Err("not enough money".into()),
                First::BreaksARule => {
                    transaction.execute("INSERT INTO orders VALUES (?1)", [order])?;
                }
                First::Panics => panic!("a defect of the handler"),
                First::Commits => transaction.execute_batch("COMMIT")?,
                First::Succeeds | First::LosesItsLease => {}
            }
            transaction.enqueue(std::slice::from_ref(&next))?;
            Ok(transaction.last_insert_rowid())
        });
        if let Err(error) = paid.await {
            let mut words = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                words = format!("{words} <- {source}");
            }
            self.kinds.lock().unwrap().push((error.kind(), words));
            return Err(error.into());
        }
        Ok(Outcome::Done)
    }
}

struct Shop {
    f: Fixture,
    storage: Arc<SqliteStorage>,
    paying: Paying,
    punctual: Punctual,
}

impl Shop {
    async fn open(first: First) -> Self {
        let f = Fixture::new();
        let storage = Arc::new(f.open().await);
        f.other_connection().execute_batch("CREATE TABLE orders (id INTEGER UNIQUE)").unwrap();
        let (begun, kinds) = (Arc::default(), Arc::default());
        let paying = Paying { storage: Arc::clone(&storage), first, begun, kinds };
        let retry = Retry::intervals([Duration::from_millis(10); 3]);
        let handler_options = HandlerOptions::new().retry(retry);
        let builder = Punctual::builder()
            .storage(Arc::clone(&storage))
            .handler_with("pay", handler_options, paying.clone())
            .handler("paid", |_: i64, _: Context| async { Outcome::Done });
        let punctual = builder.build().unwrap();
        punctual.start().await.unwrap();
        Self { f, storage, paying, punctual }
    }

    /// Pays, and returns the first error.
    async fn pay(&self) -> (ErrorKind, String) {
        let id = self.punctual.publisher().publish("pay", &7_i64).await.unwrap().id;
        is_done(&self.storage, id).await;
        let counts = || async {
            let counts = self.storage.counts(SystemClock.now()).await.unwrap();
            counts.total(MessageState::Done)
        };
        for _ in 0..500 {
            if counts().await == 2 {
                break;
            }
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
        }
        assert_eq!(counts().await, 2, "what it published was handled");
        self.punctual.shutdown().await;
        assert_eq!(rows_of(&self.f.other_connection(), "orders"), 1, "written once");
        assert_eq!(self.paying.begun.load(Ordering::SeqCst), 2);
        let record = self.storage.message(id).await.unwrap().unwrap();
        assert_eq!(record.attempt, 2);
        assert!(self.storage.check().await.unwrap().findings.is_empty());
        self.paying.kinds.lock().unwrap().remove(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_handler_takes_its_writes_back_and_the_next_attempt_writes_once() {
    let (kind, words) = Shop::open(First::Refuses).await.pay().await;
    assert_eq!(kind, ErrorKind::Conflict);
    assert!(words.contains("<- not enough money"), "{words}");
    let (_, words) = Shop::open(First::BreaksARule).await.pay().await;
    assert!(words.contains("UNIQUE"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_the_work_ends_neither_the_writer_nor_other_calls() {
    let (kind, words) = Shop::open(First::Panics).await.pay().await;
    assert_eq!(kind, ErrorKind::Conflict);
    assert!(words.contains("panicked"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_lost_the_lease_writes_nothing() {
    let shop = Shop::open(First::LosesItsLease).await;
    let id = shop.punctual.publisher().publish("pay", &7_i64).await.unwrap().id;
    for _ in 0..500 {
        if !shop.paying.kinds.lock().unwrap().is_empty() {
            break;
        }
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
    }
    let (kind, words) = shop.paying.kinds.lock().unwrap().remove(0);
    assert_eq!(kind, ErrorKind::Conflict, "{words}");
    assert!(words.contains("was lost"), "{words}");
    shop.punctual.shutdown().await;
    assert_eq!(rows_of(&shop.f.other_connection(), "orders"), 0);
    assert_eq!(shop.storage.message(id).await.unwrap().unwrap().state, MessageState::Running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_cannot_end_a_transaction_that_others_share() {
    let (kind, words) = Shop::open(First::Commits).await.pay().await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(words.contains("COMMIT"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_handlers_share_commits_and_a_failing_one_affects_no_other() {
    let f = Fixture::new();
    let storage = Arc::new(f.open().await);
    let shop = f.other_connection();
    shop.execute_batch("CREATE TABLE orders (id INTEGER UNIQUE)").unwrap();
    let handler = {
        let storage = Arc::clone(&storage);
        move |order: i64, context: Context| {
            let (storage, attempt) = (Arc::clone(&storage), context.attempt());
            async move {
                let paid = storage.settle_with(&context, move |transaction| {
                    transaction.execute("INSERT INTO orders VALUES (?1)", [order])?;
                    let fails = attempt == 1 && order % 7 == 0;
                    if fails { Err("every seventh fails once".into()) } else { Ok(()) }
                });
                paid.await
            }
        }
    };
    let retry = Retry::intervals([Duration::from_millis(10); 3]);
    let handler_options = HandlerOptions::new().retry(retry);
    let builder = Punctual::builder().storage(Arc::clone(&storage));
    let punctual = builder.handler_with("pay", handler_options, handler).build().unwrap();
    let publisher = punctual.publisher();
    let many = (1..=200_i64).map(|order| publisher.publish("pay", &order)).collect();
    let published = publisher.publish_all(many).await.unwrap();
    punctual.start().await.unwrap();
    for one in &published {
        is_done(&storage, one.id).await;
    }
    punctual.shutdown().await;
    assert_eq!(rows_of(&shop, "orders"), 200);
    assert!(storage.check().await.unwrap().findings.is_empty());
}
