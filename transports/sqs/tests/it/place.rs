//! Where a test keeps its queues: under a prefix of its own, removed at the end, and a few words to say
//! what it does.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
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
use punctual_sqs::{SqsBuilder, SqsTransport};

use crate::raw;

pub(crate) type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// The most a test may take in real time.
const LENGTH_MAX: Duration = Duration::from_secs(90);
/// The longest wait for a delivery that must come.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Lists the tests of a module.
#[macro_export]
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            (concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))
        ),+];
    };
}

pub(crate) fn address() -> Option<String> {
    std::env::var("PUNCTUAL_SQS_URL").ok().filter(|address| !address.is_empty())
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

/// A prefix whose queues are removed when the test has passed.
pub(crate) struct Place {
    pub(crate) address: String,
    pub(crate) prefix: String,
    pub(crate) client: Client,
    ids: Ids,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("it{}-{number}", std::process::id());
        let address = address().unwrap();
        let client = raw::client(&address);
        Self { address, prefix, client, ids: Ids::random() }
    }

    pub(crate) fn builder(&self) -> SqsBuilder {
        self.builder_at(&self.address)
    }

    pub(crate) fn builder_at(&self, address: &str) -> SqsBuilder {
        SqsTransport::builder(address).prefix(&self.prefix).wait(Duration::from_secs(1))
    }

    pub(crate) async fn open(&self) -> SqsTransport {
        self.builder().connect().await.unwrap()
    }

    /// The full name of a queue.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}-{rest}", self.prefix)
    }

    /// The names of all queues, in order and without the prefix.
    pub(crate) async fn queues(&self) -> Vec<String> {
        let begins = self.name("");
        let urls = raw::queues(&self.client, &begins).await;
        let name = |url: &String| url.rsplit_once(&begins).unwrap().1.to_owned();
        let mut names: Vec<String> = urls.iter().map(name).collect();
        names.sort();
        names
    }

    /// A setting of a queue.
    pub(crate) async fn setting(&self, queue: &str, name: QueueAttributeName) -> Option<String> {
        let url = raw::queue(&self.client, &self.name(queue)).await;
        let call = self.client.get_queue_attributes().queue_url(url).attribute_names(name.clone());
        call.send().await.unwrap().attributes.unwrap_or_default().remove(&name)
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

    pub(crate) async fn publish(&self, transport: &SqsTransport, bodies: &[&str]) {
        let batch = bodies.iter().map(|body| sent(self.message(body))).collect();
        transport.publish(batch, SystemClock.now()).await.unwrap();
    }

    pub(crate) async fn remove(self) {
        for queue in raw::queues(&self.client, &self.name("")).await {
            self.client.delete_queue().queue_url(queue).send().await.unwrap();
        }
    }
}

pub(crate) fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

pub(crate) fn sent(message: Message) -> Outgoing {
    Outgoing { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

pub(crate) fn subscription(group: &str, prefetch: usize) -> Subscription {
    Subscription { topic: topic(), group: group.to_owned(), prefetch }
}

pub(crate) async fn subscribe(
    transport: &SqsTransport,
    group: &str,
    prefetch: usize,
) -> Box<dyn Consumer> {
    transport.subscribe(subscription(group, prefetch)).await.unwrap()
}

/// The next delivery, which must come.
pub(crate) async fn next(consumer: &mut dyn Consumer) -> Delivery {
    let until = add(SystemClock.now(), SOON);
    let received = within(&SystemClock, until, consumer.receive(1)).await;
    received.expect("a delivery must come").unwrap().remove(0)
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
