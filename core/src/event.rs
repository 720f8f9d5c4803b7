//! Events: every event that a process emits, in one list. Each is one tracing record with stable field names,
//! one counter and one item of the live stream; `docs/guide/events.md` is rendered from the list.

mod hooks;
mod json;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::broadcast;

use self::hooks::EventHooks;
use self::json::EventField;
use crate::measure::{Measures, TopicMeasures};
use crate::model::{
    DeadReason, ExecutionId, JobName, MessageId, MisfirePolicy, Phase, ProcessId, Queue,
    SkipReason, Topic, TransportName,
};

/// Description of an event for the documents.
#[derive(Clone, Copy, Debug)]
pub struct EventInfo {
    /// Stable name.
    pub name: &'static str,
    /// Level of its log record.
    pub level: &'static str,
    /// Names of its fields.
    pub fields: &'static [&'static str],
    /// When it is emitted.
    pub meaning: &'static str,
}

macro_rules! events {
    ($($(#[doc = $meaning:literal])+ $variant:ident, $name:literal, $level:ident { $($(#[doc = $about:literal])+ $field:ident: $type:ty),* $(,)? })*) => {
        /// Event of a process.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[doc = $meaning])+ $variant { $($(#[doc = $about])+ $field: $type),* },)*
        }

        impl Event {
            /// List of all events.
            pub const LIST: &'static [EventInfo] = &[
                $(EventInfo { name: $name, level: stringify!($level), fields: &[$(stringify!($field)),*], meaning: concat!($($meaning),+) }),*
            ];

            /// Returns the stable name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name,)* }
            }

            fn log(&self) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        tracing::event!(target: "punctual", tracing::Level::$level, event = $name, $($field = EventField::logged($field)),*);
                    })*
                }
            }

            fn write(&self, object: &mut serde_json::Map<String, serde_json::Value>) {
                match self {
                    $(Self::$variant { $($field),* } => { $(EventField::write($field, stringify!($field), object);)* })*
                }
            }

            fn index(&self) -> usize {
                #[allow(non_camel_case_types, clippy::enum_variant_names)]
                enum Index { $($variant),* }
                match self { $(Self::$variant { .. } => Index::$variant as usize,)* }
            }
        }
    };
}

events! {
    /// A storage accepted a message.
    MessageEnqueued, "message.enqueued", DEBUG {
        /// The message.
        message: MessageId,
        /// Its topic.
        topic: Topic,
        /// Its queue.
        queue: Queue,
        /// When it is due.
        due_at: Timestamp,
    }
    /// A message was not stored because an unfinished one has the same deduplication key.
    MessageDuplicate, "message.duplicate", INFO {
        /// The message that was not stored.
        message: MessageId,
        /// The unfinished message.
        alive: MessageId,
        /// Their topic.
        topic: Topic,
    }
    /// A message is stored until it is due because its transport cannot delay it.
    MessageHeld, "message.held", DEBUG {
        /// The message.
        message: MessageId,
        /// The transport that it will be sent to.
        transport: TransportName,
        /// When it is due.
        due_at: Timestamp,
    }
    /// A message was sent to a transport.
    MessageRelayed, "message.relayed", DEBUG {
        /// The message.
        message: MessageId,
        /// The transport.
        transport: TransportName,
    }
    /// A transport failed temporarily to send a message, which is stored for the relay.
    MessageFallbackStored, "message.fallback_stored", WARN {
        /// The message.
        message: MessageId,
        /// The transport.
        transport: TransportName,
        /// The error of the transport.
        error: String,
    }
    /// A reply arrived after its request had ended; it was dropped.
    ReplyLate, "reply.late", INFO {
        /// The reply.
        message: MessageId,
        /// The request it belongs to, if it names one.
        request: Option<MessageId>,
    }
    /// A message became a dead letter.
    MessageDead, "message.dead", ERROR {
        /// The message.
        message: MessageId,
        /// Its topic.
        topic: Topic,
        /// Its queue.
        queue: Queue,
        /// Its job, if any.
        job: Option<JobName>,
        /// Its nominal time on the schedule, if any.
        nominal: Option<Timestamp>,
        /// Number of attempts made.
        attempts: u32,
        /// Reason.
        reason: DeadReason,
        /// The last failure.
        error: Option<Arc<str>>,
        /// The last lines that the last attempt logged: at most 20, and 2,000 bytes.
        output: Option<Arc<str>>,
        /// Address of the message in the dashboard; see
        /// [`Options::dashboard_url`](crate::options::Options::dashboard_url).
        link: Option<String>,
    }
    /// An operator changed a message.
    MessageChanged, "message.changed", INFO {
        /// The message.
        message: MessageId,
        /// Name of the change.
        command: &'static str,
    }
    /// A handler is about to be called.
    AttemptStarted, "attempt.started", DEBUG {
        /// The message.
        message: MessageId,
        /// Id of the attempt.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Its job, if any.
        job: Option<JobName>,
        /// Its nominal time on the schedule, if any.
        nominal: Option<Timestamp>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Delay after its due time.
        late: Duration,
    }
    /// An attempt succeeded.
    AttemptSucceeded, "attempt.succeeded", DEBUG {
        /// The message.
        message: MessageId,
        /// Id of the attempt.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Its job, if any.
        job: Option<JobName>,
        /// Its nominal time on the schedule, if any.
        nominal: Option<Timestamp>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Duration of the attempt.
        took: Duration,
    }
    /// An attempt failed: an error, a panic, no handler, or an unreadable body.
    AttemptFailed, "attempt.failed", WARN {
        /// The message.
        message: MessageId,
        /// Id of the attempt.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Its job, if any.
        job: Option<JobName>,
        /// Its nominal time on the schedule, if any.
        nominal: Option<Timestamp>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Duration of the attempt.
        took: Duration,
        /// Ending of the attempt.
        ending: &'static str,
        /// Error, for people.
        error: Option<Arc<str>>,
        /// When it is retried; none when it is not.
        again_at: Option<Timestamp>,
    }
    /// An attempt exceeded its timeout.
    AttemptTimedOut, "attempt.timed_out", ERROR {
        /// The message.
        message: MessageId,
        /// Id of the attempt.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Its job, if any.
        job: Option<JobName>,
        /// Its nominal time on the schedule, if any.
        nominal: Option<Timestamp>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Duration of the attempt.
        took: Duration,
        /// When it is retried; none when it is not.
        again_at: Option<Timestamp>,
    }
    /// An attempt ended without success or failure: snoozed, cancelled, or released at shutdown.
    AttemptEndedEarly, "attempt.ended_early", INFO {
        /// The message.
        message: MessageId,
        /// Id of the attempt.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Its job, if any.
        job: Option<JobName>,
        /// Its nominal time on the schedule, if any.
        nominal: Option<Timestamp>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Duration of the attempt.
        took: Duration,
        /// Ending of the attempt.
        ending: &'static str,
    }
    /// The process of an attempt was lost, and the rescuer decided what happens to the message.
    AttemptLost, "attempt.lost", WARN {
        /// The message.
        message: MessageId,
        /// Id of the attempt in the history.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Its job, if any.
        job: Option<JobName>,
        /// Its nominal time on the schedule, if any.
        nominal: Option<Timestamp>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// When it is retried; none when it is not.
        again_at: Option<Timestamp>,
    }
    /// A handler failed after it had settled its message in its own transaction: the attempt succeeded.
    AttemptErrorAfterSettle, "attempt.error_after_settle", WARN {
        /// The message.
        message: MessageId,
        /// Id of the attempt.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Its job, if any.
        job: Option<JobName>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Error, for people.
        error: Option<Arc<str>>,
    }
    /// A handler reported progress.
    AttemptProgressed, "attempt.progressed", DEBUG {
        /// The message.
        message: MessageId,
        /// Id of the attempt.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// Percentage done, 0 to 100, if reported.
        percent: Option<u8>,
        /// The note.
        note: Arc<str>,
    }
    /// A process lost the lease of a message; its handler is cancelled and its result is discarded.
    LeaseLost, "lease.lost", WARN {
        /// The message.
        message: MessageId,
        /// The topic.
        topic: Topic,
    }
    /// The leases of lost processes were released.
    LeasesRescued, "leases.rescued", WARN {
        /// Number of them.
        count: u64,
    }
    /// A job was declared for the first time, changed, or declared again after it was retired.
    JobDeclared, "job.declared", INFO {
        /// The job.
        job: JobName,
        /// Created or changed.
        change: &'static str,
        /// The next occurrence.
        cursor: Option<Timestamp>,
    }
    /// An occurrence became a message.
    JobFired, "job.fired", DEBUG {
        /// The job.
        job: JobName,
        /// The instant on its schedule.
        nominal: Timestamp,
        /// The message.
        message: MessageId,
    }
    /// Occurrences were missed, and the misfire policy was applied.
    JobMisfired, "job.misfired", WARN {
        /// The job.
        job: JobName,
        /// Number of missed occurrences.
        missed: u64,
        /// Misfire policy.
        policy: MisfirePolicy,
        /// Lateness above which an occurrence is a misfire.
        threshold: Duration,
        /// The next occurrence.
        cursor: Option<Timestamp>,
    }
    /// Jobs had missed occurrences when the process started; counts over all of them.
    MisfiresFound, "misfires.found", WARN {
        /// Number of jobs.
        jobs: u64,
        /// Number of occurrences of all of them.
        missed: u64,
    }
    /// Occurrences were not run.
    JobSkipped, "job.skipped", INFO {
        /// The job.
        job: JobName,
        /// The newest of them.
        nominal: Timestamp,
        /// Number of them.
        count: u64,
        /// Reason.
        reason: SkipReason,
    }
    /// A job was paused, resumed, moved or overridden.
    JobChanged, "job.changed", INFO {
        /// The job.
        job: JobName,
        /// Name of the change.
        change: &'static str,
    }
    /// A job was retired and no longer fires.
    JobRetired, "job.retired", INFO {
        /// The job.
        job: JobName,
        /// Reason.
        reason: &'static str,
    }
    /// A job was not declared because its name belongs to another application.
    JobNameConflict, "job.name_conflict", ERROR {
        /// The job.
        job: JobName,
        /// The application it belongs to.
        owner: String,
    }
    /// A schedule from the configuration cannot be read; the declared one is used.
    JobConfigurationInvalid, "job.configuration_invalid", ERROR {
        /// The job.
        job: JobName,
        /// The text that was configured.
        text: String,
        /// Reason for refusing it.
        error: String,
    }
    /// An entry of the configuration is not used: an unknown key, an unknown job, or a value set twice.
    ConfigurationIgnored, "configuration.ignored", WARN {
        /// The key.
        key: String,
        /// Reason why it is not used.
        problem: String,
    }
    /// A server reloaded its configuration and refused it; the jobs are unchanged.
    ConfigurationRefused, "configuration.refused", ERROR {
        /// The file.
        source: String,
        /// Reason for refusing it.
        problem: String,
    }
    /// A server raised an alert about something that needs attention, such as a failing job.
    AlertRaised, "alert.raised", WARN {
        /// The kind, such as `job_failing`.
        alert: String,
        /// Subject: a job, a queue or a webhook.
        subject: Option<String>,
        /// Description, as a sentence.
        text: String,
    }
    /// The cause of an alert is resolved.
    AlertCleared, "alert.cleared", INFO {
        /// The kind.
        alert: String,
        /// Subject of the alert.
        subject: Option<String>,
    }
    /// A subscription was added, removed, paused or resumed.
    SubscriptionChanged, "subscription.changed", INFO {
        /// The transport.
        transport: TransportName,
        /// The topic.
        topic: Topic,
        /// The group.
        group: String,
        /// Name of the change.
        change: &'static str,
    }
    /// A queue was paused, resumed, resized or added in this process.
    QueueChanged, "queue.changed", INFO {
        /// The queue.
        queue: Queue,
        /// Name of the change.
        change: &'static str,
    }
    /// A subscription stopped receiving for a while, because its handler failed repeatedly.
    CircuitOpened, "circuit.opened", WARN {
        /// The transport.
        transport: TransportName,
        /// The topic.
        topic: Topic,
        /// The group.
        group: String,
        /// When the first probe is allowed.
        until: Timestamp,
    }
    /// A subscription receives one message to test its handler.
    CircuitHalfOpened, "circuit.half_opened", INFO {
        /// The transport.
        transport: TransportName,
        /// The topic.
        topic: Topic,
        /// The group.
        group: String,
    }
    /// A subscription receives everything again.
    CircuitClosed, "circuit.closed", INFO {
        /// The transport.
        transport: TransportName,
        /// The topic.
        topic: Topic,
        /// The group.
        group: String,
    }
    /// Old messages and executions were deleted.
    HistoryPruned, "history.pruned", INFO {
        /// Number of messages.
        messages: u64,
        /// Number of executions.
        executions: u64,
    }
    /// A background service failed and is retried later.
    ServiceFailed, "service.failed", ERROR {
        /// The service.
        service: String,
        /// Error, for people.
        error: String,
        /// When it is retried.
        again_at: Timestamp,
    }
    /// The clock of this process differed from the storage's by more than a second.
    ClockCorrected, "clock.corrected", WARN {
        /// Milliseconds by which the storage is ahead; negative when it is behind.
        ahead_ms: i64,
    }
    /// A process started.
    ProcessStarted, "process.started", INFO {
        /// The process.
        process: ProcessId,
    }
    /// A process is stopping and claims no new work.
    ProcessStopping, "process.stopping", INFO {
        /// The process.
        process: ProcessId,
        /// Number of attempts that still run.
        running: usize,
    }
    /// A process ended.
    ProcessStopped, "process.stopped", INFO {
        /// The process.
        process: ProcessId,
        /// Number of attempts that were released.
        released: usize,
    }
}

/// Number of events that a slow listener may be behind before it misses some.
const STREAM_BUFFER: usize = 4_096;

/// Receivers of events: the log, the counters, the hooks and the listeners.
#[derive(Debug)]
pub struct Events {
    counters: Vec<AtomicU64>,
    measures: Measures,
    hooks: EventHooks,
    stream: broadcast::Sender<Arc<Event>>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            counters: Event::LIST.iter().map(|_| AtomicU64::new(0)).collect(),
            measures: Measures::default(),
            hooks: EventHooks::default(),
            stream: broadcast::Sender::new(STREAM_BUFFER),
        }
    }
}

impl Events {
    /// Emits an event. Without a receiver this costs one counter and three checks.
    pub fn emit(&self, event: Event) {
        if let Some(counter) = self.counters.get(event.index()) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.measures.record(&event);
        event.log();
        self.hooks.call(&event);
        if self.stream.receiver_count() > 0 {
            // Fails only when the last listener left meanwhile.
            let _ = self.stream.send(Arc::new(event));
        }
    }

    /// Adds a hook that is called for every event; see [`Builder::on_event`](crate::Builder::on_event).
    pub(crate) fn on_event(&mut self, hook: impl Fn(&Event) + Send + Sync + 'static) {
        self.hooks.add(hook);
    }

    /// Subscribes to the events from now on. A listener that is too slow receives the number of events it
    /// missed.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Event>> {
        self.stream.subscribe()
    }

    /// Returns how often each event was emitted in this process.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Event::LIST
            .iter()
            .zip(&self.counters)
            .map(|(info, count)| (info.name, count.load(Ordering::Relaxed)))
    }

    /// Returns the durations of attempts in this process, per topic, since the first call: exporters of metrics
    /// call it once at the start and then as often as needed. Before the first call nothing is measured.
    pub fn measures(&self) -> BTreeMap<String, TopicMeasures> {
        self.measures.snapshot()
    }

    /// Returns how often one event was emitted in this process.
    pub fn count(&self, name: &str) -> u64 {
        self.counts().find(|(of, _)| *of == name).map_or(0, |(_, count)| count)
    }
}

/// Returns the text of `docs/guide/events.md`.
#[doc(hidden)]
pub fn render_events() -> String {
    let mut text = String::from(
        "# Events\n\nRendered from `core/src/event.rs` by `cargo xtask generate`; do not edit.\n\n\
         Each event is one `tracing` record under the target `punctual` with the field `event`, one\n\
         counter, and one item of `Punctual::events().listen()`.\n\n\
         | event | level | fields | when |\n|---|---|---|---|\n",
    );
    for info in Event::LIST {
        let fields: Vec<String> = info.fields.iter().map(|field| format!("`{field}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            info.name,
            info.level.to_lowercase(),
            fields.join(", "),
            info.meaning.trim()
        );
    }
    text.push_str("\nPhases that appear in lists: ");
    let phases: Vec<&str> = Phase::ALL.iter().map(|(phase, _)| phase.as_str()).collect();
    text.push_str(&phases.join(", "));
    text.push_str(".\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_counted() {
        let mut names: Vec<_> = Event::LIST.iter().map(|info| info.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Event::LIST.len());
        let events = Events::default();
        events.emit(Event::LeasesRescued { count: 3 });
        assert_eq!(events.count("leases.rescued"), 1);
        assert_eq!(events.count("message.dead"), 0);
    }

    // spec: H-12, H-27, H-42, H-55, M-13, M-15
    #[test]
    fn levels_are_those_that_operators_filter_by() {
        for (name, level) in [
            ("leases.rescued", "WARN"),
            ("job.misfired", "WARN"),
            ("misfires.found", "WARN"),
            ("job.skipped", "INFO"),
            ("job.configuration_invalid", "ERROR"),
            ("attempt.timed_out", "ERROR"),
        ] {
            let info = Event::LIST.iter().find(|info| info.name == name).unwrap();
            assert_eq!(info.level, level, "{name}");
        }
    }

    // spec: C-4
    #[test]
    fn listeners_receive_events_after_they_subscribed() {
        let events = Events::default();
        events.emit(Event::LeasesRescued { count: 1 });
        let mut listener = events.listen();
        events.emit(Event::LeasesRescued { count: 2 });
        let received = listener.try_recv().unwrap();
        assert!(matches!(*received, Event::LeasesRescued { count: 2 }));
        assert!(listener.try_recv().is_err());
    }

    // spec: C-4
    #[test]
    fn a_hook_receives_every_event_and_may_panic() {
        let received = Arc::new(AtomicU64::new(0));
        let mut events = Events::default();
        events.on_event(|_| panic!("a hook that is out of order"));
        let counted = received.clone();
        events.on_event(move |event| {
            if let Event::LeasesRescued { count } = event {
                counted.fetch_add(*count, Ordering::Relaxed);
            }
        });
        for count in 1..=10_000 {
            events.emit(Event::LeasesRescued { count });
        }
        assert_eq!(received.load(Ordering::Relaxed), 50_005_000);
    }
}
