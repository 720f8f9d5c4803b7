//! Back-end under test: creates an empty environment for each case and declares in which points the storage
//! differs from others.

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
    /// Creates a node of a storage that implements all four contracts.
    pub fn new<S: Storage + Inspect + Inbox + DocumentStore>(storage: Arc<S>) -> Self {
        Self {
            inspect: storage.clone(),
            inbox: storage.clone(),
            documents: storage.clone(),
            storage,
        }
    }
}

/// Data of one case: empty at first, and visible to no other case.
#[async_trait]
pub trait Environment: Send + Sync + 'static {
    /// Opens one more node on the data, independent of the other nodes, with a separate connection or pool.
    async fn open(&self) -> Result<Node>;

    /// Closes every opened node and keeps the data, as when the processes end. The nodes have been dropped
    /// before; override this when the storage needs more than that.
    async fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Removes the data. Called once, also after a failed case.
    async fn remove(&self) -> Result<()> {
        Ok(())
    }
}

type EnvironmentFuture = Pin<Box<dyn Future<Output = Result<Arc<dyn Environment>>>>>;

/// A storage under test.
pub struct Backend {
    pub(super) make:
        std::result::Result<Box<dyn Fn(ManualClock) -> EnvironmentFuture + Send + Sync>, String>,
    pub(super) traits: Traits,
}

/// Points in which storages may differ.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    pub(super) uses_test_clock: bool,
    pub(super) notifies_between_nodes: bool,
}

impl Backend {
    /// Creates the back-end of a storage without a server. The clock is set by the case; a storage with a
    /// separate clock ignores it.
    pub fn local<F, Made, P>(make: F) -> Self
    where
        F: Fn(ManualClock) -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Environment,
    {
        let make = move |clock| -> EnvironmentFuture {
            let made = make(clock);
            Box::pin(async move { Ok(Arc::new(made.await?) as Arc<dyn Environment>) })
        };
        Self { make: Ok(Box::new(make)), traits: Traits::default() }
    }

    /// Creates the back-end of a storage whose server address is in an environment variable.
    pub fn at<F, Made, P>(variable: &str, make: F) -> Self
    where
        F: Fn(String, ManualClock) -> Made + Send + Sync + 'static,
        Made: Future<Output = Result<P>> + 'static,
        P: Environment,
    {
        match std::env::var(variable) {
            Ok(address) if !address.is_empty() => {
                Self::local(move |clock| make(address.clone(), clock))
            }
            _ => Self::missing(format!("the address of its server, {variable}, is not set")),
        }
    }

    /// Creates a back-end that cannot be tested, with the reason.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { make: Err(reason.into()), traits: Traits::default() }
    }

    /// Declares that [`Storage::time`] is the time of the clock that the storage was created with.
    #[must_use]
    pub fn uses_test_clock(mut self) -> Self {
        self.traits.uses_test_clock = true;
        self
    }

    /// Declares that changes of one node notify the other nodes. Without it they find changes by polling only.
    #[must_use]
    pub fn notifies_between_nodes(mut self) -> Self {
        self.traits.notifies_between_nodes = true;
        self
    }
}
