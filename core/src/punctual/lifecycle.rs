//! Lifecycle of a process: starts its services, provides its clients, and shuts down gracefully: no new claims, time
//! to finish, a request to stop, and the release of unfinished messages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::Builder;
use crate::client::{Admin, HttpWorkers, Jobs, Queues, Subscriptions};
use crate::clock::{Clock, within};
use crate::engine::{
    Control, HEARTBEAT_PAUSE_MAX, HeartbeatService, Heartbeats, LoopContext, Poller, Process,
    ProcessTasks, ProgressWriter, Pruner, QueueWorker, Reconciler, Relay, Rescuer, Scheduler,
    ServedQueue, Service, Settler, SubscriptionSpec, SubscriptionWorker, deregister, ensure_alive,
    run, subscribe,
};
use crate::error::Result;
use crate::event::{Event, Events};
use crate::handler::CancelCause;
use crate::model::ProcessId;
use crate::model::time::add;
use crate::sending::Publisher;
use crate::stop::Stop;
use crate::storage::{WakeSource, Wakeup};
use crate::transport::Consumer;

/// Timeout of a start for the time of the storage and the declared jobs.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Queues and subscriptions that a start runs.
pub(super) struct StartPlan {
    pub(super) queues: Vec<ServedQueue>,
    pub(super) subscriptions: Vec<(Arc<SubscriptionSpec>, Arc<Control>)>,
}

/// A process: its background services and the clients to use them.
///
/// Built by [`Punctual::builder`], running after [`Punctual::start`], ended by
/// [`Punctual::shutdown`]. Dropping it without a shutdown stops the services, asks handlers to
/// stop, and leaves unfinished messages to the rescuer of another process.
pub struct Punctual {
    process: Arc<Process>,
    start_plan: Mutex<Option<StartPlan>>,
    tasks: Arc<ProcessTasks>,
    /// Stops the heartbeat, which continues while handlers finish so that no other process takes over their
    /// messages.
    heartbeat_stop: Stop,
}

/// The result of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Number of attempts that were asked to stop because they did not finish by themselves.
    pub interrupted: usize,
    /// Number of attempts that were not settled at the deadline; other processes take them over.
    pub abandoned: usize,
}

impl Punctual {
    /// Returns a builder of a process.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn new(process: Arc<Process>, start_plan: StartPlan) -> Self {
        Self {
            process,
            start_plan: Mutex::new(Some(start_plan)),
            tasks: Arc::default(),
            heartbeat_stop: Stop::new(),
        }
    }

    /// Returns the id of this process; new at every start.
    pub fn process_id(&self) -> ProcessId {
        self.process.env.id
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Returns whether it has a storage; false when it was built
    /// [without a storage](crate::Builder::without_storage).
    pub fn has_storage(&self) -> bool {
        self.process.env.has_storage
    }

    /// Returns the client that sends messages.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.process.sender.clone())
    }

    /// Returns the client for one-time jobs.
    pub fn jobs(&self) -> Jobs {
        Jobs::new(self.process.clone())
    }

    /// Returns the client for operators.
    pub fn admin(&self) -> Admin {
        Admin::new(self.process.clone())
    }

    /// Returns the client for the subscriptions of this process.
    pub fn subscriptions(&self) -> Subscriptions {
        Subscriptions::new(self.process.clone(), self.tasks.clone())
    }

    /// Returns the client for the queues of this process.
    pub fn queues(&self) -> Queues {
        Queues::new(self.process.clone(), self.tasks.clone())
    }

    /// Returns the API for HTTP workers, in any language.
    pub fn http_workers(&self) -> HttpWorkers {
        HttpWorkers::new(self.process.clone(), self.tasks.clone())
    }

    /// Returns the events of this process.
    pub fn events(&self) -> &Arc<Events> {
        &self.process.env.events
    }

    /// Starts the services. A second call does nothing. When it returns, the clock follows the storage's time and
    /// the declared jobs are stored; a storage that fails or does not respond within 10 seconds delays both.
    ///
    /// An unreachable storage or transport does not fail the start: the services retry, and health reports it. A
    /// transport that refuses a subscription permanently, such as one with a different topology, does; the start
    /// can then be repeated.
    pub async fn start(&self) -> Result<()> {
        let plan = self.start_plan.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(plan) = plan else { return Ok(()) };
        let consumers = self.consumers(&plan.subscriptions).await;
        let refused =
            |consumer: &Result<_>| matches!(consumer, Err(error) if !error.is_temporary());
        if let Some(index) = consumers.iter().position(refused) {
            // Nothing was started, so the start can be repeated.
            *self.start_plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
            return consumers.into_iter().nth(index).unwrap_or_else(|| Ok(None)).map(|_| ());
        }
        let process = &self.process;
        let reconciler = self.reconciled().await;
        if process.env.stop.is_requested() {
            // A shutdown came during the wait for the storage; nothing is started after it.
            return Ok(());
        }
        let (settler, writer) = Settler::new(process.clone());
        self.tasks.spawn(writer);
        let heartbeat = HeartbeatService::new(process.clone());
        let (stop, wakeups) = (self.heartbeat_stop.clone(), heartbeat.wakeups());
        let context = LoopContext {
            stop,
            pause_max: HEARTBEAT_PAUSE_MAX,
            ..LoopContext::new(process, wakeups)
        };
        self.tasks.spawn(run(Box::new(heartbeat), context));
        let StartPlan { queues, subscriptions } = plan;
        for (service, wakeups) in services(process, queues, reconciler, &settler) {
            self.tasks.spawn(run(service, LoopContext::new(process, wakeups)));
        }
        for ((spec, control), consumer) in subscriptions.into_iter().zip(consumers) {
            let Some(consumer) = consumer.transpose() else { continue };
            let process = process.clone();
            let worker = SubscriptionWorker::new(process, &settler, spec, control, consumer);
            self.tasks.spawn(worker.run());
        }
        self.tasks.begin(settler);
        process.env.events.emit(Event::ProcessStarted { process: process.env.id });
        Ok(())
    }

    /// Reads the storage's time, because a message published right after the start must not be due by a wrong
    /// clock, and stores the declared jobs. While the storage is unreachable the services retry and report it.
    async fn reconciled(&self) -> Reconciler {
        let process = &self.process;
        let mut reconciler = Reconciler::new(process.clone());
        let clock: &dyn Clock = &*process.env.clock;
        let declaring = async {
            let now = ensure_alive(process, clock.now()).await?;
            if process.declared.declarations.is_empty() {
                return Ok(());
            }
            reconciler.reconcile(now).await
        };
        let _: Option<Result<()>> = within(clock, add(clock.now(), START_TIMEOUT), declaring).await;
        reconciler
    }

    /// Subscribes to all topics concurrently; to none when this process handles no messages.
    async fn consumers(
        &self,
        subscriptions: &[(Arc<SubscriptionSpec>, Arc<Control>)],
    ) -> Vec<Result<Option<Box<dyn Consumer>>>> {
        if !self.process.env.options.handling {
            return subscriptions.iter().map(|_| Ok(None)).collect();
        }
        let results = subscriptions
            .iter()
            .map(|(spec, _)| async { subscribe(&self.process, spec).await.map(Some) });
        join_all(results).await
    }

    /// Follows the heartbeats by which other processes know that this one is alive.
    pub fn heartbeats(&self) -> Heartbeats {
        Heartbeats::of(&self.process)
    }

    /// Returns whether it was asked to stop and takes no new work.
    pub fn is_stopping(&self) -> bool {
        self.process.env.stop.is_requested()
    }

    /// Waits until it is asked to stop. Cancel-safe.
    pub async fn stopping(&self) {
        self.process.env.stop.requested().await;
    }

    /// Returns whether no attempt is running in this process.
    pub fn is_idle(&self) -> bool {
        self.process.runner.in_flight.len() == 0
    }

    /// Shuts down: takes no new work, waits `drain_timeout` for handlers to finish, then asks them to stop and waits
    /// `cancel_timeout`. Unfinished messages are released without counting the attempt, or become dead letters with
    /// [`WhenInterrupted::Lost`](crate::model::WhenInterrupted::Lost).
    pub async fn shutdown(&self) -> ShutdownReport {
        let process = &self.process;
        let clock: &dyn Clock = &*process.env.clock;
        let running = process.runner.in_flight.len();
        process.env.stop.request();
        process.env.events.emit(Event::ProcessStopping { process: process.env.id, running });
        let drained = within(
            clock,
            add(clock.now(), process.env.options.drain_timeout),
            process.runner.in_flight.emptied(),
        )
        .await;
        let interrupted = if drained.is_some() { 0 } else { process.runner.in_flight.len() };
        process.runner.in_flight.cancel_all(CancelCause::Shutdown);
        // The grace period of the handlers, and as much again to store their results.
        let until = add(clock.now(), process.env.options.cancel_timeout * 2);
        let _ = within(clock, until, process.runner.in_flight.emptied()).await;
        let abandoned = process.runner.in_flight.len();
        self.heartbeat_stop.request();
        let mut tasks = self.tasks.end();
        let _ = within(clock, until, async { while tasks.join_next().await.is_some() {} }).await;
        tasks.shutdown().await;
        let _ = within(clock, until, process.sender.outbound.requests.ended()).await;
        // Best effort: without it other processes notice the missing heartbeats.
        let _ = within(clock, until, deregister(process)).await;
        process.env.stop.end();
        process
            .env
            .events
            .emit(Event::ProcessStopped { process: process.env.id, released: interrupted });
        ShutdownReport { interrupted, abandoned }
    }
}

/// A service and its wakeups.
type ServiceAndWakeups = (Box<dyn Service>, Vec<Wakeup>);

/// Returns every service but the heartbeat, each with its wakeups: a service that claims or fires is notified by
/// the storage and by the poller; every other one sleeps until its own next turn.
fn services(
    process: &Arc<Process>,
    queues: Vec<ServedQueue>,
    reconciler: Reconciler,
    settler: &Settler,
) -> Vec<ServiceAndWakeups> {
    let mut services: Vec<ServiceAndWakeups> = Vec::new();
    let options = &process.env.options;
    let listen = |source: WakeSource| {
        vec![process.env.storage.wakeup(&source), process.watch_list.watch(source)]
    };
    // A process without a storage has no messages of its own to rescue.
    let own = usize::from(!process.env.has_storage);
    for storage in process.storages[own..].iter().filter(|_| options.maintenance) {
        services.push((Box::new(Rescuer::new(process.clone(), storage.clone())), Vec::new()));
    }
    if options.scheduling {
        services.push((
            Box::new(Scheduler::new(process.clone(), reconciler)),
            listen(WakeSource::Jobs),
        ));
    } else if !process.declared.declarations.is_empty() {
        services.push((Box::new(reconciler), Vec::new()));
    }
    if let Some(retention) = options.retention.filter(|_| options.maintenance) {
        let pruner =
            Pruner::new(process.env.storage.clone(), process.env.events.clone(), retention);
        services.push((Box::new(pruner), Vec::new()));
    }
    for (name, transport) in process.sender.transports.iter().filter(|_| options.relaying) {
        let relay = Relay::new(process.clone(), name.clone(), transport.clone());
        let mut wakeups = listen(relay.wake_source());
        wakeups.push(process.queues.wakeup());
        services.push((Box::new(relay), wakeups));
    }
    for served in queues.into_iter().filter(|_| options.handling) {
        let worker = QueueWorker::new(process.clone(), settler.clone(), served);
        let wakeups = worker.wakeups();
        services.push((Box::new(worker), wakeups));
    }
    if options.handling {
        let progress_writer = ProgressWriter::new(process.clone());
        let wakeups = vec![progress_writer.wakeup()];
        services.push((Box::new(progress_writer), wakeups));
    }
    services.push((Box::new(Poller::new(process.clone())), Vec::new()));
    services
}

impl Drop for Punctual {
    fn drop(&mut self) {
        self.process.env.stop.request();
        self.heartbeat_stop.request();
        self.process.runner.in_flight.cancel_all(CancelCause::Shutdown);
    }
}
