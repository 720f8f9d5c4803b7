//! Jobs: builders of recurring jobs, and the API of one-time jobs.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::job_options::Limits;
use super::{Once, PlannedJobs, planned};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::inspect::{PageRequest, PageResult};
use crate::model::{
    Body, HandlerOptions, IntoTopic, Job, JobName, Key, Limit, MessageId, MessageRecord, Misfire,
    Occurrence, OnTimeout, Overlap, Priority, Queue, Rate, Retry, Source, Topic, WhenInterrupted,
};
use crate::schedule::{Calendar, Cron, Schedule, Spread, Zone};
use crate::sending::Publisher;
use crate::storage::{Command, CommandResult};

/// Builder of a job. [`Builder::build`](crate::Builder::build) reports its errors with the name of the job.
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
    /// Creates a job that runs by a cron expression, in UTC unless [`JobBuilder::zone`] is set.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> JobBuilder {
        JobBuilder::new(name.into(), When::Cron(expression.into()))
    }

    /// Creates a job that runs at an interval, counted from the epoch unless [`JobBuilder::anchor`] is set:
    /// every 5 minutes means :00, :05, :10, also after a restart.
    pub fn every(name: impl Into<String>, every: Duration) -> JobBuilder {
        JobBuilder::new(name.into(), When::Every(every))
    }

    /// Creates a job that runs once at an instant and is declared like any other.
    pub fn once(name: impl Into<String>, at: Timestamp) -> JobBuilder {
        JobBuilder::new(name.into(), When::Once(at))
    }

    /// Creates a job with a schedule.
    pub fn scheduled(name: impl Into<String>, schedule: Schedule) -> JobBuilder {
        JobBuilder::new(name.into(), When::Schedule(Box::new(schedule)))
    }
}

impl JobBuilder {
    fn new(name: String, when: When) -> Self {
        // `finish` sets the schedule, when the zone is known.
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

    /// Sets the IANA time zone of its cron expression.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Sets the instant from which an interval is counted.
    pub fn anchor(mut self, anchor: Timestamp) -> Self {
        self.anchor = Some(anchor);
        self
    }

    /// Counts an interval from each late run of [`Misfire::fire_now`]. Without it missed occurrences do not
    /// move the later ones.
    pub fn anchor_at_last_run(mut self) -> Self {
        self.follows_last_run = true;
        self
    }

    /// Sets the policy for missed occurrences.
    pub fn misfire(self, misfire: Misfire) -> Self {
        self.set(|job| {
            misfire.check()?;
            job.misfire = misfire;
            Ok(())
        })
    }

    /// Sets the policy for an occurrence while an earlier run is alive.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.set(|job| {
            overlap.check()?;
            job.overlap = overlap;
            Ok(())
        })
    }

    /// Sets how runs are spread in time.
    pub fn spread(self, spread: Spread) -> Self {
        self.set(|job| {
            job.spread = spread;
            Ok(())
        })
    }

    /// Sets the retries of a failed run. Defaults to those of its handler, else none.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.handler_options.retry = Some(retry);
        self
    }

    /// Sets the timeout of a run. Defaults to that of its handler. Zero removes the handler's timeout, so that
    /// the default of the process applies.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.handler_options.timeout = Some(timeout);
        self
    }

    /// Sets the result of a run that timed out.
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.handler_options.on_timeout = Some(on_timeout);
        self
    }

    /// Sets whether a run that a crash or a shutdown interrupted runs again. Defaults to the handler's choice,
    /// else it does.
    pub fn when_interrupted(mut self, when_interrupted: WhenInterrupted) -> Self {
        self.handler_options.when_interrupted = Some(when_interrupted);
        self
    }

    /// Sets the queue of its messages.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.set(|job| {
            job.queue = Queue::new(queue)?;
            Ok(())
        })
    }

    /// Sets the priority of its messages, 0 (last) to 9 (first).
    pub fn priority(self, level: u8) -> Self {
        self.set(|job| {
            job.priority = Priority::new(level)?;
            Ok(())
        })
    }

    /// Limits its concurrent runs, on all processes together. Relevant when its overlap policy allows several.
    pub fn concurrency(self, running_max: u32) -> Self {
        self.limited(|limit| limit.running_max = Some(running_max))
    }

    /// Limits how many of its runs start in any time window `per`, on all processes together.
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

    /// Sets the duration of the external lock, when the builder has a lock service. The default is 5 minutes;
    /// the lock is extended while the job runs.
    pub fn lock_duration(mut self, duration: Duration) -> Self {
        self.handler_options.lock_duration = Some(duration);
        self
    }

    /// Skips a run that would begin later than this after its due time.
    pub fn expires_after(mut self, late: Duration) -> Self {
        self.handler_options.expires_after = Some(late);
        self
    }

    /// Sets the payload that its handler receives instead of the occurrence.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        self.set(|job| {
            job.body = Body::json(payload)?;
            Ok(())
        })
    }

    /// Sets the topic of its handler. Default: its name.
    pub fn topic(self, topic: impl IntoTopic) -> Self {
        self.set(|job| {
            job.topic = topic.into_topic()?;
            Ok(())
        })
    }

    /// Adds a tag by which it can be found.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.set(|job| {
            job.tags.push(tag.into());
            Ok(())
        })
    }

    /// Purpose, as a sentence.
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

    /// Returns the job; fails with its name, its place in the code and the field that is wrong.
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
            return Err(refuse("zone", &"only a cron expression has a time zone; leave it out"));
        }
        let is_anchored = self.anchor.is_some() || self.follows_last_run;
        if is_anchored && !matches!(self.when, When::Every(_)) {
            return Err(refuse("anchor", &"only an interval has an anchor; leave it out"));
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

/// Plans, lists and cancels one-time jobs at run time. Cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    process: Arc<Process>,
}

impl Jobs {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// Creates a one-time job, which is stored when it is awaited. Its handler is found by its name. Retries,
    /// timeout, queue and priority default to its definition
    /// ([`Builder::one_time_job`](crate::Builder::one_time_job)), else to its handler.
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        let name = name.as_ref();
        let publish = Publisher::new(self.process.sender.clone())
            .publish_body(name, Body::empty())
            .via_storage();
        let publish = match JobName::new(name) {
            Ok(job) => publish.edit(|draft| {
                draft.source = Source::Deferred;
                if let Some(definition) = self.process.runner.option_layers.deferred.get(&job) {
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

    /// Selects the pending and running one-time jobs of a name, to list, pause, resume or trigger them;
    /// [`PlannedJobs::key`] narrows the selection. A recurring job of the same name is not affected.
    pub fn planned(&self, name: impl AsRef<str>) -> PlannedJobs {
        PlannedJobs::new(self.process.clone(), name.as_ref().to_owned())
    }

    /// Returns the pending and running one-time jobs of all names, newest first. [`Jobs::planned`] lists those of
    /// one name.
    pub async fn list_planned(
        &self,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        planned::list(&self.process, planned::all_names(), page).await
    }

    /// Cancels every pending one-time job of a name and a key; returns their number, which may be 0. Running
    /// jobs, and published messages of the same topic and key, are not affected.
    pub async fn cancel(&self, name: impl AsRef<str>, key: impl AsRef<str>) -> Result<u64> {
        let command = Command::CancelKey { topic: Topic::new(name)?, key: Key::new(key)? };
        match self.process.env.storage.command(command, self.process.now()).await? {
            CommandResult::Applied(count) => Ok(count),
            _ => Ok(0),
        }
    }
}
