//! A process while it lives: start its services, hand out its clients, and stop without losing or
//! repeating anything: no new claims, time to finish, a request to stop, and work given back.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use super::Builder;
use crate::client::{Admin, Jobs, Publisher};
use crate::clock::{Clock, add, within};
use crate::engine::{
    Lookout, PULSE_REST_MAX, Pace, Process, Pruner, Pulse, QueueWorker, REST_MAX, Reconciler,
    Relay, Rescuer, Scheduler, Scribe, Service, Settler, Stop, SubscribedTo, SubscriptionWorker,
    Worked, goodbye, run,
};
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::handler::Cause;
use crate::model::{ProcessId, TransportName};
use crate::storage::{Line, Wakeup};
use crate::transport::{Consumer, Subscription};

/// What to run, besides what the process shares.
pub(super) struct Blueprint {
    pub(super) queues: Vec<Worked>,
    pub(super) subscriptions: Vec<Subscribed>,
}

/// A topic to receive from a transport.
pub(super) struct Subscribed {
    pub(super) transport: TransportName,
    pub(super) subscription: Subscription,
}

/// A subscription that receives.
struct Consuming {
    from: SubscribedTo,
    name: String,
    consumer: Box<dyn Consumer>,
}

/// A process: the services in the background, and the clients to talk to them.
///
/// Built by [`Punctual::builder`], running after [`Punctual::start`], ended by
/// [`Punctual::shutdown`]. Dropping it without a shutdown stops the services, asks handlers to
/// stop, and leaves what they did not finish to the rescuer of another process.
pub struct Punctual {
    process: Arc<Process>,
    blueprint: Mutex<Option<Blueprint>>,
    tasks: Mutex<JoinSet<()>>,
    settler: Mutex<Option<Settler>>,
    /// The pulse goes on while handlers finish, so that nobody takes their messages over.
    pulse_stop: Stop,
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
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
            tasks: Mutex::new(JoinSet::new()),
            settler: Mutex::new(None),
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

    /// What happens, as it happens.
    pub fn events(&self) -> &Arc<Events> {
        &self.process.events
    }

    /// Starts the services. A second call does nothing. A storage that is out of reach does not fail
    /// the start: the services try until it answers. A transport that cannot be subscribed to does, and
    /// the start may be tried again.
    pub async fn start(&self) -> Result<()> {
        let blueprint = self.blueprint.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(blueprint) = blueprint else { return Ok(()) };
        let consumers = match self.subscribe(&blueprint.subscriptions).await {
            Ok(consumers) => consumers,
            Err(error) => {
                // Nothing was started, so it may be tried again.
                *self.blueprint.lock().unwrap_or_else(PoisonError::into_inner) = Some(blueprint);
                return Err(error);
            }
        };
        let (settler, writer) = Settler::new(self.process.clone());
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(writer);
        let process = &self.process;
        let pulse = Pulse::new(process.clone());
        let (stop, wakeups) = (self.pulse_stop.clone(), pulse.wakeups());
        let pace = Pace { stop, rest_max: PULSE_REST_MAX, ..self.pace(wakeups) };
        tasks.spawn(run(Box::new(pulse), pace));
        for (service, wakeups) in services(process, blueprint, &settler) {
            tasks.spawn(run(service, self.pace(wakeups)));
        }
        if process.options.handling {
            let concurrency = process.options.concurrency;
            for Consuming { from, name, consumer } in consumers {
                let settler = settler.of(from);
                tasks.spawn(
                    SubscriptionWorker::new(process.clone(), settler, consumer, name, concurrency)
                        .run(),
                );
            }
        }
        drop(tasks);
        *self.settler.lock().unwrap_or_else(PoisonError::into_inner) = Some(settler);
        process.events.emit(Event::ProcessStarted { process: process.id });
        Ok(())
    }

    async fn subscribe(&self, subscriptions: &[Subscribed]) -> Result<Vec<Consuming>> {
        let mut consumers = Vec::new();
        for Subscribed { transport, subscription } in
            subscriptions.iter().filter(|_| self.process.options.handling)
        {
            let name = format!("worker of {} on {transport}", subscription.topic);
            let Some(carrier) = self.process.transports.get(transport) else {
                return Err(Error::internal(format!(
                    "the transport {transport:?} vanished after build"
                )));
            };
            let consumer = carrier.subscribe(subscription.clone()).await?;
            let from =
                SubscribedTo { transport: transport.clone(), group: subscription.group.clone() };
            consumers.push(Consuming { from, name, consumer });
        }
        Ok(consumers)
    }

    fn pace(&self, wakeups: Vec<Wakeup>) -> Pace {
        Pace {
            clock: self.process.clock.clone(),
            events: self.process.events.clone(),
            turns: self.process.turns.clone(),
            rest_max: REST_MAX,
            wakeups,
            stop: self.process.stop.clone(),
        }
    }

    /// Whether it was asked to stop, and takes no new work.
    pub fn is_stopping(&self) -> bool {
        self.process.stop.is_requested()
    }

    /// Whether no attempt is under way in this process.
    pub fn is_resting(&self) -> bool {
        self.process.in_flight.len() == 0
    }

    /// Stops: no new work, `drain` for handlers to finish, then a request to stop and `grace` to wind
    /// down; what is unfinished is given back without spending an attempt.
    pub async fn shutdown(&self) -> Stopped {
        let process = &self.process;
        let clock: &dyn Clock = &*process.clock;
        let running = process.in_flight.len();
        process.events.emit(Event::ProcessStopping { process: process.id, running });
        process.stop.request();
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
        self.settler.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = within(clock, until, async { while tasks.join_next().await.is_some() {} }).await;
        tasks.shutdown().await;
        let _ = within(clock, until, process.outbound.requests.ended()).await;
        // Best effort: without it the others find out by the missing beats.
        let _ = within(clock, until, goodbye(process)).await;
        process.events.emit(Event::ProcessStopped { process: process.id, released: interrupted });
        Stopped { interrupted, abandoned }
    }
}

/// A service and what wakes it.
type Paced = (Box<dyn Service>, Vec<Wakeup>);

/// Every service but the pulse. Whoever empties a line listens to the storage's bell and to the
/// lookout's; who has no line knows its own time.
fn services(process: &Arc<Process>, blueprint: Blueprint, settler: &Settler) -> Vec<Paced> {
    let mut services: Vec<Paced> = Vec::new();
    let mut lookout = Lookout::new(process.clone());
    let mut listen = |line: Line| vec![process.storage.wakeup(&line), lookout.watch(line)];
    // A process that was told to have no storage has nothing of its own to rescue.
    let own = usize::from(!process.holds);
    for storage in &process.storages[own..] {
        services.push((Box::new(Rescuer::new(process.clone(), storage.clone())), Vec::new()));
    }
    if process.options.scheduling {
        let reconciler = Reconciler::new(process.clone());
        services.push((Box::new(Scheduler::new(process.clone(), reconciler)), listen(Line::Jobs)));
    }
    if let Some(retention) = process.options.retention {
        let pruner = Pruner::new(process.storage.clone(), process.events.clone(), retention);
        services.push((Box::new(pruner), Vec::new()));
    }
    for (name, transport) in &process.transports {
        let relay = Relay::new(process.clone(), name.clone(), transport.clone());
        let wakeups = listen(relay.line());
        services.push((Box::new(relay), wakeups));
    }
    for worked in blueprint.queues.into_iter().filter(|_| process.options.handling) {
        let worker = QueueWorker::new(process.clone(), settler.clone(), worked);
        let mut wakeups = listen(worker.line());
        wakeups.push(worker.freed());
        services.push((Box::new(worker), wakeups));
    }
    if process.options.handling {
        let scribe = Scribe::new(process.clone());
        let wakeups = vec![scribe.wakeup()];
        services.push((Box::new(scribe), wakeups));
    }
    services.push((Box::new(lookout), Vec::new()));
    services
}

impl Drop for Punctual {
    fn drop(&mut self) {
        self.process.stop.request();
        self.pulse_stop.request();
        self.process.in_flight.cancel_all(Cause::Shutdown);
    }
}
