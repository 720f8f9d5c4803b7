//! Where a test keeps its data: a prefix of its own, whose streams are removed at the end, and a few
//! messages.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::message::StreamMessage;
use futures_util::StreamExt as _;
use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, DeadReason, Headers, IdSource as _, Ids, Message, MessageId, Priority, Queue, Source,
    Topic, Trail,
};
use punctual::transport::{
    Acknowledge, Consumer, Delivery, Outgoing, Receipt, Rejection, Subscription, Transport,
};
use punctual::{Clock as _, SystemClock};
use punctual_nats::{NatsBuilder, NatsTransport};

pub(crate) type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// The most a test may take in real time.
const LENGTH_MAX: Duration = Duration::from_secs(60);
/// Within this, what must happen happens.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// For this long, what must not happen does not.
pub(crate) const A_WHILE: Duration = Duration::from_millis(400);

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
    std::env::var("PUNCTUAL_NATS_URL").ok().filter(|url| !url.is_empty())
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

/// The streams under one prefix.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) ids: Ids,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("it-{}-{number}", std::process::id());
        Self { url: url().unwrap(), prefix, ids: Ids::random() }
    }

    pub(crate) fn builder(&self) -> NatsBuilder {
        NatsTransport::builder(&self.url).prefix(&self.prefix)
    }

    pub(crate) async fn transport(&self) -> NatsTransport {
        self.builder().connect().await.unwrap()
    }

    /// The broker as somebody else sees it.
    pub(crate) async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(&self.url).await.unwrap())
    }

    pub(crate) fn message(&self, text: &str) -> Message {
        let now = now();
        Message {
            id: MessageId::from_uuid(self.ids.next(now)),
            topic: Topic::new("orders").unwrap(),
            queue: Queue::default(),
            priority: Priority::default(),
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

    /// Every message of a stream, as it lies there.
    pub(crate) async fn stored(&self, stream: &str) -> Vec<StreamMessage> {
        let name = format!("{}_{stream}", self.prefix);
        let Ok(stream) = self.jetstream().await.get_stream(name).await else { return Vec::new() };
        let state = &stream.cached_info().state;
        let mut stored = Vec::new();
        for sequence in state.first_sequence.max(1)..=state.last_sequence {
            stored.extend(stream.get_raw_message(sequence).await);
        }
        stored
    }

    pub(crate) async fn remove(&self) {
        let jetstream = self.jetstream().await;
        let names: Vec<String> =
            jetstream.stream_names().filter_map(|name| async { name.ok() }).collect().await;
        for name in names.iter().filter(|name| name.starts_with(&format!("{}_", self.prefix))) {
            jetstream.delete_stream(name).await.unwrap();
        }
    }
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

pub(crate) fn out(message: Message) -> Outgoing {
    Outgoing { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

pub(crate) async fn subscribe(
    transport: &NatsTransport,
    group: &str,
    prefetch: usize,
) -> Box<dyn Consumer> {
    let topic = Topic::new("orders").unwrap();
    transport.subscribe(Subscription { topic, group: group.to_owned(), prefetch }).await.unwrap()
}

/// Exactly so many deliveries, soon.
pub(crate) async fn receive(consumer: &mut Box<dyn Consumer>, count: usize) -> Vec<Delivery> {
    let mut got = Vec::new();
    while got.len() < count {
        let until = add(now(), SOON);
        let received = within(&SystemClock, until, consumer.receive(count - got.len())).await;
        got.extend(received.unwrap_or_else(|| panic!("{} of {count} came", got.len())).unwrap());
    }
    got
}

pub(crate) async fn receive_one(consumer: &mut Box<dyn Consumer>) -> Delivery {
    receive(consumer, 1).await.pop().unwrap()
}

/// Nothing comes for a while.
pub(crate) async fn nothing(consumer: &mut Box<dyn Consumer>) {
    let until = add(now(), A_WHILE);
    if let Some(received) = within(&SystemClock, until, consumer.receive(10)).await {
        panic!("received {:?}", texts(&received.unwrap()));
    }
}

pub(crate) fn text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.body.bytes.to_vec()).unwrap()
}

pub(crate) fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(text).collect()
}

pub(crate) fn receipt(delivery: Delivery) -> Box<dyn Acknowledge> {
    match delivery.receipt {
        Receipt::Broker(receipt) => receipt,
        Receipt::Lease(_) => panic!("a broker has no leases"),
    }
}

pub(crate) async fn ack_all(deliveries: Vec<Delivery>) {
    for delivery in deliveries {
        receipt(delivery).ack().await.unwrap();
    }
}

pub(crate) async fn close(consumer: &mut Box<dyn Consumer>) {
    consumer.close(add(now(), SOON)).await.unwrap();
}

pub(crate) fn rejection(reason: DeadReason) -> Rejection {
    Rejection { reason, error: Some(Arc::from("no\nway")), attempt: 2, at: now() }
}
