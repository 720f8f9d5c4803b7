//! Subscriptions: which topic is received from which transport, as which group, and how. What a
//! subscription says is checked as a whole, when the process is built or when it is added to a running
//! one; the receiving itself is done by the engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::builtin::GROUP_DEFAULT;
use crate::engine::Unchecked;
use crate::error::{Error, Result};
use crate::handler::IntoHandler;
use crate::model::{HandlerOptions, NAME_LEN_MAX, Rate, Topic, TransportName};
use crate::policy::{Breaker, Circuit};

/// What to receive, and how. Given to [`Builder::subscription`](crate::Builder::subscription), or to
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
///     .max_deliveries(8)
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
    unchecked: Unchecked,
}

impl Subscribe {
    /// A topic of a transport, as a group: every group gets its own copy of a message, and the
    /// processes of one group share them.
    pub fn new(
        transport: impl Into<String>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        Self { unchecked: Unchecked::new(transport.into(), topic.into(), group.into()) }
    }

    /// A topic that is used as a queue: of everybody who receives it one gets a message, because all of
    /// them are the one group that such messages are sent to.
    pub fn queue(transport: impl Into<String>, topic: impl Into<String>) -> Self {
        Self::new(transport, topic, GROUP_DEFAULT)
    }

    /// A handler of its own, instead of the topic's; with it two groups of one process may treat a topic
    /// differently.
    pub fn handler<A, Via>(self, handler: impl IntoHandler<A, Via>) -> Self {
        self.handler_with(HandlerOptions::default(), handler)
    }

    /// The same with terms for messages that bring none.
    pub fn handler_with<A, Via>(
        mut self,
        handler_options: HandlerOptions,
        handler: impl IntoHandler<A, Via>,
    ) -> Self {
        self.unchecked.handler = Some((handler.into_handler(), handler_options));
        self
    }

    /// How many messages are handled at once in this process. Default: as the process's options say.
    pub fn concurrency(mut self, count: usize) -> Self {
        self.unchecked.concurrency = Some(count);
        self
    }

    /// How many messages may be in hand and not settled; what waits for its key's turn is in hand, too.
    /// Default: as many as are handled at once.
    pub fn prefetch(mut self, count: usize) -> Self {
        self.unchecked.prefetch = Some(count);
        self
    }

    /// How many messages with the same key are handled at once in this process; one keeps their order.
    /// Messages without a key are not held up.
    pub fn key_concurrency(mut self, count: usize) -> Self {
        self.unchecked.key_concurrency = Some(count);
        self
    }

    /// How many messages may start in any window as long as the span, on all processes that share the storage
    /// together.
    pub fn rate(mut self, count: u32, per: Duration) -> Self {
        self.unchecked.rate = Some(Rate { count, per });
        self
    }

    /// The same for each key by itself.
    pub fn key_rate(mut self, count: u32, per: Duration) -> Self {
        self.unchecked.key_rate = Some(Rate { count, per });
        self
    }

    /// At most so many calls of the handler for one message: the failure of the last one rejects it. 0
    /// and 1 both mean that it is never put back. Without it the retry terms alone decide; with both, the
    /// smaller number does.
    pub fn max_deliveries(mut self, count: u32) -> Self {
        self.unchecked.deliveries_max = Some(count);
        self
    }

    /// How often a failed message is tried again at once and on the spot before it is put back to wait as
    /// the retry terms say. Each of these is an attempt like any other. Default none.
    pub fn inline_retries(mut self, count: u32) -> Self {
        self.unchecked.inline_retries = count;
        self
    }

    /// At most once: a message is acknowledged before it is handled. A failure makes it a dead letter at
    /// once, and a crash while it is handled loses it. For what is worthless later, such as a reading
    /// that the next one replaces.
    pub fn at_most_once(mut self) -> Self {
        self.unchecked.acknowledge_first = true;
        self
    }

    /// Stops receiving while the handler keeps failing. Default none.
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        self.unchecked.breaker = Some(breaker);
        self
    }

    /// Begins paused: nothing is received before
    /// [`Subscriptions::resume`](crate::client::Subscriptions::resume).
    pub fn paused(mut self) -> Self {
        self.unchecked.paused = true;
        self
    }

    pub(crate) fn into_unchecked(self) -> Unchecked {
        self.unchecked
    }
}

impl fmt::Debug for Subscribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unchecked { transport, topic, group, .. } = &self.unchecked;
        f.debug_struct("Subscribe")
            .field("transport", transport)
            .field("topic", topic)
            .field("group", group)
            .finish_non_exhaustive()
    }
}

/// The identity of a subscription: the same in every process and after every start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SubscriptionName {
    /// The transport.
    pub transport: TransportName,
    /// The topic.
    pub topic: Topic,
    /// The group.
    pub group: Arc<str>,
}

impl SubscriptionName {
    /// Checks the three names.
    pub fn new(
        transport: impl AsRef<str>,
        topic: impl AsRef<str>,
        group: impl AsRef<str>,
    ) -> Result<Self> {
        let (transport, topic) = (TransportName::new(transport)?, Topic::new(topic)?);
        let group = group.as_ref();
        if group.is_empty()
            || group.chars().count() > NAME_LEN_MAX
            || group.chars().any(char::is_control)
        {
            return Err(Error::invalid(format!(
                "the subscription to {topic:?} names the group {group:?}; a group has 1 to {NAME_LEN_MAX} printable characters"
            )));
        }
        Ok(Self { transport, topic, group: Arc::from(group) })
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, topic, group } = self;
        write!(f, "{topic} for {group} on {transport}")
    }
}

/// How a subscription stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubscriptionStatus {
    /// Which one.
    pub name: SubscriptionName,
    /// Whether an operator paused it.
    pub paused: bool,
    /// How its circuit stands; without a breaker it is closed for good.
    pub circuit: Circuit,
    /// Whether it is subscribed at its transport; not while that is out of reach.
    pub connected: bool,
    /// How many of its messages are handled in this process.
    pub running: usize,
}
