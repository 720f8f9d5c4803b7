//! A job as the API shows it.

use std::time::Duration;

use jiff::Timestamp;
use punctual::model::{Execution, JobPhase, JobRecord, Origin, Retirement};
use punctual::policy::{MessageKind, effective_options};
use punctual::schedule::{Schedule, Spread, format_duration};
use punctual::status::JobStatus;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::policies::{JobMisfireView, JobOverlapView, JobRetryView};
use crate::api::executions::{ExecutionView, milliseconds};
use crate::assembly::SOURCE;
use crate::redact::Redaction;
use crate::spec::Work;

/// A job: its definition in force, where it stands, and what it did lately.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct JobView {
    /// Its name.
    name: String,
    /// The application it belongs to; `punctual.toml` for the jobs of a configuration file, whatever its name.
    app: String,
    /// Where its definition comes from: `declared`, `seeded` or `runtime`.
    origin: &'static str,
    /// Who may change its definition: the `file`, the `api`, or the `code` of an application.
    source: &'static str,
    /// What it is for.
    description: Option<String>,
    /// Words to find it by.
    tags: Vec<String>,
    /// The topic whose handler runs it.
    topic: String,
    /// The line its messages wait in.
    queue: String,
    /// How urgent they are, 0 (last) to 9 (first).
    priority: u8,
    /// When it runs.
    #[serde(flatten)]
    when: JobWhenView,
    /// Whether it is `active`, `paused` or `retired`.
    phase: JobPhaseView,
    /// How it is, in a word or two, the most telling first.
    word: &'static str,
    /// The next occurrence; null while it does not fire.
    next_at: Option<Timestamp>,
    /// The last run that ended.
    last: Option<ExecutionView>,
    /// How many of its runs are running now.
    running: u64,
    /// Whether it never ran.
    never_run: bool,
    /// Who paused it, why and until when.
    paused: Option<JobPauseView>,
    /// Why it fires no more: `finished` or `removed`.
    retired: Option<&'static str>,
    /// What happens with occurrences that were missed.
    misfire: JobMisfireView,
    /// What happens while the run before is still alive.
    overlap: JobOverlapView,
    /// How often a failed run is tried again, and when.
    retry: JobRetryView,
    /// What becomes of a run that a crash or a stop of the server has cut off: `again` or `lost`.
    when_interrupted: &'static str,
    /// How long a run may take.
    timeout_ms: Option<u64>,
    /// Not begun any more when it is later than this.
    expires_after_ms: Option<u64>,
    /// How the starts of its runs are spread, such as `random 30s`.
    jitter: Option<String>,
    /// No more than so many of its runs at once.
    concurrency: Option<u32>,
    /// No more than so many starts in a length of time, such as `10/1m`.
    rate: Option<String>,
    /// What it does, by its `kind`: `http`, `command`, `publish` or `code`. Secrets are hidden.
    target: Value,
    /// What its handler or its templates are given.
    payload: Option<Value>,
    /// The fields an operator has changed.
    overridden: Vec<&'static str>,
    /// Occurrences still to come that will be skipped.
    skips: Vec<Timestamp>,
    /// Why it cannot run here, when it cannot.
    broken: Option<String>,
    /// What is wrong with its configured cron text, when something is.
    misconfigured: Option<String>,
    /// How many occurrences became messages.
    runs: u64,
    /// The next occurrence to decide about.
    cursor: Option<Timestamp>,
    /// The last occurrence that was decided about.
    last_nominal: Option<Timestamp>,
    /// When it was first declared.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
    /// Counts every change, runs included.
    version: u64,
    /// Its latest runs, oldest first.
    recent: Vec<JobRecentView>,
}

impl JobView {
    /// A job with its latest runs, newest first, as a storage gives them.
    pub(crate) fn new(status: JobStatus, recent: &[Execution], threshold: Duration) -> Self {
        let (word, record) = (status.word(), *status.record);
        let misfire = JobMisfireView::new(&record, threshold);
        let (source, job) = (source(&record), &record.job);
        let work = Work::of(job.topic.as_str(), &job.body.bytes);
        let limit = job.limit.as_ref();
        let handler_options = effective_options(MessageKind::RecurringRun, [&*job.handler_options]);
        Self {
            name: status.name.to_string(),
            app: status.app,
            origin: origin(record.origin),
            source,
            description: status.description,
            tags: status.tags,
            topic: job.topic.to_string(),
            queue: job.queue.to_string(),
            priority: job.priority.level(),
            when: JobWhenView::new(&job.schedule),
            phase: status.phase.into(),
            word,
            next_at: status.next_at,
            last: status.last.map(|last| ExecutionView::new(&last)),
            running: status.running,
            never_run: status.never_run,
            paused: record.paused.map(|pause| JobPauseView {
                by: pause.by,
                reason: pause.reason,
                at: pause.at,
                until: pause.until,
            }),
            retired: status.retired.map(retired),
            misfire,
            overlap: JobOverlapView::new(job.overlap),
            retry: JobRetryView::new(&handler_options.retry),
            when_interrupted: handler_options.when_interrupted.as_str(),
            timeout_ms: handler_options.timeout.map(milliseconds),
            expires_after_ms: handler_options.expires_after.map(milliseconds),
            jitter: (job.spread != Spread::None).then(|| job.spread.to_string()),
            concurrency: limit.and_then(|limit| limit.running_max),
            rate: limit
                .and_then(|limit| limit.rate)
                .map(|rate| format!("{}/{}", rate.count, format_duration(rate.per))),
            target: work.target.view(),
            payload: work.payload,
            overridden: status.overridden.iter().map(|field| field.as_str()).collect(),
            skips: status.skips,
            broken: status.broken,
            misconfigured: status.misconfigured,
            runs: record.runs,
            cursor: record.cursor,
            last_nominal: record.last_nominal,
            created_at: record.created_at,
            updated_at: record.updated_at,
            version: record.version,
            recent: recent.iter().rev().map(JobRecentView::new).collect(),
        }
    }

    /// The same without what nobody gets to see.
    pub(crate) fn redacted(mut self, rules: &Redaction) -> Self {
        let mut shown =
            json!({ "topic": self.topic, "target": self.target, "payload": self.payload });
        rules.hide_job(&mut shown);
        self.target = shown["target"].take();
        self.payload = self.payload.map(|_| shown["payload"].take());
        self
    }
}

/// When a job runs.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct JobWhenView {
    /// The schedule as text.
    schedule: String,
    /// `cron`, `every` or `once`.
    kind: &'static str,
    /// The cron text as it was given.
    cron: Option<String>,
    /// The distance between two occurrences.
    every_ms: Option<u64>,
    /// The one instant.
    at: Option<Timestamp>,
    /// The zone the cron text is read in.
    zone: Option<String>,
    /// The schedule in words.
    in_words: String,
}

impl JobWhenView {
    fn new(schedule: &Schedule) -> Self {
        let cron = schedule.as_cron();
        Self {
            schedule: schedule.to_string(),
            kind: match (cron, schedule.is_interval()) {
                (Some(_), _) => "cron",
                (None, true) => "every",
                (None, false) => "once",
            },
            cron: cron.map(|cron| cron.source().to_owned()),
            every_ms: schedule.as_interval().map(|interval| milliseconds(interval.every())),
            at: schedule.as_once(),
            zone: cron.map(|_| schedule.zone().name().to_owned()),
            in_words: schedule.describe(),
        }
    }
}

/// Whether it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobPhaseView {
    /// Its cursor moves.
    Active,
    /// Somebody paused it.
    Paused,
    /// It fires no more.
    Retired,
}

impl From<JobPhase> for JobPhaseView {
    fn from(phase: JobPhase) -> Self {
        match phase {
            JobPhase::Active => Self::Active,
            JobPhase::Paused => Self::Paused,
            JobPhase::Retired => Self::Retired,
        }
    }
}

/// A pause.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct JobPauseView {
    /// Who did it.
    by: String,
    /// Why.
    reason: String,
    /// When.
    at: Timestamp,
    /// When it ends by itself; null means never.
    until: Option<Timestamp>,
}

/// One of the latest runs.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct JobRecentView {
    /// How it ended.
    ending: &'static str,
    /// The instant of the schedule.
    nominal: Option<Timestamp>,
    /// When it began.
    started_at: Timestamp,
    /// How long it took.
    took_ms: u64,
}

impl JobRecentView {
    fn new(execution: &Execution) -> Self {
        Self {
            ending: execution.ending.as_str(),
            nominal: execution.nominal,
            started_at: execution.started_at,
            took_ms: milliseconds(execution.took()),
        }
    }
}

/// Who may change a definition.
pub(super) fn source(record: &JobRecord) -> &'static str {
    match record.origin {
        Origin::Runtime => "api",
        _ if record.app == SOURCE => "file",
        _ => "code",
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Declared => "declared",
        Origin::Seeded => "seeded",
        Origin::Runtime => "runtime",
    }
}

fn retired(retirement: Retirement) -> &'static str {
    match retirement {
        Retirement::Finished => "finished",
        Retirement::Removed => "removed",
    }
}
