//! View of a job in the API.

use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::policy::effective_options;
use punctual::model::{Execution, JobPhase, JobRecord, MessageKind, Origin, Retirement};
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

/// A job: its effective definition, state and latest runs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct JobView {
    /// Name of the job.
    name: String,
    /// Application of the job; `punctual.toml` for jobs of any configuration file.
    app: String,
    /// Origin of the definition: `declared`, `seeded` or `runtime`.
    origin: &'static str,
    /// Where the definition is changed: `file`, `api` or `code`.
    source: &'static str,
    /// Description of the job.
    description: Option<String>,
    /// Tags of the job.
    tags: Vec<String>,
    /// Topic of its messages.
    topic: String,
    /// Queue of its messages.
    queue: String,
    /// Priority of its messages, 0 (lowest) to 9 (highest).
    priority: u8,
    /// Schedule of the job.
    #[serde(flatten)]
    when: JobWhenView,
    /// Phase: `active`, `paused` or `retired`.
    phase: JobPhaseView,
    /// Short status text, such as `running`, `paused` or `succeeded`.
    word: &'static str,
    /// Next occurrence; null while the job does not fire.
    next_at: Option<Timestamp>,
    /// Last finished run.
    last: Option<ExecutionView>,
    /// Number of current runs.
    running: u64,
    /// Whether the job never ran.
    never_run: bool,
    /// Current pause; null when the job is not paused.
    paused: Option<JobPauseView>,
    /// Why the job is retired: `finished` or `removed`.
    retired: Option<&'static str>,
    /// Misfire policy.
    misfire: JobMisfireView,
    /// Overlap policy.
    overlap: JobOverlapView,
    /// Retry policy.
    retry: JobRetryView,
    /// What happens to a run that a crash or stop of the server interrupted: `again` or `lost`.
    when_interrupted: &'static str,
    /// Timeout of a run in milliseconds.
    timeout_ms: Option<u64>,
    /// Largest delay in milliseconds after which a run no longer starts.
    expires_after_ms: Option<u64>,
    /// Jitter of the start times, such as `random 30s`.
    jitter: Option<String>,
    /// Largest number of parallel runs.
    concurrency: Option<u32>,
    /// Rate limit of starts, such as `10/1m`.
    rate: Option<String>,
    /// Target by its `kind`: `http`, `command`, `publish` or `code`. Secrets are redacted.
    target: Value,
    /// Payload for its handler or templates.
    payload: Option<Value>,
    /// Names of the overridden fields.
    overridden: Vec<&'static str>,
    /// Upcoming occurrences that will be skipped.
    skips: Vec<Timestamp>,
    /// Why the job cannot run on this server, if so.
    broken: Option<String>,
    /// Error in its configured cron expression, if any.
    misconfigured: Option<String>,
    /// Number of occurrences that became messages.
    runs: u64,
    /// Next occurrence that the scheduler processes.
    cursor: Option<Timestamp>,
    /// Last occurrence that the scheduler processed.
    last_nominal: Option<Timestamp>,
    /// Creation time.
    created_at: Timestamp,
    /// Time of the last change.
    updated_at: Timestamp,
    /// Version, incremented by every change and run.
    version: u64,
    /// Latest runs, oldest first.
    recent: Vec<JobRecentView>,
}

impl JobView {
    /// Returns the view of a job with its latest runs, newest first.
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

    /// Returns the view without redacted values.
    pub(crate) fn redacted(mut self, rules: &Redaction) -> Self {
        let mut shown =
            json!({ "topic": self.topic, "target": self.target, "payload": self.payload });
        rules.hide_job(&mut shown);
        self.target = shown["target"].take();
        self.payload = self.payload.map(|_| shown["payload"].take());
        self
    }
}

/// Schedule of a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct JobWhenView {
    /// Schedule in canonical form.
    schedule: String,
    /// Kind of the schedule: `cron`, `every` or `once`.
    kind: &'static str,
    /// Cron expression as it was given.
    cron: Option<String>,
    /// Interval in milliseconds.
    every_ms: Option<u64>,
    /// Time of a `once` schedule.
    at: Option<Timestamp>,
    /// IANA time zone of the cron expression.
    zone: Option<String>,
    /// Description of the schedule.
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

/// Phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobPhaseView {
    /// It fires.
    Active,
    /// It is paused.
    Paused,
    /// It never fires again.
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

/// Pause of a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct JobPauseView {
    /// Name of the user who paused the job.
    by: String,
    /// Reason of the pause.
    reason: String,
    /// Start of the pause.
    at: Timestamp,
    /// End of the pause; null without one.
    until: Option<Timestamp>,
}

/// A recent run.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct JobRecentView {
    /// How the run ended.
    ending: &'static str,
    /// Nominal time on the schedule.
    nominal: Option<Timestamp>,
    /// Start of the run.
    started_at: Timestamp,
    /// Duration in milliseconds.
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

/// Returns where a definition is changed: `api`, `file` or `code`.
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
