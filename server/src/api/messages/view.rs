//! View of a message in the API.

use jiff::Timestamp;
use punctual::backend::policy::effective_options;
use punctual::model::{DeadReason, Lease, Message, MessageKind, MessageRecord, Progress};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::queues::PauseView;
use crate::app::App;

/// A message and its state.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageView {
    /// Id of the message.
    pub(crate) id: String,
    /// Topic, which selects the handler.
    pub(crate) topic: String,
    /// Queue of the message.
    pub(crate) queue: String,
    /// Key of the message.
    pub(crate) key: Option<String>,
    /// Deduplication key: while this message is unfinished, another one with this key is a duplicate.
    pub(crate) dedupe: Option<String>,
    /// State: `pending`, `running`, `done`, `dead` or `cancelled`.
    pub(crate) state: &'static str,
    /// Refined state; also `scheduled`, `ready`, `retrying` and `stale`.
    pub(crate) phase: &'static str,
    /// Priority, 0 (lowest) to 9 (highest).
    pub(crate) priority: u8,
    /// Origin: `scheduled`, `manual`, `deferred`, `published` or `redriven`.
    pub(crate) source: &'static str,
    /// Name of its job, when it is a run.
    pub(crate) job: Option<String>,
    /// Whether it is a planned one-time job, also after a redrive.
    pub(crate) planned: bool,
    /// Nominal time on the schedule.
    pub(crate) nominal: Option<Timestamp>,
    /// Due time, or the one it would have without its pause; changes with retries.
    pub(crate) due_at: Timestamp,
    /// Pause of a planned one-time job; null when it is not paused.
    pub(crate) paused: Option<PauseView>,
    /// Creation time.
    pub(crate) created_at: Timestamp,
    /// When it reached a final state; null before.
    pub(crate) ended_at: Option<Timestamp>,
    /// Number of attempts, including the running one.
    pub(crate) attempt: u32,
    /// Largest number of attempts; null without a limit. Without a limit of its own, the limit that this server
    /// knows for its topic, which may differ in another process.
    pub(crate) attempts_max: Option<u32>,
    /// Number of attempts that ended with a crash of their process.
    pub(crate) crashes: u32,
    /// Number of times its handler snoozed it.
    pub(crate) snoozes: u32,
    /// Last error.
    pub(crate) error: Option<String>,
    /// Why it is a dead letter, if it is one.
    pub(crate) dead: Option<&'static str>,
    /// Whether its handler was asked to stop.
    pub(crate) cancel_requested: bool,
    /// Lease of the process that handles it.
    pub(crate) lease: Option<LeaseView>,
    /// Progress that its handler reported.
    pub(crate) progress: Option<ProgressView>,
    /// Id of its batch.
    pub(crate) batch: Option<String>,
    /// Id of the batch it waits for.
    pub(crate) waits_for: Option<String>,
    /// Correlation id.
    pub(crate) correlation: Option<String>,
    /// Id of the attempt that published it.
    pub(crate) causation: Option<String>,
    /// Transport it waits for.
    pub(crate) transport: Option<String>,
    /// Size of its body in bytes.
    pub(crate) size: usize,
}

/// Lease of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LeaseView {
    /// Id of the process that holds the lease.
    owner: String,
    /// Number of the lease; later leases have greater numbers.
    token: u64,
    /// When the lease expires.
    until: Timestamp,
}

/// Progress of a handler.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ProgressView {
    /// Percentage done, if known.
    percent: Option<u8>,
    /// Progress note.
    note: Option<String>,
    /// Time of the report.
    at: Timestamp,
}

impl MessageView {
    /// Returns the view of a message at a time, with the limit of attempts of this process.
    pub(crate) fn of(app: &App, record: &MessageRecord, now: Timestamp) -> Self {
        let attempts_max = app.punctual.attempts_max(&record.message);
        Self { attempts_max, ..Self::new(record, now) }
    }

    /// Returns the view of a message at a time, with its own limit of attempts.
    pub(crate) fn new(record: &MessageRecord, now: Timestamp) -> Self {
        let message = &record.message;
        let occurrence = message.occurrence.as_ref();
        Self {
            id: message.id.to_string(),
            topic: message.topic.to_string(),
            queue: message.queue.to_string(),
            key: text(message.key.as_ref()),
            dedupe: text(message.dedupe.as_ref()),
            state: record.state.as_str(),
            phase: record.phase(now).as_str(),
            priority: message.priority.level(),
            source: message.source.as_str(),
            job: occurrence.map(|occurrence| occurrence.job.to_string()),
            planned: record.is_planned(),
            nominal: occurrence.map(|occurrence| occurrence.nominal),
            due_at: record.own_due_at(),
            paused: record.paused.as_ref().map(|paused| PauseView::new(&paused.pause)),
            created_at: message.created_at,
            ended_at: record.ended_at,
            attempt: record.attempt,
            attempts_max: attempts_max(message),
            crashes: record.crashes,
            snoozes: record.snoozes,
            error: text(record.error.as_ref()),
            dead: record.dead.map(DeadReason::as_str),
            cancel_requested: record.cancel_requested,
            lease: record.lease.map(lease),
            progress: record.progress.as_ref().map(progress),
            batch: text(message.batch().as_ref()),
            waits_for: text(message.waits_for().as_ref()),
            correlation: text(message.correlation.id.as_ref()),
            causation: text(message.correlation.causation.as_ref()),
            transport: text(message.transport()),
            size: message.body.bytes.len(),
        }
    }
}

/// Returns the limit of attempts of the message itself; the options of its handler are not known here.
fn attempts_max(message: &Message) -> Option<u32> {
    match MessageKind::of(message) {
        MessageKind::Published => message.handler_options.as_ref()?.retry.as_ref()?.attempts_max,
        kind => effective_options(kind, message.handler_options.as_deref()).retry.attempts_max,
    }
}

fn text<T: ToString>(value: Option<&T>) -> Option<String> {
    value.map(ToString::to_string)
}

fn lease(lease: Lease) -> LeaseView {
    LeaseView { owner: lease.owner.to_string(), token: lease.token, until: lease.until }
}

fn progress(progress: &Progress) -> ProgressView {
    let note = progress.note.as_deref().map(ToOwned::to_owned);
    ProgressView { percent: progress.percent, note, at: progress.at }
}
