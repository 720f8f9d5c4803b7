//! Back-end under test: creates a separate environment on the broker for each case and declares, with reasons,
//! what cannot be tested on it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::backend::transport::Rejection;
use punctual::backend::wire::Wire;
use punctual::builtin::LEASE_DURATION_DEFAULT;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{
    DeadReason, IdSource, Ids, Message, MessageRecord, MessageState, ProcessId, Queue, Topic,
};
use punctual::{Clock, Error, Inspect, Result, Storage, StoredTransport, SystemClock, Transport};

use crate::backend_tests::{Proxy, Slowness};

/// Largest number of dead letters that are read.
const DEAD_LETTERS_MAX: usize = 1_000;

/// A storage, for writing and for reading.
pub type Stores = (Arc<dyn Storage>, Arc<dyn Inspect>);

/// Topics and groups of one case on the broker: empty at first, and visible to no other case.
#[async_trait]
pub trait Environment: Send + Sync + 'static {
    /// Opens one more node on the same topics, with separate connections.
    async fn open(&self) -> Result<Arc<dyn Transport>>;

    /// Returns the storage of a transport over a storage; `None` for a broker, whose processes keep delayed
    /// messages in another storage.
    async fn stores(&self) -> Result<Option<Stores>> {
        Ok(None)
    }

    /// Publishes a message as another application would, without Punctual. The headers are exactly these.
    async fn publish_foreign(
        &self,
        _topic: &Topic,
        _body: &[u8],
        _headers: &[(&str, &str)],
    ) -> Result<()> {
        Err(Error::unsupported("foreign messages cannot be published here"))
    }

    /// Returns all dead letters of a group, oldest first.
    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.dead_letters(topic, group, false).await
    }

    /// Returns all invalid messages of a group: those that could not be read.
    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.dead_letters(topic, group, true).await
    }

    /// Returns the dead letters of a transport over a storage. The environment of a broker implements
    /// [`Environment::dead`] and [`Environment::invalid`] instead.
    async fn dead_letters(&self, topic: &Topic, group: &str, invalid: bool) -> Result<Vec<Wire>> {
        let Some((_, inspect)) = self.stores().await? else {
            return Err(Error::unsupported("its dead letters cannot be read"));
        };
        let queue = Some(Queue::of_group(topic, group));
        let filter =
            MessageFilter { states: vec![MessageState::Dead], queue, ..MessageFilter::default() };
        let dead = inspect.messages(filter, PageRequest::first(DEAD_LETTERS_MAX)).await?.rows;
        let selected =
            dead.iter().rev().filter(|record| (record.dead == Some(DeadReason::Poison)) == invalid);
        selected.map(dead_letter).collect()
    }

    /// Restarts the broker as its operator would, and returns when it accepts connections again.
    async fn restart(&self) -> Result<()> {
        Err(Error::unsupported("its broker cannot be restarted from here"))
    }

    /// Returns the proxy through which all nodes reach the broker.
    fn proxy(&self) -> Option<&Proxy> {
        None
    }

    /// Breaks every connection to the broker, as a network failure would.
    async fn cut(&self) -> Result<()> {
        let without = || Error::unsupported("its connections cannot be broken from here");
        let proxy = self.proxy().ok_or_else(without)?;
        proxy.cut();
        proxy.mend();
        Ok(())
    }

    /// Slows down the network between the broker and nodes that are opened after this call.
    async fn slow_down(&self, slowness: Slowness) -> Result<()> {
        let without = || Error::unsupported("its network cannot be slowed down from here");
        self.proxy().ok_or_else(without)?.slow_down(slowness);
        Ok(())
    }

    /// Removes all topics and groups. Called once, also after a failed case.
    async fn remove(&self) -> Result<()> {
        Ok(())
    }
}

/// Returns a transport over a storage for a new process.
pub fn over(storage: Arc<dyn Storage>) -> Arc<dyn Transport> {
    let owner = ProcessId::from_uuid(Ids::random().next(SystemClock.now()));
    let durable = storage.is_durable();
    let clock = Arc::new(SystemClock);
    let transport = StoredTransport::new(storage, clock, owner, LEASE_DURATION_DEFAULT);
    Arc::new(transport.durable(durable))
}

/// Converts a dead message into its dead letter.
pub(super) fn dead_letter(record: &MessageRecord) -> Result<Wire> {
    let rejection = Rejection {
        reason: record.dead.unwrap_or(DeadReason::Discarded),
        error: record.error.clone(),
        attempt: record.attempt,
        at: record.ended_at.unwrap_or(record.due_at),
    };
    let message: &Arc<Message> = &record.message;
    Wire::dead(message, &rejection)
}

/// What a case may need of an environment besides publishing and receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// [`Environment::publish_foreign`].
    ForeignMessages,
    /// Headers of [`Environment::publish_foreign`].
    ForeignHeaders,
    /// [`Environment::dead`] and [`Environment::invalid`].
    DeadLetters,
    /// [`Environment::restart`].
    Restart,
    /// [`Environment::cut`].
    Cut,
    /// [`Environment::slow_down`].
    SlowDown,
}

impl Need {
    /// Returns how to implement or exclude it.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::ForeignMessages => {
                "implement Environment::publish_foreign, or call Backend::cannot(Need::ForeignMessages, why)"
            }
            Self::ForeignHeaders => {
                "send the headers in Environment::publish_foreign, or call Backend::cannot(Need::ForeignHeaders, why)"
            }
            Self::DeadLetters => {
                "implement Environment::dead and Environment::invalid, or call Backend::cannot(Need::DeadLetters, why)"
            }
            Self::Restart => {
                "implement Environment::restart, or call Backend::cannot(Need::Restart, why)"
            }
            Self::Cut => "implement Environment::cut, or call Backend::cannot(Need::Cut, why)",
            Self::SlowDown => {
                "implement Environment::slow_down, or call Backend::cannot(Need::SlowDown, why)"
            }
        }
    }
}

type EnvironmentFuture = Pin<Box<dyn Future<Output = Result<Arc<dyn Environment>>>>>;

/// A transport under test.
pub struct Backend {
    pub(super) make: std::result::Result<Box<dyn Fn() -> EnvironmentFuture + Send + Sync>, String>,
    pub(super) unsupported: BTreeMap<Need, String>,
}

impl Backend {
    /// Creates the back-end of a transport without a server.
    pub fn local<F, Made, P>(make: F) -> Self
    where
        F: Fn() -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Environment,
    {
        let make = move || -> EnvironmentFuture {
            let made = make();
            Box::pin(async move { Ok(Arc::new(made.await?) as Arc<dyn Environment>) })
        };
        Self { make: Ok(Box::new(make)), unsupported: BTreeMap::new() }
    }

    /// Creates the back-end of a transport whose broker address is in an environment variable.
    pub fn at<F, Made, P>(variable: &str, make: F) -> Self
    where
        F: Fn(String) -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Environment,
    {
        match std::env::var(variable) {
            Ok(address) if !address.is_empty() => Self::local(move || make(address.clone())),
            _ => Self::missing(format!("the address of its server, {variable}, is not set")),
        }
    }

    /// Creates a back-end that cannot be tested, with the reason.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { make: Err(reason.into()), unsupported: BTreeMap::new() }
    }

    /// Declares what cannot be tested here: the cases that need it are ignored with this reason. A case whose
    /// need is neither supported nor declared here fails.
    #[must_use]
    pub fn cannot(mut self, need: Need, reason: impl Into<String>) -> Self {
        self.unsupported.insert(need, reason.into());
        self
    }
}
