//! Every event the system emits, in one list. Each is one tracing record with stable field names,
//! one counter and one item on the live stream; `docs/guide/events.md` is rendered from the list.

mod hooks;
mod json;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::broadcast;

use self::hooks::Hooks;
use self::json::Written;
use crate::measure::{Measures, TopicMeasures};
use crate::model::{
    DeadReason, ExecutionId, JobName, MessageId, Phase, ProcessId, Queue, SkipReason, Topic,
    TransportName,
};
use crate::policy::MisfirePolicy;

/// What the documents say about an event.
#[derive(Clone, Copy, Debug)]
pub struct EventInfo {
    /// The stable name.
    pub name: &'static str,
    /// The level of its log record.
    pub level: &'static str,
    /// The names of its fields.
    pub fields: &'static [&'static str],
    /// When it happens.
    pub meaning: &'static str,
}

macro_rules! events {
    ($($(#[doc = $meaning:literal])+ $variant:ident, $name:literal, $level:ident { $($(#[doc = $about:literal])+ $field:ident: $type:ty),* $(,)? })*) => {
        /// Something that happened.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[doc = $meaning])+ $variant { $($(#[doc = $about])+ $field: $type),* },)*
        }

        impl Event {
            /// Every event there is.
            pub const LIST: &'static [EventInfo] = &[
                $(EventInfo { name: $name, level: stringify!($level), fields: &[$(stringify!($field)),*], meaning: concat!($($meaning),+) }),*
            ];

            /// The stable name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name,)* }
            }

            fn log(&self) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        tracing::event!(target: "punctual", tracing::Level::$level, event = $name, $($field = Written::logged($field)),*);
                    })*
                }
            }

            fn write(&self, object: &mut serde_json::Map<String, serde_json::Value>) {
                match self {
                    $(Self::$variant { $($field),* } => { $(Written::write($field, stringify!($field), object);)* })*
                }
            }

            fn index(&self) -> usize {
                #[allow(non_camel_case_types, clippy::enum_variant_names)]
                enum Place { $($variant),* }
                match self { $(Self::$variant { .. } => Place::$variant as usize,)* }
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
    /// A message was not stored because another one is alive under its deduplication key.
    MessageDuplicate, "message.duplicate", INFO {
        /// The message that was not stored.
        message: MessageId,
        /// The one that is alive.
        alive: MessageId,
        /// Their topic.
        topic: Topic,
    }
    /// A message waits in the storage because its transport cannot delay it.
    MessageHeld, "message.held", DEBUG {
        /// The message.
        message: MessageId,
        /// The transport it is bound for.
        transport: TransportName,
        /// When it is due.
        due_at: Timestamp,
    }
    /// A message was handed to a transport.
    MessageRelayed, "message.relayed", DEBUG {
        /// The message.
        message: MessageId,
        /// The transport.
        transport: TransportName,
    }
    /// A transport did not take a message for a passing reason, and the storage keeps it for the relay.
    MessageFellBack, "message.fell_back", WARN {
        /// The message.
        message: MessageId,
        /// The transport.
        transport: TransportName,
        /// What the transport answered.
        error: String,
    }
    /// A reply came that nobody waits for any more; it was dropped.
    ReplyLate, "reply.late", INFO {
        /// The reply.
        message: MessageId,
        /// The request it answers, when it says so.
        request: Option<MessageId>,
    }
    /// A message was given up and is kept as a dead letter.
    MessageDead, "message.dead", ERROR {
        /// The message.
        message: MessageId,
        /// Its topic.
        topic: Topic,
        /// Its queue.
        queue: Queue,
        /// The job, when there is one.
        job: Option<JobName>,
        /// The instant of its schedule, when it has one.
        nominal: Option<Timestamp>,
        /// How many attempts were made.
        attempts: u32,
        /// Why.
        reason: DeadReason,
        /// The last failure.
        error: Option<Arc<str>>,
        /// The last lines that the last attempt logged: at most 20, and 2,000 bytes.
        output: Option<Arc<str>>,
        /// Where a dashboard shows the message; see
        /// [`Options::dashboard_url`](crate::engine::Options::dashboard_url).
        link: Option<String>,
    }
    /// An operator changed a message.
    MessageCommanded, "message.commanded", INFO {
        /// The message.
        message: MessageId,
        /// What was done.
        command: &'static str,
    }
    /// A handler is about to be called.
    AttemptStarted, "attempt.started", DEBUG {
        /// The message.
        message: MessageId,
        /// The attempt's own id.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// The job, when there is one.
        job: Option<JobName>,
        /// The instant of its schedule, when it has one.
        nominal: Option<Timestamp>,
        /// Which attempt this is.
        attempt: u32,
        /// How long after its due time.
        late: Duration,
    }
    /// A handler was done.
    AttemptSucceeded, "attempt.succeeded", DEBUG {
        /// The message.
        message: MessageId,
        /// The attempt's own id.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// The job, when there is one.
        job: Option<JobName>,
        /// The instant of its schedule, when it has one.
        nominal: Option<Timestamp>,
        /// Which attempt this was.
        attempt: u32,
        /// How long it took.
        took: Duration,
    }
    /// An attempt failed: an error, a panic, no handler, or an unreadable body.
    AttemptFailed, "attempt.failed", WARN {
        /// The message.
        message: MessageId,
        /// The attempt's own id.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// The job, when there is one.
        job: Option<JobName>,
        /// The instant of its schedule, when it has one.
        nominal: Option<Timestamp>,
        /// Which attempt this was.
        attempt: u32,
        /// How long it took.
        took: Duration,
        /// How it ended.
        ending: &'static str,
        /// What went wrong.
        error: Option<Arc<str>>,
        /// When it is tried again; none when it is not.
        again_at: Option<Timestamp>,
    }
    /// An attempt took longer than it may.
    AttemptTimedOut, "attempt.timed_out", ERROR {
        /// The message.
        message: MessageId,
        /// The attempt's own id.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// The job, when there is one.
        job: Option<JobName>,
        /// The instant of its schedule, when it has one.
        nominal: Option<Timestamp>,
        /// Which attempt this was.
        attempt: u32,
        /// How long it took.
        took: Duration,
        /// When it is tried again; none when it is not.
        again_at: Option<Timestamp>,
    }
    /// An attempt ended without success or failure: snoozed, cancelled, or given back at shutdown.
    AttemptYielded, "attempt.yielded", INFO {
        /// The message.
        message: MessageId,
        /// The attempt's own id.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// The job, when there is one.
        job: Option<JobName>,
        /// The instant of its schedule, when it has one.
        nominal: Option<Timestamp>,
        /// Which attempt this was.
        attempt: u32,
        /// How long it took.
        took: Duration,
        /// How it ended.
        ending: &'static str,
    }
    /// The process of an attempt was lost, and the rescuer decided what becomes of the message.
    AttemptLost, "attempt.lost", WARN {
        /// The message.
        message: MessageId,
        /// The attempt's own id in the history.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// The job, when there is one.
        job: Option<JobName>,
        /// The instant of its schedule, when it has one.
        nominal: Option<Timestamp>,
        /// Which attempt this was.
        attempt: u32,
        /// When it is tried again; none when it is not.
        again_at: Option<Timestamp>,
    }
    /// A handler failed after it had settled its message in its own transaction: the attempt succeeded.
    AttemptErrorAfterSettle, "attempt.error_after_settle", WARN {
        /// The message.
        message: MessageId,
        /// The attempt's own id.
        execution: ExecutionId,
        /// The topic.
        topic: Topic,
        /// The job, when there is one.
        job: Option<JobName>,
        /// Which attempt this was.
        attempt: u32,
        /// What went wrong.
        error: Option<Arc<str>>,
    }
    /// A handler said how far it is.
    AttemptProgressed, "attempt.progressed", DEBUG {
        /// The message.
        message: MessageId,
        /// The attempt's own id.
        execution: ExecutionId,
        /// How much is done, 0 to 100, when it said so.
        percent: Option<u8>,
        /// The note.
        note: Arc<str>,
    }
    /// A process found that a message is no longer its own; its handler is cancelled and writes nothing.
    LeaseLost, "lease.lost", WARN {
        /// The message.
        message: MessageId,
        /// The topic.
        topic: Topic,
    }
    /// Messages of lost processes were freed.
    LeasesRescued, "leases.rescued", WARN {
        /// How many.
        count: u64,
    }
    /// A job was declared for the first time, changed or came back.
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
    /// Occurrences were missed, and the policy decided about them.
    JobMisfired, "job.misfired", WARN {
        /// The job.
        job: JobName,
        /// How many were missed.
        missed: u64,
        /// The policy that decided.
        policy: MisfirePolicy,
        /// Later than this was a misfire.
        threshold: Duration,
        /// The next occurrence.
        cursor: Option<Timestamp>,
    }
    /// Jobs had missed occurrences when the process started: the sum of what it decided about.
    MisfiresFound, "misfires.found", WARN {
        /// How many jobs.
        jobs: u64,
        /// How many occurrences of all of them.
        missed: u64,
    }
    /// Occurrences were not run.
    JobSkipped, "job.skipped", INFO {
        /// The job.
        job: JobName,
        /// The newest of them.
        nominal: Timestamp,
        /// How many.
        count: u64,
        /// Why.
        reason: SkipReason,
    }
    /// A job was paused, resumed, moved or overridden.
    JobSteered, "job.steered", INFO {
        /// The job.
        job: JobName,
        /// What was done.
        change: &'static str,
    }
    /// A job fires no more.
    JobRetired, "job.retired", INFO {
        /// The job.
        job: JobName,
        /// Why.
        reason: &'static str,
    }
    /// A job was not declared because its name belongs to another application.
    JobForeign, "job.foreign", ERROR {
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
        /// What is wrong with it.
        error: String,
    }
    /// Something in the configuration is not used: an unknown key, an unknown job, or a value twice.
    ConfigurationIgnored, "configuration.ignored", WARN {
        /// The key.
        key: String,
        /// Why it is not used.
        problem: String,
    }
    /// A server read its configuration again and refused it; the jobs stay as they were.
    ConfigurationRefused, "configuration.refused", ERROR {
        /// The file.
        source: String,
        /// What is wrong with it.
        problem: String,
    }
    /// A server found something that a person should look at, such as a job that fails.
    AlertRaised, "alert.raised", WARN {
        /// The kind, such as `job_failing`.
        alert: String,
        /// What it is about: a job, a queue or a webhook.
        subject: Option<String>,
        /// What is wrong, in a sentence.
        text: String,
    }
    /// What an alert was about is well again.
    AlertCleared, "alert.cleared", INFO {
        /// The kind.
        alert: String,
        /// What it was about.
        subject: Option<String>,
    }
    /// A subscription was added, removed, paused or resumed.
    SubscriptionSteered, "subscription.steered", INFO {
        /// The transport.
        transport: TransportName,
        /// The topic.
        topic: Topic,
        /// The group.
        group: String,
        /// What was done.
        change: &'static str,
    }
    /// A queue was paused, resumed, resized or taken on in this process.
    QueueSteered, "queue.steered", INFO {
        /// The queue.
        queue: Queue,
        /// What was done.
        change: &'static str,
    }
    /// A subscription receives nothing for a while, because its handler kept failing.
    CircuitOpened, "circuit.opened", WARN {
        /// The transport.
        transport: TransportName,
        /// The topic.
        topic: Topic,
        /// The group.
        group: String,
        /// Until when.
        until: Timestamp,
    }
    /// A subscription lets one message through, to see whether its handler works again.
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
        /// How many messages.
        messages: u64,
        /// How many executions.
        executions: u64,
    }
    /// A background service could not do its turn and tries again later.
    ServiceFailed, "service.failed", ERROR {
        /// The service.
        service: String,
        /// What went wrong.
        error: String,
        /// When it tries again.
        again_at: Timestamp,
    }
    /// Our clock was more than a second away from the storage's.
    ClockCorrected, "clock.corrected", WARN {
        /// By how much the storage is ahead, in milliseconds; negative when it is behind.
        ahead_ms: i64,
    }
    /// A process began.
    ProcessStarted, "process.started", INFO {
        /// The process.
        process: ProcessId,
    }
    /// A process takes no new work.
    ProcessStopping, "process.stopping", INFO {
        /// The process.
        process: ProcessId,
        /// How many attempts still run.
        running: usize,
    }
    /// A process ended.
    ProcessStopped, "process.stopped", INFO {
        /// The process.
        process: ProcessId,
        /// How many attempts were given back.
        released: usize,
    }
}

/// How many events a slow listener may be behind before it misses some.
const STREAM_BUFFER: usize = 4_096;

/// Where events go: the log, the counters, the hooks, and whoever listens.
#[derive(Debug)]
pub struct Events {
    counters: Vec<AtomicU64>,
    measures: Measures,
    hooks: Hooks,
    stream: broadcast::Sender<Arc<Event>>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            counters: Event::LIST.iter().map(|_| AtomicU64::new(0)).collect(),
            measures: Measures::default(),
            hooks: Hooks::default(),
            stream: broadcast::Sender::new(STREAM_BUFFER),
        }
    }
}

impl Events {
    /// Lets everybody know. Costs a counter and three checks when nobody listens.
    pub fn emit(&self, event: Event) {
        if let Some(counter) = self.counters.get(event.index()) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.measures.note(&event);
        event.log();
        self.hooks.tell(&event);
        if self.stream.receiver_count() > 0 {
            // Fails only when the last listener left meanwhile.
            let _ = self.stream.send(Arc::new(event));
        }
    }

    /// Somebody who is to hear of every event at once; see
    /// [`Builder::on_event`](crate::Builder::on_event).
    pub(crate) fn on_event(&mut self, hook: impl Fn(&Event) + Send + Sync + 'static) {
        self.hooks.add(hook);
    }

    /// The events from now on. A listener that is too slow is told how many it missed.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Event>> {
        self.stream.subscribe()
    }

    /// How often each event happened in this process.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Event::LIST
            .iter()
            .zip(&self.counters)
            .map(|(info, count)| (info.name, count.load(Ordering::Relaxed)))
    }

    /// What attempts cost in this process, per topic, since this was first asked for: whoever exports
    /// metrics asks once at the start and then as often as it likes. Until then nothing is measured.
    pub fn measures(&self) -> BTreeMap<String, TopicMeasures> {
        self.measures.snapshot()
    }

    /// How often one event happened in this process.
    pub fn count(&self, name: &str) -> u64 {
        self.counts().find(|(of, _)| *of == name).map_or(0, |(_, count)| count)
    }
}

/// The text of `docs/guide/events.md`.
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
    fn listeners_hear_what_happens_after_they_came() {
        let events = Events::default();
        events.emit(Event::LeasesRescued { count: 1 });
        let mut listener = events.listen();
        events.emit(Event::LeasesRescued { count: 2 });
        let heard = listener.try_recv().unwrap();
        assert!(matches!(*heard, Event::LeasesRescued { count: 2 }));
        assert!(listener.try_recv().is_err());
    }

    // spec: C-4
    #[test]
    fn a_hook_hears_everything_and_may_panic() {
        let heard = Arc::new(AtomicU64::new(0));
        let mut events = Events::default();
        events.on_event(|_| panic!("a hook that is out of order"));
        let counted = heard.clone();
        events.on_event(move |event| {
            if let Event::LeasesRescued { count } = event {
                counted.fetch_add(*count, Ordering::Relaxed);
            }
        });
        for count in 1..=10_000 {
            events.emit(Event::LeasesRescued { count });
        }
        assert_eq!(heard.load(Ordering::Relaxed), 50_005_000);
    }
}
