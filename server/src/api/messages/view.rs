//! A message as the API shows it.

use jiff::Timestamp;
use punctual::model::{DeadReason, Lease, Message, MessageRecord, Progress};
use punctual::policy::{MessageKind, effective_options};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::queues::PauseView;
use crate::app::App;

/// A message and where it stands.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageView {
    /// Its id.
    pub(crate) id: String,
    /// The name that finds its handler.
    pub(crate) topic: String,
    /// The line it waits in.
    pub(crate) queue: String,
    /// What it is about.
    pub(crate) key: Option<String>,
    /// While a message with the same value lives, a second one is a duplicate.
    pub(crate) dedupe: Option<String>,
    /// `pending`, `running`, `done`, `dead` or `cancelled`.
    pub(crate) state: &'static str,
    /// The state as people see it: also `scheduled`, `ready`, `retrying` and `stale`.
    pub(crate) phase: &'static str,
    /// How urgent it is, 0 (last) to 9 (first).
    pub(crate) priority: u8,
    /// Why it exists: `scheduled`, `manual`, `deferred`, `published` or `redriven`.
    pub(crate) source: &'static str,
    /// The job it is a run of.
    pub(crate) job: Option<String>,
    /// Whether it is a one-time job that was planned at run time, also one that was sent again.
    pub(crate) planned: bool,
    /// The instant of the schedule it stands for.
    pub(crate) nominal: Option<Timestamp>,
    /// When it is due, or would be without its pause; moves with retries.
    pub(crate) due_at: Timestamp,
    /// Who holds it back and why, where it is a one-time job that is paused.
    pub(crate) paused: Option<PauseView>,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// When it reached a final state.
    pub(crate) ended_at: Option<Timestamp>,
    /// Attempts spent, the running one included.
    pub(crate) attempt: u32,
    /// How many there may be; null without a limit. Where the message says nothing, what this server knows of
    /// its topic; a handler in another process may say otherwise.
    pub(crate) attempts_max: Option<u32>,
    /// Processes lost while handling it.
    pub(crate) crashes: u32,
    /// How often its handler put it off.
    pub(crate) snoozes: u32,
    /// The last failure.
    pub(crate) error: Option<String>,
    /// Why it is dead, when it is.
    pub(crate) dead: Option<&'static str>,
    /// Whether somebody asked its handler to stop.
    pub(crate) cancel_requested: bool,
    /// Who works on it, and until when.
    pub(crate) lease: Option<LeaseView>,
    /// How far its handler said it is.
    pub(crate) progress: Option<ProgressView>,
    /// The batch it belongs to.
    pub(crate) batch: Option<String>,
    /// The batch whose end it waits for.
    pub(crate) waits_for: Option<String>,
    /// The story it belongs to.
    pub(crate) correlation: Option<String>,
    /// The attempt that published it.
    pub(crate) causation: Option<String>,
    /// The transport it waits for.
    pub(crate) transport: Option<String>,
    /// How many bytes its body has.
    pub(crate) size: usize,
}

/// The right of a process to a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LeaseView {
    /// The process.
    owner: String,
    /// Its number; later ones are greater.
    token: u64,
    /// When others may take the message over.
    until: Timestamp,
}

/// How far a handler is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ProgressView {
    /// In hundredths, when it knows.
    percent: Option<u8>,
    /// In words.
    note: Option<String>,
    /// When it said so.
    at: Timestamp,
}

impl MessageView {
    /// A message at an instant, with the limit of attempts that is in force here.
    pub(crate) fn of(app: &App, record: &MessageRecord, now: Timestamp) -> Self {
        let attempts_max = app.punctual.attempts_max(&record.message);
        Self { attempts_max, ..Self::new(record, now) }
    }

    /// A message at an instant, as it says itself.
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
            transport: message.queue.as_str().strip_prefix("~relay/").map(ToOwned::to_owned),
            size: message.body.bytes.len(),
        }
    }
}

/// The most attempts as far as the message itself says; its handler's words are not known here.
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
