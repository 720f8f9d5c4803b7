//! A job as people write it: a `[jobs.NAME]` table of `punctual.toml` and the body of a request have the
//! same keys. Reading is strict; what is wrong is named field by field, all of it at once.

mod check;
mod expect;
mod retry;
mod secret;
mod target;

use std::time::Duration;

use jiff::Timestamp;
use punctual::model::WhenInterrupted;
use punctual::schedule::{Spread, SpreadLimit, parse_duration};
use punctual::{Error, Job, JobBuilder, Misfire, Overlap, Result};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub use check::FieldError;
pub(crate) use check::{SCHEDULE_KEYS, TARGET_KEYS, schedule_count, target_count};
pub use expect::Statuses;
pub use retry::RetrySpec;
pub(crate) use retry::{MisfireText, RetryText};
pub use secret::Secret;
pub use target::{
    COMMAND_TOPIC, CommandTarget, HTTP_TOPIC, HttpTarget, PUBLISH_TOPIC, PublishTarget, Signature,
    Target, Work,
};

/// A job: when it runs, what it does, and by which policies. One of `cron`, `every` and `at`; one of
/// `http`, `command`, `publish` and `topic`. Lengths are texts such as `30s`, `5m` or `1h 30m`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "name": "nightly-report", "cron": "0 2 * * *", "zone": "Europe/Warsaw",
    "topic": "report", "retry": 3 }))]
pub struct JobSpec {
    /// Its name. In a configuration the name of the table says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A cron text such as `0 2 * * *`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Every so often, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Where the counting of `every` begins: an instant, or `last run` to count anew from each late run
    /// that makes up for what was missed. The epoch when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Once, at an instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The IANA zone the cron text is read in; UTC when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What happens with occurrences that were missed: a policy such as `fire_now`, or a table with
    /// `policy`, `threshold`, `window` and `catch_up_max`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "retry::misfire")]
    #[schema(value_type = Option<MisfireText>)]
    pub misfire: Option<Misfire>,
    /// What happens while the run before is still alive: `skip`, `queue_one`, `allow`, `allow(3)` or
    /// `cancel_running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub overlap: Option<Overlap>,
    /// How often a failed run is tried again: a number, or a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryText>)]
    pub retry: Option<RetrySpec>,
    /// What becomes of a run that a crash or a stop of the server has cut off: `again` (run it again, the
    /// default) or `lost` (do not run it again; it becomes a dead letter).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub when_interrupted: Option<WhenInterrupted>,
    /// How long a run may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The line its messages wait in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How urgent its messages are, 0 (last) to 9 (first).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9)]
    pub priority: Option<u8>,
    /// What it is about: templates know it as `payload`, and a handler of code receives it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_value")]
    pub payload: Option<Value>,
    /// Calls a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTarget>,
    /// Runs a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandTarget>,
    /// Publishes a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<PublishTarget>,
    /// Is handled by whoever handles this topic: code, or a worker over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Whether it is declared at all; `false` takes it out of service without deleting its text.
    pub enabled: bool,
    /// Starts each run up to this much later, at random: a length, or a share such as `10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Not begun any more when it is later than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<String>,
    /// No more than so many of its runs at once, on all processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub concurrency: Option<u32>,
    /// No more than so many starts in a length of time, such as `10/1m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            name: None,
            description: None,
            tags: Vec::new(),
            cron: None,
            every: None,
            anchor: None,
            at: None,
            zone: None,
            misfire: None,
            overlap: None,
            retry: None,
            when_interrupted: None,
            timeout: None,
            queue: None,
            priority: None,
            payload: None,
            http: None,
            command: None,
            publish: None,
            topic: None,
            enabled: true,
            jitter: None,
            expires_after: None,
            concurrency: None,
            rate: None,
        }
    }
}

impl JobSpec {
    /// The job under a name, ready for the builder or for `Admin::declare`. Refuses what is wrong, every
    /// field of it in one sentence; [`JobSpec::check`] says it field by field.
    pub fn builder(&self, name: &str) -> Result<JobBuilder> {
        let errors = self.check(name);
        if !errors.is_empty() {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(Error::invalid(format!(
                "the job {name:?} cannot be declared: {}",
                all.join("; ")
            )));
        }
        let job = self.scheduled(name)?;
        let job = self.working(job)?;
        self.limited(job)
    }

    /// What it does; refuses none and several.
    pub fn target(&self) -> Result<Target> {
        let mut targets = self.targets();
        match (target_count(targets.len()), targets.pop()) {
            (None, Some(target)) => Ok(target),
            (wrong, _) => Err(Error::invalid(wrong.map(|wrong| wrong.problem).unwrap_or_default())),
        }
    }

    /// Everything it is told to do, which should be one thing.
    fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        targets.extend(self.http.clone().map(Target::Http));
        targets.extend(self.command.clone().map(Target::Command));
        targets.extend(self.publish.clone().map(Target::Publish));
        targets.extend(self.topic.clone().map(Target::Code));
        targets
    }

    fn scheduled(&self, name: &str) -> Result<JobBuilder> {
        let mut job = match (&self.cron, &self.every, self.at) {
            (Some(cron), _, _) => Job::cron(name, cron),
            (_, Some(every), _) => Job::every(name, length(every)?),
            (_, _, Some(at)) => Job::once(name, at),
            _ => return Err(Error::invalid("it has no schedule; say one of cron, every and at")),
        };
        if let Some(zone) = &self.zone {
            job = job.zone(zone);
        }
        job = match self.anchor.as_deref().map(Anchor::read).transpose()? {
            None => job,
            Some(Anchor::At(anchor)) => job.anchor(anchor),
            Some(Anchor::LastRun) => job.anchor_at_last_run(),
        };
        if let Some(misfire) = &self.misfire {
            job = job.misfire(misfire.clone());
        }
        if let Some(overlap) = self.overlap {
            job = job.overlap(overlap);
        }
        if let Some(jitter) = &self.jitter {
            job = job.spread(Spread::Random(reach(jitter)?));
        }
        Ok(job)
    }

    fn working(&self, job: JobBuilder) -> Result<JobBuilder> {
        let target = self.target()?;
        let mut job = job.topic(target.topic()?);
        match target {
            Target::Code(_) => {
                if let Some(payload) = &self.payload {
                    job = job.payload(payload);
                }
            }
            target => job = job.payload(&Work { target, payload: self.payload.clone() }),
        }
        if let Some(retry) = &self.retry {
            job = job.retry(retry.retry()?);
        }
        if let Some(when_interrupted) = self.when_interrupted {
            job = job.when_interrupted(when_interrupted);
        }
        if let Some(timeout) = &self.timeout {
            job = job.timeout(length(timeout)?);
        }
        Ok(job)
    }

    fn limited(&self, mut job: JobBuilder) -> Result<JobBuilder> {
        if let Some(queue) = &self.queue {
            job = job.queue(queue);
        }
        if let Some(level) = self.priority {
            job = job.priority(level);
        }
        if let Some(late) = &self.expires_after {
            job = job.expires_after(length(late)?);
        }
        if let Some(running_max) = self.concurrency {
            job = job.concurrency(running_max);
        }
        if let Some(rate) = &self.rate {
            let (count, per) = starts(rate)?;
            job = job.rate(count, per);
        }
        if let Some(description) = &self.description {
            job = job.description(description);
        }
        for tag in &self.tags {
            job = job.tag(tag);
        }
        Ok(job)
    }
}

/// Where the counting of an interval begins.
enum Anchor {
    /// At an instant.
    At(Timestamp),
    /// Anew at each late run.
    LastRun,
}

impl Anchor {
    fn read(text: &str) -> Result<Self> {
        if text == "last run" {
            return Ok(Self::LastRun);
        }
        text.parse().map(Self::At).map_err(|_| {
            let start: String = text.chars().take(40).collect();
            Error::invalid(format!(
                "{start:?} is no anchor; use an instant such as 2026-01-01T00:00:00Z, or \"last run\""
            ))
        })
    }
}

/// A length as people write it.
pub(crate) fn length(text: &str) -> Result<Duration> {
    parse_duration(text).map_err(|error| Error::invalid(error.to_string()))
}

/// `10%` of the time to the next run, or a length.
fn reach(text: &str) -> Result<SpreadLimit> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        return length(text).map(SpreadLimit::Length);
    };
    match percent.trim().parse() {
        Ok(percent @ 1..=100) => Ok(SpreadLimit::Percent(percent)),
        _ => Err(Error::invalid(format!("{text:?} is no share; write 1% to 100%"))),
    }
}

/// `10/1m`: so many in a length.
fn starts(text: &str) -> Result<(u32, Duration)> {
    let parts = text.split_once('/').map(|(count, per)| (count.trim().parse(), length(per)));
    match parts {
        Some((Ok(count @ 1..), Ok(per))) => Ok((count, per)),
        Some((Ok(1..), Err(error))) => Err(error),
        _ => Err(Error::invalid(format!(
            "{text:?} is no rate; write so many in a length, such as 10/1m"
        ))),
    }
}

/// A null that was written is a value, not nothing.
fn some_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests;
