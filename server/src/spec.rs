//! Job definitions as written in a `[jobs.NAME]` table of `punctual.toml` and in request bodies, with the same keys.
//! Reading is strict; all problems are reported together, field by field.

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

/// A job: its schedule, target and policies. One of `cron`, `every` and `at`; one of `http`, `command`, `publish` and
/// `topic`. Durations are strings such as `30s`, `5m` or `1h 30m`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "name": "nightly-report", "cron": "0 2 * * *", "zone": "Europe/Warsaw",
    "topic": "report", "retry": 3 }))]
pub struct JobSpec {
    /// The name. In a configuration it is the name of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The purpose of the job, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Tags to filter jobs by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A cron expression such as `0 2 * * *`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A fixed interval, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The start of the intervals of `every`: an instant, or `last run` to restart them at each late run that
    /// makes up for missed ones. The Unix epoch by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// A single run at an instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The IANA time zone of the cron expression; UTC by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What happens to missed occurrences: a policy such as `fire_now`, or a table with
    /// `policy`, `threshold`, `window` and `catch_up_max`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "retry::misfire")]
    #[schema(value_type = Option<MisfireText>)]
    pub misfire: Option<Misfire>,
    /// What happens when the previous run has not finished: `skip`, `queue_one`, `allow`, `allow(3)` or
    /// `cancel_running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub overlap: Option<Overlap>,
    /// Retries of a failed run: a number, or a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryText>)]
    pub retry: Option<RetrySpec>,
    /// What happens to a run interrupted by a crash or a stop of the server: `again` (run it again, the default)
    /// or `lost` (do not run it again; it becomes a dead letter).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub when_interrupted: Option<WhenInterrupted>,
    /// Timeout of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The queue of its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority of its messages, 0 (lowest) to 9 (highest).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9)]
    pub priority: Option<u8>,
    /// The payload: available to templates as `payload`, and passed to a handler in code.
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
    /// Publishes to this topic, which is handled by code or an HTTP worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Whether the job is declared; `false` disables it without deleting the definition.
    pub enabled: bool,
    /// Random delay of each run, up to a duration, or a share of the interval such as `10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// A run that is later than this is not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<String>,
    /// Largest number of concurrent runs on all processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub concurrency: Option<u32>,
    /// Largest number of starts per duration, such as `10/1m`.
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
    /// Returns the job for the builder or for `Admin::declare`. Fails with all problems in one sentence;
    /// [`JobSpec::check`] returns them field by field.
    pub fn builder(&self, name: &str) -> Result<JobBuilder> {
        let errors = self.check(name);
        if !errors.is_empty() {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(Error::invalid(format!(
                "the job {name:?} cannot be declared: {}",
                all.join("; ")
            )));
        }
        let job = self.with_schedule(name)?;
        let job = self.with_target(job)?;
        self.with_limits(job)
    }

    /// Returns the target; fails without exactly one.
    pub fn target(&self) -> Result<Target> {
        let mut targets = self.targets();
        match (target_count(targets.len()), targets.pop()) {
            (None, Some(target)) => Ok(target),
            (error, _) => Err(Error::invalid(error.map(|error| error.problem).unwrap_or_default())),
        }
    }

    /// Returns all targets, of which there should be one.
    fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        targets.extend(self.http.clone().map(Target::Http));
        targets.extend(self.command.clone().map(Target::Command));
        targets.extend(self.publish.clone().map(Target::Publish));
        targets.extend(self.topic.clone().map(Target::Code));
        targets
    }

    fn with_schedule(&self, name: &str) -> Result<JobBuilder> {
        let mut job = match (&self.cron, &self.every, self.at) {
            (Some(cron), _, _) => Job::cron(name, cron),
            (_, Some(every), _) => Job::every(name, duration(every)?),
            (_, _, Some(at)) => Job::once(name, at),
            _ => return Err(Error::invalid("it has no schedule; set one of cron, every and at")),
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
            job = job.spread(Spread::Random(spread_limit(jitter)?));
        }
        Ok(job)
    }

    fn with_target(&self, job: JobBuilder) -> Result<JobBuilder> {
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
            job = job.timeout(duration(timeout)?);
        }
        Ok(job)
    }

    fn with_limits(&self, mut job: JobBuilder) -> Result<JobBuilder> {
        if let Some(queue) = &self.queue {
            job = job.queue(queue);
        }
        if let Some(level) = self.priority {
            job = job.priority(level);
        }
        if let Some(late) = &self.expires_after {
            job = job.expires_after(duration(late)?);
        }
        if let Some(running_max) = self.concurrency {
            job = job.concurrency(running_max);
        }
        if let Some(rate) = &self.rate {
            let (count, per) = start_rate(rate)?;
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

/// Start of the intervals of `every`.
enum Anchor {
    /// At an instant.
    At(Timestamp),
    /// Restart at each late run.
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
                "{start:?} is not an anchor; use an instant such as 2026-01-01T00:00:00Z, or \"last run\""
            ))
        })
    }
}

/// Parses a duration such as `30s`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    parse_duration(text).map_err(|error| Error::invalid(error.to_string()))
}

/// Parses a jitter: a duration, or a share such as `10%` of the time to the next run.
fn spread_limit(text: &str) -> Result<SpreadLimit> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        return duration(text).map(SpreadLimit::Duration);
    };
    match percent.trim().parse() {
        Ok(percent @ 1..=100) => Ok(SpreadLimit::Percent(percent)),
        _ => Err(Error::invalid(format!("{text:?} is out of range, use 1% to 100%"))),
    }
}

/// Parses a rate such as `10/1m`: a count per duration.
fn start_rate(text: &str) -> Result<(u32, Duration)> {
    let parts = text.split_once('/').map(|(count, per)| (count.trim().parse(), duration(per)));
    match parts {
        Some((Ok(count @ 1..), Ok(per))) => Ok((count, per)),
        Some((Ok(1..), Err(error))) => Err(error),
        _ => Err(Error::invalid(format!(
            "{text:?} is not a rate; use a count per duration, such as 10/1m"
        ))),
    }
}

/// Deserializes an explicit null as a value, not as an absent one.
fn some_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests;
