//! Application state shared by every endpoint: the process, its storage and the clock. Cheap to clone.

use std::sync::Arc;

use jiff::Timestamp;
use punctual::backend::documents::DocumentStore;
use punctual::{Admin, Clock, Inspect, Punctual, Storage};
use punctual_backends::OpenedStorage;
use serde_json::Value;

use crate::audit::Audit;
use crate::auth::{Auth, AuthSettings, Authenticate};
use crate::config::{CommandConfig, ConnectionsConfig, RedactConfig};
use crate::metrics::Meters;
use crate::node::{Identity, Node};
use crate::queues::PausedHere;
use crate::redact::Redaction;
use crate::redacted_inspect::RedactedInspect;
use crate::request_limit::RequestLimit;
use crate::targets::Guard;

/// The components a server is built from.
#[derive(Clone)]
pub struct AppParts {
    /// The process: publishes, administers, and works according to its roles.
    pub punctual: Arc<Punctual>,
    /// Stores messages and jobs.
    pub storage: Arc<dyn Storage>,
    /// Reads messages, jobs and executions for views. [`App::redacting`] hides texts of hidden topics in it.
    pub inspect: Arc<dyn Inspect>,
    /// Stores users, tokens, the audit trail and other documents of the server.
    pub documents: Arc<dyn DocumentStore>,
    /// The clock all instants are read from.
    pub clock: Arc<dyn Clock>,
}

/// State shared by every endpoint. One pointer, because every layer around a request clones it.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    parts: AppParts,
    /// Reads what is stored, without redaction.
    stored: Arc<dyn Inspect>,
    audit: Audit,
    auth: Auth,
    demo: bool,
    encrypted: bool,
    redaction: Arc<Redaction>,
    opened: Option<Arc<(String, OpenedStorage)>>,
    guard: Option<Guard>,
    programs: Option<Arc<CommandConfig>>,
    paused_here: Arc<PausedHere>,
    node: Arc<Node>,
    requests: Arc<RequestLimit>,
    #[cfg(feature = "otlp")]
    tracer: Option<opentelemetry_sdk::trace::SdkTracer>,
}

impl App {
    /// Returns an application with these components and default settings.
    pub fn new(parts: AppParts) -> Self {
        let audit = Audit::new(parts.documents.clone(), parts.clock.clone());
        let auth = Auth::new(AuthSettings::default(), &parts.documents, &parts.clock);
        // The redaction rules of an empty configuration.
        let redaction = Redaction::new(&RedactConfig::default().names).unwrap_or_default();
        let (redaction, paused_here) = (Arc::new(redaction), Arc::default());
        let node = Arc::new(Node::new(parts.clock.now()));
        let (demo, encrypted, opened, guard) = (false, false, None, None);
        let stored = parts.inspect.clone();
        let inner = Inner {
            parts,
            stored,
            audit,
            auth,
            demo,
            encrypted,
            redaction,
            opened,
            guard,
            programs: None,
            paused_here,
            node,
            requests: Arc::new(RequestLimit::new(&ConnectionsConfig::default())),
            #[cfg(feature = "otlp")]
            tracer: None,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the application with a changed setting.
    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// Sets how callers are authenticated; without it every caller on this machine is an admin.
    #[must_use]
    pub fn authenticating(self, settings: AuthSettings) -> Self {
        let auth = Auth::new(settings, &self.documents, &self.clock);
        self.with(|inner| inner.auth = auth)
    }

    /// Authenticates callers by the embedding application before any other way.
    #[must_use]
    pub fn authenticating_with(self, custom: Arc<dyn Authenticate>) -> Self {
        self.with(|inner| inner.auth = inner.auth.clone().custom(custom))
    }

    /// Sets the retention of the audit trail; 400 days by default.
    #[must_use]
    pub fn auditing_for(self, retention: std::time::Duration) -> Self {
        self.with(|inner| inner.audit = inner.audit.clone().keeping(retention))
    }

    /// Marks the application as a demo with made-up data.
    #[must_use]
    pub fn demonstrating(self, demo: bool) -> Self {
        self.with(|inner| inner.demo = demo)
    }

    /// Sets whether every request comes over TLS.
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

    /// Returns the authentication of callers.
    pub fn auth(&self) -> &Auth {
        &self.inner.auth
    }

    /// Redacts values that these rules name in every view.
    #[must_use]
    pub fn redacting(self, redaction: Redaction) -> Self {
        self.with(|inner| {
            let (stored, rules) = (inner.stored.clone(), Arc::new(redaction));
            inner.parts.inspect = if rules.topics().is_empty() {
                stored
            } else {
                Arc::new(RedactedInspect::new(stored, rules.clone()))
            };
            inner.redaction = rules;
        })
    }

    /// Returns the admin of the process, which reads what views may show.
    pub(crate) fn admin(&self) -> Admin {
        self.punctual.admin().reading(self.inspect.clone())
    }

    /// Sets the kind of storage and its handle, which enables the storage check.
    #[must_use]
    pub fn stored_in(self, kind: impl Into<String>, opened: OpenedStorage) -> Self {
        self.with(|inner| inner.opened = Some(Arc::new((kind.into(), opened))))
    }

    /// Sets which addresses webhooks may have; without it every address is accepted and checked at delivery.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        self.with(|inner| inner.guard = Some(guard))
    }

    /// Returns the guard of outgoing calls, when it is known here.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.inner.guard.as_ref()
    }

    /// Sets which programs jobs may run; without it every definition is accepted and checked at each run.
    #[must_use]
    pub fn running_programs(self, config: CommandConfig) -> Self {
        self.with(|inner| inner.programs = Some(Arc::new(config)))
    }

    /// Returns which programs jobs may run, when that is known here.
    pub(crate) fn programs(&self) -> Option<&CommandConfig> {
        self.inner.programs.as_deref()
    }

    /// Sets the identity of this node, its meters, and the configuration in force without secrets.
    #[must_use]
    pub fn on_node(self, identity: Identity, meters: Meters, settings: Option<Value>) -> Self {
        let node = Node { identity, meters, settings, ..Node::new(self.clock.now()) };
        self.with(|inner| inner.node = Arc::new(node))
    }

    /// Records every request as a span of this tracer.
    #[cfg(feature = "otlp")]
    pub(crate) fn traced(self, tracer: Option<opentelemetry_sdk::trace::SdkTracer>) -> Self {
        self.with(|inner| inner.tracer = tracer)
    }

    #[cfg(feature = "otlp")]
    pub(crate) fn tracer(&self) -> Option<&opentelemetry_sdk::trace::SdkTracer> {
        self.inner.tracer.as_ref()
    }

    /// Sleeps until `at`, or until the process is asked to stop.
    pub(crate) async fn rest_until(&self, at: Timestamp) {
        tokio::select! {
            () = self.clock.sleep_until(at) => {}
            () = self.punctual.stopping() => {}
        }
    }

    /// Limits the concurrent requests of one caller to `requests_per_caller`; addresses in `exempt` have no limit.
    #[must_use]
    pub fn limiting_requests(self, config: &ConnectionsConfig) -> Self {
        self.with(|inner| inner.requests = Arc::new(RequestLimit::new(config)))
    }

    /// Returns the limit of concurrent requests.
    pub(crate) fn requests(&self) -> &RequestLimit {
        &self.inner.requests
    }

    /// Returns the in-memory state of this node.
    pub(crate) fn node(&self) -> &Node {
        &self.inner.node
    }

    /// Returns the redaction rules.
    pub fn redaction(&self) -> &Redaction {
        &self.inner.redaction
    }

    /// Returns the kind of storage and its handle, when they were set.
    pub(crate) fn opened(&self) -> Option<(&str, &OpenedStorage)> {
        self.inner.opened.as_deref().map(|(kind, opened)| (kind.as_str(), opened))
    }

    /// Returns the queues that this node has paused.
    pub(crate) fn paused_here(&self) -> &PausedHere {
        &self.inner.paused_here
    }

    /// Returns the audit trail.
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }
}

impl std::ops::Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.inner.parts
    }
}
