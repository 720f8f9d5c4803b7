//! Jobs: how an application declares what runs on a schedule, and plans what runs once.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use super::job_options::Limits;
use super::publish::{Draft, Due};
use super::ties::about;
use super::{Publish, Published, Publisher};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::model::{
    Body, IntoTopic, Job, JobName, Key, Limit, Occurrence, OnTimeout, Priority, Queue, Rate,
    Source, Terms, Topic,
};
use crate::outbox::Outbox;
use crate::policy::{Misfire, Overlap, Retry};
use crate::schedule::{Calendar, Cron, Schedule, Spread, Zone};
use crate::storage::{Command, Commanded, Entry};

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
    terms: Terms,
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
            terms: Terms::recurring(),
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

    /// How often a failed run is tried again, and when.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.terms.retry = retry;
        self
    }

    /// How long a run may take; zero means as long as it likes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.terms.timeout = (!timeout.is_zero()).then_some(timeout);
        self
    }

    /// What a run that took too long leads to.
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.terms.on_timeout = on_timeout;
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

    /// No more than so many of its runs start in a span of time, on all processes together.
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
    pub fn lock_length(mut self, length: Duration) -> Self {
        self.terms.lock_length = Some(length);
        self
    }

    /// Not begun any more when it is later than this after its time: then it is skipped.
    pub fn expires_after(mut self, late: Duration) -> Self {
        self.terms.expires_after = Some(late);
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
        self.terms.retry.check().map_err(|error| refuse("retry", &error))?;
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
        job.terms = Arc::new(self.terms);
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

    /// A one-time job, stored when it is awaited. Its handler is found by its name.
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        let name = name.as_ref();
        let publish =
            Publisher::new(self.process.clone()).publish_body(name, Body::empty()).via_storage();
        let publish = match JobName::new(name) {
            Ok(job) => publish.edit(|draft| {
                draft.source = Source::Deferred;
                draft.terms = Some(Terms::deferred());
                draft.occurrence = Some(Occurrence {
                    job,
                    nominal: Timestamp::UNIX_EPOCH,
                    schedule: None,
                    misfire: None,
                });
            }),
            Err(_) => publish,
        };
        Once { publish }
    }

    /// Cancels every pending one-time job of a name that is about a key; answers how many. Running
    /// ones are left alone, and none at all is no mistake.
    pub async fn cancel(&self, name: impl AsRef<str>, key: impl AsRef<str>) -> Result<u64> {
        let command = Command::CancelKey { topic: Topic::new(name)?, key: Key::new(key)? };
        match self.process.storage.command(command, self.process.now()).await? {
            Commanded::Applied(count) => Ok(count),
            _ => Ok(0),
        }
    }
}

/// A one-time job that is stored when it is awaited.
#[must_use = "a one-time job is stored when it is awaited"]
pub struct Once {
    publish: Publish,
}

impl Once {
    fn edit(self, change: impl FnOnce(&mut Draft)) -> Self {
        Self { publish: self.publish.edit(change) }
    }

    #[cfg(feature = "chrono")]
    pub(crate) fn publishing(self, change: impl FnOnce(Publish) -> Publish) -> Self {
        Self { publish: change(self.publish) }
    }

    /// When it runs. An instant in the past is refused, unless [`Once::allow_past`] is given.
    pub fn at(self, instant: Timestamp) -> Self {
        self.edit(|draft| draft.due = Due::At(instant))
    }

    /// How long from now it runs.
    pub fn after(self, wait: Duration) -> Self {
        self.edit(|draft| draft.due = Due::After(wait))
    }

    /// An instant in the past means at once.
    pub fn allow_past(self) -> Self {
        self.edit(|draft| draft.allow_past = true)
    }

    /// What it is about. While one about the same is alive, a second one is a conflict.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        let publish = self.publish.key(key);
        Self { publish }.edit(|draft| {
            draft.dedupe = draft.key.as_ref().map(|key| about(&draft.topic, key));
        })
    }

    /// Takes the place of a pending one about the same key, instead of being a conflict.
    pub fn replace(self) -> Self {
        self.edit(|draft| draft.replace = true)
    }

    /// What its handler receives.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        let body = Body::json(payload);
        Self {
            publish: self.publish.set(|draft| {
                draft.body = body?;
                Ok(())
            }),
        }
    }

    /// How often it is tried again, and when.
    pub fn retry(self, retry: Retry) -> Self {
        self.edit(|draft| draft.terms.get_or_insert_with(Terms::deferred).retry = retry)
    }
}

impl Once {
    /// Stores it inside the caller's own transaction; see [`Publish::in_tx`].
    pub async fn in_tx<O: Outbox>(self, outbox: &mut O) -> Result<Published> {
        alone(self.publish.in_tx(outbox).await?)
    }

    /// The message as it would be stored; see [`Publish::prepare`].
    pub async fn prepare(self) -> Result<Entry> {
        self.publish.prepare().await
    }
}

/// A second one about the same is a conflict.
fn alone(published: Published) -> Result<Published> {
    match published.duplicate_of {
        None => Ok(published),
        Some(alive) => Err(Error::conflict(
            "a one-time job of this name about this key is alive; cancel it first, or use replace()",
        )
        .with("alive", alive)),
    }
}

impl IntoFuture for Once {
    type Output = Result<Published>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { alone(self.publish.await?) })
    }
}
