//! Where a test keeps its streams: under a prefix of its own, removed at the end, and a few words to say
//! what it does.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, DeadReason, Headers, IdSource as _, Ids, Message, MessageId, Priority, Queue, Source,
    Topic, Trail,
};
use punctual::transport::{
    Acknowledge, Consumer, Delivery, Outgoing, Receipt, Rejection, Subscription,
};
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_redis::{RedisBuilder, RedisTransport};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

pub(crate) type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// The most a test may take in real time.
const LENGTH_MAX: Duration = Duration::from_secs(60);
/// The longest wait for a delivery that must come.
const SOON: Duration = Duration::from_secs(10);

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
    std::env::var("PUNCTUAL_REDIS_URL").ok().filter(|url| !url.is_empty())
}

pub(crate) fn try_case(run: fn() -> Ran) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let until = add(SystemClock.now(), LENGTH_MAX);
        runtime.block_on(within(&SystemClock, until, run())).expect("the test took too long");
    }));
    runtime.shutdown_background();
    if let Err(panic) = ran {
        resume_unwind(panic);
    }
}

/// A prefix whose keys are removed when the test has passed.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) prefix: String,
    ids: Ids,
    connection: MultiplexedConnection,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) async fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("it[{}]{number}", std::process::id());
        let url = url().unwrap();
        let client = redis::Client::open(url.as_str()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { url, prefix, ids: Ids::random(), connection }
    }

    pub(crate) fn builder(&self) -> RedisBuilder {
        self.builder_at(&self.url)
    }

    pub(crate) fn builder_at(&self, url: &str) -> RedisBuilder {
        RedisTransport::builder(url).prefix(&self.prefix)
    }

    pub(crate) async fn open(&self) -> RedisTransport {
        self.builder().connect().await.unwrap()
    }

    /// Asks the server something, past the transport.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &mut Cmd) -> T {
        command.query_async(&mut self.connection.clone()).await.unwrap()
    }

    /// The full name of a stream.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    pub(crate) async fn length(&self, name: &str) -> usize {
        self.ask(redis::cmd("XLEN").arg(self.key(name))).await
    }

    /// A message to the topic `orders`.
    pub(crate) fn message(&self, body: impl AsRef<[u8]>) -> Message {
        let now = SystemClock.now();
        let mut headers = Headers::new();
        headers.insert("tenant", "acme").unwrap();
        Message {
            id: MessageId::from_uuid(self.ids.next(now)),
            topic: topic(),
            queue: Queue::default(),
            priority: Priority::default(),
            due_at: now,
            created_at: now,
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::raw(body.as_ref().to_vec(), "text/plain"),
            headers,
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: None,
        }
    }

    pub(crate) async fn publish(&self, transport: &RedisTransport, bodies: &[&str]) {
        let batch = bodies.iter().map(|body| sent(self.message(body))).collect();
        transport.publish(batch, SystemClock.now()).await.unwrap();
    }

    pub(crate) async fn remove(self) {
        let pattern = format!("{}:*", self.prefix.replace('[', "\\[").replace(']', "\\]"));
        let keys: Vec<String> = self.ask(redis::cmd("KEYS").arg(pattern)).await;
        assert!(!keys.is_empty());
        self.ask::<()>(redis::cmd("DEL").arg(keys)).await;
    }
}

pub(crate) fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

pub(crate) fn sent(message: Message) -> Outgoing {
    Outgoing { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

pub(crate) async fn subscribe(
    transport: &RedisTransport,
    group: &str,
    prefetch: usize,
) -> Box<dyn Consumer> {
    let subscription = Subscription { topic: topic(), group: group.to_owned(), prefetch };
    transport.subscribe(subscription).await.unwrap()
}

/// The next delivery, which must come.
pub(crate) async fn next(consumer: &mut dyn Consumer) -> Delivery {
    let mut received = some(consumer, 1).await;
    assert_eq!(received.len(), 1);
    received.remove(0)
}

/// Exactly so many deliveries, which must come.
pub(crate) async fn some(consumer: &mut dyn Consumer, count: usize) -> Vec<Delivery> {
    let mut received = Vec::new();
    let until = add(SystemClock.now(), SOON);
    while received.len() < count {
        let more = within(&SystemClock, until, consumer.receive(count - received.len())).await;
        received.extend(more.expect("a delivery must come").unwrap());
    }
    received
}

/// Whether nothing comes for so long.
pub(crate) async fn is_silent(consumer: &mut dyn Consumer, length: Duration) -> bool {
    let until = add(SystemClock.now(), length);
    within(&SystemClock, until, consumer.receive(1)).await.is_none()
}

pub(crate) async fn close(mut consumer: Box<dyn Consumer>) {
    consumer.close(soon()).await.unwrap();
}

pub(crate) fn soon() -> Timestamp {
    add(SystemClock.now(), SOON)
}

pub(crate) fn receipt(delivery: Delivery) -> Box<dyn Acknowledge> {
    match delivery.receipt {
        Receipt::Broker(receipt) => receipt,
        Receipt::Lease(_) => panic!("a broker has no leases"),
    }
}

pub(crate) fn body(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.body.bytes.to_vec()).unwrap()
}

pub(crate) fn rejection(reason: DeadReason) -> Rejection {
    let error = Some(Arc::from("no such\ncustomer"));
    Rejection { reason, error, attempt: 3, at: "2026-01-02T03:04:05Z".parse().unwrap() }
}
