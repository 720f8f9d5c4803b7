//! Where a test keeps its data: a schema of its own, dropped at the end, and a few messages.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Headers, IdSource, Ids, Key, Message, MessageId, Priority, ProcessId, Queue, Source,
    Topic, Trail,
};
use punctual::policy::Verdict;
use punctual::storage::{Claim, Claimed, Enqueued, Entry, Settled, Settlement};
use punctual::{Clock, Storage, SystemClock};
use punctual_postgres::{PostgresBuilder, PostgresStorage};
use tokio_postgres::{Client, NoTls};

pub(crate) type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// The most a test may take in real time.
const LENGTH_MAX: Duration = Duration::from_secs(100);

/// Lists the tests of a module.
#[macro_export]
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            (concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))
        ),+];
    };
}

pub(crate) fn url() -> Option<String> {
    std::env::var("PUNCTUAL_POSTGRES_URL").ok().filter(|url| !url.is_empty())
}

pub(crate) fn try_case(run: fn() -> Ran) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let until = add(SystemClock.now(), LENGTH_MAX);
        runtime.block_on(within(&SystemClock, until, run())).expect("the test took too long");
    }));
    runtime.shutdown_background();
    if let Err(panic) = ran {
        resume_unwind(panic);
    }
}

/// A schema that is dropped when the test ends.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) ids: Ids,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("it_{}_{number}", std::process::id());
        Self { url: url().unwrap(), schema, ids: Ids::random() }
    }

    pub(crate) fn builder(&self) -> PostgresBuilder {
        PostgresStorage::builder(&self.url).schema(&self.schema)
    }

    pub(crate) async fn open(&self) -> Arc<PostgresStorage> {
        Arc::new(self.builder().connect().await.unwrap())
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.url).await
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
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: None,
        }
    }

    pub(crate) fn entries(&self, count: usize) -> Vec<Entry> {
        (0..count).map(|_| Entry::from(self.message())).collect()
    }

    pub(crate) fn process(&self) -> ProcessId {
        ProcessId::from_uuid(self.ids.next(SystemClock.now()))
    }

    pub(crate) async fn claim(&self, storage: &dyn Storage, limit: usize) -> Vec<Claimed> {
        self.try_claim(storage, limit).await.unwrap()
    }

    pub(crate) async fn try_claim(
        &self,
        storage: &dyn Storage,
        limit: usize,
    ) -> punctual::Result<Vec<Claimed>> {
        let now = SystemClock.now();
        let until = add(now, Duration::from_secs(60));
        let claim = Claim::new(Queue::default(), self.process(), limit, until);
        storage.claim(claim, now).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (url, schema) = (self.url.clone(), self.schema.clone());
        // Its own thread and runtime: a test that panicked drops this while its own unwinds.
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = client(&url).await;
                let text = format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE");
                client.batch_execute(&text).await.unwrap();
            });
        });
        let _ = dropped.join();
    }
}

pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) async fn enqueue(storage: &dyn Storage, message: Message) -> Enqueued {
    storage.enqueue(vec![Entry::from(message)], SystemClock.now()).await.unwrap()[0]
}

pub(crate) async fn settle(storage: &dyn Storage, claimed: &[Claimed]) -> Vec<Settled> {
    let settlements =
        claimed.iter().map(|one| Settlement::new(one.lease_ref(), Verdict::Done, None));
    storage.settle(settlements.collect(), SystemClock.now()).await.unwrap()
}

#[allow(clippy::unnecessary_wraps)] // as a message has it
pub(crate) fn key(text: &str) -> Option<Key> {
    Some(Key::new(text).unwrap())
}

/// Waits for something that comes true soon.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let until = add(SystemClock.now(), Duration::from_secs(20));
    while !holds().await {
        let now = SystemClock.now();
        assert!(now < until, "not within 20 s: {what}");
        SystemClock.sleep_until(add(now, Duration::from_millis(20))).await;
    }
}

pub(crate) fn soon(length: Duration) -> Timestamp {
    add(SystemClock.now(), length)
}
