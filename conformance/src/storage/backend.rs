//! What a storage gives to be tried: whether it is there, how to make a fresh place for a case, and
//! the few things in which storages may honestly differ.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::{DocumentStore, Inbox, Inspect, ManualClock, Result, Storage};

/// One handle on a storage, as one process of an application would have it.
#[derive(Clone)]
pub struct Node {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) inspect: Arc<dyn Inspect>,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) documents: Arc<dyn DocumentStore>,
}

impl Node {
    /// A node whose storage also reads for people, knows deliveries and keeps documents.
    pub fn new<S: Storage + Inspect + Inbox + DocumentStore>(storage: Arc<S>) -> Self {
        Self {
            inspect: storage.clone(),
            inbox: storage.clone(),
            documents: storage.clone(),
            storage,
        }
    }
}

/// Where one case keeps its data: empty at first, and seen by nobody else.
#[async_trait]
pub trait Place: Send + Sync + 'static {
    /// Opens one more node on the data, as independent of the others as the storage can make it: a
    /// connection or pool of its own.
    async fn open(&self) -> Result<Node>;

    /// Ends every node that was opened, as the end of their processes would; the data stays. Nodes
    /// have been dropped by then, so a storage that needs no more than that does nothing.
    async fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Takes the data away. Called once, also after a case that failed.
    async fn remove(&self) -> Result<()> {
        Ok(())
    }
}

type Making = Pin<Box<dyn Future<Output = Result<Arc<dyn Place>>>>>;

/// A storage to be tried.
pub struct Backend {
    pub(super) make: std::result::Result<Box<dyn Fn(ManualClock) -> Making + Send + Sync>, String>,
    pub(super) traits: Traits,
}

/// In what storages may differ.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    pub(super) follows_the_clock: bool,
    pub(super) rings_between_nodes: bool,
}

impl Backend {
    /// A storage that needs no server. The clock is the one the case moves; a storage whose time is
    /// its own has no use for it.
    pub fn here<F, Made, P>(make: F) -> Self
    where
        F: Fn(ManualClock) -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Place,
    {
        let make = move |clock| -> Making {
            let made = make(clock);
            Box::pin(async move { Ok(Arc::new(made.await?) as Arc<dyn Place>) })
        };
        Self { make: Ok(Box::new(make)), traits: Traits::default() }
    }

    /// A storage whose server's address stands in a variable of the environment.
    pub fn at<F, Made, P>(variable: &str, make: F) -> Self
    where
        F: Fn(String, ManualClock) -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Place,
    {
        match std::env::var(variable) {
            Ok(address) if !address.is_empty() => {
                Self::here(move |clock| make(address.clone(), clock))
            }
            _ => Self::missing(format!("the address of its server, {variable}, is not set")),
        }
    }

    /// A storage that cannot be tried, and why.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { make: Err(reason.into()), traits: Traits::default() }
    }

    /// Its [`Storage::time`] is that of the clock it was made with, not one of its own.
    #[must_use]
    pub fn follows_the_clock(mut self) -> Self {
        self.traits.follows_the_clock = true;
        self
    }

    /// What one node does rings for the others too. Without it only polling tells them.
    #[must_use]
    pub fn rings_between_nodes(mut self) -> Self {
        self.traits.rings_between_nodes = true;
        self
    }
}
