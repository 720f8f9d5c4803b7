//! A process while it lives: start its services, hand out its clients, and stop without losing or
//! repeating anything: no new claims, time to finish, a request to stop, and work given back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::Builder;
use crate::client::{Admin, HttpWorkers, Jobs, Publisher, Queues, Subscriptions};
use crate::clock::{Clock, add, within};
use crate::engine::{
    Control, HeartbeatService, Heartbeats, PULSE_REST_MAX, Pace, Poller, Process, ProcessTasks,
    ProgressWriter, Pruner, QueueWorker, Reconciler, Relay, Rescuer, Scheduler, Service, Settler,
    Stop, Subscribed, SubscriptionWorker, Worked, alive, goodbye, run, subscribe,
};
use crate::error::Result;
use crate::event::{Event, Events};
use crate::handler::Cause;
use crate::model::ProcessId;
use crate::storage::{WakeSource, Wakeup};
use crate::transport::Consumer;

/// How long a start waits until the storage has told its time and the declared jobs are stored.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// What to run, besides what the process shares.
pub(super) struct Blueprint {
    pub(super) queues: Vec<Worked>,
    pub(super) subscriptions: Vec<(Arc<Subscribed>, Arc<Control>)>,
}

/// A process: the services in the background, and the clients to talk to them.
///
/// Built by [`Punctual::builder`], running after [`Punctual::start`], ended by
/// [`Punctual::shutdown`]. Dropping it without a shutdown stops the services, asks handlers to
/// stop, and leaves what they did not finish to the rescuer of another process.
pub struct Punctual {
    process: Arc<Process>,
    blueprint: Mutex<Option<Blueprint>>,
    crew: Arc<ProcessTasks>,
    /// The pulse goes on while handlers finish, so that nobody takes their messages over.
    pulse_stop: Stop,
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Attempts that were asked to stop because they did not finish by themselves.
    pub interrupted: usize,
    /// Attempts that had not been settled when the deadline came; other processes take them over.
    pub abandoned: usize,
}

impl Punctual {
    /// Puts a process together.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn new(process: Arc<Process>, blueprint: Blueprint) -> Self {
        Self {
            process,
            blueprint: Mutex::new(Some(blueprint)),
            crew: Arc::default(),
            pulse_stop: Stop::new(),
        }
    }

    /// The identity of this process; new at every start.
    pub fn process_id(&self) -> ProcessId {
        self.process.id
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Whether it remembers anything: not when it was built
    /// [without a storage](crate::Builder::without_storage).
    pub fn has_storage(&self) -> bool {
        self.process.holds
    }

    /// Sends messages.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.process.clone())
    }

    /// Plans one-time jobs.
    pub fn jobs(&self) -> Jobs {
        Jobs::new(self.process.clone())
    }

    /// Looks and steers.
    pub fn admin(&self) -> Admin {
        Admin::new(self.process.clone())
    }

    /// Looks at what is received from transports, and steers it.
    pub fn subscriptions(&self) -> Subscriptions {
        Subscriptions::new(self.process.clone(), self.crew.clone())
    }

    /// Looks at the queues of this process, and steers them.
    pub fn queues(&self) -> Queues {
        Queues::new(self.process.clone(), self.crew.clone())
    }

    /// Work for processes elsewhere, in any language.
    pub fn http_workers(&self) -> HttpWorkers {
        HttpWorkers::new(self.process.clone(), self.crew.clone())
    }

    /// What happens, as it happens.
    pub fn events(&self) -> &Arc<Events> {
        &self.process.events
    }

    /// Starts the services. A second call does nothing. When it returns, the clock follows the storage's
    /// time and the declared jobs are stored; a storage that fails or does not return within 10 seconds
    /// delays both, and the services continue to try.
    /// A storage or a transport that is out of reach does
    /// not fail the start: the services try until it answers, and health says so meanwhile. A transport
    /// that refuses a subscription for good, as one whose topology is another, does; the start may then
    /// be tried again.
    pub async fn start(&self) -> Result<()> {
        let blueprint = self.blueprint.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(blueprint) = blueprint else { return Ok(()) };
        let consumers = self.consumers(&blueprint.subscriptions).await;
        let refused =
            |consumer: &Result<_>| matches!(consumer, Err(error) if !error.is_temporary());
        if let Some(place) = consumers.iter().position(refused) {
            // Nothing was started, so it may be tried again.
            *self.blueprint.lock().unwrap_or_else(PoisonError::into_inner) = Some(blueprint);
            return consumers.into_iter().nth(place).unwrap_or_else(|| Ok(None)).map(|_| ());
        }
        let process = &self.process;
        let reconciler = self.reconciled().await;
        if process.stop.is_requested() {
            // A shutdown came while the storage was waited for; nothing is started after it.
            return Ok(());
        }
        let (settler, writer) = Settler::new(process.clone());
        self.crew.spawn(writer);
        let pulse = HeartbeatService::new(process.clone());
        let (stop, wakeups) = (self.pulse_stop.clone(), pulse.wakeups());
        let pace = Pace { stop, rest_max: PULSE_REST_MAX, ..Pace::new(process, wakeups) };
        self.crew.spawn(run(Box::new(pulse), pace));
        let Blueprint { queues, subscriptions } = blueprint;
        for (service, wakeups) in services(process, queues, reconciler, &settler) {
            self.crew.spawn(run(service, Pace::new(process, wakeups)));
        }
        for ((subscribed, control), consumer) in subscriptions.into_iter().zip(consumers) {
            let Some(consumer) = consumer.transpose() else { continue };
            let process = process.clone();
            let worker = SubscriptionWorker::new(process, &settler, subscribed, control, consumer);
            self.crew.spawn(worker.run());
        }
        self.crew.begin(settler);
        process.events.emit(Event::ProcessStarted { process: process.id });
        Ok(())
    }

    /// Follows the storage's time, because a message published right after the start must not be due by a
    /// wrong clock, and stores the declared jobs. Where the storage cannot be reached the services try again
    /// and report it.
    async fn reconciled(&self) -> Reconciler {
        let process = &self.process;
        let mut reconciler = Reconciler::new(process.clone());
        let clock: &dyn Clock = &*process.clock;
        let declaring = async {
            let now = alive(process, clock.now()).await?;
            if process.declarations.is_empty() {
                return Ok(());
            }
            reconciler.reconcile(now).await
        };
        let _: Option<Result<()>> = within(clock, add(clock.now(), START_TIMEOUT), declaring).await;
        reconciler
    }

    /// Subscribes to everything at once, as far as it can be reached; to nothing when nothing is handled.
    async fn consumers(
        &self,
        subscriptions: &[(Arc<Subscribed>, Arc<Control>)],
    ) -> Vec<Result<Option<Box<dyn Consumer>>>> {
        if !self.process.options.handling {
            return subscriptions.iter().map(|_| Ok(None)).collect();
        }
        let answers = subscriptions
            .iter()
            .map(|(subscribed, _)| async { subscribe(&self.process, subscribed).await.map(Some) });
        join_all(answers).await
    }

    /// Follows the heartbeats by which other processes know that this one is alive.
    pub fn heartbeats(&self) -> Heartbeats {
        Heartbeats::of(&self.process)
    }

    /// Whether it was asked to stop, and takes no new work.
    pub fn is_stopping(&self) -> bool {
        self.process.stop.is_requested()
    }

    /// Waits until it is asked to stop. Cancel-safe.
    pub async fn stopping(&self) {
        self.process.stop.requested().await;
    }

    /// Whether no attempt is under way in this process.
    pub fn is_resting(&self) -> bool {
        self.process.in_flight.len() == 0
    }

    /// Stops: no new work, `drain` for handlers to finish, then a request to stop and `grace` to wind
    /// down; what is unfinished is given back without spending an attempt, or is dead where its terms say
    /// [`WhenInterrupted::Lost`](crate::model::WhenInterrupted::Lost).
    pub async fn shutdown(&self) -> ShutdownReport {
        let process = &self.process;
        let clock: &dyn Clock = &*process.clock;
        let running = process.in_flight.len();
        process.stop.request();
        process.events.emit(Event::ProcessStopping { process: process.id, running });
        let drained =
            within(clock, add(clock.now(), process.options.drain), process.in_flight.emptied())
                .await;
        let interrupted = if drained.is_some() { 0 } else { process.in_flight.len() };
        process.in_flight.cancel_all(Cause::Shutdown);
        // The handlers' own grace, and as much again to store what they said.
        let until = add(clock.now(), process.options.grace * 2);
        let _ = within(clock, until, process.in_flight.emptied()).await;
        let abandoned = process.in_flight.len();
        self.pulse_stop.request();
        let mut tasks = self.crew.end();
        let _ = within(clock, until, async { while tasks.join_next().await.is_some() {} }).await;
        tasks.shutdown().await;
        let _ = within(clock, until, process.outbound.requests.ended()).await;
        // Best effort: without it the others find out by the missing beats.
        let _ = within(clock, until, goodbye(process)).await;
        process.stop.end();
        process.events.emit(Event::ProcessStopped { process: process.id, released: interrupted });
        ShutdownReport { interrupted, abandoned }
    }
}

/// A service and what wakes it.
type Paced = (Box<dyn Service>, Vec<Wakeup>);

/// Every service but the pulse. Whoever empties a line listens to the storage's bell and to the
/// lookout's; who has no line knows its own time.
fn services(
    process: &Arc<Process>,
    queues: Vec<Worked>,
    reconciler: Reconciler,
    settler: &Settler,
) -> Vec<Paced> {
    let mut services: Vec<Paced> = Vec::new();
    let options = &process.options;
    let listen =
        |line: WakeSource| vec![process.storage.wakeup(&line), process.watched.watch(line)];
    // A process that was told to have no storage has nothing of its own to rescue.
    let own = usize::from(!process.holds);
    for storage in process.storages[own..].iter().filter(|_| options.upkeep) {
        services.push((Box::new(Rescuer::new(process.clone(), storage.clone())), Vec::new()));
    }
    if options.scheduling {
        services.push((
            Box::new(Scheduler::new(process.clone(), reconciler)),
            listen(WakeSource::Jobs),
        ));
    } else if !process.declarations.is_empty() {
        services.push((Box::new(reconciler), Vec::new()));
    }
    if let Some(retention) = options.retention.filter(|_| options.upkeep) {
        let pruner = Pruner::new(process.storage.clone(), process.events.clone(), retention);
        services.push((Box::new(pruner), Vec::new()));
    }
    for (name, transport) in process.transports.iter().filter(|_| options.relaying) {
        let relay = Relay::new(process.clone(), name.clone(), transport.clone());
        let mut wakeups = listen(relay.line());
        wakeups.push(process.queues.wakeup());
        services.push((Box::new(relay), wakeups));
    }
    for worked in queues.into_iter().filter(|_| options.handling) {
        let worker = QueueWorker::new(process.clone(), settler.clone(), worked);
        let wakeups = worker.wakeups();
        services.push((Box::new(worker), wakeups));
    }
    if options.handling {
        let scribe = ProgressWriter::new(process.clone());
        let wakeups = vec![scribe.wakeup()];
        services.push((Box::new(scribe), wakeups));
    }
    services.push((Box::new(Poller::new(process.clone())), Vec::new()));
    services
}

impl Drop for Punctual {
    fn drop(&mut self) {
        self.process.stop.request();
        self.pulse_stop.request();
        self.process.in_flight.cancel_all(Cause::Shutdown);
    }
}
