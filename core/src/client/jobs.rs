//! Jobs: how an application declares what runs on a schedule, and plans what runs once.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::job_options::Limits;
use super::{Once, PlannedJobs, Publisher, planned};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::inspect::{PageRequest, PageResult};
use crate::model::{
    Body, HandlerOptions, IntoTopic, Job, JobName, Key, Limit, MessageId, MessageRecord,
    Occurrence, OnTimeout, Priority, Queue, Rate, Source, Topic, WhenInterrupted,
};
use crate::policy::{Misfire, Overlap, Retry};
use crate::schedule::{Calendar, Cron, Schedule, Spread, Zone};
use crate::storage::{Command, CommandResult};

/// A job on its way into the builder. Mistakes are kept and reported by
/// [`Builder::build`](crate::Builder::build), with the name of the job.
#[derive(Debug)]
#[must_use = "a job does nothing until it is given to the builder"]
pub struct JobBuilder {
    pub(super) name: String,
    zone: Option<String>,
    anchor: Option<Timestamp>,
    follows_last_run: bool,
    when: When,
    job: Result<Job>,
    handler_options: HandlerOptions,
    pub(super) limits: Limits,
    pub(super) must_report: bool,
    pub(super) place: Option<&'static str>,
}

#[derive(Debug)]
enum When {
    Cron(String),
    Every(Duration),
    Once(Timestamp),
    Schedule(Box<Schedule>),
}

impl Job {
    /// A job that runs by a cron expression, in UTC unless [`JobBuilder::zone`] says otherwise.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> JobBuilder {
        JobBuilder::new(name.into(), When::Cron(expression.into()))
    }

    /// A job that runs every so often, counted from the epoch unless [`JobBuilder::anchor`] says
    /// otherwise: every 5 minutes means :00, :05, :10 and stays so across restarts.
    pub fn every(name: impl Into<String>, every: Duration) -> JobBuilder {
        JobBuilder::new(name.into(), When::Every(every))
    }

    /// A job that runs once at an instant, declared like any other.
    pub fn once(name: impl Into<String>, at: Timestamp) -> JobBuilder {
        JobBuilder::new(name.into(), When::Once(at))
    }

    /// A job with a schedule made before.
    pub fn scheduled(name: impl Into<String>, schedule: Schedule) -> JobBuilder {
        JobBuilder::new(name.into(), When::Schedule(Box::new(schedule)))
    }
}

impl JobBuilder {
    fn new(name: String, when: When) -> Self {
        // The schedule is put in by `finish`, when the zone is known.
        let job = Job::new(&name, Schedule::once(Timestamp::UNIX_EPOCH));
        Self {
            name,
            zone: None,
            anchor: None,
            follows_last_run: false,
            when,
            job,
            handler_options: HandlerOptions::default(),
            limits: Limits::default(),
            must_report: false,
            place: None,
        }
    }

    fn set(mut self, change: impl FnOnce(&mut Job) -> Result<()>) -> Self {
        if let Ok(job) = &mut self.job
            && let Err(error) = change(job)
        {
            self.job = Err(error);
        }
        self
    }

    /// The IANA zone its cron expression is read in.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Where the counting of an interval begins.
    pub fn anchor(mut self, anchor: Timestamp) -> Self {
        self.anchor = Some(anchor);
        self
    }

    /// Counts an interval anew from each late run by which [`Misfire::fire_now`] makes up for what was
    /// missed. Without it the occurrences stay where they are, whatever was missed.
    pub fn anchor_at_last_run(mut self) -> Self {
        self.follows_last_run = true;
        self
    }

    /// What happens with occurrences that were missed.
    pub fn misfire(self, misfire: Misfire) -> Self {
        self.set(|job| {
            misfire.check()?;
            job.misfire = misfire;
            Ok(())
        })
    }

    /// What happens while the run before is still alive.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.set(|job| {
            overlap.check()?;
            job.overlap = overlap;
            Ok(())
        })
    }

    /// How runs are spread.
    pub fn spread(self, spread: Spread) -> Self {
        self.set(|job| {
            job.spread = spread;
            Ok(())
        })
    }

    /// How often a failed run is tried again, and when. Without it as its handler says, else not at all.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.handler_options.retry = Some(retry);
        self
    }

    /// How long a run may take; without it as its handler says. Zero takes the handler's limit away, so that
    /// the default of the process applies.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.handler_options.timeout = Some(timeout);
        self
    }

    /// What a run that took too long leads to.
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.handler_options.on_timeout = Some(on_timeout);
        self
    }

    /// Whether a run that a crash or a shutdown has cut off is run again; without it as its handler says, else
    /// it is.
    pub fn when_interrupted(mut self, when_interrupted: WhenInterrupted) -> Self {
        self.handler_options.when_interrupted = Some(when_interrupted);
        self
    }

    /// The line its messages wait in.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.set(|job| {
            job.queue = Queue::new(queue)?;
            Ok(())
        })
    }

    /// How urgent its messages are, 0 (last) to 9 (first).
    pub fn priority(self, level: u8) -> Self {
        self.set(|job| {
            job.priority = Priority::new(level)?;
            Ok(())
        })
    }

    /// No more than so many of its runs at once, on all processes together. Matters where its overlap
    /// policy lets several runs live side by side.
    pub fn concurrency(self, running_max: u32) -> Self {
        self.limited(|limit| limit.running_max = Some(running_max))
    }

    /// No more than so many of its runs start in any window as long as the span, on all processes together.
    pub fn rate(self, count: u32, per: Duration) -> Self {
        self.limited(|limit| limit.rate = Some(Rate { count, per }))
    }

    fn limited(self, change: impl FnOnce(&mut Limit)) -> Self {
        self.set(|job| {
            let name = Key::composed(format!("job {}", job.name));
            let limit = job.limit.get_or_insert(Limit { name, running_max: None, rate: None });
            change(limit);
            limit.check()
        })
    }

    /// How long an external lock is asked for, where the builder has one. The usual length is 5 minutes,
    /// and it is extended while the job runs.
    pub fn lock_duration(mut self, length: Duration) -> Self {
        self.handler_options.lock_duration = Some(length);
        self
    }

    /// Not begun any more when it is later than this after its time: then it is skipped.
    pub fn expires_after(mut self, late: Duration) -> Self {
        self.handler_options.expires_after = Some(late);
        self
    }

    /// What its handler receives instead of the occurrence.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        self.set(|job| {
            job.body = Body::json(payload)?;
            Ok(())
        })
    }

    /// The topic whose handler runs it, when that is not its name.
    pub fn topic(self, topic: impl IntoTopic) -> Self {
        self.set(|job| {
            job.topic = topic.into_topic()?;
            Ok(())
        })
    }

    /// A word to find it by.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.set(|job| {
            job.tags.push(tag.into());
            Ok(())
        })
    }

    /// What it is for, in a sentence.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.set(|job| {
            job.description = Some(description.into());
            Ok(())
        })
    }

    /// The topic its handler is registered under; the name when something is wrong with the job,
    /// which `finish` reports.
    pub(crate) fn topic_name(&self) -> Result<Topic> {
        self.job.as_ref().map_or_else(|_| Topic::new(&self.name), |job| Ok(job.topic.clone()))
    }

    /// The job, or what is wrong with it, by its name, its place and the field.
    pub(crate) fn finish(self, calendars: &[Calendar]) -> Result<Job> {
        let (name, place) = (self.name.clone(), self.place);
        self.finished(calendars).map_err(|error| {
            let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
            Error::invalid(format!("the job {name:?}{place} cannot be declared: {error}"))
        })
    }

    fn finished(self, calendars: &[Calendar]) -> Result<Job> {
        let refuse = |field: &str, error: &dyn std::fmt::Display| {
            Error::invalid(format!("{field}: {error}"))
        };
        let mut job = self.job?;
        self.handler_options.check().map_err(|error| refuse("retry", &error))?;
        if self.zone.is_some() && !matches!(self.when, When::Cron(_)) {
            return Err(refuse("zone", &"only a cron expression is read in a zone; leave it out"));
        }
        let is_anchored = self.anchor.is_some() || self.follows_last_run;
        if is_anchored && !matches!(self.when, When::Every(_)) {
            return Err(refuse("anchor", &"only an interval is counted from one; leave it out"));
        }
        let schedule = match self.when {
            When::Cron(expression) => {
                let zone = self.zone.as_deref().unwrap_or("UTC");
                let zone = Zone::named(zone).map_err(|error| refuse("zone", &error))?;
                let cron = Cron::parse_seeded(&expression, &self.name)
                    .map_err(|error| refuse("cron", &error))?;
                Schedule::of_cron(cron, zone)
            }
            When::Every(every) => {
                let anchor = self.anchor.unwrap_or(Timestamp::UNIX_EPOCH);
                let schedule =
                    Schedule::every(every, anchor).map_err(|error| refuse("every", &error))?;
                if self.follows_last_run { schedule.following_last_run() } else { schedule }
            }
            When::Once(at) => Schedule::once(at),
            When::Schedule(schedule) => *schedule,
        };
        job.schedule = self.limits.apply(schedule, calendars)?;
        job.handler_options = Arc::new(self.handler_options);
        Ok(job)
    }
}

/// One-time jobs: planned at run time, about something, cancellable.
#[derive(Clone)]
pub struct Jobs {
    process: Arc<Process>,
}

impl Jobs {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// A one-time job, stored when it is awaited. Its handler is found by its name. Retries, timeout, queue
    /// and priority are as said here, else as in its definition
    /// ([`Builder::one_time_job`](crate::Builder::one_time_job)), else as its handler says.
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        let name = name.as_ref();
        let publish =
            Publisher::new(self.process.clone()).publish_body(name, Body::empty()).via_storage();
        let publish = match JobName::new(name) {
            Ok(job) => publish.edit(|draft| {
                draft.source = Source::Deferred;
                if let Some(definition) = self.process.option_layers.deferred.get(&job) {
                    draft.handler_options = definition.handler_options().clone();
                    let (queue, priority) = definition.place();
                    draft.queue = queue.unwrap_or_default();
                    draft.priority = priority.unwrap_or_default();
                }
                draft.occurrence = Some(Occurrence {
                    job,
                    nominal: Timestamp::UNIX_EPOCH,
                    schedule: None,
                    misfire: None,
                });
            }),
            Err(_) => publish,
        };
        Once::new(publish)
    }

    /// The one-time jobs of a name that wait or run, to list, pause, resume or trigger them; all of the name
    /// unless [`PlannedJobs::key`] narrows it. A recurring job of the same name is left alone.
    pub fn planned(&self, name: impl AsRef<str>) -> PlannedJobs {
        PlannedJobs::new(self.process.clone(), name.as_ref().to_owned())
    }

    /// Returns the one-time jobs of every name that wait or run, newest first. [`Jobs::planned`] lists those of one
    /// name.
    pub async fn list_planned(
        &self,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        planned::list(&self.process, planned::of_every_name(), page).await
    }

    /// Cancels every pending one-time job of a name that is about a key and returns how many. Running ones,
    /// and published messages of the same topic and key, are left alone; none at all is no mistake.
    pub async fn cancel(&self, name: impl AsRef<str>, key: impl AsRef<str>) -> Result<u64> {
        let command = Command::CancelKey { topic: Topic::new(name)?, key: Key::new(key)? };
        match self.process.storage.command(command, self.process.now()).await? {
            CommandResult::Applied(count) => Ok(count),
            _ => Ok(0),
        }
    }
}
