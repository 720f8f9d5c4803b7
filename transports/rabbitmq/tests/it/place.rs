//! Where a test keeps its things on the broker: under a prefix of its own, with a client that knows nothing
//! of Punctual to look at them from outside and to take them away.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, BasicPublishOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use punctual::clock::{add, within};
use punctual::model::{
    Body, DeadReason, Headers, IdSource, Ids, Message, MessageId, Priority, Queue, Source, Topic,
    Trail,
};
use punctual::transport::{
    Acknowledge, Consumer, Delivery, Outgoing, Receipt, Rejection, Subscription,
};
use punctual::{Clock, Result, SystemClock, Transport};
use punctual_rabbitmq::{RabbitmqBuilder, RabbitmqTransport};

pub(crate) type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// The most a test may take in real time.
const LENGTH_MAX: Duration = Duration::from_secs(100);
/// How long something that should come may take.
const SOON: Duration = Duration::from_secs(30);

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
    std::env::var("PUNCTUAL_RABBITMQ_URL").ok().filter(|url| !url.is_empty())
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

/// Waits for what should come soon.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    let until = add(SystemClock.now(), SOON);
    within(&SystemClock, until, work).await.expect("it did not happen in time")
}

/// Waits for what should not come; true when it did not.
pub(crate) async fn is_quiet(consumer: &mut Box<dyn Consumer>, length: Duration) -> bool {
    let until = add(SystemClock.now(), length);
    within(&SystemClock, until, consumer.receive(1)).await.is_none()
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A prefix of its own on the broker.
pub(crate) struct Place {
    pub(crate) prefix: String,
    pub(crate) topic: Topic,
    ids: Ids,
}

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("it-{}-{number}.", std::process::id());
        Self { prefix, topic: Topic::new("orders").unwrap(), ids: Ids::random() }
    }

    pub(crate) fn builder(&self) -> RabbitmqBuilder {
        RabbitmqTransport::builder(&url().unwrap()).prefix(&self.prefix)
    }

    pub(crate) async fn open(&self) -> RabbitmqTransport {
        self.builder().connect().await.unwrap()
    }

    pub(crate) async fn subscribe(
        &self,
        transport: &dyn Transport,
        group: &str,
    ) -> Box<dyn Consumer> {
        self.subscribe_with(transport, group, 100).await.unwrap()
    }

    pub(crate) async fn subscribe_with(
        &self,
        transport: &dyn Transport,
        group: &str,
        prefetch: usize,
    ) -> Result<Box<dyn Consumer>> {
        let (topic, group) = (self.topic.clone(), group.to_owned());
        transport.subscribe(Subscription { topic, group, prefetch }).await
    }

    /// A name on the broker.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    pub(crate) fn message(&self, text: &str) -> Message {
        let now = SystemClock.now();
        Message {
            id: MessageId::from_uuid(self.ids.next(now)),
            topic: self.topic.clone(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at: now,
            created_at: now,
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::raw(text.to_owned(), "text/plain"),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: None,
        }
    }

    pub(crate) fn outgoing(&self, text: &str) -> Outgoing {
        to_all(self.message(text))
    }

    pub(crate) async fn publish(&self, transport: &dyn Transport, texts: &[&str]) -> Result<()> {
        let batch = texts.iter().map(|text| self.outgoing(text)).collect();
        soon(transport.publish(batch, SystemClock.now())).await
    }

    /// A client that knows nothing of Punctual.
    pub(crate) async fn stranger(&self) -> Stranger {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&url().unwrap(), properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Stranger { channel, _connection: connection }
    }
}

pub(crate) struct Stranger {
    pub(crate) channel: Channel,
    _connection: Connection,
}

impl Stranger {
    pub(crate) async fn publish(&self, exchange: &str, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let sent =
            self.channel.basic_publish(exchange.into(), "".into(), options, body, properties);
        sent.await.unwrap();
    }

    /// Takes a message out of a queue, when there is one.
    pub(crate) async fn get(&self, queue: &str) -> Option<BasicGetMessage> {
        let options = BasicGetOptions { no_ack: true };
        self.channel.basic_get(queue.into(), options).await.unwrap()
    }
}

pub(crate) fn to_all(message: Message) -> Outgoing {
    Outgoing { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

/// The next delivery.
pub(crate) async fn next(consumer: &mut Box<dyn Consumer>) -> Delivery {
    let mut received = soon(consumer.receive(1)).await.unwrap();
    assert_eq!(received.len(), 1);
    received.pop().unwrap()
}

/// The text of the next delivery, which is acknowledged: one that is dropped would come again.
pub(crate) async fn taken(consumer: &mut Box<dyn Consumer>) -> String {
    let delivery = next(consumer).await;
    let text = text(&delivery);
    receipt(delivery).ack().await.unwrap();
    text
}

pub(crate) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.body.bytes.to_vec()).unwrap()
}

pub(crate) fn receipt(delivery: Delivery) -> Box<dyn Acknowledge> {
    match delivery.receipt {
        Receipt::Broker(receipt) => receipt,
        Receipt::Lease(_) => panic!("a broker gives no leases"),
    }
}

pub(crate) fn rejection(reason: DeadReason, attempt: u32) -> Rejection {
    let error = Some(Arc::from("the printer\nis on fire"));
    Rejection { reason, error, attempt, at: SystemClock.now() }
}
