//! What every endpoint shares: the process, what it remembers with, and the clock. Cheap to clone.

use std::sync::Arc;

use jiff::Timestamp;
use punctual::documents::DocumentStore;
use punctual::{Clock, Inspect, Punctual, Storage};
use punctual_connect::Opened;
use serde_json::Value;

use crate::audit::Audit;
use crate::auth::{Auth, AuthSettings, Authenticate};
use crate::config::{CommandConfig, ConnectionsConfig, RedactConfig};
use crate::metrics::Meters;
use crate::node::{Identity, Node};
use crate::queues::Ours;
use crate::redact::Redaction;
use crate::request_limit::RequestLimit;
use crate::targets::Guard;

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
    pub documents: Arc<dyn DocumentStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What every endpoint shares. One pointer: every layer around a request has one of its own.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    parts: Parts,
    audit: Audit,
    auth: Auth,
    demo: bool,
    encrypted: bool,
    redaction: Arc<Redaction>,
    opened: Option<Arc<(String, Opened)>>,
    guard: Option<Guard>,
    programs: Option<Arc<CommandConfig>>,
    ours: Arc<Ours>,
    node: Arc<Node>,
    requests: Arc<RequestLimit>,
    #[cfg(feature = "otlp")]
    tracer: Option<opentelemetry_sdk::trace::SdkTracer>,
}

impl App {
    /// An application of these parts.
    pub fn new(parts: Parts) -> Self {
        let audit = Audit::new(parts.documents.clone(), parts.clock.clone());
        let auth = Auth::new(AuthSettings::default(), &parts.documents, &parts.clock);
        // What the configuration of the server hides when it says nothing.
        let redaction = Redaction::new(&RedactConfig::default().names).unwrap_or_default();
        let (redaction, ours) = (Arc::new(redaction), Arc::default());
        let node = Arc::new(Node::new(parts.clock.now()));
        let (demo, encrypted, opened, guard) = (false, false, None, None);
        let inner = Inner {
            parts,
            audit,
            auth,
            demo,
            encrypted,
            redaction,
            opened,
            guard,
            programs: None,
            ours,
            node,
            requests: Arc::new(RequestLimit::new(&ConnectionsConfig::default())),
            #[cfg(feature = "otlp")]
            tracer: None,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same with something else in it.
    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// Knows callers in this way; without it everybody on this machine may do everything.
    #[must_use]
    pub fn authenticating(self, settings: AuthSettings) -> Self {
        let auth = Auth::new(settings, &self.documents, &self.clock);
        self.with(|inner| inner.auth = auth)
    }

    /// Asks an application's own way to know callers first.
    #[must_use]
    pub fn authenticating_with(self, custom: Arc<dyn Authenticate>) -> Self {
        self.with(|inner| inner.auth = inner.auth.clone().custom(custom))
    }

    /// Keeps entries of the audit trail for so long; 400 days without it.
    #[must_use]
    pub fn auditing_for(self, kept: std::time::Duration) -> Self {
        self.with(|inner| inner.audit = inner.audit.clone().keeping(kept))
    }

    /// Says that what is shown is made up.
    #[must_use]
    pub fn demonstrating(self, demo: bool) -> Self {
        self.with(|inner| inner.demo = demo)
    }

    /// Says that every request comes over TLS.
    pub(crate) fn encrypting(self, encrypted: bool) -> Self {
        self.with(|inner| inner.encrypted = encrypted)
    }

    /// Returns whether every request comes over TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.inner.encrypted
    }

    pub(crate) fn is_demo(&self) -> bool {
        self.inner.demo
    }

    /// Knows callers.
    pub fn auth(&self) -> &Auth {
        &self.inner.auth
    }

    /// Hides what these rules name in every view.
    #[must_use]
    pub fn redacting(self, redaction: Redaction) -> Self {
        self.with(|inner| inner.redaction = Arc::new(redaction))
    }

    /// Says what kind of storage this is, and lets people have it checked.
    #[must_use]
    pub fn stored_in(self, kind: impl Into<String>, opened: Opened) -> Self {
        self.with(|inner| inner.opened = Some(Arc::new((kind.into(), opened))))
    }

    /// Says which addresses webhooks may have; without it every address is kept, and a call decides.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        self.with(|inner| inner.guard = Some(guard))
    }

    /// What says which addresses may be called, when that is known here.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.inner.guard.as_ref()
    }

    /// Says which programs jobs may run; without it every definition is kept, and a run decides.
    #[must_use]
    pub fn running_programs(self, config: CommandConfig) -> Self {
        self.with(|inner| inner.programs = Some(Arc::new(config)))
    }

    /// Returns which programs jobs may run, when that is known here.
    pub(crate) fn programs(&self) -> Option<&CommandConfig> {
        self.inner.programs.as_deref()
    }

    /// Says who this node is, what its process counts, and the configuration in force without secrets.
    #[must_use]
    pub fn on_node(self, identity: Identity, meters: Meters, settings: Option<Value>) -> Self {
        let node = Node { identity, meters, settings, ..Node::new(self.clock.now()) };
        self.with(|inner| inner.node = Arc::new(node))
    }

    /// Makes every request a span of this tracer.
    #[cfg(feature = "otlp")]
    pub(crate) fn traced(self, tracer: Option<opentelemetry_sdk::trace::SdkTracer>) -> Self {
        self.with(|inner| inner.tracer = tracer)
    }

    #[cfg(feature = "otlp")]
    pub(crate) fn tracer(&self) -> Option<&opentelemetry_sdk::trace::SdkTracer> {
        self.inner.tracer.as_ref()
    }

    /// Rests until then, or until the process is asked to stop.
    pub(crate) async fn rest_until(&self, at: Timestamp) {
        tokio::select! {
            () = self.clock.sleep_until(at) => {}
            () = self.punctual.stopping() => {}
        }
    }

    /// Bounds how many requests of one caller may be under way at once, as `requests_per_caller` says; of an address
    /// that is `exempt`, as many as there are.
    #[must_use]
    pub fn limiting_requests(self, config: &ConnectionsConfig) -> Self {
        self.with(|inner| inner.requests = Arc::new(RequestLimit::new(config)))
    }

    /// Counts the requests that are under way.
    pub(crate) fn requests(&self) -> &RequestLimit {
        &self.inner.requests
    }

    /// What this node keeps in memory.
    pub(crate) fn node(&self) -> &Node {
        &self.inner.node
    }

    /// What nobody gets to see.
    pub fn redaction(&self) -> &Redaction {
        &self.inner.redaction
    }

    /// The kind of storage and the storage as it was opened, when that was said.
    pub(crate) fn opened(&self) -> Option<(&str, &Opened)> {
        self.inner.opened.as_deref().map(|(kind, opened)| (kind.as_str(), opened))
    }

    /// The queues this node has paused.
    pub(crate) fn ours(&self) -> &Ours {
        &self.inner.ours
    }

    /// The audit trail: changes are noted there.
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.inner.parts
    }
}
