//! Subscription: a topic that is received from a transport as a group, with its options. The options are
//! checked as a whole when the process is built, or when the subscription is added to a running process. The
//! engine receives the messages.

use std::fmt;
use std::time::Duration;

use crate::engine::SubscriptionRequest;
pub use crate::engine::{SubscriptionName, SubscriptionStatus};
use crate::handler::IntoHandler;
use crate::model::GROUP_DEFAULT;
use crate::model::{HandlerOptions, Rate};
use crate::policy::Breaker;

/// Definition of a subscription, for [`Builder::subscription`](crate::Builder::subscription), or for
/// [`Subscriptions::add`](crate::client::Subscriptions::add) while the process runs.
///
/// ```
/// use std::time::Duration;
/// use punctual::policy::Breaker;
/// use punctual::{Punctual, Subscribe};
/// # use punctual::builtin::memory_transport;
/// # use punctual::{SystemClock, model::ProcessId, uuid::Uuid};
/// # let clock = std::sync::Arc::new(SystemClock);
/// # let owner = ProcessId::from_uuid(Uuid::from_u128(1));
/// # let post = std::sync::Arc::new(memory_transport(clock, owner));
///
/// let orders = Subscribe::new("post", "order", "billing")
///     .concurrency(20)
///     .key_concurrency(1)
///     .rate(100, Duration::from_secs(1))
///     .deliveries_max(8)
///     .inline_retries(2)
///     .breaker(Breaker::after(5));
/// let punctual = Punctual::builder()
///     .transport("post", post)
///     .handler("order", async |_: u64| ())
///     .subscription(orders)
///     .build();
/// assert!(punctual.is_ok());
/// ```
#[must_use = "nothing is received until it is given to a builder"]
pub struct Subscribe {
    request: SubscriptionRequest,
}

impl Subscribe {
    /// Creates a subscription to a topic of a transport as a group. Every group receives its own copy of a
    /// message; the processes of one group share the messages.
    pub fn new(
        transport: impl Into<String>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        Self { request: SubscriptionRequest::new(transport.into(), topic.into(), group.into()) }
    }

    /// Creates a subscription to a topic that is used as a queue: each message goes to one of the subscribed
    /// processes, because all of them belong to the default group.
    pub fn queue(transport: impl Into<String>, topic: impl Into<String>) -> Self {
        Self::new(transport, topic, GROUP_DEFAULT)
    }

    /// Sets a handler for this subscription in place of the topic's handler, so that two groups of one process
    /// can handle a topic differently.
    pub fn handler<A, Via>(self, handler: impl IntoHandler<A, Via>) -> Self {
        self.handler_with(HandlerOptions::default(), handler)
    }

    /// Sets a handler for this subscription, with options for messages that have none.
    pub fn handler_with<A, Via>(
        mut self,
        handler_options: HandlerOptions,
        handler: impl IntoHandler<A, Via>,
    ) -> Self {
        self.request.handler = Some((handler.into_handler(), handler_options));
        self
    }

    /// Sets how many messages are handled in parallel in this process. Defaults to the option of the process.
    pub fn concurrency(mut self, count: usize) -> Self {
        self.request.concurrency = Some(count);
        self
    }

    /// Sets how many received messages may be unsettled, including those that wait for another message with
    /// the same key. Defaults to the concurrency.
    pub fn prefetch(mut self, count: usize) -> Self {
        self.request.prefetch = Some(count);
        self
    }

    /// Sets how many messages with the same key are handled in parallel in this process; 1 keeps their order.
    /// Messages without a key are not limited.
    pub fn key_concurrency(mut self, count: usize) -> Self {
        self.request.key_concurrency = Some(count);
        self
    }

    /// Limits how many messages start in any time window `per`, on all processes that share the
    /// storage together.
    pub fn rate(mut self, count: u32, per: Duration) -> Self {
        self.request.rate = Some(Rate { count, per });
        self
    }

    /// Limits the rate of each key, as [`Subscribe::rate`] does for all messages.
    pub fn key_rate(mut self, count: u32, per: Duration) -> Self {
        self.request.key_rate = Some(Rate { count, per });
        self
    }

    /// Limits the calls of the handler for one message: the failure of the last one rejects it. 0 and 1 both
    /// mean that it is never requeued. Without this the retry options decide; with both, the smaller number
    /// applies.
    pub fn deliveries_max(mut self, count: u32) -> Self {
        self.request.deliveries_max = Some(count);
        self
    }

    /// Sets how often a failed message is retried immediately in this process before it is requeued with the delay
    /// of its retry options. Each retry is an attempt like any other. Default 0.
    pub fn inline_retries(mut self, count: u32) -> Self {
        self.request.inline_retries = count;
        self
    }

    /// Delivers at most once: a message is acknowledged before it is handled. A failure makes it a dead letter
    /// immediately, and a crash during its handling loses it. For messages that lose their value quickly, such as
    /// a sensor reading that the next one replaces.
    pub fn at_most_once(mut self) -> Self {
        self.request.acknowledge_first = true;
        self
    }

    /// Sets a circuit breaker, which stops receiving while the handler keeps failing. Default none.
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        self.request.breaker = Some(breaker);
        self
    }

    /// Starts the subscription paused: it receives nothing before
    /// [`Subscriptions::resume`](crate::client::Subscriptions::resume).
    pub fn paused(mut self) -> Self {
        self.request.paused = true;
        self
    }

    pub(crate) fn into_request(self) -> SubscriptionRequest {
        self.request
    }
}

impl fmt::Debug for Subscribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SubscriptionRequest { transport, topic, group, .. } = &self.request;
        f.debug_struct("Subscribe")
            .field("transport", transport)
            .field("topic", topic)
            .field("group", group)
            .finish_non_exhaustive()
    }
}
