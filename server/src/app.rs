//! What every endpoint shares: the process, what it remembers with, and the clock. Cheap to clone.

use std::sync::Arc;

use punctual::documents::Documents;
use punctual::{Clock, Inspect, Punctual, Storage};

use crate::audit::Audit;

/// What the server is made of.
#[derive(Clone)]
pub struct Parts {
    /// The process: publishes, administers, and works as far as its roles say.
    pub punctual: Arc<Punctual>,
    /// Remembers messages and jobs.
    pub storage: Arc<dyn Storage>,
    /// Reads them for people.
    pub inspect: Arc<dyn Inspect>,
    /// Keeps users, tokens, the audit trail and other things of the server's own.
    pub documents: Arc<dyn Documents>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What every endpoint shares.
#[derive(Clone)]
pub struct App {
    parts: Arc<Parts>,
    audit: Audit,
}

impl App {
    /// An application of these parts.
    pub fn new(parts: Parts) -> Self {
        let audit = Audit::new(parts.documents.clone(), parts.clock.clone());
        Self { parts: Arc::new(parts), audit }
    }

    /// The audit trail: every change is noted there.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}
