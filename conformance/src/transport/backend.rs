//! What a transport gives to be tried: whether its broker is there, how to make a place of its own for
//! a case, and what cannot be tried on it here, each with its reason.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::builtin::LEASE_DURATION_DEFAULT;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{
    DeadReason, IdSource, Ids, Message, MessageRecord, MessageState, ProcessId, Queue, Topic,
};
use punctual::transport::Rejection;
use punctual::wire::Wire;
use punctual::{Clock, Error, Inspect, Result, Storage, StoredTransport, SystemClock, Transport};

use crate::own::Slowness;

/// The most letters that are looked at.
const LETTERS_MAX: usize = 1_000;

/// A storage, for writing and for reading.
pub type Stores = (Arc<dyn Storage>, Arc<dyn Inspect>);

/// Where one case lives on the broker: empty at first, and seen by nobody else.
#[async_trait]
pub trait Place: Send + Sync + 'static {
    /// One more node on the same topics, with connections of its own.
    async fn open(&self) -> Result<Arc<dyn Transport>>;

    /// The storage underneath, when the transport is one of our own kind; brokers have none, and a
    /// process in front of them keeps its delays elsewhere.
    async fn stores(&self) -> Result<Option<Stores>> {
        Ok(None)
    }

    /// Sends a message as somebody would who knows nothing of Punctual. The headers are exactly these.
    async fn put(&self, _topic: &Topic, _body: &[u8], _headers: &[(&str, &str)]) -> Result<()> {
        Err(Error::unsupported("nobody else can write here"))
    }

    /// What failed for good in a group, oldest first: all that lies in its place for dead letters.
    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.letters(topic, group, false).await
    }

    /// What could not be read in a group: all that lies in its place for invalid messages.
    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.letters(topic, group, true).await
    }

    /// The letters of a transport over a storage: its dead messages. A broker answers
    /// [`Place::dead`] and [`Place::invalid`] itself.
    async fn letters(&self, topic: &Topic, group: &str, invalid: bool) -> Result<Vec<Wire>> {
        let Some((_, inspect)) = self.stores().await? else {
            return Err(Error::unsupported("its letters cannot be looked at"));
        };
        let queue = Some(Queue::of_group(topic, group));
        let filter =
            MessageFilter { states: vec![MessageState::Dead], queue, ..MessageFilter::default() };
        let dead = inspect.messages(filter, PageRequest::first(LETTERS_MAX)).await?.rows;
        let wanted =
            dead.iter().rev().filter(|record| (record.dead == Some(DeadReason::Poison)) == invalid);
        wanted.map(letter).collect()
    }

    /// Restarts the broker as its operator would, and returns when it serves again.
    async fn restart(&self) -> Result<()> {
        Err(Error::unsupported("its broker cannot be restarted from here"))
    }

    /// Breaks every connection to the broker, as a network would.
    async fn cut(&self) -> Result<()> {
        Err(Error::unsupported("its connections cannot be broken from here"))
    }

    /// Makes the network between the broker and the nodes that are opened from now on slow.
    async fn slow_down(&self, _slowness: Slowness) -> Result<()> {
        Err(Error::unsupported("its network cannot be slowed down from here"))
    }

    /// Takes everything away. Called once, also after a case that failed.
    async fn remove(&self) -> Result<()> {
        Ok(())
    }
}

/// A node of the transport over a storage, as a process of its own has it.
pub fn over(storage: Arc<dyn Storage>) -> Arc<dyn Transport> {
    let owner = ProcessId::from_uuid(Ids::random().next(SystemClock.now()));
    let durable = storage.is_durable();
    let clock = Arc::new(SystemClock);
    let transport = StoredTransport::new(storage, clock, owner, LEASE_DURATION_DEFAULT);
    Arc::new(transport.durable(durable))
}

/// A dead record as its letter.
pub(super) fn letter(record: &MessageRecord) -> Result<Wire> {
    let rejection = Rejection {
        reason: record.dead.unwrap_or(DeadReason::Discarded),
        error: record.error.clone(),
        attempt: record.attempt,
        at: record.ended_at.unwrap_or(record.due_at),
    };
    let message: &Arc<Message> = &record.message;
    Wire::dead(message, &rejection)
}

/// What a case may need of a place beyond sending and receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// [`Place::put`].
    Put,
    /// Headers of [`Place::put`].
    Headers,
    /// [`Place::dead`] and [`Place::invalid`].
    Letters,
    /// [`Place::restart`].
    Restart,
    /// [`Place::cut`].
    Cut,
    /// [`Place::slow_down`].
    SlowDown,
}

impl Need {
    /// What a back-end says that lacks it.
    pub(super) fn way_out(self) -> &'static str {
        match self {
            Self::Put => "implement Place::put, or say Backend::cannot(Need::Put, why)",
            Self::Headers => {
                "send the headers in Place::put, or say Backend::cannot(Need::Headers, why)"
            }
            Self::Letters => {
                "implement Place::dead and Place::invalid, or say Backend::cannot(Need::Letters, why)"
            }
            Self::Restart => "implement Place::restart, or say Backend::cannot(Need::Restart, why)",
            Self::Cut => "implement Place::cut, or say Backend::cannot(Need::Cut, why)",
            Self::SlowDown => {
                "implement Place::slow_down, or say Backend::cannot(Need::SlowDown, why)"
            }
        }
    }
}

type Making = Pin<Box<dyn Future<Output = Result<Arc<dyn Place>>>>>;

/// A transport to be tried.
pub struct Backend {
    pub(super) make: std::result::Result<Box<dyn Fn() -> Making + Send + Sync>, String>,
    pub(super) lacks: BTreeMap<Need, String>,
}

impl Backend {
    /// A transport that needs no server.
    pub fn here<F, Made, P>(make: F) -> Self
    where
        F: Fn() -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Place,
    {
        let make = move || -> Making {
            let made = make();
            Box::pin(async move { Ok(Arc::new(made.await?) as Arc<dyn Place>) })
        };
        Self { make: Ok(Box::new(make)), lacks: BTreeMap::new() }
    }

    /// A transport whose broker's address stands in a variable of the environment.
    pub fn at<F, Made, P>(variable: &str, make: F) -> Self
    where
        F: Fn(String) -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Place,
    {
        match std::env::var(variable) {
            Ok(address) if !address.is_empty() => Self::here(move || make(address.clone())),
            _ => Self::missing(format!("the address of its server, {variable}, is not set")),
        }
    }

    /// A transport that cannot be tried, and why.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { make: Err(reason.into()), lacks: BTreeMap::new() }
    }

    /// What cannot be tried here, and why: the cases that need it are ignored with this reason. A case
    /// whose need is neither met nor named here fails.
    #[must_use]
    pub fn cannot(mut self, need: Need, reason: impl Into<String>) -> Self {
        self.lacks.insert(need, reason.into());
        self
    }
}
