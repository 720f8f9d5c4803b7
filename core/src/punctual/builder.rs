//! Builder of a process: handlers, jobs, transports and options, checked as a whole.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::Punctual;
use super::configure::{Precedence, configured, sources};
use super::default_options::DefaultOptions;
use super::lifecycle::StartPlan;
use super::registration::{PendingHandler, registry};
use crate::builtin::MemoryStorage;
use crate::client::{JobBuilder, check_jobs, jobs};
use crate::clock::{Clock, StorageClock, SystemClock};
use crate::codec::Codecs;
use crate::config::{Configuration, MisconfiguredList};
use crate::engine::{
    Control, Controls, Hooks, InFlightAttempts, JobDeclarations, Process, QueueControls,
    RecentRuns, Roles, Runner, ServedQueue, SubscriptionContext, SubscriptionSpec,
};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::event::Events;
use crate::handler::{ErrorRules, IntoHandler, States, UnboundHandler};
use crate::inspect::Inspect;
use crate::lock::Locks;
use crate::middleware::Middleware;
use crate::model::{
    HandlerOptions, IdSource, Ids, IntoTopic, Job, Origin, ProcessId, Queue, Topic, TransportName,
};
use crate::options::Options;
use crate::policy::Declaration;
use crate::schedule::{Calendar, Schedule};
use crate::sending::{OutboundSettings, Sender};
use crate::stop::Stop;
use crate::storage::{Storage, Wakeup};
use crate::subscription::Subscribe;
use crate::transport::{Delay, Transport};

/// Builder of a process. [`Builder::build`] reports errors with the name of the handler, job or option.
#[must_use = "nothing happens until it is built and started"]
pub struct Builder {
    app: String,
    release: u64,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    pub(super) events: Events,
    stores: Option<(Arc<dyn Storage>, Arc<dyn Inspect>)>,
    has_storage: bool,
    volatile_delays: bool,
    transports: Vec<(String, Arc<dyn Transport>)>,
    pub(super) outbound: OutboundSettings,
    pub(super) codecs: Codecs,
    handlers: Vec<PendingHandler>,
    pub(super) states: States,
    pub(super) calendars: Vec<Calendar>,
    pub(super) registered: HashSet<TypeId>,
    pub(super) rules: ErrorRules,
    pub(super) hooks: Hooks,
    pub(super) locks: Option<Arc<dyn Locks>>,
    subscriptions: Vec<Subscribe>,
    jobs: Vec<JobBuilder>,
    pub(super) handler_options: DefaultOptions,
    pub(super) cron_overrides: Vec<(String, String)>,
    pub(super) configurations: Vec<(Precedence, Result<Configuration>)>,
    queues: Vec<(String, usize, Option<usize>)>,
    only_named_queues: bool,
    pub(super) more_jobs: bool,
    middleware: Vec<Arc<dyn Middleware>>,
    options: Options,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            app: "default".to_owned(),
            release: 0,
            clock: Arc::new(SystemClock),
            ids: Arc::new(Ids::random()),
            events: Events::default(),
            stores: None,
            has_storage: true,
            volatile_delays: false,
            transports: Vec::new(),
            outbound: OutboundSettings::default(),
            codecs: Codecs::default(),
            handlers: Vec::new(),
            states: States::default(),
            calendars: Vec::new(),
            registered: HashSet::new(),
            rules: ErrorRules::default(),
            hooks: Hooks::default(),
            locks: None,
            subscriptions: Vec::new(),
            jobs: Vec::new(),
            handler_options: DefaultOptions::default(),
            cron_overrides: Vec::new(),
            configurations: Vec::new(),
            queues: Vec::new(),
            only_named_queues: false,
            more_jobs: false,
            middleware: Vec::new(),
            options: Options::default(),
        }
    }
}

impl Builder {
    /// Sets the name of the application. It owns its jobs: declarations of other applications do not change
    /// them.
    pub fn app(mut self, name: impl Into<String>) -> Self {
        self.app = name.into();
        self
    }

    /// Sets the release, a number that grows with every deployment. A process with an older release changes no
    /// job definitions, so that two versions side by side do not overwrite each other's jobs.
    pub fn release(mut self, stamp: u64) -> Self {
        self.release = stamp;
        self
    }

    /// Sets the storage of messages and jobs. The default is in memory.
    pub fn storage<S: Storage + Inspect>(mut self, storage: Arc<S>) -> Self {
        self.stores = Some((storage.clone(), storage));
        self
    }

    /// Sets a storage like [`Builder::storage`] as trait objects, such as one that was opened by its address.
    pub fn stores(mut self, storage: Arc<dyn Storage>, inspect: Arc<dyn Inspect>) -> Self {
        self.stores = Some((storage, inspect));
        self
    }

    /// Allows a durable transport with a storage that is not durable, which loses the delays it keeps for the
    /// transport when the process ends. Without this, `build` refuses the combination.
    pub fn allow_volatile_delays(mut self) -> Self {
        self.volatile_delays = true;
        self
    }

    /// Builds a process without a storage: a delay that a transport does not support is refused.
    pub fn without_storage(mut self) -> Self {
        self.has_storage = false;
        self
    }

    /// Sets the clock. The default is the system's clock; tests use a manual one.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of ids. The default is random in every process.
    pub fn ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Adds a transport under a name.
    pub fn transport(mut self, name: impl Into<String>, transport: Arc<dyn Transport>) -> Self {
        self.transports.push((name.into(), transport));
        self
    }

    /// Registers the handler of a topic with default options: an `async fn`, a closure, or a type that implements
    /// [`Handler`](crate::Handler).
    pub fn handler<A, Via>(self, topic: impl IntoTopic, handler: impl IntoHandler<A, Via>) -> Self {
        self.handler_with(topic, HandlerOptions::default(), handler)
    }

    /// Registers the handler of a topic with options; a message or a job overrides the fields that it sets.
    pub fn handler_with<A, Via>(
        mut self,
        topic: impl IntoTopic,
        handler_options: HandlerOptions,
        handler: impl IntoHandler<A, Via>,
    ) -> Self {
        let (topic, handler) = (topic.into_topic(), handler.into_handler());
        self.handlers.push(PendingHandler { topic, handler, handler_options, of_job: false });
        self
    }

    /// Registers a handler of a topic that is not yet bound to its states.
    pub(crate) fn unbound(mut self, topic: &str, handler: UnboundHandler) -> Self {
        let (topic, handler_options) = (Topic::new(topic), HandlerOptions::default());
        self.handlers.push(PendingHandler { topic, handler, handler_options, of_job: false });
        self
    }

    /// Subscribes to a topic of a transport as a group; its handler is found by the topic.
    pub fn subscribe(
        self,
        transport: impl Into<String>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        self.subscription(Subscribe::new(transport, topic, group))
    }

    /// Subscribes to a topic of a transport with options; see [`Subscribe`].
    pub fn subscription(mut self, subscribe: Subscribe) -> Self {
        self.subscriptions.push(subscribe);
        self
    }

    /// Declares a job with its handler, which receives the job's payload, or the
    /// [`Occurrence`](crate::model::Occurrence) when it has none.
    pub fn job<A, Via>(self, job: JobBuilder, handler: impl IntoHandler<A, Via>) -> Self {
        self.job_with(job, handler.into_handler())
    }

    pub(super) fn job_with(mut self, job: JobBuilder, handler: UnboundHandler) -> Self {
        let (topic, handler) = (job.topic_name(), handler.reporting(job.reports()));
        let handler_options = HandlerOptions::default();
        self.handlers.push(PendingHandler { topic, handler, handler_options, of_job: true });
        self.jobs.push(job);
        self
    }

    /// Declares a job whose handler is registered separately, in this or another process.
    pub fn declare(mut self, job: JobBuilder) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds a queue that this process works on, and how many of its messages it handles in parallel. It also works on
    /// the queue `default` and on the queues of its jobs, unless [`Builder::only_named_queues`] is set.
    pub fn queue(mut self, name: impl Into<String>, concurrency: usize) -> Self {
        self.queues.push((name.into(), concurrency, None));
        self
    }

    /// Adds a queue whose messages are handled one after the other, in order, on all processes together. A
    /// retried message is ordered by its new due time.
    pub fn serial_queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push((name.into(), 1, Some(1)));
        self
    }

    /// Works only on the queues of [`Builder::queue`] and [`Builder::serial_queue`], not on `default`; for a process
    /// that is dedicated to some queues.
    pub fn only_named_queues(mut self) -> Self {
        self.only_named_queues = true;
        self
    }

    /// Adds a middleware around every publish and every attempt; the first one is outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Changes options.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sets the services that this process runs; by default all. The same as the options `scheduling`,
    /// `handling`, `relaying` and `maintenance`; the last call counts.
    pub fn roles(mut self, roles: Roles) -> Self {
        roles.apply(&mut self.options);
        self
    }

    /// Checks everything as a whole and returns the process, which is not started yet.
    pub fn build(self) -> Result<Punctual> {
        self.options.check()?;
        let transports = named_transports(self.transports)?;
        let states = self.states.checked()?.with_codecs(self.codecs.checked(&self.options)?);
        let outbound = self.outbound.build(&transports, &states, &self.options)?;
        let jobs = jobs(self.jobs, &self.calendars)?;
        check_jobs(&jobs, self.has_storage, &self.options)?;
        let registry = registry(self.handlers, &states)?;
        let controls = Controls::default();
        let context = SubscriptionContext {
            transports: &transports,
            registry: &registry,
            states: &states,
            options: &self.options,
            has_storage: self.has_storage,
        };
        let subscriptions = subscriptions(self.subscriptions, &context, &controls)?;
        let queues = queues(self.queues, self.only_named_queues, &jobs, &self.options)?;
        let sources = sources(&self.cron_overrides, self.configurations)?;
        let (configured, misconfigured) = configured(&jobs, &sources, &self.events, self.more_jobs);
        let declare = |(job, configured)| declared(job, configured, &self.app, self.release);
        let declarations = jobs.into_iter().zip(configured).map(declare).collect();
        let (storage, inspect) = self.stores.unwrap_or_else(|| in_memory(&self.clock));
        check_delays(&*storage, &transports, self.volatile_delays || !self.has_storage)?;
        let queue_controls = queue_controls(&queues, self.options.handling);
        let env = Arc::new(Environment {
            id: ProcessId::from_uuid(self.ids.next(self.clock.now())),
            app: self.app,
            options: self.options,
            clock: Arc::new(StorageClock::new(self.clock)),
            ids: self.ids,
            events: Arc::new(self.events),
            storage,
            inspect,
            has_storage: self.has_storage,
            stop: Stop::new(),
            progress_notifier: Wakeup::new().0,
        });
        let runner = Runner {
            registry,
            option_layers: self.handler_options.check()?,
            rules: self.rules,
            hooks: self.hooks,
            locks: self.locks,
            in_flight: Arc::new(InFlightAttempts::new()),
            recent_runs: RecentRuns::default(),
        };
        let declared = JobDeclarations {
            declarations,
            release: self.release,
            calendars: self.calendars,
            configurations: sources,
            misconfigured: MisconfiguredList::new(misconfigured, self.more_jobs),
        };
        let middleware = self.middleware;
        let sender = Sender { env, transports, outbound, middleware, states };
        let process = Process::new(sender, runner, declared, (queue_controls, controls));
        Ok(Punctual::new(Arc::new(process), StartPlan { queues, subscriptions }))
    }
}

fn declared(job: Job, configured: Option<Schedule>, app: &str, release: u64) -> Declaration {
    Declaration { job, configured, app: app.to_owned(), release, origin: Origin::Declared }
}

fn in_memory(clock: &Arc<dyn Clock>) -> (Arc<dyn Storage>, Arc<dyn Inspect>) {
    let memory = Arc::new(MemoryStorage::new(clock.clone()));
    (memory.clone(), memory)
}

fn named_transports(
    given: Vec<(String, Arc<dyn Transport>)>,
) -> Result<BTreeMap<TransportName, Arc<dyn Transport>>> {
    let mut transports = BTreeMap::new();
    for (name, transport) in given {
        let name = TransportName::new(name)?;
        if transports.insert(name.clone(), transport).is_some() {
            return Err(Error::conflict(format!(
                "there are two transports {name:?}; rename one of them"
            )));
        }
    }
    Ok(transports)
}

/// Refuses a durable transport with a storage that would lose its delays at a restart.
fn check_delays(
    storage: &dyn Storage,
    transports: &BTreeMap<TransportName, Arc<dyn Transport>>,
    allowed: bool,
) -> Result<()> {
    let needs_durable_storage = transports.iter().find(|(_, transport)| {
        let can = transport.capabilities();
        can.durable && (can.publish_delay != Delay::Any || can.requeue_delay != Delay::Any)
    });
    match needs_durable_storage {
        Some((name, _)) if !allowed && !storage.is_durable() => Err(Error::invalid(format!(
            "the transport {name:?} is durable, but delays that it does not support would be kept in memory and lost with the process; give the builder a durable storage, or call allow_volatile_delays()"
        ))),
        _ => Ok(()),
    }
}

/// Checks the subscriptions and registers their controls; fails when a name occurs twice.
fn subscriptions(
    given: Vec<Subscribe>,
    context: &SubscriptionContext<'_>,
    controls: &Controls,
) -> Result<Vec<(Arc<SubscriptionSpec>, Arc<Control>)>> {
    let mut subscriptions = Vec::with_capacity(given.len());
    for subscribe in given {
        let request = subscribe.into_request();
        let paused = request.paused;
        let spec = Arc::new(request.check(context)?);
        let control = controls.add(&spec, paused)?;
        subscriptions.push((spec, control));
    }
    Ok(subscriptions)
}

/// Creates the queue controls before the start.
fn queue_controls(queues: &[ServedQueue], handling: bool) -> QueueControls {
    let controls = QueueControls::new();
    for served in queues {
        controls.limit(served);
        if handling {
            controls.serve(served);
        }
    }
    controls
}

fn queues(
    given: Vec<(String, usize, Option<usize>)>,
    only_named: bool,
    jobs: &[Job],
    options: &Options,
) -> Result<Vec<ServedQueue>> {
    let mut queues = BTreeMap::new();
    for (name, concurrency, running_max) in given {
        if concurrency == 0 {
            return Err(Error::invalid(format!(
                "the queue {name:?} has concurrency 0; it must be at least 1"
            )));
        }
        if queues.insert(Queue::new(&name)?, (concurrency, running_max)).is_some() {
            return Err(Error::conflict(format!("the queue {name:?} is given twice")));
        }
    }
    if only_named && queues.is_empty() {
        return Err(Error::invalid(
            "only_named_queues() is set, but no queue is named; name them with queue(), or turn the option \
             handling off for a process that handles no messages",
        ));
    }
    if !only_named {
        let default = (options.concurrency, None);
        for queue in
            std::iter::once(Queue::default()).chain(jobs.iter().map(|job| job.queue.clone()))
        {
            queues.entry(queue).or_insert(default);
        }
    }
    let served =
        |(queue, (concurrency, running_max))| ServedQueue { queue, concurrency, running_max };
    Ok(queues.into_iter().map(served).collect())
}
