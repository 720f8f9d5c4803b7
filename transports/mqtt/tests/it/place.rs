//! Where a test publishes: under a prefix of its own, and a few words to say what it does.

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
use punctual_mqtt::{MqttBuilder, MqttTransport};

pub(crate) type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// The most a test may take in real time.
const LENGTH_MAX: Duration = Duration::from_secs(60);
/// The longest wait for a delivery that must come.
const SOON: Duration = Duration::from_secs(15);
/// How long nothing must come to believe that nothing will.
pub(crate) const QUIET: Duration = Duration::from_millis(700);

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
    std::env::var("PUNCTUAL_MQTT_URL").ok().filter(|url| !url.is_empty())
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

/// A prefix that nobody else has.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) prefix: String,
    ids: Ids,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let at = SystemClock.now().as_microsecond();
        let prefix = format!("it/{}-{at}-{number}", std::process::id());
        Self { url: url().unwrap(), prefix, ids: Ids::random() }
    }

    pub(crate) fn builder(&self) -> MqttBuilder {
        self.builder_at(&self.url)
    }

    /// Sessions of tests do not stay on the broker, and nobody is waited for long.
    pub(crate) fn builder_at(&self, url: &str) -> MqttBuilder {
        MqttTransport::builder(url)
            .prefix(&self.prefix)
            .keep_for(Duration::from_secs(120))
            .patience(Duration::from_secs(1))
    }

    pub(crate) async fn open(&self) -> MqttTransport {
        self.builder().connect().await.unwrap()
    }

    /// The name of a topic on the broker.
    pub(crate) fn name(&self, topic: &str) -> String {
        format!("{}/topic/{topic}", self.prefix)
    }

    /// A message to the topic `orders`.
    pub(crate) fn message(&self, body: impl AsRef<[u8]>) -> Message {
        let now = SystemClock.now();
        let mut headers = Headers::new();
        headers.insert("tenant", "acme").unwrap();
        Message {
            id: MessageId::from_uuid(self.ids.next(now)),
            topic: topic("orders"),
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

    pub(crate) async fn publish(&self, transport: &MqttTransport, bodies: &[&str]) {
        let batch = bodies.iter().map(|body| sent(self.message(body))).collect();
        transport.publish(batch, SystemClock.now()).await.unwrap();
    }
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

pub(crate) fn sent(message: Message) -> Outgoing {
    Outgoing { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

/// Receives the topic `orders`.
pub(crate) async fn subscribe(transport: &MqttTransport, group: &str) -> Box<dyn Consumer> {
    subscribe_to(transport, "orders", group).await
}

pub(crate) async fn subscribe_to(
    transport: &MqttTransport,
    name: &str,
    group: &str,
) -> Box<dyn Consumer> {
    let subscription = Subscription { topic: topic(name), group: group.to_owned(), prefetch: 50 };
    transport.subscribe(subscription).await.unwrap()
}

/// The next delivery, which must come.
pub(crate) async fn next(consumer: &mut dyn Consumer) -> Delivery {
    some(consumer, 1).await.remove(0)
}

/// Exactly so many deliveries, which must come. What only failed for now is tried again.
pub(crate) async fn some(consumer: &mut dyn Consumer, count: usize) -> Vec<Delivery> {
    let mut received = Vec::new();
    let until = soon();
    while received.len() < count {
        let more = within(&SystemClock, until, consumer.receive(count - received.len())).await;
        match more.expect("a delivery must come") {
            Ok(more) => received.extend(more),
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
    }
    received
}

/// Whether nothing comes for a while.
pub(crate) async fn is_quiet(consumer: &mut dyn Consumer) -> bool {
    let until = add(SystemClock.now(), QUIET);
    loop {
        match within(&SystemClock, until, consumer.receive(1)).await {
            None => return true,
            Some(Ok(_)) => return false,
            Some(Err(error)) => assert!(error.is_temporary(), "{error}"),
        }
    }
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

pub(crate) async fn ack(delivery: Delivery) {
    receipt(delivery).ack().await.unwrap();
}

pub(crate) fn body(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.body.bytes.to_vec()).unwrap()
}

pub(crate) fn rejection(reason: DeadReason) -> Rejection {
    let error = Some(Arc::from("no such\ncustomer"));
    Rejection { reason, error, attempt: 3, at: "2026-01-02T03:04:05Z".parse().unwrap() }
}
