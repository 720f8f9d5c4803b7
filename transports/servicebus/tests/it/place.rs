//! A double for each test, and a few words to say what it does.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
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
use punctual_servicebus::{ServiceBusBuilder, ServiceBusTransport};

use crate::double::Double;

pub(crate) type Ran = Pin<Box<dyn Future<Output = ()>>>;

/// The most a test may take in real time.
const LENGTH_MAX: Duration = Duration::from_secs(60);
/// The longest wait for a delivery that must come.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Where the group `office` receives.
pub(crate) const OFFICE: &str = "orders/Subscriptions/office";

/// Lists the tests of a module.
#[macro_export]
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            (concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))
        ),+];
    };
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

/// A broker with the topic `orders` and its subscriptions `office` and `archive`.
pub(crate) async fn double() -> Double {
    let double = Double::start(false).await.unwrap();
    double.broker().create_subscription("orders", "office");
    double.broker().create_subscription("orders", "archive");
    double
}

pub(crate) fn builder(double: &Double) -> ServiceBusBuilder {
    ServiceBusTransport::builder(double.address())
}

pub(crate) async fn open(double: &Double) -> ServiceBusTransport {
    builder(double).connect().await.unwrap()
}

/// A message to the topic `orders`.
pub(crate) fn message(body: &str) -> Message {
    let now = SystemClock.now();
    let mut headers = Headers::new();
    headers.insert("tenant", "acme").unwrap();
    Message {
        id: MessageId::from_uuid(Ids::random().next(now)),
        topic: Topic::new("orders").unwrap(),
        queue: Queue::default(),
        priority: Priority::default(),
        due_at: now,
        created_at: now,
        source: Source::Published,
        key: None,
        dedupe: None,
        exclusive: false,
        body: Body::raw(body.as_bytes().to_vec(), "text/plain"),
        headers,
        trail: Trail::default(),
        occurrence: None,
        terms: None,
        ties: None,
    }
}

pub(crate) fn sent(message: Message) -> Outgoing {
    Outgoing { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

pub(crate) async fn publish(transport: &ServiceBusTransport, bodies: &[&str]) {
    let batch = bodies.iter().map(|body| sent(message(body))).collect();
    transport.publish(batch, SystemClock.now()).await.unwrap();
}

pub(crate) fn subscription(topic: &str, group: &str, prefetch: usize) -> Subscription {
    Subscription { topic: Topic::new(topic).unwrap(), group: group.to_owned(), prefetch }
}

pub(crate) async fn subscribe(transport: &ServiceBusTransport, group: &str) -> Box<dyn Consumer> {
    transport.subscribe(subscription("orders", group, 10)).await.unwrap()
}

/// The next delivery, which must come.
pub(crate) async fn next(consumer: &mut dyn Consumer) -> Delivery {
    let until = add(SystemClock.now(), SOON);
    loop {
        let received = within(&SystemClock, until, consumer.receive(1)).await;
        match received.expect("a delivery must come") {
            Ok(mut deliveries) => return deliveries.remove(0),
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
    }
}

/// Whether nothing comes for so long.
pub(crate) async fn is_silent(consumer: &mut dyn Consumer, length: Duration) -> bool {
    let until = add(SystemClock.now(), length);
    within(&SystemClock, until, consumer.receive(1)).await.is_none()
}

/// Waits until something is so, which it must become.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up_at = add(SystemClock.now(), SOON);
    while !is_so() {
        assert!(SystemClock.now() < give_up_at, "{what} did not come");
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
    }
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
    let error = Some(Arc::from("no such customer"));
    Rejection { reason, error, attempt: 3, at: "2026-01-02T03:04:05Z".parse().unwrap() }
}
