//! The builder: handlers, jobs, transports and options, checked as a whole.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::Punctual;
use super::configure::{Rank, configured, sources};
use super::default_options::DefaultOptions;
use super::registering::{Registering, jobs, registry};
use super::running::Blueprint;
use crate::builtin::MemoryStorage;
use crate::client::{JobBuilder, Sends};
use crate::clock::{Clock, StorageClock, SystemClock};
use crate::codec::Codecs;
use crate::config::{Configuration, MisconfiguredList};
use crate::engine::{
    Control, Hooks, InFlight, Options, Process, QueueBoard, Recent, Remotes, Roles, Stop,
    Subscribed, Surroundings, Switchboard, Watched, Worked,
};
use crate::error::{Error, Result};
use crate::event::Events;
use crate::handler::{IntoHandler, Rules, States, UnboundHandler};
use crate::inspect::Inspect;
use crate::lock::Locks;
use crate::middleware::Middleware;
use crate::model::{
    HandlerOptions, IdSource, Ids, IntoTopic, Job, Origin, ProcessId, Queue, Topic, TransportName,
};
use crate::policy::Declaration;
use crate::schedule::{Calendar, Schedule};
use crate::storage::{Storage, Wakeup};
use crate::subscription::Subscribe;
use crate::transport::{Delay, Transport};

/// Puts a process together. Mistakes are reported by [`Builder::build`], each by name.
#[must_use = "nothing happens until it is built and started"]
pub struct Builder {
    app: String,
    release: u64,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    pub(super) events: Events,
    stores: Option<(Arc<dyn Storage>, Arc<dyn Inspect>)>,
    holds: bool,
    volatile_delays: bool,
    transports: Vec<(String, Arc<dyn Transport>)>,
    pub(super) sends: Sends,
    pub(super) codecs: Codecs,
    handlers: Vec<Registering>,
    pub(super) states: States,
    pub(super) calendars: Vec<Calendar>,
    pub(super) registered: HashSet<TypeId>,
    pub(super) rules: Rules,
    pub(super) hooks: Hooks,
    pub(super) locks: Option<Arc<dyn Locks>>,
    subscriptions: Vec<Subscribe>,
    jobs: Vec<JobBuilder>,
    pub(super) handler_options: DefaultOptions,
    pub(super) cron_overrides: Vec<(String, String)>,
    pub(super) configurations: Vec<(Rank, Result<Configuration>)>,
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
            holds: true,
            volatile_delays: false,
            transports: Vec::new(),
            sends: Sends::default(),
            codecs: Codecs::default(),
            handlers: Vec::new(),
            states: States::default(),
            calendars: Vec::new(),
            registered: HashSet::new(),
            rules: Rules::default(),
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
    /// The name of the application. Jobs belong to it: another application's declarations never
    /// touch them.
    pub fn app(mut self, name: impl Into<String>) -> Self {
        self.app = name.into();
        self
    }

    /// A number that grows with every deploy. A process with an older one changes no definitions, so
    /// that two versions side by side do not flip a job.
    pub fn release(mut self, stamp: u64) -> Self {
        self.release = stamp;
        self
    }

    /// Where messages and jobs are remembered. The default is memory.
    pub fn storage<S: Storage + Inspect>(mut self, storage: Arc<S>) -> Self {
        self.stores = Some((storage.clone(), storage));
        self
    }

    /// The same for a storage whose type is not known here, as one opened by its address.
    pub fn stores(mut self, storage: Arc<dyn Storage>, inspect: Arc<dyn Inspect>) -> Self {
        self.stores = Some((storage, inspect));
        self
    }

    /// Accepts that delays under a durable transport are kept in a storage that is not: they are lost
    /// when the process ends. Without this, `build` refuses the combination.
    pub fn allow_volatile_delays(mut self) -> Self {
        self.volatile_delays = true;
        self
    }

    /// No storage for delays: one that a transport cannot do is refused instead of kept.
    pub fn without_storage(mut self) -> Self {
        self.holds = false;
        self
    }

    /// Where time comes from. The default is the system's clock; tests give a manual one.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where identifiers come from. The default differs in every process.
    pub fn ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Something that carries messages, under a name.
    pub fn transport(mut self, name: impl Into<String>, transport: Arc<dyn Transport>) -> Self {
        self.transports.push((name.into(), transport));
        self
    }

    /// The handler of a topic, with the usual terms: an `async fn`, a closure, or a type that
    /// implements [`Handler`](crate::Handler).
    pub fn handler<A, Via>(self, topic: impl IntoTopic, handler: impl IntoHandler<A, Via>) -> Self {
        self.handler_with(topic, HandlerOptions::default(), handler)
    }

    /// Registers the handler of a topic with terms of its own; a message or a job that says something else
    /// wins in that field.
    pub fn handler_with<A, Via>(
        mut self,
        topic: impl IntoTopic,
        handler_options: HandlerOptions,
        handler: impl IntoHandler<A, Via>,
    ) -> Self {
        let (topic, handler) = (topic.into_topic(), handler.into_handler());
        self.handlers.push(Registering { topic, handler, handler_options, of_job: false });
        self
    }

    /// The handler of a topic whose type is not known here.
    pub(crate) fn unbound(mut self, topic: &str, handler: UnboundHandler) -> Self {
        let (topic, handler_options) = (Topic::new(topic), HandlerOptions::default());
        self.handlers.push(Registering { topic, handler, handler_options, of_job: false });
        self
    }

    /// Receives a topic from a transport, as a group; its handler is found by the topic.
    pub fn subscribe(
        self,
        transport: impl Into<String>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        self.subscription(Subscribe::new(transport, topic, group))
    }

    /// Receives a topic from a transport in a way of its own: see [`Subscribe`] for what can be said.
    pub fn subscription(mut self, subscribe: Subscribe) -> Self {
        self.subscriptions.push(subscribe);
        self
    }

    /// A job and its handler, which receives the job's payload, or the
    /// [`Occurrence`](crate::model::Occurrence) when it has none.
    pub fn job<A, Via>(self, job: JobBuilder, handler: impl IntoHandler<A, Via>) -> Self {
        self.job_with(job, handler.into_handler())
    }

    pub(super) fn job_with(mut self, job: JobBuilder, handler: UnboundHandler) -> Self {
        let (topic, handler) = (job.topic_name(), handler.reporting(job.reports()));
        let handler_options = HandlerOptions::default();
        self.handlers.push(Registering { topic, handler, handler_options, of_job: true });
        self.jobs.push(job);
        self
    }

    /// A job whose handler is registered elsewhere, here or in another process.
    pub fn declare(mut self, job: JobBuilder) -> Self {
        self.jobs.push(job);
        self
    }

    /// A queue this process works on, and how many of its messages at once; in addition to the queue
    /// `default` and to the queues of its jobs, unless [`Builder::only_named_queues`] is given.
    pub fn queue(mut self, name: impl Into<String>, concurrency: usize) -> Self {
        self.queues.push((name.into(), concurrency, None));
        self
    }

    /// A queue whose messages are handled one after the other, in order, however many processes work on
    /// it. A message that is tried again comes again at its new time.
    pub fn serial_queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push((name.into(), 1, Some(1)));
        self
    }

    /// Works on the queues that were given with [`Builder::queue`] and [`Builder::serial_queue`] and on no
    /// other, not even on `default`; for a process that is set aside for some queues.
    pub fn only_named_queues(mut self) -> Self {
        self.only_named_queues = true;
        self
    }

    /// Something around every publish and every attempt; the first one given is outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Changes options.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Which services this process runs; all of them without this. The same as the options `scheduling`,
    /// `handling`, `relaying` and `upkeep`; the last word counts.
    pub fn roles(mut self, roles: Roles) -> Self {
        roles.apply(&mut self.options);
        self
    }

    /// Checks everything as a whole.
    pub fn build(self) -> Result<Punctual> {
        self.options.check()?;
        let transports = named_transports(self.transports)?;
        let states = self.states.checked()?.reading_with(self.codecs.checked(&self.options)?);
        let outbound = self.sends.build(&transports, &states, &self.options)?;
        let jobs = jobs(self.jobs, &self.calendars)?;
        check_jobs(&jobs, self.holds, &self.options)?;
        let registry = registry(self.handlers, &states)?;
        let switchboard = Switchboard::default();
        let around = Surroundings {
            transports: &transports,
            registry: &registry,
            states: &states,
            options: &self.options,
            holds: self.holds,
        };
        let subscriptions = subscriptions(self.subscriptions, &around, &switchboard)?;
        let queues = queues(self.queues, self.only_named_queues, &jobs, &self.options)?;
        let sources = sources(&self.cron_overrides, self.configurations)?;
        let (configured, misconfigured) = configured(&jobs, &sources, &self.events, self.more_jobs);
        let declare = |(job, configured)| declared(job, configured, &self.app, self.release);
        let declarations = jobs.into_iter().zip(configured).map(declare).collect();
        let (storage, inspect) = self.stores.unwrap_or_else(|| in_memory(&self.clock));
        check_delays(&*storage, &transports, self.volatile_delays || !self.holds)?;
        let process = Arc::new(Process {
            id: ProcessId::from_uuid(self.ids.next(self.clock.now())),
            app: self.app,
            clock: Arc::new(StorageClock::new(self.clock)),
            ids: self.ids,
            events: Arc::new(self.events),
            storages: distinct(&storage, &transports),
            storage,
            inspect,
            holds: self.holds,
            transports,
            outbound,
            registry,
            switchboard,
            queues: queue_board(&queues, self.options.handling),
            remotes: Remotes::default(),
            watched: Watched::default(),
            options: self.options,
            states,
            rules: self.rules,
            hooks: self.hooks,
            locks: self.locks,
            progressed: Wakeup::new().0,
            middleware: self.middleware,
            option_layers: self.handler_options.check()?,
            in_flight: Arc::new(InFlight::new()),
            stop: Stop::new(),
            turns: Arc::default(),
            recent: Recent::default(),
            declarations,
            release: self.release,
            calendars: self.calendars,
            configurations: sources,
            misconfigured: MisconfiguredList::new(misconfigured, self.more_jobs),
            alive_until: watch::Sender::new(Timestamp::MIN),
        });
        Ok(Punctual::new(process, Blueprint { queues, subscriptions }))
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

/// Refuses to keep a durable transport's delays where a restart forgets them.
fn check_delays(
    storage: &dyn Storage,
    transports: &BTreeMap<TransportName, Arc<dyn Transport>>,
    allowed: bool,
) -> Result<()> {
    let forgetful = transports.iter().find(|(_, transport)| {
        let can = transport.capabilities();
        can.durable && (can.publish_delay != Delay::Any || can.requeue_delay != Delay::Any)
    });
    match forgetful {
        Some((name, _)) if !allowed && !storage.is_durable() => Err(Error::invalid(format!(
            "the transport {name:?} is durable, but delays it cannot do itself would be kept in memory and lost with the process; give the builder a durable storage, or say allow_volatile_delays()"
        ))),
        _ => Ok(()),
    }
}

/// Our own storage, then those behind transports, each once.
fn distinct(
    own: &Arc<dyn Storage>,
    transports: &BTreeMap<TransportName, Arc<dyn Transport>>,
) -> Vec<Arc<dyn Storage>> {
    let mut storages = vec![own.clone()];
    for storage in transports.values().filter_map(|transport| transport.storage()) {
        if !storages.iter().any(|known| Arc::ptr_eq(known, &storage)) {
            storages.push(storage);
        }
    }
    storages
}

/// The subscriptions, each name once.
fn subscriptions(
    given: Vec<Subscribe>,
    around: &Surroundings<'_>,
    switchboard: &Switchboard,
) -> Result<Vec<(Arc<Subscribed>, Arc<Control>)>> {
    let mut subscriptions = Vec::with_capacity(given.len());
    for subscribe in given {
        let unchecked = subscribe.into_unchecked();
        let paused = unchecked.paused;
        let subscribed = Arc::new(unchecked.check(around)?);
        let control = switchboard.add(&subscribed, paused)?;
        subscriptions.push((subscribed, control));
    }
    Ok(subscriptions)
}

pub(crate) fn check_jobs(jobs: &[Job], holds: bool, options: &Options) -> Result<()> {
    for job in jobs {
        job.body.check(options.payload_max).map_err(|error| {
            Error::invalid(format!("the job {:?} cannot be declared: {error}", job.name))
        })?;
    }
    if let Some(job) = jobs.first().filter(|_| !holds) {
        return Err(Error::invalid(format!(
            "the job {:?} needs a storage, and the builder was told to have none",
            job.name
        )));
    }
    Ok(())
}

/// What is known of the queues before the start.
fn queue_board(queues: &[Worked], handling: bool) -> QueueBoard {
    let board = QueueBoard::new();
    for worked in queues {
        board.limit(worked);
        if handling {
            board.serve(worked);
        }
    }
    board
}

fn queues(
    given: Vec<(String, usize, Option<usize>)>,
    only_named: bool,
    jobs: &[Job],
    options: &Options,
) -> Result<Vec<Worked>> {
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
            "only_named_queues() is given and no queue is named; name them with queue(), or turn the option \
             handling off for a process that handles nothing",
        ));
    }
    if !only_named {
        let usual = (options.concurrency, None);
        for queue in
            std::iter::once(Queue::default()).chain(jobs.iter().map(|job| job.queue.clone()))
        {
            queues.entry(queue).or_insert(usual);
        }
    }
    let worked = |(queue, (concurrency, running_max))| Worked { queue, concurrency, running_max };
    Ok(queues.into_iter().map(worked).collect())
}
