//! Test schema: a schema for each test, dropped at its end, and helpers for messages.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, ClaimedMessage, EnqueueResult, Entry, SettleResult, Settlement,
};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Correlation, Headers, IdSource, Ids, Key, Message, MessageId, Priority, ProcessId, Queue,
    Source, Topic,
};
use punctual::{Clock, Storage, SystemClock};
use punctual_conformance::backend_tests;
use punctual_postgres::{PostgresBuilder, PostgresStorage};
use tokio_postgres::{Client, NoTls};

/// Environment variable with the address of the server.
pub(crate) const VARIABLE: &str = "PUNCTUAL_POSTGRES_URL";

/// Schema that is dropped when the test ends.
pub(crate) struct TestSchema {
    pub(crate) address: String,
    pub(crate) schema: String,
    pub(crate) ids: Ids,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl TestSchema {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("it_{}_{number}", backend_tests::run_name());
        Self { address: backend_tests::address(VARIABLE), schema, ids: Ids::random() }
    }

    pub(crate) fn builder(&self) -> PostgresBuilder {
        PostgresStorage::builder(&self.address).schema(&self.schema)
    }

    pub(crate) async fn open(&self) -> Arc<PostgresStorage> {
        Arc::new(self.builder().connect().await.unwrap())
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.address).await
    }

    pub(crate) fn message(&self) -> Message {
        let now = SystemClock.now();
        Message {
            id: MessageId::from_uuid(self.ids.next(now)),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at: now,
            created_at: now,
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::json("hello").unwrap(),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            route: None,
        }
    }

    pub(crate) fn entries(&self, count: usize) -> Vec<Entry> {
        (0..count).map(|_| Entry::from(self.message())).collect()
    }

    pub(crate) fn process(&self) -> ProcessId {
        ProcessId::from_uuid(self.ids.next(SystemClock.now()))
    }

    pub(crate) async fn claim(&self, storage: &dyn Storage, limit: usize) -> Vec<ClaimedMessage> {
        self.try_claim(storage, limit).await.unwrap()
    }

    pub(crate) async fn try_claim(
        &self,
        storage: &dyn Storage,
        limit: usize,
    ) -> punctual::Result<Vec<ClaimedMessage>> {
        let now = SystemClock.now();
        let until = add(now, Duration::from_secs(60));
        let claim = Claim::new(Queue::default(), self.process(), limit, until);
        storage.claim(claim, now).await
    }
}

impl Drop for TestSchema {
    fn drop(&mut self) {
        let (address, schema) = (self.address.clone(), self.schema.clone());
        // Its own thread and runtime: a test that panicked drops this while its own unwinds.
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = client(&address).await;
                let text = format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE");
                client.batch_execute(&text).await.unwrap();
            });
        });
        let _ = dropped.join();
    }
}

pub(crate) async fn client(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) async fn enqueue(storage: &dyn Storage, message: Message) -> EnqueueResult {
    storage.enqueue(vec![Entry::from(message)], SystemClock.now()).await.unwrap()[0]
}

pub(crate) async fn settle(storage: &dyn Storage, claimed: &[ClaimedMessage]) -> Vec<SettleResult> {
    let settlements =
        claimed.iter().map(|one| Settlement::new(one.lease_ref(), Verdict::Done, None));
    storage.settle(settlements.collect(), SystemClock.now()).await.unwrap()
}

#[allow(clippy::unnecessary_wraps)] // as a message has it
pub(crate) fn key(text: &str) -> Option<Key> {
    Some(Key::new(text).unwrap())
}

/// Waits until a condition holds, for at most 20 seconds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let until = add(SystemClock.now(), Duration::from_secs(20));
    while !holds().await {
        let now = SystemClock.now();
        assert!(now < until, "not within 20 s: {what}");
        SystemClock.sleep_until(add(now, Duration::from_millis(20))).await;
    }
}

/// Returns whether a statement on a schema waits for a lock.
pub(crate) async fn waits_for_a_lock(watcher: &Client, schema: &str) -> bool {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND query LIKE '%' || $1 || '%'";
    watcher.query_one(waiting, &[&schema]).await.unwrap().get::<_, i64>(0) > 0
}

pub(crate) fn soon(length: Duration) -> Timestamp {
    add(SystemClock.now(), length)
}
